"""A page of the viewer in a real browser, with all problems recorded."""

from __future__ import annotations

import io
from typing import Any
from urllib.parse import urlsplit

import pytest
from PIL import Image
from tests.live.processes import PATIENCE, wait_until

DESKTOP = (1280, 800)
PHONE = (380, 780)

_TOO_SMALL = """(most) => {
    const isHidden = (one) => !one.checkVisibility() || !one.getBoundingClientRect().width;
    return [...document.querySelectorAll("a, button, select, summary, input")]
        .filter((one) => !isHidden(one) && !one.matches(".skip, .divider"))
        .filter((one) => getComputedStyle(one).clipPath === "none")
        .map((one) => (one.closest("label") ?? one))
        .filter((one) => {
            const { width, height } = one.getBoundingClientRect();
            return width < most || height < most;
        })
        .map((one) => one.id || one.outerHTML);
}"""

live_in_chromium = [
    pytest.mark.live,
]


_EXPECTED = (
    # The map library reads canvases to find features; Chromium knows a faster way.
    "willReadFrequently",
    # Pages are put together without a GPU.
    "GPU stall due to ReadPixels",
)
"""Parts of messages that are no faults."""


class Page:
    """One page and the problems that occur in it.

    Attributes:
        faults: console errors and warnings, and responses with an error status.
        hosts: hosts of all requests.
        requests: URLs of all requests.
    """

    def __init__(
        self, browser: Any, site: str, size: tuple[int, int] = DESKTOP, **options: Any
    ) -> None:
        self.site = site
        self.faults: list[str] = []
        self.hosts: set[str] = set()
        self.requests: list[str] = []
        width, height = size
        self.page = browser.new_page(viewport={"width": width, "height": height}, **options)
        self.page.set_default_timeout(1000 * PATIENCE)
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("request", self._request)
        self.page.on("response", self._response)

    def _console(self, entry: Any) -> None:
        if entry.type in ("error", "warning") and not any(one in entry.text for one in _EXPECTED):
            self.faults.append(entry.text)

    def _request(self, request: Any) -> None:
        self.requests.append(request.url)
        self.hosts.add(request.url.split("/")[2])

    def _response(self, response: Any) -> None:
        if response.status >= 400:
            self.faults.append(f"{response.status} {response.url}")

    def targets_too_small(self) -> list[str]:
        """Return what is to be tapped and is smaller than a finger (44 px)."""
        found: list[str] = self.page.evaluate(_TOO_SMALL, 43.5)
        return found

    def close(self) -> None:
        self.page.close()
        assert not self.faults, self.faults
        # What a script has forgotten to set.
        assert not [url for url in self.requests if "undefined" in url or "NaN" in url]
        assert self.hosts <= {self.site.removeprefix("http://")}

    def open(self, path: str) -> None:
        """Open a page below the viewer and wait for its tiles.

        Unless the path has a view, it is the whole layer, in the cell size of one of its levels: a
        pixel of the layer is then a pixel of the map.
        """
        name, _, fragment = path.partition("#")
        if "/" not in name and "at=" not in fragment:
            fragment = "&".join(filter(None, (f"at={self.whole(name)}", fragment)))
        self.page.goto("about:blank")
        self.page.goto(f"{self.site}/viewer/{name}#{fragment}" if fragment else self.url(name))
        self.settle()

    def url(self, path: str) -> str:
        """Return the URL of a path below the viewer."""
        return f"{self.site}/viewer/{path}"

    def whole(self, name: str) -> str:
        """Return the view of a whole layer: x, y and the cell size."""
        layer = self.page.request.get(self.url(f"data/layers/{name}.json")).json()
        grid = layer["sets"][0]
        west, south, east, north = grid["bbox"]
        size = self.page.viewport_size
        room = min(size["width"] - 420, size["height"] - 20)
        cells = [
            matrix["cellSize"] for matrix in grid["matrices"] if matrix["id"] in grid["limits"]
        ]
        fitting = [cell for cell in cells if max(east - west, north - south) / cell <= room]
        cell = min(fitting, default=max(cells))
        return f"{(west + east) / 2},{(south + north) / 2},{cell}"

    def settle(self) -> None:
        """Wait until everything in the view is loaded and drawn."""
        self.page.wait_for_selector("#map[aria-busy]")
        # A change of the view starts with the next frame, so some in a row must be complete.
        self.page.evaluate(
            """async () => {
                const map = document.getElementById("map");
                const frame = () => new Promise(requestAnimationFrame);
                for (let ready = 0; ready < 3;) {
                    await frame();
                    ready = map.getAttribute("aria-busy") === "false" ? ready + 1 : 0;
                }
            }"""
        )
        # Changes of the fragment reach `url` a moment later.
        self.page.wait_for_url(self.page.evaluate("location.href"))

    def wait_for(self, expression: str, argument: Any = None) -> None:
        """Wait until an expression, or a function of the argument, is true.

        The method of Playwright evaluates later attempts in the page, whose policy forbids it.
        """
        wait_until(lambda: self.page.evaluate(expression, argument))

    def choose(self, name: str, value: str) -> None:
        """Choose an option of a select and wait for the tiles."""
        if self.page.locator(f"#advanced:not([open]) #{name}").count():
            self.page.locator("#advanced summary").click()
        self.page.select_option(f"#{name}", value)
        self.settle()

    def corner(self) -> tuple[float, float]:
        """Return the place of the north-western corner of the layer in the map, in pixels."""
        x, y, cell = map(float, self.page.url.partition("#at=")[2].partition("&")[0].split(","))
        name = urlsplit(self.page.url).path.rpartition("/")[2]
        layer = self.page.request.get(f"{self.site}/viewer/data/layers/{name}.json").json()
        west, _, _, north = layer["sets"][0]["bbox"]
        box = self.page.locator("#map").bounding_box()
        return (
            round(box["width"] / 2 + (west - x) / cell),
            round(box["height"] / 2 + (y - north) / cell),
        )

    def point(self, x: int, y: int) -> tuple[float, float]:
        """Return where a pixel of the layer, counted from its corner, is in the window."""
        left, top = self.corner()
        box = self.page.locator("#map").bounding_box()
        return box["x"] + left + x + 0.5, box["y"] + top + y + 0.5

    def tile_pixel(self, x: int, y: int) -> list[int]:
        """Return a pixel of the layer, counted from its north-western corner, with alpha."""
        left, top = self.corner()
        pixel: list[int] = self.page.evaluate(
            """([x, y]) => {
                const copy = document.createElement("canvas");
                [copy.width, copy.height] = [1, 1];
                const context = copy.getContext("2d");
                for (const canvas of document.querySelectorAll("#map .ol-layer canvas")) {
                    if (canvas.width) context.drawImage(canvas, -x, -y);
                }
                return [...context.getImageData(0, 0, 1, 1).data];
            }""",
            [left + x, top + y],
        )
        return pixel

    def screen_pixel(self, x: float, y: float) -> tuple[int, ...]:
        """Return a pixel of the map, as shown; x and y are fractions of its width and height."""
        box = self.page.locator("#map").bounding_box()
        clip = {
            "x": round(box["x"] + x * box["width"]),
            "y": round(box["y"] + y * box["height"]),
            "width": 1,
            "height": 1,
        }
        self.settle()
        image = Image.open(io.BytesIO(self.page.screenshot(clip=clip))).convert("RGB")
        pixel = image.getpixel((0, 0))
        assert isinstance(pixel, tuple)
        return tuple(map(int, pixel))

    def overflow(self) -> int:
        """Return by how many pixels the page is wider than the window."""
        pixels: int = self.page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        return pixels
