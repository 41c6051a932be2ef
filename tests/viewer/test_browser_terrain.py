"""Terrain in 3D, contours, and drawing by keyboard, in a real browser."""

from __future__ import annotations

import copy
import io
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.live.processes import wait_until
from tests.viewer import ground
from tests.viewer.browser import Page, live_in_chromium

from mastaba_conformance.tiny_installation import tiny_integer_tile
from mastaba_writer.installation import layer_document
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import web_mercator

pytestmark = live_in_chromium


def pixels(page: Page, selector: str) -> Image.Image:
    """Return what a part of the page looks like."""
    shot = page.page.locator(selector).screenshot()
    return Image.open(io.BytesIO(shot)).convert("RGB")


def colours(image: Image.Image) -> int:
    """Return the number of colours, at most 256."""
    found = image.getcolors(256)
    return 256 if found is None else len(found)


def open_terrain(page: Page) -> None:
    page.page.locator("#three").click()
    page.page.wait_for_selector("#terrain-map[aria-busy=false]")


def hilly(level: str, row: int, col: int) -> Any:
    """Return a tile of hills of 500 m."""
    y, x = np.mgrid[0:256, 0:256] / 256
    return (600 + 500 * np.sin(12 * x) * np.sin(12 * y)).astype(np.float32)[..., None]


def waves(size: int) -> Any:
    """Return a function for tiles of a rough surface without steps, in a set with such tiles.

    Each tile has the same range, so no tile is painted again with other colours.
    """

    def tile(level: str, row: int, col: int) -> Any:
        y, x = np.mgrid[0:size, 0:size]
        y, x = (y + row * size) / 40, (x + col * size) / 40
        steep = np.sin(9 * x) * np.cos(7 * y)
        heights = 600 + 900 * np.sin(x) * np.cos(y) + 150 * steep
        return heights.clip(0, 1200).astype(np.float32)[..., None]

    return tile


def double_tiles() -> dict[str, Any]:
    """Return the set of web mercator with tiles of 512 pixels."""
    made = copy.deepcopy(dict(web_mercator()))
    made["id"] = "PM512"
    for matrix in made["tileMatrices"]:
        for name, factor in (("tile", 2), ("matrix", 0.5)):
            for side in ("Width", "Height"):
                matrix[name + side] = max(1, int(matrix[name + side] * factor))
    made["tileMatrices"] = made["tileMatrices"][1:]
    return made


@pytest.fixture(scope="module")
def rough(tmp_path_factory: pytest.TempPathFactory, serving: Any) -> Iterator[str]:
    """A server of hills, and of an image that is finer, and has gaps, in a part of its extent."""
    directory = tmp_path_factory.mktemp("partial")

    def install(url: str) -> Path:
        fine = {(4, 8), (5, 9), (6, 10)}
        image = tiny_integer_tile(3)
        descriptor = write_pyramid(
            directory,
            "PARTIAL",
            tile_matrix_set=web_mercator(),
            format="TIFF_JPG_UINT8",
            levels=[LevelPlan("3", 2, 3, 4, 5), LevelPlan("4", 4, 6, 8, 10)],
            tile=lambda level, row, col: (
                image(level, row, col) if level == "3" or (row, col) in fine else None
            ),
        )
        hills = write_pyramid(
            directory,
            "HILLS",
            tile_matrix_set=web_mercator(),
            format="TIFF_RAW_FLOAT32",
            channels=1,
            levels=[LevelPlan("12", 1500, 1501, 2500, 2501)],
            tile=hilly,
        )
        waving = {
            name: write_pyramid(
                directory,
                name,
                tile_matrix_set=tile_matrix_set,
                format="TIFF_RAW_FLOAT32",
                channels=1,
                levels=[LevelPlan("12", row, row + last, col, col + last)],
                tile=waves(size),
            )
            for name, tile_matrix_set, row, col, last, size in (
                ("TILED", web_mercator(), 1500, 2500, 1, 256),
                ("WHOLE", double_tiles(), 750, 1250, 0, 512),
            )
        }
        sets = {"PM512": double_tiles()}
        more = {
            **{
                name: layer_document(path, title="WAVES", tile_matrix_sets=sets)
                for name, path in waving.items()
            },
            "PARTIAL": layer_document(descriptor, title="PARTIAL"),
            "HILLS": layer_document(hills, title="HILLS"),
        }
        return ground.install(directory, url, more=more, sets=sets)

    with serving(install) as url:
        yield url


