"""OpenLayers, MapLibre GL and Leaflet in a browser, GDAL and the rules of QGIS: right pixels."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import numpy as np
import pyproj
import pytest
from lxml import etree
from PIL import Image
from tests.live.browsers import MAPLIBRE, Pixels, drawn, web_clients
from tests.live.desktop import gdal
from tests.live.processes import Mastaba, changed, free_port, public_folder
from xstatic.pkg import leaflet

from mastaba_conformance.tiny_installation import tiny_integer_tile
from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import synthetic, web_mercator

pytestmark = pytest.mark.live

HALF = 20037508.342789244
DEGREES = synthetic(
    "4326",
    crs="EPSG:4326",
    origin=(-180, 90),
    cell_sizes=[180 / 256 / 2**z for z in range(5)],
    matrix_sizes=[(2 * 2**z, 2**z) for z in range(5)],
)
WORLD_LEVELS = (*(LevelPlan(str(z), 0, 2**z - 1, 0, 2**z - 1) for z in range(4)),)


def stored(level: str, row: int, col: int) -> Pixels:
    return np.asarray(tiny_integer_tile(3)(level, row, col))


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A server of three layers.

    WORLD is whole at levels 0 to 3, and has one tile of level 6; EARTH is the same without that
    tile, to which OpenLayers would cut tile matrix sets with limits; DEGREES is in EPSG:4326.
    """
    with public_folder() as folder:
        world = write_pyramid(
            folder / "pyramids",
            "WORLD",
            tile_matrix_set=web_mercator(),
            format="TIFF_PNG_UINT8",
            levels=[*WORLD_LEVELS, LevelPlan("6", 22, 22, 33, 33)],
            tile=tiny_integer_tile(3),
        )
        earth = write_pyramid(
            folder / "pyramids",
            "EARTH",
            tile_matrix_set=web_mercator(),
            format="TIFF_PNG_UINT8",
            levels=WORLD_LEVELS,
            tile=tiny_integer_tile(3),
        )
        degrees = write_pyramid(
            folder / "pyramids",
            "DEGREES",
            tile_matrix_set=DEGREES,
            format="TIFF_PNG_UINT8",
            levels=[LevelPlan("2", 0, 1, 3, 6), LevelPlan("3", 1, 2, 7, 12)],
            tile=tiny_integer_tile(3),
        )
        sets = {"PM": web_mercator(), "4326": DEGREES}
        port = free_port()
        address = f"http://127.0.0.1:{port}"
        server_json = write_installation(
            folder,
            layers={
                "EARTH": layer_document(earth, tile_matrix_sets=sets),
                "WORLD": layer_document(world, tile_matrix_sets=sets),
                "DEGREES": layer_document(degrees, tile_matrix_sets=sets),
            },
            tile_matrix_sets=sets,
            public_url=address,
        )
        with Mastaba(changed(server_json, folder / "server-http.json"), folder, http=port):
            yield address


OPENLAYERS = """
    const map = (source, centre, resolution, projection) => new Promise((resolve, reject) => {
        const layer = new ol.layer.Tile({source});
        const made = new ol.Map({
            target: "map", controls: [], interactions: [], pixelRatio: 1, layers: [layer],
            view: new ol.View({center: centre, resolution, projection,
                               constrainResolution: false, smoothResolutionConstraint: false,
                               multiWorld: true, enableRotation: false})});
        source.on("tileloaderror", (event) => reject(new Error(event.tile.key)));
        made.once("rendercomplete", () =>
            resolve(pixels(document.querySelector("#map canvas"))));
    });
"""


def open_layers(browser: Any, url: str, script: str, *arguments: Any) -> Pixels:
    modules = web_clients()
    return drawn(
        browser, url, {"ol.js": modules / "ol/dist/ol.js"}, OPENLAYERS + script, *arguments
    )


def place(level: int, row: int, col: int) -> tuple[list[float], float]:
    """Return the centre of a tile of Web Mercator, and its resolution."""
    size = 2 * HALF / 2**level
    return [(col + 0.5) * size - HALF, HALF - (row + 0.5) * size], size / 256


def degrees(level: int, row: int, col: int) -> tuple[list[float], float]:
    size = 180 / 2**level
    return [(col + 0.5) * size - 180, 90 - (row + 0.5) * size], size / 256


@pytest.mark.parametrize("address", ["map/tiles/PM", "map/tiles/WebMercatorQuad"])
def test_openlayers_ogc_api_tiles(browser: Any, url: str, address: str) -> None:
    script = """
        const source = new ol.source.OGCMapTile({
            url: `${url}/ogcapi/collections/EARTH/${a[0]}`, mediaType: "image/png"});
        await new Promise((resolve, reject) => source.on("change", () =>
            source.getState() === "ready" ? resolve()
            : source.getState() === "error" && reject(source.getError())));
        return await map(source, a[1], a[2], "EPSG:3857");
    """
    found = open_layers(browser, url, script, address, *place(3, 2, 6))
    assert np.array_equal(found, stored("3", 2, 6))


