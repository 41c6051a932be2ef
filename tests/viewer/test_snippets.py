"""The texts for other programs, run by those programs where they are installed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.request import urlopen
from xml.etree import ElementTree as ET

import pytest
import yaml
from tests.live.test_web_clients import web_clients
from tests.viewer.browser import Page, live_in_chromium
from xstatic.pkg import leaflet

pytestmark = live_in_chromium

CDN = "https://cdn.jsdelivr.net/npm/"


def snippet(page: Page, layer: str, program: str) -> str:
    """Return the text that the page shows for a program."""
    page.open(layer)
    page.page.select_option("#program", program)
    return page.page.locator("#snippet").inner_text()


@pytest.mark.parametrize(
    ("layer", "programs"),
    [
        (
            "IMAGE",
            [
                "qgis",
                "gdal",
                "owslib",
                "openlayers",
                "leaflet",
                "maplibre",
                "cesium",
                "mapproxy",
                "arcgis",
            ],
        ),
        ("VECTOR", ["qgis", "maplibre"]),
        ("GRID", ["gdal", "owslib", "leaflet", "arcgis"]),
        ("HEIGHT", ["gdal", "owslib", "maplibre", "cesium", "arcgis"]),
    ],
)
def test_programs_that_can_show_a_layer(page: Page, layer: str, programs: list[str]) -> None:
    page.open(layer)
    options = page.page.locator("#program option").all()
    assert [option.get_attribute("value") for option in options] == programs


def test_snippet_is_copied_and_saved(browser: Any, site: str) -> None:
    page = Page(browser, site, permissions=["clipboard-read", "clipboard-write"])
    text = snippet(page, "IMAGE", "gdal")
    page.page.locator("#copy-snippet").click()
    page.page.wait_for_function("document.getElementById('copy-snippet').textContent === 'Copied'")
    assert page.page.evaluate("navigator.clipboard.readText()").strip() == text.strip()
    with page.page.expect_download() as download:
        page.page.locator("#save-snippet").click()
    assert download.value.suggested_filename == "IMAGE.sh"
    page.close()


def test_qgis(page: Page) -> None:
    (connection,) = ET.fromstring(snippet(page, "IMAGE", "qgis"))
    assert connection.attrib["name"] == "IMAGE"
    assert (connection.attrib["zmin"], connection.attrib["zmax"]) == ("2", "4")
    url = connection.attrib["url"].replace("{z}", "4").replace("{x}", "9").replace("{y}", "5")
    with urlopen(url) as response:
        assert response.headers["Content-Type"] == "image/jpeg"


@pytest.mark.parametrize("layer", ["IMAGE", "GRID", "HEIGHT"])
def test_gdal(page: Page, layer: str) -> None:
    if shutil.which("gdalinfo") is None:
        pytest.skip("GDAL is not installed")
    command = snippet(page, layer, "gdal")
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "Driver: WMTS/OGC Web Map Tile Service" in done.stdout


@pytest.mark.parametrize("layer", ["IMAGE", "GRID", "HEIGHT"])
def test_owslib(page: Page, layer: str, tmp_path: Path) -> None:
    script = snippet(page, layer, "owslib")
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "tile").stat().st_size > 100


def test_arcgis(page: Page) -> None:
    with urlopen(snippet(page, "IMAGE", "arcgis").strip()) as response:
        document = ET.fromstring(response.read())
    assert document.tag.endswith("Capabilities")


def test_mapproxy(page: Page) -> None:
    document = yaml.safe_load(snippet(page, "IMAGE", "mapproxy"))
    assert document["caches"]["cache"]["sources"] == ["tiles"]
    url = document["sources"]["tiles"]["url"] % {"z": 4, "x": 9, "y": 5}
    with urlopen(url) as response:
        assert response.headers["Content-Type"] == "image/jpeg"


LIBRARIES = {
    "leaflet": lambda: Path(next(iter(leaflet.__path__))) / "data",
    "ol": lambda: web_clients() / "ol",
}


@pytest.mark.parametrize(
    ("program", "layer"),
    [
        ("openlayers", "IMAGE"),
        ("leaflet", "IMAGE"),
        ("leaflet", "GRID"),
    ],
)
def test_pages_show_tiles(page: Page, browser: Any, program: str, layer: str) -> None:
    web_clients()
    text = snippet(page, layer, program)
    made = browser.new_page(viewport={"width": 1000, "height": 700})
    answers: list[tuple[int, str]] = []
    problems: list[str] = []
    made.on("pageerror", lambda error: problems.append(str(error)))
    made.on("response", lambda response: answers.append((response.status, response.url)))

    def library(route: Any) -> None:
        name, _, path = route.request.url.removeprefix(CDN).partition("/")
        folder = LIBRARIES[name.partition("@")[0]]()
        path = path.removeprefix("dist/") if name.startswith("leaflet") else path
        route.fulfill(path=folder / path)

    made.route(f"{CDN}**", library)
    made.route(
        f"{page.site}/made", lambda route: route.fulfill(body=text, content_type="text/html")
    )
    made.goto(f"{page.site}/made")
    tile = f"/{layer}/" if layer != "GRID" else "REQUEST=GetMap"
    for _ in range(100):
        if any(tile.lower() in url.lower() or "GetTile" in url for _, url in answers):
            break
        made.wait_for_timeout(100)
    made.wait_for_load_state("networkidle")
    made.close()
    found = [status for status, url in answers if "/made" not in url and CDN not in url]
    assert problems == []
    assert 200 in found[1:] or found == [200]
