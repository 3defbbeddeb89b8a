"""The admin as a browser finds it."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import AbstractBaseUser
from pytest_django.live_server_helper import LiveServer
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

pytestmark = pytest.mark.django_db(transaction=True)


def test_the_front_page_asks_a_stranger_to_sign_in(browser: Chrome, live_server: LiveServer) -> None:
    browser.get(live_server.url)
    assert "/admin/login/" in browser.current_url
    assert browser.find_element(By.NAME, "password").is_displayed()


def test_staff_see_the_admin(
    browser: Chrome, live_server: LiveServer, admin_user: AbstractBaseUser, sign_in: Callable[[AbstractBaseUser], None]
) -> None:
    sign_in(admin_user)
    browser.get(live_server.url)
    assert browser.find_element(By.ID, "user-tools").is_displayed()


def test_the_admin_speaks_the_browsers_language(browser: Chrome, live_server: LiveServer) -> None:
    browser.execute_cdp_cmd("Network.setExtraHTTPHeaders", {"headers": {"Accept-Language": "zh-CN"}})
    browser.execute_cdp_cmd("Network.enable", {})
    browser.get(live_server.url)
    assert browser.find_element(By.TAG_NAME, "html").get_attribute("lang") == "zh-hans"
