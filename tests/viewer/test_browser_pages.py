"""The list, the compare page and features common to all pages, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.viewer import ground
from tests.viewer.browser import PHONE, Page, live_in_chromium

pytestmark = live_in_chromium

PAGES = ["", "PALETTE#source=wms", "VECTOR", "HEIGHT", "compare/PALETTE/VECTOR"]


@pytest.fixture
def phone(browser: Any, site: str) -> Iterator[Page]:
    opened = Page(browser, site, PHONE, has_touch=True)
    yield opened
    opened.close()


def open_any(page: Page, path: str) -> None:
    """Open a page that may have no tiles."""
    if path:
        page.open(path)
    else:
        page.page.goto(f"{page.site}/viewer")
        page.page.wait_for_load_state("networkidle")


def test_list_has_a_thumbnail_of_every_layer(page: Page) -> None:
    open_any(page, "")
    cards = page.page.locator(".card")
    assert cards.count() == len(ground.FORMATS) + 4
    cards.last.scroll_into_view_if_needed()
    page.wait_for(
        """() => [...document.querySelectorAll(".picture > *")].every((picture) =>
            picture.classList.contains("painted") || (picture.complete && picture.naturalWidth))"""
    )
    assert page.page.locator(".picture > *").count() == cards.count()
    painted = page.page.evaluate(
        """() => [...document.querySelectorAll("canvas.painted")].map((canvas) => {
            const [, , , alpha] = canvas.getContext("2d").getImageData(30, 24, 1, 1).data;
            return [JSON.parse(canvas.dataset.tile).draws, alpha > 0];
        })"""
    )
    assert sorted(painted) == [["elevation", True]] * 3 + [["vector", True]]


def test_thumbnails_are_requested_when_visible(browser: Any, site: str) -> None:
    page = Page(browser, site, (PHONE[0], 300))
    open_any(page, "")
    tiles = [url for url in page.requests if "/tms/" in url]
    # VECTOR is near the end of the list; a script paints its thumbnail.
    assert not any("VECTOR" in url for url in tiles)
    page.page.locator('[data-layer="VECTOR"]').scroll_into_view_if_needed()
    page.page.wait_for_selector('[data-layer="VECTOR"] canvas.painted')
    assert sum("/tms/1.0.0/VECTOR/" in url for url in page.requests) == 1
    page.close()


def test_search(page: Page) -> None:
    open_any(page, "")
    page.page.fill("#search", "height zip")
    assert page.page.locator(".card:visible").count() == 1
    assert page.page.locator("#count").inner_text() == "1 layer"
    page.page.fill("#search", "nothing like it")
    assert page.page.locator("#empty").is_visible()
    page.page.fill("#search", "")
    assert page.page.locator(".card:visible").count() == len(ground.FORMATS) + 4


def test_filter_by_kind(page: Page) -> None:
    open_any(page, "")
    chip = page.page.locator(".chip", has_text="Vector")
    chip.click()
    assert chip.get_attribute("aria-pressed") == "true"
    assert page.page.locator(".card:visible").count() == 1
    chip.click()
    assert page.page.locator(".card:visible").count() == len(ground.FORMATS) + 4


def test_search_is_in_the_url(page: Page) -> None:
    open_any(page, "")
    page.page.fill("#search", "é&#+ %zip")
    page.page.locator(".chip", has_text="Elevation").click()
    page.page.reload()
    assert page.page.input_value("#search") == "é&#+ %zip"
    assert page.page.locator(".chip[aria-pressed=true]").all_inner_texts() == ["Elevation"]
    assert page.page.locator("#empty").is_visible()
    page.page.fill("#search", "height zip")
    shared = page.page.evaluate("location.href")
    page.page.locator(".card:visible").click()
    page.page.wait_for_url("**/viewer/*#at=*")
    page.page.go_back()
    page.page.wait_for_selector(".card:visible")
    assert page.page.evaluate("location.href") == shared
    assert page.page.locator(".card:visible").count() == 1
    page.page.locator(".chip[aria-pressed=true]").click()
    page.page.fill("#search", "")
    assert page.page.evaluate("location.href") == f"{page.site}/viewer"


def test_card_links_to_the_layer_and_back(page: Page) -> None:
    open_any(page, "")
    page.page.locator('[data-layer="GRID"]').click()
    page.settle()
    assert page.page.url.startswith(f"{page.site}/viewer/GRID#at=")
    page.page.locator(".home").click()
    page.page.wait_for_selector(".card")
    assert page.page.url == f"{page.site}/viewer"


@pytest.mark.parametrize("path", ["", "WORLD", "compare/WORLD/GRID"])
def test_hostile_titles_are_harmless(page: Page, path: str) -> None:
    open_any(page, path)
    assert page.page.title() != "hacked"
    assert page.page.locator('img[src="x"]').count() == 0
    assert ground.HOSTILE in page.page.locator("body").inner_text()


def is_grey(colour: tuple[int, ...]) -> bool:
    return max(colour) - min(colour) <= 4


def is_ember(colour: tuple[int, ...]) -> bool:
    return colour[0] > colour[2] + 60


def test_swipe_with_the_mouse(page: Page) -> None:
    page.open("compare/PALETTE/PALETTE")
    page.page.select_option("#right .choose-style", "ember")
    page.settle()
    assert "right-style=ember" in page.page.url
    assert is_grey(page.screen_pixel(0.45, 0.4))
    assert is_ember(page.screen_pixel(0.55, 0.4))
    stage = page.page.locator("#stage").bounding_box()
    middle = stage["y"] + stage["height"] / 2

    def drag_to(part: float) -> None:
        split = float(page.page.input_value("#divider")) / 100
        page.page.mouse.move(stage["x"] + split * stage["width"], middle)
        page.page.mouse.down()
        page.page.mouse.move(stage["x"] + part * stage["width"], middle + 20, steps=4)
        page.page.mouse.up()

    drag_to(0.42)
    assert is_ember(page.screen_pixel(0.45, 0.4))
    assert "split=0.42" in page.page.url
    drag_to(0.6)
    assert is_grey(page.screen_pixel(0.55, 0.4))
    # The divider stays in place when the map moves.
    page.page.locator(".ol-zoom-in").click()
    page.page.wait_for_timeout(400)
    page.settle()
    assert is_grey(page.screen_pixel(0.58, 0.4))
    assert is_ember(page.screen_pixel(0.62, 0.4))
    page.page.reload()
    page.settle()
    assert is_grey(page.screen_pixel(0.58, 0.4))
    assert is_ember(page.screen_pixel(0.62, 0.4))


def test_swipe_with_the_keyboard(page: Page) -> None:
    page.open("compare/PALETTE/PALETTE#right-style=ember")
    divider = page.page.locator("#divider")
    divider.focus()
    for key, value in {
        "ArrowLeft": 49,
        "ArrowRight": 50,
        "PageDown": 40,
        "PageUp": 50,
        "End": 100,
        "Home": 0,
    }.items():
        page.page.keyboard.press(key)
        assert float(divider.input_value()) == pytest.approx(value)
        assert is_ember(page.screen_pixel(0.44, 0.4)) is (value < 44)
    assert "split=0" in page.page.url


def test_swipe_by_touch(phone: Page) -> None:
    phone.open("compare/PALETTE/PALETTE#right-style=ember")
    assert is_grey(phone.screen_pixel(0.4, 0.4))
    stage = phone.page.locator("#stage").bounding_box()
    finger = phone.page.context.new_cdp_session(phone.page)
    for kind, part in (
        ("touchStart", 0.5),
        ("touchMove", 0.4),
        ("touchMove", 0.25),
        ("touchEnd", 0),
    ):
        point = {"x": part * stage["width"], "y": stage["y"] + stage["height"] / 2}
        touches = [point] if part else []
        finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": touches})
    assert is_ember(phone.screen_pixel(0.4, 0.4))


def test_compare_layers_in_different_grids(page: Page) -> None:
    page.open("compare/IMAGE/WORLD")
    assert page.page.input_value("#left .choose-source") == "tms"
    # The browser reprojects the tiles of the right layer.
    assert page.page.input_value("#right .choose-source") == "tms"
    # The middle is at 45 degrees east. The red of WORLD is a quarter of the column (of 512).
    x = 0.6
    degrees = 45 + (x - 0.5) * 1280 * 360 / 4096
    red = round((degrees + 180) / 360 * 512) / 4
    found = page.screen_pixel(x, 0.4)
    assert found[0] == pytest.approx(red, abs=3)
    assert found[2] == 0
    assert page.screen_pixel(0.45, 0.4)[2] == pytest.approx(64, abs=16)


def test_choose_other_layers_to_compare(page: Page) -> None:
    page.open("compare/IMAGE/GREY")
    page.page.select_option("#left .choose-layer", "LZW")
    page.page.wait_for_url("**/viewer/compare/LZW/GREY*")
    page.settle()
    page.page.locator("#swap").click()
    page.page.wait_for_url("**/viewer/compare/GREY/LZW*")
    page.settle()
    assert page.page.title() == "GREY | LZW – Map viewer"


def test_link_from_a_layer_to_the_compare_page(page: Page) -> None:
    page.open("IMAGE#at=4000000,4500000,9783.939621")
    page.page.select_option("#compare", "LZW")
    page.page.locator("#compare-go").click()
    page.page.wait_for_url("**/viewer/compare/IMAGE/LZW#at=4000000,4500000,9783.9*")
    page.settle()


@pytest.mark.parametrize("path", PAGES)
def test_pages_fit_a_phone(phone: Page, path: str) -> None:
    open_any(phone, path)
    assert phone.overflow() == 0
    if path:
        box = phone.page.locator("#map").bounding_box()
        assert box["width"] >= PHONE[0] - 2
        assert box["height"] > 300
        assert box["y"] + box["height"] <= PHONE[1]


@pytest.mark.parametrize("path", PAGES)
def test_every_control_has_a_name(page: Page, path: str) -> None:
    open_any(page, path)
    nameless = page.page.evaluate(
        """() => [...document.querySelectorAll("a, button, input, select, [tabindex='0']")]
            .filter((control) => control.offsetParent !== null)
            .filter((control) => !(control.getAttribute("aria-label") || control.textContent.trim()
                || control.title || control.labels?.length))
            .map((control) => control.outerHTML)"""
    )
    assert nameless == []
    assert page.page.locator("h1").count() == 1
    assert page.page.locator("main").count() == 1


def test_keyboard_reaches_the_map(page: Page) -> None:
    page.open("IMAGE")
    page.page.keyboard.press("Tab")
    assert page.page.evaluate("document.activeElement.id") == "skip"
    page.page.keyboard.press("Enter")
    assert page.page.evaluate("document.activeElement.id") == "map"
    before = page.page.url
    page.page.keyboard.press("ArrowRight")
    page.wait_for("(before) => location.href !== before", before)


def test_focus_order_follows_the_panel(page: Page) -> None:
    page.open("PALETTE#source=wms")
    order = []
    for _ in range(14):
        page.page.keyboard.press("Tab")
        order.append(page.page.evaluate("document.activeElement.id"))
    assert order == [
        "skip",
        "",  # back to the list
        "goto",
        "go",
        "layer",
        "style",
        "opacity",
        "overlay",
        "compare",
        "compare-go",
        "",  # Advanced, which is closed
        "save-png",
        "save-jpeg",
        "save-geotiff",
    ]


CONTRAST = """() => {
    const parse = (text) => text.match(/[\\d.]+/g).map(Number);
    const luminance = (rgb) => {
        const [r, g, b] = rgb.slice(0, 3).map((value) => {
            const part = value / 255;
            return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
        });
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const ground = (element) => {
        for (let at = element; at; at = at.parentElement) {
            const colour = parse(getComputedStyle(at).backgroundColor);
            if (colour.length < 4 || colour[3] === 1) return colour;
        }
        return [255, 255, 255];
    };
    const found = [];
    for (const element of document.querySelectorAll("body *")) {
        const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
        if (!own && !element.matches("input[type=text], input[type=search], select")) continue;
        if (element.offsetParent === null || element.closest(".ol-scale-line")) continue;
        const [one, other] = [luminance(parse(getComputedStyle(element).color)),
            luminance(ground(element))].sort();
        const ratio = (other + 0.05) / (one + 0.05);
        if (ratio < 4.5) found.push([ratio.toFixed(2), element.outerHTML.slice(0, 120)]);
    }
    return found;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", PAGES)
def test_contrast(browser: Any, site: str, scheme: str, path: str) -> None:
    page = Page(browser, site, color_scheme=scheme)
    open_any(page, path)
    background = page.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (int(background.split("(")[1].split(",")[0]) < 128) is (scheme == "dark")
    assert page.page.evaluate(CONTRAST) == []
    page.close()