@pytest.mark.parametrize(
    ("layer", "matrix_set", "projection", "where", "tile"),
    [
        ("EARTH", "PM_0_3", "EPSG:3857", place, (3, 2, 6)),
        ("DEGREES", "4326_2_3", "EPSG:4326", degrees, (3, 2, 9)),
    ],
)
def test_openlayers_wmts(
    browser: Any, url: str, layer: str, matrix_set: str, projection: str, where: Any, tile: Any
) -> None:
    script = """
        const text = await (await fetch(`${url}/wmts?SERVICE=WMTS&REQUEST=GetCapabilities`)).text();
        const options = ol.source.WMTS.optionsFromCapabilities(
            new ol.format.WMTSCapabilities().read(text), {layer: a[0], matrixSet: a[1]});
        return await map(new ol.source.WMTS(options), a[2], a[3], a[4]);
    """
    centre, resolution = where(*tile)
    found = open_layers(browser, url, script, layer, matrix_set, centre, resolution, projection)
    assert np.array_equal(found, stored(str(tile[0]), tile[1], tile[2]))


def tile_map_template(url: str) -> str:
    """Return the address of tiles as the TileMap of WORLD gives it."""
    with urlopen(f"{url}/tms/1.0.0/WORLD") as response:
        document = etree.fromstring(response.read())
    first = document.find("TileSets/TileSet").attrib["href"]
    assert first.endswith("/0")
    return f"{first.removesuffix('/0')}/{{z}}/{{x}}/{{y}}.png"


@pytest.mark.parametrize("from_bottom", [True, False])
def test_openlayers_xyz(browser: Any, url: str, from_bottom: bool) -> None:
    script = """
        const source = new ol.source.XYZ({url: a[0], maxZoom: 3});
        return await map(source, a[1], a[2], "EPSG:3857");
    """
    template = f"{url}/tms/1.0.0/WORLD/{{z}}/{{x}}/{{y}}.png"
    if from_bottom:
        template = tile_map_template(url).replace("{y}", "{-y}")
    found = open_layers(browser, url, script, template, *place(3, 2, 6))
    assert np.array_equal(found, stored("3", 2, 6))


@pytest.mark.parametrize("tms", [True, False])
def test_leaflet(browser: Any, url: str, tms: bool) -> None:
    folder = Path(leaflet.BASE_DIR)
    script = """
        const map = L.map("map", {zoomControl: false, attributionControl: false,
                                  fadeAnimation: false, zoomAnimation: false});
        map.setView(L.CRS.EPSG3857.unproject(L.point(...a[2])), 3, {animate: false});
        const layer = L.tileLayer(a[0], {tms: a[1]});
        await new Promise((resolve, reject) => {
            layer.on("load", resolve);
            layer.on("tileerror", (event) => reject(new Error(event.tile.src)));
            layer.addTo(map);
        });
        const corner = document.getElementById("map").getBoundingClientRect();
        const canvas = document.createElement("canvas");
        canvas.width = canvas.height = 256;
        for (const tile of document.querySelectorAll(".leaflet-tile")) {
            const box = tile.getBoundingClientRect();
            canvas.getContext("2d").drawImage(tile, box.x - corner.x, box.y - corner.y);
        }
        return pixels(canvas);
    """
    template = tile_map_template(url) if tms else f"{url}/tms/1.0.0/WORLD/{{z}}/{{x}}/{{y}}.png"
    files = {
        name: next(folder.rglob(name), folder / name) for name in ("leaflet.js", "leaflet.css")
    }
    found = drawn(browser, url, files, script, template, tms, place(3, 2, 6)[0])
    assert np.array_equal(found, stored("3", 2, 6))


@pytest.mark.parametrize(
    "document",
    ["tms/1.0.0/WORLD/metadata.json", "ogcapi/collections/WORLD/map/tiles/PM?f=tilejson"],
)
def test_maplibre_draws_the_whole_world(browser: Any, url: str, document: str) -> None:
    """Level 3 is whole, though the finest level is a single tile far away."""
    modules = web_clients() / "maplibre-gl" / "dist"
    files = {name: modules / name for name in MAPLIBRE}
    script = """
        const maplibregl = await import(`${url}/client/maplibre-gl.mjs`);
        const map = new maplibregl.Map({
            container: "map", interactive: false, attributionControl: false, fadeDuration: 0,
            pixelRatio: 1, canvasContextAttributes: {preserveDrawingBuffer: true},
            center: a[1], zoom: 2,
            style: {version: 8,
                    sources: {world: {type: "raster", url: a[0], tileSize: 256}},
                    layers: [{id: "world", type: "raster", source: "world",
                              paint: {"raster-resampling": "nearest",
                                      "raster-fade-duration": 0}}]}});
        await new Promise((resolve, reject) => {
            map.on("error", (event) => reject(event.error));
            map.once("idle", resolve);
        });
        return pixels(map.getCanvas());
    """
    to_degrees = pyproj.Transformer.from_crs("EPSG:3857", "OGC:CRS84", always_xy=True)
    for row, col in ((2, 6), (6, 1)):
        centre = to_degrees.transform(*place(3, row, col)[0])
        found = drawn(browser, url, files, script, f"{url}/{document}", list(centre))
        # On the border, drawing may round to the neighbour.
        difference = np.abs(found.astype(int) - stored("3", row, col))[4:-4, 4:-4]
        assert difference.max() <= 2


