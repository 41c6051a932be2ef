"""The web pages of docs/web-map.md show the layer, when they are saved and opened as they are."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tests.live.browsers import web_clients
from tests.live.processes import Mastaba, changed, free_port, public_folder
from xstatic.pkg import leaflet

from mastaba_conformance.tiny_installation import tiny_integer_tile
from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import web_mercator

pytestmark = pytest.mark.live

PAGE = (Path(__file__).parents[2] / "docs/web-map.md").read_text("utf-8")
PAGES = dict(re.findall(r"^## ([^\n]+)\n(?:(?!^## ).)*?^```html\n(.*?)^```$", PAGE, re.M | re.S))
DEMO = "http://127.0.0.1:8080"
CDN = "https://cdn.jsdelivr.net/npm/"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """A server with a layer that is called as in the demo."""
    with public_folder() as folder:
        levels = [LevelPlan(str(z), 0, 2**z - 1, 0, 2**z - 1) for z in range(4)]
        imagery = write_pyramid(
            folder / "pyramids",
            "imagery",
            tile_matrix_set=web_mercator(),
            format="TIFF_PNG_UINT8",
            levels=levels,
            tile=tiny_integer_tile(3),
        )
        port = free_port()
        server_json = write_installation(
            folder,
            layers={"imagery": layer_document(imagery)},
            tile_matrix_sets={"PM": web_mercator()},
            public_url=f"http://127.0.0.1:{port}",
            services_overrides={"global": {"cors": True}},
        )
        with Mastaba(changed(server_json, folder / "server-http.json"), folder, http=port):
            yield f"http://127.0.0.1:{port}"


def library(route: Any) -> None:
    """Answer a request for a library by its file from the package registries."""
    path = route.request.url.partition("?")[0].removeprefix(CDN)
    name, _, file = path.partition("/")
    if name.startswith("leaflet@"):
        found = Path(next(iter(leaflet.__path__))) / "data" / file.removeprefix("dist/")
    else:
        name, _, version = name.partition("@")
        folder = web_clients() / name
        assert f'"version": "{version}"' in (folder / "package.json").read_text("utf-8")
        found = folder / file
    route.fulfill(path=found, headers={"Access-Control-Allow-Origin": "*"})


def test_there_is_a_page_for_each_library() -> None:
    assert list(PAGES) == ["OpenLayers", "Leaflet", "MapLibre GL"]


@pytest.mark.parametrize("name", ["OpenLayers", "Leaflet", "MapLibre GL"])
def test_page_shows_the_layer(name: str, server: str, browser: Any, tmp_path: Path) -> None:
    web_clients()
    text = PAGES[name]
    assert DEMO in text
    saved = tmp_path / "map.html"
    saved.write_text(text.replace(DEMO, server), "utf-8")
    page = browser.new_page(viewport={"width": 600, "height": 400})
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("response", lambda r: r.status >= 400 and problems.append(f"{r.status} {r.url}"))
    page.route(f"{CDN}**", library)
    try:
        page.goto(saved.as_uri())
        for _ in range(900):
            with Image.open(io.BytesIO(page.locator("#map").screenshot())) as image:
                colours = image.convert("RGB").crop((60, 60, 400, 300)).getcolors(100_000)
            # Tiles have many colours, an empty map only one.
            if colours is None or len(colours) > 100:
                break
            page.wait_for_timeout(100)
        else:
            pytest.fail(f"the map is blank: {problems}")
    finally:
        page.close()
    assert problems == []
