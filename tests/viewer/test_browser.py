"""The page in a real browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from mastaba.testing.installation import layer_document, write_installation
from mastaba.testing.pyramids import LevelPlan, write_pyramid
from mastaba.testing.tile_matrix_sets import geographic, synthetic, web_mercator
from mastaba.testing.tiny_installation import (
    TINY_LEVELS,
    TINY_TABLES,
    tiny_float_tile,
    tiny_integer_tile,
    tiny_vector_tile,
)

Serving = Callable[[Callable[[str], Path]], AbstractContextManager[str]]

CHROMIUM = Path("/usr/bin/chromium")

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(not CHROMIUM.exists(), reason=f"{CHROMIUM} is not installed"),
]

HOSTILE = "<img src=x onerror=\"document.title='hacked'\"> & 'quoted'"
GRID = synthetic(
    "GRID", crs="EPSG:2154", origin=(7e5, 7e6), cell_sizes=[50, 20, 10], tile_size=(128, 256)
)
FORMATS = {
    "IMAGE": ("TIFF_JPG_UINT8", 3, tiny_integer_tile(3)),
    "GREY": ("TIFF_RAW_UINT8", 1, tiny_integer_tile(1)),
    "PACKED": ("TIFF_PKB_UINT8", 4, tiny_integer_tile(4)),
    "LZW": ("TIFF_LZW_UINT8", 3, tiny_integer_tile(3)),
    "ZIP": ("TIFF_ZIP_UINT8", 2, tiny_integer_tile(2)),
    "HEIGHT": ("TIFF_RAW_FLOAT32", 1, tiny_float_tile),
    "HEIGHT_ZIP": ("TIFF_ZIP_FLOAT32", 1, tiny_float_tile),
    "HEIGHT_LZW": ("TIFF_LZW_FLOAT32", 1, tiny_float_tile),
    "VECTOR": ("TIFF_PBF_MVT", 0, tiny_vector_tile),
}


def install(directory: Path, url: str) -> Path:
    """Write one layer for each kind of tile, and two in other grids."""
    layers: dict[str, Any] = {}
    for name, (format, channels, tile) in FORMATS.items():
        descriptor = write_pyramid(
            directory,
            name,
            tile_matrix_set=web_mercator(),
            format=format,
            channels=channels,
            levels=TINY_LEVELS,
            tile=tile,
            tables=TINY_TABLES,
        )
        layers[name] = layer_document(descriptor, title=name, abstract=HOSTILE)
    world = write_pyramid(
        directory,
        "WORLD",
        tile_matrix_set=geographic(),
        format="TIFF_PNG_UINT8",
        levels=[LevelPlan("0", 0, 0, 0, 1)],
        tile=tiny_integer_tile(3),
    )
    grid = write_pyramid(
        directory,
        "GRID",
        tile_matrix_set=GRID,
        format="TIFF_PNG_UINT8",
        levels=[LevelPlan("1", 1, 2, 1, 3), LevelPlan("2", 2, 4, 2, 6)],
        tile=lambda level, row, col: tiny_integer_tile(3)("1", row, col)[:, :128],
    )
    layers["WORLD"] = layer_document(world, title=HOSTILE)
    layers["GRID"] = layer_document(
        grid,
        tile_matrix_sets={"GRID": GRID},
        attribution={"title": HOSTILE, "url": "javascript:document.title='hacked'"},
    )
    return write_installation(
        directory,
        layers=layers,
        tile_matrix_sets={"GRID": GRID},
        services=["tms", "viewer"],
        public_url=url,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, serving: Serving) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("browser")
    with serving(lambda url: install(directory, url)) as url:
        yield url


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as running:
        opened = running.chromium.launch(
            executable_path=str(CHROMIUM),
            args=[
                "--no-sandbox",
                "--use-angle=swiftshader",
                "--enable-unsafe-swiftshader",
                "--disable-background-networking",
            ],
        )
        yield opened
        opened.close()


class Page:
    """A page of the viewer; everything that goes wrong in it is kept."""

    def __init__(self, browser: Any, site: str) -> None:
        self.site = site
        self.faults: list[str] = []
        self.hosts: set[str] = set()
        self.page = browser.new_page(viewport={"width": 1280, "height": 800})
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("request", lambda request: self.hosts.add(request.url.split("/")[2]))

    def _console(self, entry: Any) -> None:
        if entry.type in ("error", "warning"):
            self.faults.append(entry.text)

    def open(self, layer: str) -> None:
        """Open the page at a layer and wait for its tiles."""
        self.page.goto(f"{self.site}/viewer#{layer}")
        self.page.reload()
        self.page.wait_for_selector(".leaflet-tile-loaded")
        self.page.wait_for_selector(".leaflet-tile:not(.leaflet-tile-loaded)", state="detached")

    def tile_pixel(self, x: int, y: int) -> list[int]:
        """Return a pixel of the tile that is farthest to the north-west, as shown."""
        pixel: list[int] = self.page.evaluate(
            """([x, y]) => {
                const tiles = [...document.querySelectorAll(".leaflet-tile-loaded")];
                const place = (tile) => tile.getBoundingClientRect();
                tiles.sort((a, b) => place(a).top - place(b).top || place(a).left - place(b).left);
                const canvas = document.createElement("canvas");
                [canvas.width, canvas.height] = [tiles[0].width, tiles[0].height];
                const context = canvas.getContext("2d");
                context.drawImage(tiles[0], 0, 0);
                return [...context.getImageData(x, y, 1, 1).data];
            }""",
            [x, y],
        )
        return pixel


@pytest.fixture
def page(browser: Any, site: str) -> Iterator[Page]:
    opened = Page(browser, site)
    yield opened
    opened.page.close()
    assert opened.faults == []
    assert opened.hosts == {site.removeprefix("http://")}


@pytest.mark.parametrize("layer", [*FORMATS, "WORLD", "GRID"])
def test_every_kind_of_layer_is_shown(page: Page, layer: str) -> None:
    page.open(layer)
    pressed = page.page.locator('.choose[aria-pressed="true"]')
    assert pressed.count() == 1
    assert page.page.locator("#details-title").inner_text() in (layer, HOSTILE)
    assert page.page.title() == "Map viewer"
    assert page.tile_pixel(100, 30 if layer == "VECTOR" else 100)[3] > 0


@pytest.mark.parametrize("layer", ["GREY", "LZW", "ZIP", "PACKED"])
def test_tiff_tiles_are_decoded(page: Page, layer: str) -> None:
    page.open(layer)
    # The tile at column 9, row 5 of level 4.
    i, j = 9 * 256 + 100, 5 * 256 + 40
    red, green = i // 4 % 256, j // 4 % 256
    alpha = 255 if (i // 32 + j // 32) % 2 == 0 else 128
    found = page.tile_pixel(100, 40)
    wanted = {
        "GREY": [red, red, red, 255],
        "LZW": [red, green, 64, 255],
        "ZIP": [red, red, red, alpha],
        "PACKED": [red, green, 64, alpha],
    }[layer]
    # A canvas keeps colours multiplied by alpha, which rounds them.
    assert found == pytest.approx(wanted, abs=2)


@pytest.mark.parametrize("layer", ["HEIGHT", "HEIGHT_ZIP", "HEIGHT_LZW"])
def test_elevation_under_the_pointer(page: Page, layer: str) -> None:
    page.open(layer)
    box = page.page.locator(".extent").bounding_box()
    # The outline is drawn around the edge of the tiles.
    x, y = round(box["x"] + 100), round(box["y"] + 40)
    page.page.mouse.move(x, y)
    shown = page.page.locator("#readout b").inner_text()
    i, j = 9 * 256 + 100, 5 * 256 + 40
    assert shown.endswith(" m")
    assert float(shown.removesuffix(" m")) == pytest.approx(4000 + i / 2 + j / 4, abs=2)
    assert page.page.locator("#legend canvas").count() == 1


def test_vector_features_are_identified(page: Page) -> None:
    page.open("VECTOR")
    box = page.page.locator(".extent").bounding_box()
    page.page.mouse.click(box["x"] + 129, box["y"] + 129)
    panel = page.page.locator("#identified")
    panel.wait_for()
    assert "(1 of 2)" in panel.inner_text()
    page.page.mouse.click(box["x"] + 60, box["y"] + 60)
    assert panel.locator("tr").all_inner_texts() == ["row\t5", "col\t9"]
    page.page.mouse.click(box["x"] + 3, box["y"] + 3)
    assert panel.is_hidden()


def test_choosing_stacking_and_searching(page: Page) -> None:
    page.open("IMAGE")
    item = page.page.locator('li[data-layer="VECTOR"]')
    item.locator(".stack").click()
    page.page.wait_for_selector("canvas.leaflet-tile-loaded")
    assert page.page.locator("img.leaflet-tile-loaded").count() > 0
    item.locator(".stack").click()
    assert page.page.locator("canvas.leaflet-tile").count() == 0
    # A layer in another grid cannot be laid over this one.
    assert page.page.locator('li[data-layer="GRID"] .stack').is_hidden()
    item.locator(".choose").click()
    assert page.page.locator("#details-title").inner_text() == "VECTOR"
    assert "#VECTOR/" in page.page.url
    page.page.fill("#search", "height zip")
    assert page.page.locator("li[data-layer]:visible").count() == 1
    page.page.fill("#search", "nothing like it")
    assert page.page.locator("#empty").is_visible()


def test_opacity_and_addresses(page: Page) -> None:
    page.open("IMAGE")
    page.page.locator("#opacity").fill("40")
    opacity = page.page.evaluate("document.querySelector('.leaflet-layer').style.opacity")
    assert float(opacity) == pytest.approx(0.4)
    first = page.page.locator("#addresses input").first.input_value()
    assert first == f"{page.site}/tms/1.0.0/IMAGE/{{z}}/{{x}}/{{y}}.jpeg"


def test_view_is_kept_in_the_address(page: Page) -> None:
    page.open("IMAGE")
    page.page.locator(".leaflet-control-zoom-in").click()
    page.page.wait_for_url("**/viewer#IMAGE/5/**")
    before = page.page.url
    page.page.reload()
    page.page.wait_for_selector(".leaflet-tile-loaded")
    assert page.page.url == before


def test_attribution_is_text(page: Page) -> None:
    page.open("GRID")
    attribution = page.page.locator(".leaflet-control-attribution")
    assert HOSTILE in attribution.inner_text()
    assert attribution.locator("a, img").count() == 0
