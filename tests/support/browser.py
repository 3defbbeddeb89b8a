"""A real browser: Debian's Chromium, installed on the way where that is allowed."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

INSTALL_LIMIT = 600  # seconds
PAGE_LIMIT = 60  # seconds


def programs() -> tuple[str, str]:
    """Return the paths of Chromium and its driver.

    Missing, they are installed where we are root on Debian. Elsewhere the test is skipped, and fails under CI=true.
    """
    found = _find()
    if found is None and os.geteuid() == 0 and Path("/etc/debian_version").exists():
        environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for command in (
            ["apt-get", "update", "-qq"],
            ["apt-get", "install", "-y", "-qq", "--no-install-recommends", "chromium", "chromium-driver"],
        ):
            subprocess.run(command, check=True, timeout=INSTALL_LIMIT, env=environ, stdout=subprocess.DEVNULL)
        found = _find()
    if found is None:
        message = "NO BROWSER TESTS WERE RUN: install chromium and chromium-driver (chromedriver) to run them"
        if os.environ.get("CI") == "true":
            pytest.fail(message, pytrace=False)
        pytest.skip(message)
    return found


def _find() -> tuple[str, str] | None:
    browser = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chromium-browser")
    driver = shutil.which("chromedriver")
    return (browser, driver) if browser and driver else None


def launch(folder: Path) -> webdriver.Chrome:
    """Start a headless browser that keeps its profile in the folder; the caller quits it."""
    browser, driver = programs()
    options = Options()
    options.binary_location = browser
    for argument in (
        "--headless=new",
        "--window-size=1400,1000",
        "--lang=en",
        f"--user-data-dir={folder / 'profile'}",
        # Containers give /dev/shm 64 MB, on which pages crash.
        "--disable-dev-shm-usage",
        "--disable-gpu",
    ):
        options.add_argument(argument)
    if os.geteuid() == 0:
        # Chromium refuses to sandbox for root; the pages it is shown are ours.
        options.add_argument("--no-sandbox")
    chrome = webdriver.Chrome(options=options, service=Service(driver, log_output=str(folder / "driver.log")))
    chrome.set_page_load_timeout(PAGE_LIMIT)
    return chrome
