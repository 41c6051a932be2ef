"""A page of the viewer in a real browser, with all problems recorded."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

CHROMIUM = Path("/usr/bin/chromium")
DESKTOP = (1280, 800)
PHONE = (380, 780)

live_in_chromium = [
    pytest.mark.live,
    pytest.mark.skipif(not CHROMIUM.exists(), reason=f"{CHROMIUM} is not installed"),
]


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
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("request", self._request)
        self.page.on("response", self._response)

    def _console(self, entry: Any) -> None:
        if entry.type in ("error", "warning"):
            self.faults.append(entry.text)

    def _request(self, request: Any) -> None:
        self.requests.append(request.url)
        self.hosts.add(request.url.split("/")[2])

    def _response(self, response: Any) -> None:
        if response.status >= 400:
            self.faults.append(f"{response.status} {response.url}")

    def close(self) -> None:
        self.page.close()
        assert self.faults == []
        assert self.hosts <= {self.site.removeprefix("http://")}

    def open(self, path: str) -> None:
        """Open a page below the viewer and wait for its tiles."""
        self.page.goto("about:blank")
        self.page.goto(f"{self.site}/viewer/{path}")
        self.settle()

    def settle(self) -> None:
        """Wait until all tiles of the view are loaded."""
        self.page.wait_for_selector(".leaflet-tile-loaded", state="attached")
        self.page.wait_for_selector(".leaflet-tile:not(.leaflet-tile-loaded)", state="detached")

    def choose(self, name: str, value: str) -> None:
        """Choose an option of a select and wait for the tiles."""
        self.page.select_option(f"#{name}", value)
        self.settle()

    def tile_pixel(self, x: int, y: int) -> list[int]:
        """Return a pixel of the north-westernmost tile, as loaded."""
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

    def screen_pixel(self, x: float, y: float) -> tuple[int, ...]:
        """Return a pixel of the map, as shown; x and y are fractions of its width and height."""
        box = self.page.locator("#map").bounding_box()
        clip = {
            "x": round(box["x"] + x * box["width"]),
            "y": round(box["y"] + y * box["height"]),
            "width": 1,
            "height": 1,
        }
        # Tiles fade in.
        self.page.wait_for_timeout(300)
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