def test_gdal_wmts_in_degrees(url: str, tmp_path: Path) -> None:
    source = (
        f"WMTS:{url}/wmts?SERVICE=WMTS&VERSION=1.0.0&REQUEST=GetCapabilities"
        ",layer=DEGREES,tilematrixset=4326_2_3"
    )
    information = json.loads(gdal(tmp_path, "gdalinfo", "-json", source))
    # Exactly the tiles of level 3: no row or column too many.
    assert information["size"] == [6 * 256, 2 * 256]
    assert information["geoTransform"][0] == pytest.approx(7 * 22.5 - 180)
    assert information["geoTransform"][3] == pytest.approx(90 - 22.5)
    assert 'ID["EPSG",4326]' in information["coordinateSystem"]["wkt"]
    size = 22.5
    left, top = 9 * size - 180, 90 - 2 * size
    window = [
        "-projwin",
        *map(repr, (left, top, left + size, top - size)),
        "-outsize",
        "256",
        "256",
    ]
    target = tmp_path / "tile.png"
    gdal(tmp_path, "gdal_translate", "-q", *window, "-of", "PNG", source, target)
    assert np.array_equal(np.asarray(Image.open(target))[:, :, :3], stored("3", 2, 9))


def test_gdal_wmts_is_as_large_as_the_layer(url: str, tmp_path: Path) -> None:
    source = f"WMTS:{url}/wmts?SERVICE=WMTS&REQUEST=GetCapabilities,layer=WORLD"
    information = json.loads(gdal(tmp_path, "gdalinfo", "-json", source))
    assert information["size"] == [256 * 2**6, 256 * 2**6]


@pytest.mark.parametrize("restful", [False, True], ids=["as QGIS asks", "as ArcGIS asks"])
@pytest.mark.parametrize(("layer", "tile"), [("DEGREES", ("3", 2, 9)), ("WORLD", ("3", 2, 6))])
def test_rules_of_desktop_clients(url: str, layer: str, tile: Any, restful: bool) -> None:
    """The CRS of the URN decides the axis order of TopLeftCorner; then the tile by its place."""
    with urlopen(f"{url}/wmts?SERVICE=WMTS&REQUEST=GetCapabilities") as response:
        document = etree.fromstring(response.read())
    described = next(
        found
        for found in document.iterfind("{*}Contents/{*}Layer")
        if found.findtext("{*}Identifier") == layer
    )
    name = described.findtext("{*}TileMatrixSetLink/{*}TileMatrixSet")
    matrix_set = next(
        found
        for found in document.iterfind("{*}Contents/{*}TileMatrixSet")
        if found.findtext("{*}Identifier") == name
    )
    crs = pyproj.CRS.from_user_input(matrix_set.findtext("{*}SupportedCRS"))
    inverted = crs.axis_info[0].direction == "north"
    level, row, col = tile
    matrix = next(
        found
        for found in matrix_set.iterfind("{*}TileMatrix")
        if found.findtext("{*}Identifier") == level
    )
    first, second = map(float, matrix.findtext("{*}TopLeftCorner").split())
    left, top = (second, first) if inverted else (first, second)
    metres = 6378137 * np.pi / 180 if crs.is_geographic else 1.0
    cell = float(matrix.findtext("{*}ScaleDenominator")) * 0.00028 / metres
    (x, y), _ = (degrees if crs.is_geographic else place)(int(level), row, col)
    values = {
        "TileMatrix": level,
        "TileRow": str(int((top - y) // (256 * cell))),
        "TileCol": str(int((x - left) // (256 * cell))),
        "TileMatrixSet": name,
        "style": described.findtext("{*}Style/{*}Identifier"),
    }
    if restful:
        address = described.find("{*}ResourceURL[@resourceType='tile']").attrib["template"]
        for variable, value in values.items():
            address = address.replace(f"{{{variable}}}", value)
    else:
        query = {"SERVICE": "WMTS", "REQUEST": "GetTile", "VERSION": "1.0.0", "LAYER": layer}
        query |= {key.upper(): value for key, value in values.items()}
        address = f"{url}/wmts?{urlencode(query | {'FORMAT': 'image/png'})}"
    with urlopen(address) as response:
        found = np.asarray(Image.open(BytesIO(response.read())))
    assert np.array_equal(found, stored(level, row, col))
