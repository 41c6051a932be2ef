"""GDAL, rasterio, OpenLayers, OWSLib and QGIS show every raster layer, whatever is stored.

The layers are those of a real installation, with every format of slabs, and those of the demo.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import urlopen

import numpy as np
import pytest
import rasterio
from lxml import etree
from owslib.ogcapi.maps import Maps
from PIL import Image
from pyproj import Transformer
from tests.live.browsers import Pixels
from tests.live.desktop import gdal, qgis, variables_of_gdal
from tests.live.processes import SHARED_DATA, Mastaba, changed, free_port, public_folder
from tests.live.test_web_clients import open_layers

from mastaba_demo.generation import generate
from mastaba_demo.installation import PYRAMIDS, write_demo_installation
from mastaba_demo.settings import Settings

pytestmark = [pytest.mark.live, pytest.mark.shared_data]

WMTS = "{http://www.opengis.net/wmts/1.0}"
OWS = "{http://www.opengis.net/ows/1.1}"
DEMO = ("elevation", "imagery", "relief", "topographic")
SMALL = Settings(levels=(0, 1, 2), last_whole=2, span=2, drainage_size=64)


def _alps() -> list[str]:
    """Return the raster layers of the installation, or one name if it is absent."""
    layers = (SHARED_DATA / "alps" / "conf" / "layers").glob("DEV_*.json")
    return sorted(path.stem for path in layers) or ["absent"]


CASES = [*(("alps", name) for name in _alps()), *(("demo", name) for name in DEMO)]
REL = "http://www.opengis.net/def/rel/ogc/1.0"
VISIBLE = 64
"""Alpha from which colours are compared."""

every_layer = pytest.mark.parametrize(("place", "name"), CASES)


@dataclass(frozen=True)
class Tile:
    """A tile of the finest level of a layer, as capabilities describe it.

    Attributes:
        level: the finest.
        place: row and column.
        source: of the tile for QGIS.
        box: west, south, east, north in the CRS of the set, x before y.
        pixels: of its picture, in red, green, blue and alpha.
    """

    matrix_set: str
    level: str
    place: tuple[int, int]
    crs: str
    source: dict[str, str]
    box: tuple[float, float, float, float]
    pixels: Pixels


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, str]]:
    """The addresses of both installations; each is started."""
    with ExitStack() as stack:
        addresses = {}
        for place in ("alps", "demo"):
            folder = stack.enter_context(public_folder())
            address = addresses[place] = f"http://127.0.0.1:{free_port()}"
            cwd = SHARED_DATA / "alps" if place == "alps" else folder
            if place == "alps" and cwd.exists():
                file = _installed_alps(cwd / "conf", folder, address)
            elif place == "demo":
                generate(folder / PYRAMIDS, SMALL, lambda done, total: None)
                file = changed(write_demo_installation(folder, address), folder / "http.json")
            else:
                continue
            port = int(address.rpartition(":")[2])
            stack.enter_context(Mastaba(file, folder, http=port, cwd=cwd))
        yield addresses


def _installed_alps(conf: Path, folder: Path, address: str) -> Path:
    services = (conf / "services.json").read_text(encoding="utf-8")
    (folder / "services.json").write_text(services.replace("http://127.0.0.1:8089", address))
    server = json.loads((conf / "server.json").read_text(encoding="utf-8"))
    configurations = {**server["configurations"], "services": str(folder / "services.json")}
    return changed(conf / "server.json", folder / "server.json", configurations=configurations)


@cache
def tile_of(url: str, name: str) -> Tile:
    """Return a tile that exists in the finest level of a layer."""
    document = _capabilities(url)
    layer = next(
        item for item in document.iter(f"{WMTS}Layer") if item.findtext(f"{OWS}Identifier") == name
    )
    link = layer.find(f"{WMTS}TileMatrixSetLink")
    matrix_set = link.findtext(f"{WMTS}TileMatrixSet")
    found = next(
        item
        for item in document.iterfind(f"{WMTS}Contents/{WMTS}TileMatrixSet")
        if item.findtext(f"{OWS}Identifier") == matrix_set
    )
    matrix = found.findall(f"{WMTS}TileMatrix")[-1]
    level = matrix.findtext(f"{OWS}Identifier")
    code = found.findtext(f"{OWS}SupportedCRS")
    limits = [
        item
        for item in link.iter(f"{WMTS}TileMatrixLimits")
        if item.findtext(f"{WMTS}TileMatrix") == level
    ]
    rows, columns = (
        (
            _range(limits[0], f"MinTile{axis}", f"MaxTile{axis}")
            if limits
            else range(int(matrix.findtext(f"{WMTS}Matrix{size}")))
        )
        for axis, size in (("Row", "Height"), ("Col", "Width"))
    )
    source = {
        "layers": name,
        "styles": layer.findtext(f"{WMTS}Style/{OWS}Identifier"),
        "format": layer.findtext(f"{WMTS}Format"),
        "tileMatrixSet": matrix_set,
    }
    row, column, pixels = _first_tile(url, source, level, rows, columns)
    per_unit = math.pi / 180 * 6378137 if code.endswith(":4326") else 1
    side = 256 * 0.00028 * float(matrix.findtext(f"{WMTS}ScaleDenominator")) / per_unit
    corner = [float(value) for value in matrix.findtext(f"{WMTS}TopLeftCorner").split()]
    left, top = reversed(corner) if code.endswith("EPSG::4326") else corner
    west, north = left + column * side, top - row * side
    return Tile(
        matrix_set,
        level,
        (row, column),
        code,
        source,
        (west, north - side, west + side, north),
        pixels,
    )


@cache
def _capabilities(url: str) -> Any:
    with urlopen(f"{url}/wmts?SERVICE=WMTS&REQUEST=GetCapabilities") as response:
        return etree.fromstring(response.read())


def _range(limits: Any, first: str, last: str) -> range:
    return range(int(limits.findtext(f"{WMTS}{first}")), int(limits.findtext(f"{WMTS}{last}")) + 1)


def _first_tile(
    url: str, source: dict[str, str], level: str, rows: range, columns: range
) -> tuple[int, int, Pixels]:
    """Return the place and the pixels of the first tile that is not of one colour."""
    query = {
        "SERVICE": "WMTS",
        "VERSION": "1.0.0",
        "REQUEST": "GetTile",
        "LAYER": source["layers"],
        "STYLE": source["styles"],
        "FORMAT": source["format"],
        "TILEMATRIXSET": source["tileMatrixSet"],
        "TILEMATRIX": level,
    }
    for row in rows:
        for column in columns:
            place = {**query, "TILEROW": row, "TILECOL": column}
            try:
                with urlopen(f"{url}/wmts?{urlencode(place)}") as response:
                    picture = Image.open(BytesIO(response.read())).convert("RGBA")
            except HTTPError as error:
                error.close()
                continue
            pixels = np.asarray(picture)
            visible = pixels[:, :, 3] >= VISIBLE
            if visible.mean() > 0.05 and pixels[visible].std(axis=0)[:3].max() > 1:
                return row, column, pixels
    raise AssertionError("no tile of the finest level has a picture")


def check(found: Pixels, expected: Pixels, tolerance: int = 0) -> None:
    """Compare colours where they can be seen."""
    assert differences(found, expected).max() <= tolerance


def differences(found: Pixels, expected: Pixels) -> Pixels:
    """Return the differences of the samples of all visible pixels."""
    visible = expected[:, :, 3] >= VISIBLE
    return np.abs(found[:, :, :3].astype(int) - expected[:, :, :3])[visible]


def wmts(url: str, name: str, matrix_set: str) -> str:
    capabilities = f"{url}/wmts?SERVICE=WMTS&VERSION=1.0.0&REQUEST=GetCapabilities"
    return f"WMTS:{capabilities},layer={name},tilematrixset={matrix_set}"


@every_layer
def test_gdal(servers: dict[str, str], tmp_path: Path, place: str, name: str) -> None:
    tile = tile_of(servers[place], name)
    west, south, east, north = tile.box
    window = ["-projwin", *map(repr, (west, north, east, south)), "-outsize", "256", "256"]
    target = tmp_path / "tile.png"
    source = wmts(servers[place], name, tile.matrix_set)
    gdal(tmp_path, "gdal_translate", "-q", "-of", "PNG", *window, source, target)
    check(np.asarray(Image.open(target).convert("RGBA")), tile.pixels)


# Builds in the process of the tests limit what GDAL opens there.
_READ = """
import json, sys
import numpy, rasterio
from rasterio.windows import from_bounds
for line in sys.stdin:
    name, target, *box = json.loads(line)
    try:
        with rasterio.open(name) as source:
            window = from_bounds(*box, source.transform).round_offsets().round_lengths()
            assert (window.width, window.height) == (256, 256), window
            numpy.save(target, source.read(window=window))
        print("read", flush=True)
    except Exception as error:
        print(repr(error), flush=True)
