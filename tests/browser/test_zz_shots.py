import pytest
from selenium.webdriver.common.by import By
from tests.browser.test_dead_letters import *
from tests.browser.test_dead_letters import letter  # noqa
for n in [n for n in globals() if n.startswith("test_")]: del globals()[n]
pytestmark = pytest.mark.django_db(transaction=True)
def shot(browser, name, full=True):
    h = browser.execute_script("return document.documentElement.scrollHeight")
    w = browser.execute_script("return innerWidth")
    import base64
    r = browser.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": {"x":0,"y":0,"width":w,"height":min(h,2400),"scale":1}})
    open(f"/tmp/shots/{name}.png","wb").write(base64.b64decode(r["data"]))
def test_shots(browser, live_server, sign_in, letter, admin_user, settings):
    import os; os.makedirs("/tmp/shots", exist_ok=True)
    settings.CELERIAC = {**settings.CELERIAC, "FLOWER_URL": "http://flower.example"}
    sign_in(admin_user)
    base=f"{live_server.url}/admin/celeriac/"
    d=f"{base}deadletter/"
    def tour(tag):
        for name,url in {"list":d,"detail":f"{d}{letter.pk}/change/","edit":f"{d}{letter.pk}/edit/","ignore":f"{d}{letter.pk}/decide/ignore/","jobs":f"{base}job/","job":f"{base}job/{letter.job_id}/change/","worker":f"{base}worker/"}.items():
            browser.get(url); shot(browser, f"{tag}-{name}")
        browser.get(f"{d}{letter.pk}/edit/")
        fill(browser,"args","[43]")
        browser.find_element(By.CSS_SELECTOR,"button[value=preview]").click(); shot(browser,f"{tag}-preview")
        browser.get(d+"?error_code=SHOP_GATEWAY_503"); browser.find_element(By.ID,"action-toggle").click()
        Select(browser.find_element(By.NAME,"action")).select_by_value("run_again"); browser.find_element(By.CSS_SELECTOR,".actions button").click(); shot(browser,f"{tag}-many")
    tour("light")
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark"}]})
    tour("dark")
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True})
    tour("narrow")
    browser.execute_cdp_cmd("Network.setExtraHTTPHeaders", {"headers": {"Accept-Language": "zh-CN"}})
    browser.execute_cdp_cmd("Network.enable", {})
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    tour("zh")
