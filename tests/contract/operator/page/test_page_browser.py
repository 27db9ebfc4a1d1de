"""The status page in headless Chromium: what people see, by mouse and keys, wide and narrow, and when nothing comes."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from selenium.webdriver import ActionChains, Chrome, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.select import Select
from selenium.webdriver.support.wait import WebDriverWait

from eventconsumer_api.resource.remedies import REMEDIES
from eventconsumer_api.spec.conditions import ConditionType
from eventconsumer_operator.keys import Key
from eventconsumer_operator.page.histories import Histories
from eventconsumer_operator.page.history import SLOTS
from tests.contract.operator.pageworld import (
    BLOCKED,
    KEY,
    MESSAGE,
    PARTITIONS,
    PageServer,
    chromium,
    filled_book,
    record,
    serving,
)

PATIENCE = 120  # seconds; for starved machines


@pytest.fixture(scope="module")
def chrome() -> Iterator[Chrome]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def server() -> Iterator[PageServer]:
    with serving(filled_book()) as running:
        yield running


class Page:
    """The page in a browser."""

    def __init__(self, browser: Chrome, server: PageServer) -> None:
        self.browser = browser
        self._server = server

    def open(self, place: str = "") -> None:
        self.browser.get("about:blank")
        for kind in ("browser", "performance"):
            self.browser.get_log(kind)  # what other tests left
        self.browser.get(f"{self._server.url}#/{place}")

    def all(self, selector: str) -> list[WebElement]:
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector: str) -> WebElement:
        self.until(lambda: self.all(selector), selector)
        return self.all(selector)[0]

    def text(self, selector: str) -> str:
        """Text of the elements, whether they are folded away or not."""
        return "\n".join(each.get_property("textContent") for each in self.all(selector))

    def until(self, question: Any, what: str) -> None:
        WebDriverWait(self.browser, PATIENCE, ignored_exceptions=[Exception]).until(lambda _: question(), what)

    def errors(self) -> list[str]:
        return [
            entry["message"] for entry in self.browser.get_log("browser") if entry["level"] in {"SEVERE", "WARNING"}
        ]

    def requests(self) -> set[str]:
        """Addresses that the page asked for."""
        messages = [json.loads(entry["message"])["message"] for entry in self.browser.get_log("performance")]
        sent = [each["params"] for each in messages if each["method"] == "Network.requestWillBeSent"]
        return {each["request"]["url"] for each in sent if each["documentURL"].startswith(self._server.url)}


@pytest.fixture
def page(chrome: Chrome, server: PageServer) -> Iterator[Page]:
    found = Page(chrome, server)
    chrome.set_window_size(1400, 1000)
    yield found
    chrome.get("about:blank")


def test_the_list_shows_the_state_of_each_consumer_and_links_to_it(page: Page) -> None:
    page.open()
    page.until(lambda: len(page.all("#consumers tr")) == 2, "two consumers")
    orders, payments = page.all("#consumers tr")
    assert "shop/orders" in orders.text and "worth a look: Available" in orders.text and "12 of 12" in orders.text
    assert "needs somebody: ContainerInvalid" in payments.text
    page.one("#filter").send_keys("pay")
    page.until(lambda: len(page.all("#consumers tr")) == 1, "only what is looked for")
    assert page.text("#count") == "1 of 2, 1 needs somebody"
    assert page.browser.current_url.endswith("#/?search=pay"), "a link to what is seen"
    page.one("#consumers a").click()
    page.until(lambda: page.text("#title") == str(BLOCKED), "the consumer")
    assert not page.one("#list").is_displayed()
    page.browser.back()
    page.until(lambda: page.one("#list").is_displayed(), "the list again")
    assert len(page.all("#consumers tr")) == 1, "still only what was looked for"
    page.one("#home").click()
    page.until(lambda: len(page.all("#consumers tr")) == 2, "all")
    assert page.one("#filter").get_property("value") == ""


def test_a_long_list_is_sorted_filtered_and_paged_by_the_server(chrome: Chrome) -> None:
    histories = filled_book()
    for number in range(1998):
        record(histories, Key("many", f"c{number:04}"), datetime.now(UTC), {}, 1)
    with serving(histories) as server:
        page = Page(chrome, server)
        page.open("?sort=state")
        page.until(lambda: len(page.all("#consumers tr")) == 100, "a page")
        assert page.text("#count") == "2,000 of 2,000, 1 needs somebody" and page.text("#page") == "Page 1 of 20"
        assert "shop/payments" in page.all("#consumers tr")[0].text, "the worst first"
        assert Select(page.one("#sort")).first_selected_option.text == "state", "as the address says"
        assert not page.one("#previous").is_enabled()
        page.one("#next").click()
        page.until(lambda: page.text("#page") == "Page 2 of 20", "the next page")
        Select(page.one("#state")).select_by_value("problem")
        page.until(lambda: len(page.all("#consumers tr")) == 1, "one state")
        assert page.browser.current_url.endswith("#/?state=problem&sort=state"), "the first page again"
        assert not page.one("#pages").is_displayed()
        page.one("#consumers a").click()
        page.until(lambda: page.text("#title") == str(BLOCKED), "the consumer")
        page.one("#back").click()
        page.until(lambda: page.one("#list").is_displayed() and len(page.all("#consumers tr")) == 1, "the same list")
        assert page.errors() == []


def test_a_condition_that_needs_action_has_its_remedy_and_no_message_is_markup(page: Page) -> None:
    page.open(str(BLOCKED))
    page.until(lambda: len(page.all("#conditions tr")) == len(ConditionType), "conditions")
    (stalled,) = [row for row in page.all("#conditions tr") if row.text.startswith("Stalled")]
    assert "True, ContainerInvalid" in stalled.text
    assert MESSAGE in stalled.text, "as it was written, tags and all"
    assert REMEDIES["ContainerInvalid"] in stalled.text  # type: ignore[index]
    assert stalled.find_elements(By.CSS_SELECTOR, ".state.problem")
    assert not page.all("td script")
    assert page.errors() == []


def test_the_heat_map_has_a_cell_with_a_tip_for_each_partition_and_slot(page: Page) -> None:
    page.open(str(KEY))
    page.one("#heat .cell")
    cells = page.all("#heat .cell")
    assert PARTITIONS * (SLOTS - 1) <= len(cells) <= PARTITIONS * SLOTS
    worst = [each for each in page.all("#heat .l5") if each.get_dom_attribute("data-row") in {"4", "5"}]
    assert worst and len(worst) == len(page.all("#heat .l5")), "the burst was in partitions 4 and 5"
    ActionChains(page.browser).move_to_element(worst[len(worst) // 2]).perform()
    page.until(lambda: page.one("#tip").is_displayed(), "a tip")
    assert page.one("#tip").text.startswith(("partition 4, ", "partition 5, "))
    assert " events, " in page.one("#tip").text and "owner: orders-host-" in page.one("#tip").text
    Select(page.one("#measure")).select_by_value("seconds")
    page.until(lambda: "5 min" in page.text("#levels"), "the other measure")
    assert page.all("#heat .l4") and not page.all("#heat .l6")
    assert page.errors() == []


def test_the_heat_map_can_be_read_by_keys(page: Page) -> None:
    page.open(str(KEY))
    page.one("#heat .cell")
    page.browser.execute_script("document.getElementById('heat').focus()")
    ActionChains(page.browser).send_keys(Keys.ARROW_DOWN).perform()
    page.until(lambda: page.one("#tip").text.startswith("partition 0, "), "the newest cell of the first row")
    ActionChains(page.browser).send_keys(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_LEFT).perform()
    page.until(lambda: page.one("#tip").text.startswith("partition 2, "), "two rows below")
    assert len(page.all("#heat .cursor")) == 1
    assert page.one("#tip").get_dom_attribute("role") == "status", "read aloud"
    ActionChains(page.browser).send_keys(Keys.ESCAPE).perform()
    page.until(lambda: not page.one("#tip").is_displayed(), "the tip is gone")


def test_owners_moves_files_and_batches_are_drawn_and_listed(page: Page) -> None:
    page.open(str(KEY))
    page.one("#owners .tenure")
    assert page.text("#hosts-legend").count("orders-host-") == 3
    assert len(page.all("#owners .move")) >= 16
    assert int(page.text("#moves-count")) == len(page.all("#moves tr"))
    assert "orders-host-0none" in page.text("#moves") and "noneorders-host-0" in page.text("#moves")
    gap = [each for each in page.all("#owners .tenure") if "partition 0:" in str(each.get_dom_attribute("data-tip"))]
    assert len(gap) == 2, "before and after its pod was made anew"
    assert len(page.all("#files .bar")) > SLOTS / 2
    assert (len(page.all("#files .batch")), len(page.all("#files .batch.open"))) == (5, 1)
    assert len(page.all("#batches tr")) == 5 and "not yet" in page.text("#batches tr:first-child")
    assert len(page.all("#hosts tr")) == 3 and "Running, leads" in page.text("#hosts")
    assert len(page.all("#partitions tr")) == PARTITIONS
    assert page.errors() == []


def test_it_asks_its_own_server_only_and_again_every_few_seconds(page: Page, server: PageServer) -> None:
    page.open(str(KEY))
    page.one("#heat .cell")
    begun = datetime.now(UTC)
    assert server.histories is not None
    found = server.histories.get(KEY)
    assert found is not None
    server.histories._entries[KEY] = replace(found, status=found.status.model_copy(update={"conditions": []}))
    page.until(lambda: not page.all("#conditions tr"), "what changed")
    assert datetime.now(UTC) > begun
    asked = page.requests()
    assert f"{server.url}api/consumers/{KEY}" in asked
    assert all(each.startswith(server.url) for each in asked), asked
    assert page.errors() == []


def test_scripts_and_images_of_other_servers_are_refused(page: Page) -> None:
    page.open()
    page.one("#consumers tr")
    page.browser.execute_script(
        "const script = document.createElement('script'); script.textContent = 'window.ran = 1';"
        "document.body.append(script);"
        "const image = new Image(); image.src = 'http://localhost:1/image.png'; document.body.append(image);"
    )
    refused: list[str] = []

    def both() -> bool:
        refused.extend(each for each in page.errors() if "Content Security Policy" in each)
        return len(refused) >= 2

    page.until(both, "the script and the image are refused")
    assert page.browser.execute_script("return window.ran") is None


def test_a_stale_page_has_a_notice_until_the_operator_is_back(page: Page, server: PageServer) -> None:
    page.open(str(KEY))
    page.one("#heat .cell")
    assert not page.one("#stale").is_displayed()
    server.stop()
    page.until(lambda: page.one("#stale").is_displayed(), "the notice")
    assert page.one("#stale").text.startswith("Stale: no answer from the operator since ")
    assert page.one("#stale").get_dom_attribute("role") == "alert"
    assert page.all("#heat .cell"), "what was known stays"
    server.start()
    page.until(lambda: not page.one("#stale").is_displayed(), "no notice")
    # An operator that answers, but did not reconcile for long.
    server.histories = Histories()
    record(server.histories, KEY, datetime(2026, 1, 1, tzinfo=UTC), {}, 1)
    page.until(lambda: page.one("#stale").is_displayed(), "the notice")
    assert page.one("#stale").text.startswith("Stale: the operator last reconciled this EventConsumer at ")


def test_a_deleted_consumer_is_shown_and_a_leading_operator_is_found(page: Page, server: PageServer) -> None:
    histories, server.histories = server.histories, None
    page.open(str(KEY))
    page.until(lambda: "waits for the lead" in page.text("#freshness"), "no leader")
    server.histories = histories
    page.one("#heat .cell")
    assert histories is not None
    histories.forget(KEY)
    page.until(lambda: page.one("#gone").is_displayed(), "it is gone")
    assert not page.one("#known").is_displayed()


@pytest.mark.parametrize("width", [400, 1400])
@pytest.mark.parametrize("place", ["", str(KEY), str(BLOCKED)])
def test_nothing_is_wider_than_the_window(page: Page, width: int, place: str) -> None:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    page.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        page.open(place)
        page.one("#heat .cell" if place == str(KEY) else "#conditions tr" if place else "#consumers tr")
        assert page.browser.execute_script("return innerWidth") == width
        assert page.browser.execute_script("return document.documentElement.scrollWidth") <= width
    finally:
        page.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_light_and_dark(page: Page, scheme: str) -> None:
    media = [{"name": "prefers-color-scheme", "value": scheme}]
    page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})
    try:
        page.open(str(BLOCKED))
        page.one("#conditions tr")
        for selector in ("body", ".help", "#conditions th", ".state.problem", ".state.notice", "a#back"):
            assert contrast(page, selector) >= 4.5, (scheme, selector)
    finally:
        page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def contrast(page: Page, selector: str) -> float:
    """Contrast of an element's text with the page, as WCAG 2 defines it."""

    def luminance(colour: str) -> float:
        parts = [float(part) / 255 for part in colour.strip("rgba()").split(",")[:3]]
        red, green, blue = (each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    page.one(selector)
    colour, back = page.browser.execute_script(
        "const of = (name) => getComputedStyle(document.querySelector(name));"
        "return [of(arguments[0]).color, of('body').backgroundColor]",
        selector,
    )
    one, other = sorted((luminance(colour), luminance(back)), reverse=True)
    return (one + 0.05) / (other + 0.05)


def test_screen_readers_find_their_way(page: Page) -> None:
    page.open(str(KEY))
    page.one("#heat .cell")
    names = page.browser.execute_script(
        "return [...document.querySelectorAll('svg.chart')].map((each) => each.getAttribute('aria-label'))"
    )
    assert len(names) == 3 and all(names)
    headings = [each.tag_name for each in page.all("h1, #detail h2, #detail h3")]
    assert headings == ["h1", "h2", *["h3"] * 5]
    unnamed = "return [...document.querySelectorAll('th')].filter((each) => !each.scope).length"
    assert page.browser.execute_script(unnamed) == 0
    assert page.browser.execute_script("return document.activeElement.id") == "title", "a new place is read aloud"
    controls = page.browser.execute_script(
        "return [...document.querySelectorAll('input, select')].filter((each) => !each.labels.length).length"
    )
    assert controls == 0
