"""The texts for other programs, run by those programs where they are installed."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
import yaml
from PIL import Image
from tests.live.browsers import web_clients
from tests.live.desktop import qgis
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
        ("GRID", ["qgis", "gdal", "owslib", "leaflet", "arcgis"]),
        (
            "HEIGHT",
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
    page.wait_for("document.getElementById('copy-snippet').textContent === 'Copied'")
    assert page.page.evaluate("navigator.clipboard.readText()").strip() == text.strip()
    with page.page.expect_download() as download:
        page.page.locator("#save-snippet").click()
    assert download.value.suggested_filename == "IMAGE.sh"
    page.close()


@pytest.mark.parametrize(
    ("layer", "kind"),
    [("IMAGE", "xyz"), ("VECTOR", "vector-tile"), ("GRID", "wms"), ("HEIGHT", "xyz")],
)
def test_qgis_draws_the_imported_connection(
    page: Page, tmp_path: Path, layer: str, kind: str
) -> None:
    (tmp_path / "connection.xml").write_text(snippet(page, layer, "qgis"))
    script = Path(__file__).with_name("qgis_picture.py")
    qgis(tmp_path, script, kind, layer, tmp_path / "connection.xml")
    with Image.open(tmp_path / "picture.png") as image:
        colours = image.convert("RGB").getcolors(1_000_000)
    assert colours is not None
    assert len(colours) > (2 if layer == "VECTOR" else 100)


@pytest.mark.parametrize("layer", ["IMAGE", "GRID"])
def test_gdal(page: Page, layer: str) -> None:
    if shutil.which("gdalinfo") is None:
        pytest.skip("GDAL is not installed")
    command = snippet(page, layer, "gdal")
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Driver: WMTS/OGC Web Map Tile Service" in done.stdout


@pytest.mark.parametrize("layer", ["HEIGHT", "SLOPE"])
def test_gdal_reads_heights(page: Page, tmp_path: Path, layer: str) -> None:
    if shutil.which("gdalinfo") is None:
        pytest.skip("GDAL is not installed")
    command = snippet(page, layer, "gdal")
    done = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Type=Float32" in done.stdout
    assert "NoData Value=-99999" in done.stdout
    command = f"gdallocationinfo -valonly {layer}.xml 100 40"
    done = subprocess.run(command.split(), cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    # A pixel of the north-westernmost tile.
    row, column = (5 * 256 + 40, 9 * 256 + 100) if layer == "HEIGHT" else (256 + 40, 256 + 100)
    base = 4000 if layer == "HEIGHT" else 1000
    assert float(done.stdout) == pytest.approx(base + column / 2 + row / 4, abs=2)


@pytest.mark.parametrize("layer", ["IMAGE", "GRID", "HEIGHT"])
def test_owslib(page: Page, layer: str, tmp_path: Path) -> None:
    script = snippet(page, layer, "owslib")
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "tile").stat().st_size > 100


@pytest.mark.parametrize("layer", ["IMAGE", "GRID"])
def test_arcgis_address_is_that_of_a_wmts(page: Page, tmp_path: Path, layer: str) -> None:
    """The licence of ArcGIS does not permit it here: GDAL reads the same document."""
    if shutil.which("gdal_translate") is None:
        pytest.skip("GDAL is not installed")
    url = snippet(page, layer, "arcgis").splitlines()[0]
    assert url.endswith("/WMTSCapabilities.xml")
    target = tmp_path / "map.png"
    source = f"WMTS:{url},layer={layer}"
    command = ["gdal_translate", "-q", "-of", "PNG", "-outsize", "256", "0", source, target]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with Image.open(target) as image:
        colours = image.convert("RGB").getcolors(1_000_000)
    assert colours is not None
    assert len(colours) > 50


def test_mapproxy(page: Page) -> None:
    document = yaml.safe_load(snippet(page, "IMAGE", "mapproxy"))
    assert document["caches"]["cache"]["sources"] == ["tiles"]
    url = document["sources"]["tiles"]["url"] % {"z": 4, "x": 9, "y": 5}
    with urlopen(url) as response:
        assert response.headers["Content-Type"] == "image/jpeg"


MAPPROXY = """
import io, sys
from wsgiref.util import setup_testing_defaults
import yaml
from mapproxy.config.validator import validate
from mapproxy.wsgiapp import make_wsgi_app

with open("mapproxy.yaml") as file:
    document = yaml.safe_load(file)
faults = validate(document)
assert not faults, faults
environ = {"PATH_INFO": sys.argv[1]}
setup_testing_defaults(environ)
answer = b"".join(make_wsgi_app("mapproxy.yaml")(environ, lambda status, *more: print(status)))
with open("tile.png", "wb") as file:
    file.write(answer)
"""


@pytest.fixture(scope="module")
def mapproxy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a Python with MapProxy, from PyPI, in an environment of its own."""
    folder = tmp_path_factory.mktemp("mapproxy")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True, capture_output=True)
    python = folder / "bin" / "python"
    command = [python, "-m", "pip", "install", "-q", "MapProxy>=7"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"pip cannot install MapProxy: {done.stderr.strip()[-300:]}")
    return python


