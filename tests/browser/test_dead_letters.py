"""The desk as a person on call uses it."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from django.contrib.auth.models import AbstractBaseUser
from pytest_django.live_server_helper import LiveServer
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.select import Select

from celeriac.models import DeadLetter, Job, TriageDecision
from celeriac.states import Status
from tests.support import letters
from tests.support.people import VIEW, staff
from tests.support.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)

SignIn = Callable[[AbstractBaseUser], None]
EVERYTHING = (*VIEW, "redeliver_deadletter", "ignore_deadletter", "edit_deadletter_payload", "view_payload", "view_job")
PHONE = 390  # CSS pixels


@pytest.fixture
def letter() -> DeadLetter:
    """A letter about a wrong number, between two about a gateway that was down."""
    letters.dead_letter(failures=[letters.failure("SHOP_GATEWAY_503", "the gateway answered 503")])
    wrong = letters.dead_letter(
        args=[42],
        kwargs={"to": "555", "text": "Your order is on its way", "token": "s3cr3t-token-value"},
        biz_id="order-42",
        failures=[
            letters.failure("SHOP_GATEWAY_503", "the gateway answered 503"),
            letters.failure("SHOP_TIMEOUT_504", "no answer within 10 s"),
            letters.failure("SHOP_NUMBER_400", "555 is no number; " + "a very long answer of the gateway, " * 12),
        ],
    )
    letters.dead_letter(failures=[letters.failure("SHOP_GATEWAY_503", "the gateway answered 503")])
    return wrong


def click(browser: Chrome, text: str, *, stays: bool = False) -> None:
    """Click the link or button that reads so; return when the next page is there, or at once where the page `stays`."""
    found = [e for e in browser.find_elements(By.CSS_SELECTOR, "a, button, input[type=submit]") if said(e) == text]
    assert found, f"nothing on the page reads {text!r}"
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", found[0])
    if stays:
        found[0].click()
    else:
        go(browser, found[0])


def go(browser: Chrome, element: WebElement) -> None:
    """Click the element and return when the next page is there: the driver alone doesn't wait for a form that is sent."""
    browser.execute_script("window.isThePageBefore = true")
    element.click()
    there = "return !window.isThePageBefore && document.readyState === 'complete'"
    wait_until(lambda: browser.execute_script(there), what="the next page")


def said(element: WebElement) -> str:
    return element.text or element.get_attribute("value") or ""


def rows(browser: Chrome) -> list[str]:
    return [row.text for row in browser.find_elements(By.CSS_SELECTOR, "#result_list tbody tr")]


def message(browser: Chrome) -> str:
    return browser.find_element(By.CSS_SELECTOR, ".messagelist").text


def fill(browser: Chrome, name: str, text: str) -> None:
    field = browser.find_element(By.NAME, name)
    field.clear()
    field.send_keys(text)


def test_a_letter_is_found_edited_previewed_and_sent_back(
    browser: Chrome, live_server: LiveServer, sign_in: SignIn, letter: DeadLetter
) -> None:
    sign_in(staff("amy", *EVERYTHING))
    browser.get(f"{live_server.url}/admin/celeriac/deadletter/")
    assert len(rows(browser)) == 3
    click(browser, "SHOP_NUMBER_400")
    assert len(rows(browser)) == 1
    click(browser, letters.TYPE)

    page = browser.find_element(By.ID, "content").text
    assert "555 is no number" in page
    assert "s3cr3t" not in page
    click(browser, "Edit the arguments and send back")
    kwargs = json.loads(str(browser.find_element(By.NAME, "kwargs").get_attribute("value")))
    assert kwargs["token"] == "s3cr3t-token-value"
    fill(browser, "kwargs", json.dumps({**kwargs, "to": "12"}, indent=2))
    click(browser, "Preview")
    assert browser.find_element(By.CSS_SELECTOR, ".dlq-removed").text.split() == ["-", '"to":', '"555",']
    assert browser.find_element(By.CSS_SELECTOR, ".dlq-added").text.split() == ["+", '"to":', '"12",']
    click(browser, "Change further")
    assert '"to": "12"' in str(browser.find_element(By.NAME, "kwargs").get_attribute("value"))
    click(browser, "Preview")
    fill(browser, "reason", "the customer's number was mistyped")
    click(browser, "Confirm: send back with these arguments")

    assert message(browser) == "Sent back with other arguments: the job is in its queue again."
    assert "the customer's number was mistyped" in browser.find_element(By.ID, "decisions").text
    assert not browser.find_elements(By.CSS_SELECTOR, ".dlq-ways")
    assert json.loads(Job.objects.get(pk=letter.job_id).payload) == {"args": [42], "kwargs": {**kwargs, "to": "12"}}