@pytest.fixture
def hills(browser: Any, rough: str) -> Iterator[Page]:
    opened = Page(browser, rough)
    yield opened
    opened.close()


def test_shading_at_the_edges_of_tiles_is_that_of_one_large_tile(hills: Page) -> None:
    def late(route: Any) -> None:
        time.sleep(1)
        route.continue_()

    # Tiles beside others that are painted already.
    hills.page.route("**/TILED/12/2500/*", late)
    found = []
    for layer in ("TILED", "WHOLE"):
        hills.open(layer)
        # The last tile is there, but the edges of those around it may be drawn with the next frame.
        hills.wait_for("new Promise(requestAnimationFrame).then(() => true)")
        hills.settle()
        x, y = hills.corner()
        image = pixels(hills, "#map").crop((x, y, x + 512, y + 512))
        found.append(np.asarray(image, int))
    difference = np.abs(found[0] - found[1]).max(axis=2)
    assert difference.max() <= 1
    assert len(np.unique(found[1].reshape(-1, 3), axis=0)) > 1000


@pytest.mark.parametrize("layer", ["HILLS", "PARTIAL"])
def test_terrain_is_drawn(hills: Page, layer: str) -> None:
    hills.open(layer)
    open_terrain(hills)
    assert hills.page.locator("#terrain-map canvas").count() == 1
    assert colours(pixels(hills, "#terrain-map")) > 50
    hills.page.locator("#close-terrain").click()
    assert hills.page.locator("#terrain").is_hidden()
    hills.wait_for("document.activeElement.id === 'three'")


def test_terrain_has_the_colours_of_the_map(hills: Page) -> None:
    def colourful() -> float:
        image = pixels(hills, "#terrain-map")
        x, y = image.width // 2, image.height // 2
        shown = np.asarray(image.crop((x - 100, y - 50, x + 100, y + 50)), int)
        return float((shown.max(axis=2) - shown.min(axis=2)).mean())

    hills.open(f"HILLS#at={hills.whole('HILLS')}&three=0,60,1")
    hills.page.wait_for_selector("#terrain-map[aria-busy=false]")
    for palette in ("viridis", "grey", "viridis"):
        hills.page.select_option("#palette", palette)
        wait_until(lambda: colourful() > 30 if palette == "viridis" else colourful() < 10)  # noqa: B023


def test_exaggeration_changes_the_terrain(hills: Page) -> None:
    hills.open("HILLS")
    open_terrain(hills)
    before = pixels(hills, "#terrain-map").tobytes()
    hills.page.locator("#terrain-exaggeration").fill("3")
    wait_until(lambda: pixels(hills, "#terrain-map").tobytes() != before)


def test_tiles_that_are_not_stored_are_not_requested_in_3d(hills: Page) -> None:
    hills.open("PARTIAL#at=5009377,5009377,9783.939621")
    hills.requests.clear()
    open_terrain(hills)
    # Any 404 would be a fault of the page.
    assert any("/tms/1.0.0/PARTIAL/" in url for url in hills.requests)


def test_contours(hills: Page) -> None:
    hills.open("HILLS")
    plain = pixels(hills, "#map")
    hills.page.locator("#contours").click()
    wait_until(lambda: pixels(hills, "#map").tobytes() != plain.tobytes())
    assert any("/contours/" in url for url in hills.requests)
    hills.page.locator("#contours").click()
    # The button looks different under the pointer.
    hills.page.mouse.move(0, 0)
    wait_until(lambda: pixels(hills, "#map").tobytes() == plain.tobytes())


def test_contours_are_not_drawn_from_afar(hills: Page) -> None:
    hills.open("HILLS#at=4431827,5351840,2000&contours=true")
    hills.page.locator("#notice", has_text="Zoom in").wait_for()
    assert not [url for url in hills.requests if "/contours/" in url]
    hills.page.locator("#notice button").click()
    hills.page.locator("#notice").wait_for(state="hidden")
    hills.wait_for("document.querySelector('#map[aria-busy=false]') !== null")
    # `wait_for` runs the event handlers of the requests.
    wait_until(
        lambda: hills.page.evaluate("true") and any("/contours/" in url for url in hills.requests)
    )
    assert "contours=true" in hills.page.url


def test_terrain_is_in_the_link(hills: Page) -> None:
    hills.open("HILLS#at=4431827,5351840,38.2185&three=20,50,2")
    hills.page.wait_for_selector("#terrain-map[aria-busy=false]")
    assert hills.page.input_value("#terrain-exaggeration") == "2"
    assert "three=20%2C50%2C2" in hills.page.url
    hills.page.locator("#close-terrain").click()
    assert "three" not in hills.page.url


