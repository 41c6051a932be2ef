"""Where the parts of a layer's page are, and what they look like, in a real browser."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.viewer import ground
from tests.viewer.browser import DESKTOP, PHONE, Page, live_in_chromium

from mastaba_conformance.tiny_installation import tiny_float_tile
from mastaba_writer.installation import layer_document
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import web_mercator

pytestmark = live_in_chromium

LONG_TITLE = " ".join(["Orthophotography of a very long name"] * 20)
LONG_ABSTRACT = "\n".join(f"Line {number} of what there is to say." for number in range(200))


@pytest.fixture(scope="module")
def wordy(tmp_path_factory: pytest.TempPathFactory, serving: Any) -> Iterator[str]:
    """A server of a layer with elevations, and a long title and abstract."""
    directory = tmp_path_factory.mktemp("wordy")

    def install(url: str) -> Path:
        descriptor = write_pyramid(
            directory,
            "WORDY",
            tile_matrix_set=web_mercator(),
            format="TIFF_RAW_FLOAT32",
            channels=1,
            levels=[LevelPlan("6", 30, 32, 32, 33)],
            tile=tiny_float_tile,
        )
        layer = layer_document(descriptor, title=LONG_TITLE, abstract=LONG_ABSTRACT, coverages=True)
        settings = {"ogcapi": {"coverages": True}}
        return ground.install(directory, url, services_overrides=settings, more={"WORDY": layer})

    with serving(install) as url:
        yield url


@pytest.fixture(params=[DESKTOP, PHONE], ids=["desktop", "phone"])
def words(request: pytest.FixtureRequest, browser: Any, wordy: str) -> Iterator[Page]:
    opened = Page(browser, wordy, request.param)
    yield opened
    opened.close()


def lines_of(page: Page, selector: str) -> float:
    """Return the height of an element in lines of its text."""
    found: float = page.page.locator(selector).first.evaluate(
        "(one) => one.clientHeight / parseFloat(getComputedStyle(one).lineHeight)"
    )
    return found


def test_long_titles_and_abstracts_take_few_lines(words: Page) -> None:
    words.open("WORDY")
    assert 0.9 < lines_of(words, "h1") <= 3.1
    assert words.page.locator("h1").get_attribute("title") == LONG_TITLE
    sheet = words.page.locator("#sheet")
    if sheet.is_visible():
        sheet.click()
    abstract = words.page.locator(".panel .abstract").first
    closed = abstract.bounding_box()["height"]
    assert closed < 100
    words.page.locator(".long summary").click()
    words.wait_for(
        "(closed) => document.querySelector('.panel .abstract').clientHeight > 20 * closed", closed
    )
    assert words.overflow() == 0
    words.page.goto(f"{words.site}/viewer")
    card = words.page.locator(".card", has_text="Orthophotography")
    assert card.locator(".title").evaluate("(one) => one.clientHeight") < 60
    assert words.overflow() == 0


def test_tools_are_buttons_on_the_map(words: Page) -> None:
    words.open("WORDY")
    stage = words.page.locator("#stage").bounding_box()
    for name in ("contours", "profile", "statistics", "three", "download"):
        button = words.page.locator(f"#stage button#{name}")
        assert button.is_visible()
        box = button.bounding_box()
        assert stage["x"] <= box["x"]
        assert box["x"] + box["width"] <= stage["x"] + stage["width"]
        assert stage["y"] <= box["y"]
        assert box["y"] + box["height"] <= stage["y"] + stage["height"]
    sheet = words.page.locator("#sheet")
    if sheet.is_visible():
        sheet.click()
    for name in ("source", "set", "crs"):
        choice = words.page.locator(f"#advanced #{name}")
        assert not choice.is_visible()
    words.page.locator("#advanced summary").click()
    for name in ("source", "set", "crs"):
        assert words.page.locator(f"#advanced #{name}").is_visible()


def test_a_layer_fills_its_pane(words: Page) -> None:
    """Maps have any scale, not only those of levels."""
    words.page.goto(words.url("WORDY"))
    words.settle()
    layer = words.page.request.get(words.url("data/layers/WORDY.json")).json()
    west, south, east, north = layer["sets"][0]["bbox"]
    cell = float(words.page.url.partition("#at=")[2].partition("&")[0].split(",")[2])
    cells = {matrix["cellSize"] for matrix in layer["sets"][0]["matrices"]}
    assert not any(cell == pytest.approx(one, rel=1e-3) for one in cells)
    box = words.page.locator("#map").bounding_box()
    shares = (east - west) / cell / box["width"], (north - south) / cell / box["height"]
    assert 0.5 < max(shares) <= 1


def test_loading_is_shown_while_tiles_are_late(words: Page) -> None:
    late: list[Any] | None = []

    def answer(route: Any) -> None:
        if late is None:
            route.continue_()
        else:
            late.append(route)

    words.page.route("**/tms/1.0.0/WORDY/**", answer)
    words.page.goto(words.url("WORDY"))
    bar = words.page.locator(".loading")
    bar.wait_for(state="visible")
    assert words.page.evaluate("document.getAnimations().length") == 1
    assert bar.bounding_box()["width"] == words.page.locator("#map").bounding_box()["width"]
    assert late
    held, late = late, None
    for route in held:
        route.continue_()
    words.settle()
    bar.wait_for(state="hidden")
    # A page that moves nothing lets the processor rest.
    words.wait_for("() => document.getAnimations().every((one) => one.playState === 'finished')")


def test_terrain_is_below_a_sky(browser: Any, wordy: str) -> None:
    page = Page(browser, wordy)
    page.open("WORDY#at=222639,334111,300&three=0,80,1.3")
    page.page.wait_for_selector("#terrain-map[aria-busy=false]")
    shot = page.page.locator("#terrain-map").screenshot()
    seen = np.asarray(Image.open(io.BytesIO(shot)).convert("RGB"), int)
    middle = seen[:, seen.shape[1] // 2]
    # Blue at the top, pale at the horizon.
    red, _, blue = middle[2]
    assert blue > red + 40
    horizon = middle[: len(middle) // 2].sum(axis=1).argmax()
    assert horizon > 20
    assert middle[horizon].min() > 200
    # No gap between the ground and the sky.
    assert (seen.max(axis=2) > 20).all()
    page.close()
