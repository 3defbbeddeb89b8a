"""Workers at the desk as a person on call uses them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth.models import AbstractBaseUser
from django.utils import timezone
from pytest_django.live_server_helper import LiveServer
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from celeriac.guard import drains
from celeriac.models import Worker
from tests.support import letters
from tests.support.people import staff
from tests.support.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)

SignIn = Callable[[AbstractBaseUser], None]
PHONE = 390  # CSS pixels


@pytest.fixture
def fleet() -> Worker:
    """A worker that is well, and one in each other state."""
    for state in Worker.State.values:
        on = letters.worker(f"{state}@a-rather-long-machine-name.example", ["sms", "email", "data_sync"])
        ended = timezone.now() if state in ("stopped", "gone") else None
        verdict = "gone: its lock is free and its last beat was 1.2 s ago; its processes had 412 MB then"
        Worker.objects.filter(pk=on.pk).update(
            state=state,
            host="a-rather-long-machine-name.example",
            free=1,
            rss=412 * 2**20,
            refused=2 if state == "wedged" else 0,
            ended_at=ended,
            verdict=verdict if state == "gone" else "",
        )
    return Worker.objects.get(state="alive")


def press(browser: Chrome, selector: str) -> None:
    browser.execute_script("window.isThePageBefore = true")
    browser.find_element(By.CSS_SELECTOR, selector).click()
    there = "return !window.isThePageBefore && document.readyState === 'complete'"
    wait_until(lambda: browser.execute_script(there), what="the next page")


def test_a_worker_is_drained_and_resumed_with_a_reason(
    browser: Chrome, live_server: LiveServer, sign_in: SignIn, fleet: Worker
) -> None:
    sign_in(staff("amy", "view_worker", "drain_worker"))
    browser.get(f"{live_server.url}/admin/celeriac/worker/{fleet.pk}/change/")
    for button, done in (("Drain", "Told to drain: 1."), ("Resume", "Told to go on: 1.")):
        link = browser.find_element(By.CSS_SELECTOR, ".dlq-ways .button")
        assert link.text == button
        press(browser, ".dlq-ways .button")
        browser.find_element(By.NAME, "reason").send_keys("new kernel")
        press(browser, "button[type=submit].default")
        assert browser.find_element(By.CSS_SELECTOR, ".messagelist").text == done
        assert (fleet.pk in drains.asked([fleet.pk])) is (button == "Drain")
        assert ("Told to drain by amy" in browser.find_element(By.ID, "content").text) is (button == "Drain")


@pytest.mark.parametrize("page", ["?state=all", "{pk}/change/", "turn/drain/?worker={pk}"])
def test_pages_of_workers_fit_a_phone(
    browser: Chrome, live_server: LiveServer, sign_in: SignIn, fleet: Worker, page: str
) -> None:
    sign_in(staff("amy", "view_worker", "drain_worker"))
    drains.begin(fleet.pk, actor="amy", reason="new kernel")
    size = {"width": PHONE, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(f"{live_server.url}/admin/celeriac/worker/{page.format(pk=fleet.pk)}")
    assert browser.execute_script("return document.documentElement.scrollWidth") <= PHONE


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_each_state_of_a_worker_stands_out_in_either_theme(
    browser: Chrome, live_server: LiveServer, sign_in: SignIn, fleet: Worker, scheme: str
) -> None:
    sign_in(staff("amy", "view_worker"))
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    browser.get(f"{live_server.url}/admin/celeriac/worker/?state=all")
    badges = browser.find_elements(By.CSS_SELECTOR, ".dlq-badge")
    colours = {badge.text: badge.value_of_css_property("background-color") for badge in badges}
    assert set(colours) == set(Worker.State.values)
    assert colours["deaf"] == colours["wedged"] == colours["gone"]
    assert colours["draining"] == colours["stopping"]
    assert len({colours[state] for state in ("starting", "alive", "draining", "deaf", "stopped")}) == 5