def test_a_letter_is_ignored_only_with_a_reason(
    browser: Chrome, live_server: LiveServer, sign_in: SignIn, letter: DeadLetter
) -> None:
    sign_in(staff("amy", *EVERYTHING))
    browser.get(f"{live_server.url}/admin/celeriac/deadletter/{letter.pk}/change/")
    click(browser, "Ignore with a reason")
    click(browser, "Confirm: Ignore with a reason", stays=True)  # the browser itself asks for the reason
    assert DeadLetter.objects.get(pk=letter.pk).state == "open"
    fill(browser, "reason", "the order was cancelled by phone")
    click(browser, "Confirm: Ignore with a reason")

    assert message(browser) == "Ignored: the job has ended as CANCELLED."
    assert Job.objects.get(pk=letter.job_id).status is Status.CANCELLED


def test_all_letters_of_an_outage_are_sent_back_together(
    browser: Chrome, live_server: LiveServer, sign_in: SignIn, letter: DeadLetter
) -> None:
    sign_in(staff("amy", *EVERYTHING))
    browser.get(f"{live_server.url}/admin/celeriac/deadletter/?error_code=SHOP_GATEWAY_503")
    browser.find_element(By.ID, "action-toggle").click()
    Select(browser.find_element(By.NAME, "action")).select_by_visible_text("Run again as it is")
    go(browser, browser.find_element(By.CSS_SELECTOR, ".actions button"))
    assert "2 dead letters" in browser.find_element(By.ID, "content").text
    fill(browser, "reason", "the gateway is back")
    click(browser, "Confirm: Run again as it is")

    assert message(browser) == "Sent back: 2."
    assert "error_code=SHOP_GATEWAY_503" in browser.current_url
    assert list(DeadLetter.objects.open()) == [letter]
    assert TriageDecision.objects.filter(reason="the gateway is back").count() == 2


@pytest.mark.parametrize("page", ["", "{pk}/change/", "{pk}/edit/", "{pk}/decide/ignore/"])
def test_pages_fit_a_phone(
    browser: Chrome, live_server: LiveServer, sign_in: SignIn, letter: DeadLetter, page: str
) -> None:
    sign_in(staff("amy", *EVERYTHING))
    size = {"width": PHONE, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(f"{live_server.url}/admin/celeriac/deadletter/{page.format(pk=letter.pk)}")
    assert browser.execute_script("return document.documentElement.scrollWidth") <= PHONE


def test_the_dark_theme_is_followed(
    browser: Chrome, live_server: LiveServer, sign_in: SignIn, letter: DeadLetter
) -> None:
    sign_in(staff("amy", *EVERYTHING))
    scheme = [{"name": "prefers-color-scheme", "value": "dark"}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
    browser.get(f"{live_server.url}/admin/celeriac/deadletter/{letter.pk}/change/")
    for part in ("body", ".dlq-pre", ".dlq-card"):
        color = browser.find_element(By.CSS_SELECTOR, part).value_of_css_property("background-color")
        channels = [float(number) for number in color.partition("(")[2].rstrip(")").split(",")]
        assert channels[3] == 0 or max(channels[:3]) < 64, (part, color)
