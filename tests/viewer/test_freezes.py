"""No tool, zoom or projection blocks the page, in a real browser.

The processor time of the longest task of the main thread is measured, because other programs do not
change it much: a task may wait for the graphics card, or for its turn. What blocks the page does so
each time. A task that was slow by chance, beside other programs, is not found again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from pyproj import Transformer
from tests.live.browsers import launched
from tests.live.processes import wait_until
from tests.sizes import FULL, sized
from tests.viewer import ground
from tests.viewer.browser import DESKTOP, live_in_chromium

from mastaba_conformance.tiny_installation import TINY_TABLES, tiny_integer_tile, tiny_vector_tile
from mastaba_writer.installation import layer_document
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import web_mercator

pytestmark = live_in_chromium

MOST = 0.5
"""Processor seconds of a task, where `PACE_TASK` needs `PACE`: a person notices longer ones."""

PACE = 0.1
PACE_TASK = """() => {
    const values = {};
    let sum = 0;
    for (let number = 0; number < 500_000; number += 1) {
        const key = `key ${number % 1000}`;
        values[key] = [number, values[key]?.[0] ?? 0];
        sum += Math.sin(values[key][1]);
    }
    return sum;
}"""
"""Objects, strings and numbers, as the page handles them."""

BLANK = "about:blank"

MOST_REQUESTS = 600

WINDOW = sized((640, 480), DESKTOP)
"""Width and height: most of the processor time is that of drawing, which is not under test."""

ATTEMPTS = 3

Use = Callable[["Watched"], None]
"""Uses a page that is open."""

KeepsShort = Callable[[str, Use], None]
"""Opens the page of a URL, uses it, and fails if a task was too long in each of some attempts."""

# As in the demo: the whole world in coarse levels, a part of it in fine ones.
LEVELS = [
    *(LevelPlan(str(z), 0, 2**z - 1, 0, 2**z - 1) for z in range(3)),
    LevelPlan("6", 20, 21, 32, 33),
    LevelPlan("10", 340, 343, 524, 527),
]

CRSS = (
    *("EPSG:3857", "EPSG:4326", "CRS:84"),
    *("EPSG:32631", "EPSG:32732", "EPSG:2154", "EPSG:3035", "EPSG:2056", "EPSG:27700"),
    *("EPSG:3413", "EPSG:3031", "EPSG:3395"),
)

LAYERS = ("EARTH", "RELIEF", "LINES")

EVERY = sized(len(LAYERS), 1)
"""Each projection is tried with one of the layers, and one in so many with all tools."""

PLACE = (4.49, 50.8)
"""Longitude and latitude in the finest level."""

CELLS = [160_000 / 4**step for step in range(9)]
"""Metres: from more than the world in the window to a fraction of the finest pixel."""


def hills(level: str, row: int, col: int) -> Any:
    """Return a tile of hills, the same everywhere."""
    y, x = np.mgrid[0:256, 0:256] / 256
    return (600 + 500 * np.sin(6.2832 * x) * np.sin(6.2832 * y)).astype(np.float32)[..., None]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, serving: Any) -> Iterator[str]:
    """A server of layers of the world that are fine in one place, in many projections."""
    directory = tmp_path_factory.mktemp("world")

    def install(url: str) -> Path:
        layers = {}
        for name, format, channels, tile in (
            ("EARTH", "TIFF_JPG_UINT8", 3, tiny_integer_tile(3)),
            ("RELIEF", "TIFF_ZIP_FLOAT32", 1, hills),
            ("LINES", "TIFF_PBF_MVT", 1, tiny_vector_tile),
        ):
            is_vector = name == "LINES"
            descriptor = write_pyramid(
                directory,
                name,
                tile_matrix_set=web_mercator(),
                format=format,
                levels=LEVELS,
                tile=tile,
                **({"tables": TINY_TABLES} if is_vector else {"channels": channels}),
            )
            layers[name] = layer_document(descriptor, title=name, coverages=True)
        settings = {"global": {"map": {"crs": list(CRSS)}}, "ogcapi": {"coverages": True}}
        return ground.install(directory, url, services_overrides=settings, more=layers)

    with serving(install) as url:
        yield url


@pytest.fixture(scope="module")
def watching(browser: Any) -> Iterator[Any]:
    """Return the browser of the other tests, whose main thread draws the canvases itself.

    In a large window, that takes too long. Full tests have a browser in which another thread draws,
    as on most machines.
    """
    if FULL:
        opened = launched(browser.browser_type)
        yield opened
        opened.close()
    else:
        yield browser


@pytest.fixture(scope="module")
def most(watching: Any) -> float:
    """Return `MOST` for the processor of this machine, if it is slower.

    The shortest of some equal tasks: the others share the processor's caches with other programs.
    """
    times = []
    for _ in range(3):
        watched = Watched(watching, BLANK)
        watched.page.evaluate(PACE_TASK)
        times.append(watched.longest())
    return MOST * max(1.0, min(times) / PACE)


@pytest.fixture
def keeps_short(watching: Any, most: float) -> KeepsShort:
    """Return a function that uses a page and fails if one of its tasks is too long."""

    def attempt(url: str, use: Use) -> float:
        watched = Watched(watching, url)
        try:
            use(watched)
            return watched.longest()
        finally:
            watched.stop()

    def keep_short(url: str, use: Use) -> None:
        times: list[float] = []
        while not times or (min(times) >= most and len(times) < ATTEMPTS):
            times.append(attempt(url, use))
        assert min(times) < most, times

    return keep_short


class Watched:
    """A page whose tasks are recorded."""

    def __init__(self, browser: Any, url: str) -> None:
        self._browser = browser
        self.page = browser.new_page(viewport=dict(zip(("width", "height"), WINDOW, strict=True)))
        # Reached only by a page that is blocked, or on a very busy machine.
        self.page.set_default_timeout(180_000)
        self.requests = 0
        self.errors: list[str] = []
        self.page.on("request", lambda request: self._count())
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        browser.start_tracing(page=self.page)
        self._is_open = True
        self.page.goto(url)
        if url != BLANK:
            self.settle()

    def _count(self) -> None:
        self.requests += 1

    def do(self, script: str, argument: Any = None) -> None:
        """Run a script and wait for the map; a page that is blocked fails the test."""
        self.page.evaluate(script, argument)
        self.settle()

    def click(self, name: str) -> None:
        self.do("(name) => document.querySelector(name).click()", name)

    def choose(self, name: str, value: str) -> None:
        self.do(
            """([name, value]) => {
                const control = document.getElementById(name);
                control.value = value;
                control.dispatchEvent(new Event("change", { bubbles: true }));
            }""",
            [name, value],
        )

    def draw(self, tool: str) -> None:
        """Draw with the keyboard, and wait for the result."""
        self.click(tool)
        for key in ("Enter", "ArrowRight", "Enter", "ArrowDown", "Enter", "Enter"):
            before = self.page.evaluate("location.href")
            self.page.keyboard.press(key)
            if key != "Enter":
                wait_until(lambda before=before: self.page.evaluate("location.href") != before)
            self.settle()
        self.page.locator("#result").wait_for()
        self.click("#close-result")

    def settle(self) -> None:
        self.page.wait_for_timeout(300)
        self.page.wait_for_selector("#map[aria-busy=false]")

    def stop(self) -> bytes:
        """Close the page; return what was recorded, once."""
        if not self._is_open:
            return b""
        self._is_open = False
        trace: bytes = self._browser.stop_tracing()
        self.page.close()
        return trace

    def longest(self) -> float:
        """Close the page; return the processor seconds of its longest task."""
        events = json.loads(self.stop())["traceEvents"]
        main = {
            (event["pid"], event["tid"])
            for event in events
            if event.get("name") == "thread_name" and event["args"]["name"] == "CrRendererMain"
        }
        times = [
            event.get("tdur", 0)
            for event in events
            if event["name"] == "RunTask" and (event["pid"], event["tid"]) in main
        ]
        assert times, "the trace has no tasks"
        assert not self.errors, self.errors
        return float(max(times)) / 1e6


@pytest.mark.parametrize("layer", LAYERS)
def test_projections_and_zooms_do_not_block(
    keeps_short: KeepsShort, world: str, layer: str
) -> None:
    crss = CRSS[LAYERS.index(layer) % EVERY :: EVERY]

    def use(watched: Watched) -> None:
        watched.click("#graticule")
        for crs in crss:
            watched.choose("crs", crs)
            for name in (".ol-zoom-out", "#zoom-to-layer", ".ol-zoom-in", ".ol-zoom-in"):
                watched.click(name)
        assert watched.requests < MOST_REQUESTS * len(crss)

    keeps_short(f"{world}/viewer/{layer}", use)


@pytest.mark.parametrize("place", ["0,0,78271", "500000,6600000,2000", "500000,6600000,150"])
def test_tools_do_not_block(keeps_short: KeepsShort, world: str, place: str) -> None:
    def use(watched: Watched) -> None:
        watched.choose("palette", "viridis")
        for name in ("#contours", "#contours", "#profile", ".ol-zoom-out", ".ol-zoom-in"):
            watched.click(name)
        watched.do("() => document.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape' }))")
        watched.click("#three")
        watched.page.wait_for_selector("#terrain-map[aria-busy=false]")
        assert watched.requests < MOST_REQUESTS

    keeps_short(f"{world}/viewer/RELIEF#at={place}&contours=true", use)


@pytest.mark.parametrize("number", range(0, len(CRSS), EVERY))
def test_tools_do_not_block_in_any_projection(
    keeps_short: KeepsShort, world: str, number: int
) -> None:
    crs = CRSS[number]
    projection = Transformer.from_crs(
        "OGC:CRS84", crs.replace("CRS:84", "OGC:CRS84"), always_xy=True
    )
    per_unit = 111_319.49 if projection.target_crs.is_geographic else 1
    x, y = projection.transform(*PLACE)
    cells = CELLS if EVERY == 1 else [CELLS[number % len(CELLS)]]

    def use(watched: Watched) -> None:
        for cell in cells:
            place = f"#at={x},{y},{cell / per_unit}&crs={quote(crs)}&contours=true"
            watched.do("(place) => { location.hash = place; }", place)
            for tool in ("#profile", "#statistics"):
                watched.draw(tool)
        watched.click("#three")
        watched.page.wait_for_selector("#terrain-map[aria-busy=false]")
        assert watched.requests < MOST_REQUESTS * len(cells)

    keeps_short(f"{world}/viewer/RELIEF", use)


def test_other_tools_do_not_block(keeps_short: KeepsShort, world: str) -> None:
    def use(watched: Watched) -> None:
        for cell in CELLS[::3]:
            watched.do("(place) => { location.hash = place; }", f"#at=500000,6600000,{cell}")
            for name in ("#graticule", "#zoom-to-layer"):
                watched.click(name)
            watched.page.fill("#goto", "48.5, 2.25")
            watched.click("#go")
            watched.choose("overlay", "EARTH")
            watched.choose("opacity", "40")
            watched.choose("azimuth", "90")
            watched.choose("highest", "900")
            watched.click("#overlays button")

    keeps_short(f"{world}/viewer/RELIEF", use)


def test_comparing_does_not_block(keeps_short: KeepsShort, world: str) -> None:
    def use(watched: Watched) -> None:
        for cell in CELLS:
            watched.do("(place) => { location.hash = place; }", f"#at=500000,6600000,{cell}")

    keeps_short(f"{world}/viewer/compare/RELIEF/EARTH", use)


def test_downloads_do_not_block(keeps_short: KeepsShort, world: str) -> None:
    def use(watched: Watched) -> None:
        for name in ("#download", "[data-area=area-whole]"):
            watched.click(name)
            watched.page.wait_for_selector("#download-file")

    keeps_short(f"{world}/viewer/RELIEF#at=500000,6600000,150", use)