def test_profile_by_keyboard(page: Page) -> None:
    page.open("HEIGHT_ZIP")
    page.page.locator("#profile").focus()
    page.page.keyboard.press("Enter")
    page.wait_for("document.activeElement.id === 'map'")
    plain = pixels(page, "#map")
    for key in ("Enter", "ArrowRight", "ArrowDown"):
        before = page.page.url
        page.page.keyboard.press(key)
        if key != "Enter":
            page.wait_for("(url) => location.href !== url", before)
            page.settle()
    page.page.keyboard.press("Enter")
    page.settle()
    assert pixels(page, "#map").tobytes() != plain.tobytes()
    page.page.keyboard.press("Enter")
    page.page.wait_for_selector("#result-body .chart canvas")
    assert "ascent" in page.page.locator("#result-body .facts-line").inner_text()


@pytest.mark.parametrize(("tool", "fewest"), [("profile", 2), ("statistics", 3)])
def test_drawing_is_not_ended_before_it_has_enough_points(
    page: Page, tool: str, fewest: int
) -> None:
    page.open("HEIGHT_ZIP")
    page.page.locator(f"#{tool}").click()
    for number in range(fewest):
        for _ in range(2):
            page.page.keyboard.press("Enter")
        if number + 1 < fewest:
            page.page.wait_for_timeout(500)
            assert page.page.locator("#result").is_hidden()
            before = page.page.url
            page.page.keyboard.press(("ArrowRight", "ArrowDown")[number])
            page.wait_for("(url) => location.href !== url", before)
            page.settle()
    page.page.locator("#result").wait_for()
    page.page.locator("#result-body dt, #result-body .chart").first.wait_for()


def test_keyboard_gives_up_a_drawing(page: Page) -> None:
    page.open("HEIGHT_ZIP")
    page.page.locator("#statistics").focus()
    for key in ("Enter", "Enter", "Escape"):
        page.page.keyboard.press(key)
    page.page.locator("#notice").wait_for(state="hidden")
    assert page.page.locator("#result").is_hidden()


def test_full_screen(page: Page) -> None:
    page.open("IMAGE")
    button = page.page.locator(".ol-full-screen button")
    assert button.get_attribute("title") == "Full screen"
    button.click()
    page.wait_for("document.fullscreenElement?.id === 'stage'")
    page.settle()
    button.click()
    page.wait_for("!document.fullscreenElement")


def test_french(browser: Any, site: str) -> None:
    page = Page(browser, site, locale="fr-FR")
    page.open("HEIGHT")
    assert page.page.evaluate("document.documentElement.lang") == "fr"
    assert page.page.locator("#profile").inner_text() == "Profil"
    page.page.locator("#profile").click()
    page.page.locator("#notice", has_text="double clic").wait_for()
    low, _ = page.page.locator("#histogram .ends span").all_inner_texts()
    assert low.replace("\u202f", " ") == "3 672 m"
    height = page.page.locator("#readout b")
    height.wait_for()
    assert re.fullmatch(r"\d \d{3},\d m", height.inner_text().replace("\u202f", " "))
    page.close()


def test_attributes_of_features_stay_text(browser: Any, tmp_path: Path, serving: Any) -> None:
    def tile(level: str, row: int, col: int) -> bytes:
        return ground.vector_tile("3", row, col).replace(b"row", b"<b>")

    def install(url: str) -> Path:
        descriptor = write_pyramid(
            tmp_path,
            "NASTY",
            tile_matrix_set=web_mercator(),
            format="TIFF_PBF_MVT",
            levels=[LevelPlan("3", 2, 3, 4, 5)],
            tile=tile,
            tables=ground.TINY_TABLES,
        )
        return ground.install(tmp_path, url, more={"NASTY": layer_document(descriptor)})

    with serving(install) as url:
        page = Page(browser, url)
        page.open("NASTY")
        box = page.page.locator("#map").bounding_box()
        page.page.mouse.click(box["x"] + box["width"] / 2 - 60, box["y"] + box["height"] / 2 - 60)
        page.page.locator("#identified tr", has_text="<b>").wait_for()
        assert page.page.locator("#identified b").count() == 0
        page.close()


def test_coordinates_have_no_negative_zero(page: Page) -> None:
    page.open("WORLD#at=-0.000001,-0.000001,0.703125")
    page.page.locator("#readout i", has_text="0.00000, 0.00000").wait_for()
    assert "-" not in page.page.locator("#readout i").inner_text()
