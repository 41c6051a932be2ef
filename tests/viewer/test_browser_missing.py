"""What the page of a layer shows where tiles are missing, and on a phone, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.viewer import ground
from tests.viewer.browser import PHONE, Page, live_in_chromium

from mastaba_writer.installation import layer_document
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import web_mercator

pytestmark = live_in_chromium

COARSE, FINE = (200, 40, 40), (40, 40, 200)
LEVELS = [LevelPlan("2", 0, 3, 0, 3), LevelPlan("6", 30, 31, 32, 33)]


def plain(level: str, row: int, col: int) -> Any:
    return np.full((256, 256, 3), COARSE if level == "2" else FINE, np.uint8)


@pytest.fixture(scope="module")
def sparse(tmp_path_factory: pytest.TempPathFactory, serving: Any) -> Iterator[str]:
    """A server of a layer whose coarse and fine tiles have different colours, and an empty one."""
    directory = tmp_path_factory.mktemp("sparse")

    def install(url: str) -> Path:
        layers = {}
        for name, tile in (("SPARSE", plain), ("EMPTY", lambda *place: None)):
            descriptor = write_pyramid(
                directory,
                name,
                tile_matrix_set=web_mercator(),
                format="TIFF_PNG_UINT8",
                channels=3,
                levels=LEVELS,
                tile=tile,
            )
            layers[name] = layer_document(descriptor, title=name)
        start = {"longitude": 2.0, "latitude": 3.0, "metres_per_pixel": 2000}
        viewer = {"viewer": {"start": start}}
        return ground.install(directory, url, services_overrides=viewer, more=layers)

    with serving(install) as url:
        yield url


@pytest.fixture
def thin(browser: Any, sparse: str) -> Iterator[Page]:
    opened = Page(browser, sparse)
    yield opened
    opened.close()


def test_coarser_tiles_where_finer_ones_are_missing(thin: Page) -> None:
    # The western half of the view is outside the fine tiles.
    thin.open("SPARSE#at=0,300000,2445.98490512564")
    assert thin.screen_pixel(0.25, 0.5) == pytest.approx(COARSE, abs=3)
    assert thin.screen_pixel(0.6, 0.5) == pytest.approx(FINE, abs=3)
    thin.open("SPARSE#at=-9000000,3000000,300")
    assert thin.screen_pixel(0.5, 0.5) == pytest.approx(COARSE, abs=3)
    assert thin.page.locator("#notice").is_hidden()


def test_page_opens_at_the_start(thin: Page) -> None:
    thin.page.goto(thin.url("SPARSE"))
    thin.settle()
    x, y, cell = map(float, thin.page.url.partition("#at=")[2].split(","))
    assert (x, y) == pytest.approx((222639, 334111), abs=cell)
    assert cell == pytest.approx(2000 / np.cos(np.radians(3)), rel=0.01)


def test_notice_where_there_is_no_data(thin: Page) -> None:
    thin.open("IMAGE#at=-9000000,-3000000,9783.939621")
    notice = thin.page.locator("#notice")
    notice.locator("button").click()
    notice.wait_for(state="hidden")
    thin.open("EMPTY#at=0,0,156543.03392804097")
    thin.page.locator("#notice", has_text="no tiles").wait_for()


def test_tiles_that_failed_are_requested_again(thin: Page) -> None:
    thin.page.route("**/tms/1.0.0/SPARSE/**", lambda route: route.abort())
    thin.open("SPARSE#at=0,300000,2445.98490512564")
    notice = thin.page.locator("#notice", has_text="cannot be loaded")
    notice.wait_for()
    thin.page.unroute("**/tms/1.0.0/SPARSE/**")
    thin.page.evaluate("window.dispatchEvent(new Event('online'))")
    notice.wait_for(state="hidden")
    assert thin.screen_pixel(0.6, 0.5) == pytest.approx(FINE, abs=3)
    # Chromium logs the requests that were stopped.
    thin.faults.clear()


def test_comparison_opens_at_the_start(thin: Page) -> None:
    thin.page.goto(thin.url("compare/SPARSE/EMPTY"))
    thin.settle()
    x, y, cell = map(float, thin.page.url.partition("#at=")[2].split(","))
    assert (x, y) == pytest.approx((222639, 334111), abs=cell)
    # One of the layers has nothing there.
    thin.page.goto(thin.url("compare/SPARSE/IMAGE"))
    thin.settle()
    x, y, cell = map(float, thin.page.url.partition("#at=")[2].split(","))
    assert abs(x - 222639) > 100 * 2003


@pytest.mark.parametrize("path", ["", "HEIGHT", "compare/IMAGE/PALETTE", "nothing"])
def test_targets_on_a_phone_are_as_large_as_fingers(browser: Any, sparse: str, path: str) -> None:
    page = Page(browser, sparse, PHONE)
    page.page.goto(page.url(path) if path else f"{sparse}/viewer")
    if page.page.locator("#map").count():
        page.settle()
    if path == "HEIGHT":
        page.page.locator("#sheet").click()
        page.page.locator("#advanced summary").click()
    assert page.page.locator("a, button").count() > 0
    assert page.targets_too_small() == []
    page.faults = [fault for fault in page.faults if "404" not in fault]
    page.close()


def test_phone(browser: Any, sparse: str) -> None:
    page = Page(browser, sparse, PHONE)
    page.open("HEIGHT")
    assert page.page.locator(".ol-scale-line").is_visible()
    scale = page.page.locator(".ol-scale-line").bounding_box()
    panel = page.page.locator("#panel").bounding_box()
    assert scale["y"] + scale["height"] < panel["y"]
    page.page.locator("#sheet").click()
    assert page.page.locator("#sheet").get_attribute("aria-expanded") == "true"
    page.wait_for("document.getElementById('panel').clientHeight > 400")
    page.close()