"""


Read = Callable[[str, Path, tuple[float, ...]], None]


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Read]:
    """Return a function that reads a box of a source into a file, in one process for all tests.

    Its start takes longer than many reads.
    """
    with subprocess.Popen(
        [sys.executable, "-c", _READ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=variables_of_gdal(tmp_path_factory.mktemp("gdal")),
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def request(source: str, target: Path, box: tuple[float, ...]) -> None:
            process.stdin.write(json.dumps([source, str(target), *box]) + "\n")
            process.stdin.flush()
            assert process.stdout.readline() == "read\n"

        yield request
        process.stdin.close()


@every_layer
def test_rasterio(
    servers: dict[str, str], read: Read, tmp_path: Path, place: str, name: str
) -> None:
    """The wheel contains a newer GDAL than Debian."""
    tile = tile_of(servers[place], name)
    target = tmp_path / "bands.npy"
    read(wmts(servers[place], name, tile.matrix_set), target, tile.box)
    # The wheel decodes JPEG with another library.
    tolerance = 16 if "jpeg" in tile.source["format"] else 0
    check(np.moveaxis(np.load(target), 0, 2), tile.pixels, tolerance)


@every_layer
def test_openlayers(browser: Any, servers: dict[str, str], place: str, name: str) -> None:
    url = servers[place]
    tile = tile_of(url, name)
    script = """
        const [layer, matrixSet, crs, isGeographic, box] = a;
        const projection = ol.proj.get(crs) || new ol.proj.Projection({code: crs, units: "m"});
        ol.proj.addProjection(projection);
        const text = await (await fetch(`${url}/wmts?SERVICE=WMTS&REQUEST=GetCapabilities`)).text();
        const options = ol.source.WMTS.optionsFromCapabilities(
            new ol.format.WMTSCapabilities().read(text), {layer, matrixSet});
        const [west, south, east, north] = box;
        const view = [[(west + east) / 2, (south + north) / 2], (east - west) / 256];
        return await map(new ol.source.WMTS(options), ...view, projection);
    """
    is_geographic = tile.crs.endswith(":4326")
    arguments = (name, tile.matrix_set, tile.crs, is_geographic, list(tile.box))
    # A canvas stores colours multiplied by alpha.
    check(open_layers(browser, url, script, *arguments), tile.pixels, 255 // VISIBLE)


def description(url: str, tile: Tile) -> str:
    """Return the address of the description for GDAL."""
    name = tile.source["layers"]
    alone = f"{name}@{tile.matrix_set}:{tile.level}"
    for path in (name, alone):
        address = f"{url}/tms/1.0.0/{path}/gdal.xml"
        try:
            with urlopen(address):
                return address
        except HTTPError as error:
            error.close()
    raise AssertionError(f"{name} has no description for GDAL")


@every_layer
def test_gdal_tms(servers: dict[str, str], tmp_path: Path, place: str, name: str) -> None:
    tile = tile_of(servers[place], name)
    west, south, east, north = tile.box
    window = ["-projwin", *map(repr, (west, north, east, south)), "-outsize", "256", "256"]
    source, target = description(servers[place], tile), tmp_path / "tile.tif"
    gdal(tmp_path, "gdal_translate", "-q", *window, source, target)
    with rasterio.open(target) as found:
        bands = found.read()
    if bands.dtype == np.float32:
        # Heights, in TIFF.
        assert np.isfinite(bands).all()
        assert bands.std() > 0
        return
    if len(bands) < 3:
        # Values, without the palette that a style adds to stored PNGs.
        assert bands[0].std() > 0
        return
    check(np.moveaxis(bands[:3], 0, 2), tms_tile(source, tile))


def tms_tile(description: str, tile: Tile) -> Pixels:
    """Return the pixels of a tile at the address in a description for GDAL."""
    with urlopen(description) as response:
        template = etree.fromstring(response.read()).findtext("Service/ServerUrl")
    row, column = tile.place
    level = "0" if f":{tile.level}/" in template else tile.level
    parts = {"${z}": level, "${x}": str(column), "${y}": str(row)}
    for part, text in parts.items():
        template = template.replace(part, text)
    with urlopen(template) as response:
        return np.asarray(Image.open(BytesIO(response.read())).convert("RGBA"))


@every_layer
def test_gdal_ogc_api(servers: dict[str, str], tmp_path: Path, place: str, name: str) -> None:
    tile = tile_of(servers[place], name)
    # Maps: GDAL 3.6 miscounts the tiles of fine levels.
    options = {"API": "MAP", "CACHE": "NO"}
    arguments = [word for item in options.items() for word in ("-oo", "=".join(item))]
    west, south, east, north = bounds_of(tile)
    window = ["-projwin", *map(repr, (west, north, east, south)), "-outsize", "256", "256"]
    source = f"OGCAPI:{servers[place]}/ogcapi/collections/{name}"
    target = tmp_path / "tile.png"
    gdal(tmp_path, "gdal_translate", "-q", "-of", "PNG", *arguments, *window, source, target)
    check_shows(np.asarray(Image.open(target).convert("RGBA")))


@every_layer
def test_openlayers_ogc_api(browser: Any, servers: dict[str, str], place: str, name: str) -> None:
    url = servers[place]
    tile = tile_of(url, name)
    script = """
        const [layer, style, matrixSet, box, mediaType] = a;
        const tiles = `${url}/ogcapi/collections/${layer}/styles/${style}/map/tiles/${matrixSet}`;
        const code = (await (await fetch(`${tiles}?f=json`)).json()).crs;
        const projection = ol.proj.get(code) || new ol.proj.Projection({code, units: "m"});
        ol.proj.addProjection(projection);
        const source = new ol.source.OGCMapTile({url: tiles, mediaType});
        await new Promise((resolve, reject) => source.on("change", () =>
            source.getState() === "ready" ? resolve()
            : source.getState() === "error" && reject(source.getError())));
        const [west, south, east, north] = box;
        const view = [[(west + east) / 2, (south + north) / 2], (east - west) / 256];
        return await map(source, ...view, projection);
    """
    style, media_type = tile.source["styles"], tile.source["format"]
    arguments = (name, style, tile.matrix_set, list(tile.box), media_type)
    check(open_layers(browser, url, script, *arguments), tile.pixels, 255 // VISIBLE)


@every_layer
def test_owslib_ogc_api(servers: dict[str, str], place: str, name: str) -> None:
    tile = tile_of(servers[place], name)
    maps = Maps(f"{servers[place]}/ogcapi")
    collection = maps.collection(name)
    assert {f"{REL}/map", f"{REL}/tilesets-map"} <= {link["rel"] for link in collection["links"]}
    answer = maps.map(name, bbox=bounds_of(tile), width=256, height=256).read()
    if len(answer) == 4 * 256 * 256:
        # Samples, as they are stored: the default format of such a layer.
        assert np.frombuffer(answer, np.float32).std() > 0
    else:
        check_shows(np.asarray(Image.open(BytesIO(answer))))


def check_shows(pixels: Pixels) -> None:
    """Check that a picture of 256 x 256 pixels has contents."""
    assert pixels.shape[:2] == (256, 256)
    assert pixels.reshape(256 * 256, -1).std(axis=0).max() > 0


def bounds_of(tile: Tile) -> list[float]:
    """Return longitudes and latitudes of a tile: west, south, east, north."""
    transformer = Transformer.from_crs(crs_of(tile), "OGC:CRS84", always_xy=True)
    return list(transformer.transform_bounds(*tile.box))


def crs_of(tile: Tile) -> str:
    authority, _, code = tile.crs.removeprefix("urn:ogc:def:crs:").partition("::")
    return "EPSG:2154" if code == "LAMB93" else f"{authority}:{code}"


def test_qgis(servers: dict[str, str], tmp_path: Path) -> None:
    items, tiles = [], []
    for place, name in CASES:
        tile = tile_of(servers[place], name)
        capabilities = f"{servers[place]}/wmts?SERVICE=WMTS&REQUEST=GetCapabilities"
        uri = urlencode({**tile.source, "crs": crs_of(tile), "url": capabilities})
        picture = str(tmp_path / f"{place}-{name}.png")
        items.append({"uri": uri, "box": tile.box, "picture": picture})
        tiles.append((picture, tile))
    (tmp_path / "items.json").write_text(json.dumps(items))
    qgis(tmp_path, Path(__file__).with_name("qgis_wmts.py"), tmp_path / "items.json")
    for picture, tile in tiles:
        found = np.asarray(Image.open(picture).convert("RGBA"))
        # QGIS may resample by a fraction of a pixel.
        assert np.median(differences(found, tile.pixels)) <= 255 // VISIBLE, picture