def test_mapproxy_serves_a_tile(page: Page, mapproxy: Path, tmp_path: Path) -> None:
    (tmp_path / "mapproxy.yaml").write_text(snippet(page, "IMAGE", "mapproxy"))
    command = [mapproxy, "-c", MAPPROXY, "/wmts/IMAGE/GLOBAL_WEBMERCATOR/4/9/5.png"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.strip() == "200 OK", done.stdout + done.stderr
    with urlopen(f"{page.site}/tms/1.0.0/IMAGE/4/9/5.jpeg") as response:
        stored = Image.open(io.BytesIO(response.read())).convert("RGB")
    with Image.open(tmp_path / "tile.png") as image:
        found = image.convert("RGB")
    assert found.size == (256, 256)
    for place in ((10, 10), (200, 100)):
        assert found.getpixel(place) == pytest.approx(stored.getpixel(place), abs=8)


def test_mapproxy_serves_heights(page: Page, mapproxy: Path, tmp_path: Path) -> None:
    (tmp_path / "mapproxy.yaml").write_text(snippet(page, "HEIGHT", "mapproxy"))
    for path, is_stored in (("4/9/5", True), ("4/0/0", False)):
        command = [mapproxy, "-c", MAPPROXY, f"/wmts/HEIGHT/GLOBAL_WEBMERCATOR/{path}.png"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.stdout.strip() == "200 OK", done.stdout + done.stderr
        with Image.open(tmp_path / "tile.png") as image:
            found = image.convert("RGBA")
        if not is_stored:
            assert found.getextrema()[3] == (0, 0)
            continue
        with urlopen(f"{page.site}/terrain/HEIGHT/terrarium/{path}.png") as response:
            stored = Image.open(io.BytesIO(response.read())).convert("RGBA")
        assert found.tobytes() == stored.tobytes()


LIBRARIES = {
    "leaflet": lambda: Path(next(iter(leaflet.__path__))) / "data",
    "ol": lambda: web_clients() / "ol",
    "maplibre-gl": lambda: web_clients() / "maplibre-gl",
    "cesium": lambda: web_clients() / "cesium",
}


@pytest.mark.parametrize(
    ("program", "layer", "tile"),
    [
        ("openlayers", "IMAGE", "REQUEST=GetTile"),
        ("leaflet", "IMAGE", "/tms/1.0.0/IMAGE/"),
        ("leaflet", "GRID", "REQUEST=GetMap"),
        ("maplibre", "IMAGE", "/tms/1.0.0/IMAGE/4/"),
        ("maplibre", "VECTOR", "/tms/1.0.0/VECTOR/"),
        ("maplibre", "HEIGHT", "/terrain/HEIGHT/terrarium/"),
        ("cesium", "IMAGE", "/tms/1.0.0/IMAGE/"),
        ("cesium", "HEIGHT", "/terrain/HEIGHT/mesh/"),
        ("openlayers", "HEIGHT", "/terrain/HEIGHT/terrarium/"),
        ("leaflet", "HEIGHT", "/terrain/HEIGHT/terrarium/"),
    ],
)
def test_pages_show_tiles(
    page: Page, browser: Any, tmp_path: Path, program: str, layer: str, tile: str
) -> None:
    web_clients()
    text = snippet(page, layer, program)
    made = browser.new_page(viewport={"width": 600, "height": 400})
    answers: list[tuple[int, str]] = []
    problems: list[str] = []
    made.on("pageerror", lambda error: problems.append(str(error)))
    made.on("response", lambda response: answers.append((response.status, response.url)))

    def library(route: Any) -> None:
        name, _, path = route.request.url.partition("?")[0].removeprefix(CDN).partition("/")
        name = name.partition("@")[0]
        path = path.removeprefix("dist/") if name == "leaflet" else path
        # Modules and workers come from another origin.
        headers = {"Access-Control-Allow-Origin": "*"}
        route.fulfill(path=LIBRARIES[name]() / path, headers=headers)

    made.route(f"{CDN}**", library)
    if program == "cesium":  # The text says that it needs a server.
        assert "http.server" in text
        made.route(
            f"{page.site}/made", lambda route: route.fulfill(body=text, content_type="text/html")
        )
        made.goto(f"{page.site}/made")
    else:
        saved = tmp_path / "saved.html"
        saved.write_text(text)
        made.goto(saved.as_uri())
    for _ in range(900):
        if any(tile.lower() in url.lower() and status == 200 for status, url in answers):
            break
        made.wait_for_timeout(100)
    else:
        pytest.fail(f"no tile: {answers[-5:]} {problems}")
    # Cesium draws all the time, too slowly without a graphics card to be photographed. The shading
    # of flat heights has one colour.
    is_plain = program == "cesium" or layer == "HEIGHT"
    for _ in range(0 if is_plain else 900):
        with Image.open(io.BytesIO(made.locator("#map").screenshot())) as image:
            # More than the buttons on a plain ground.
            colours = image.convert("RGB").crop((60, 60, 400, 300)).getcolors(100_000)
        if colours is None or len(colours) > 1:
            # The style has no colours, and those of MapLibre GL are black.
            assert layer != "VECTOR" or (0, 0, 0) in {colour for _, colour in colours or ()}
            break
        made.wait_for_timeout(100)
    else:
        assert is_plain, "the map is blank"
    made.close()
    assert problems == []
