"""Makes docs/images/status-page.png: `python -m tests.contract.operator.pagepicture [file]`.

No test writes the picture: run this after a change of the page.
"""

import sys
from pathlib import Path

from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

from tests.contract.operator.pageworld import KEY, chromium, filled_book, serving

PICTURE = Path(__file__).parents[3] / "docs/images/status-page.png"
WIDTH = 1200


def main(file: Path = PICTURE, *, width: int = WIDTH, dark: bool = False) -> None:
    """Draw the page of a consumer, whole, to a PNG."""
    with serving(filled_book()) as server, chromium(width, 1000, dark=dark) as browser:
        browser.get(f"{server.url}#/{KEY}")
        WebDriverWait(browser, 120).until(lambda page: page.find_elements(By.CSS_SELECTOR, "#heat .cell"))
        height = browser.execute_script("return document.documentElement.scrollHeight")
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        WebDriverWait(browser, 120).until(lambda page: page.execute_script("return innerHeight") == height)
        file.parent.mkdir(parents=True, exist_ok=True)
        browser.save_screenshot(str(file))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
