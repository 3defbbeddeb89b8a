"""A browser for each test, and a way to be signed in without the log-in page."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import AbstractBaseUser
from django.contrib.sessions.backends.db import SessionStore
from pytest_django.live_server_helper import LiveServer
from selenium.webdriver import Chrome

from tests.support import browser as chromium


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Chrome]:
    """A headless browser with an empty profile."""
    chrome = chromium.launch(tmp_path)
    yield chrome
    chrome.quit()


@pytest.fixture
def sign_in(browser: Chrome, live_server: LiveServer) -> Callable[[AbstractBaseUser], None]:
    """Return a function that signs a user in at the live server."""

    def sign_in(user: AbstractBaseUser) -> None:
        session = SessionStore()
        session[SESSION_KEY] = str(user.pk)
        session[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[0]
        session[HASH_SESSION_KEY] = user.get_session_auth_hash()
        session.save()
        # A cookie is set for the page that is open.
        browser.get(f"{live_server.url}/healthz")
        browser.add_cookie({"name": settings.SESSION_COOKIE_NAME, "value": str(session.session_key), "path": "/"})

    return sign_in
