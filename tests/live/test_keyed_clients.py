"""Map clients with a credential in the address of a connection only: every request contains it."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode
from urllib.request import urlopen

import numpy as np
import pytest
from owslib.tms import TileMapService
from owslib.wms import WebMapService
from owslib.wmts import WebMapTileService
from PIL import Image
from tests.access.identification.conftest import Credentials
from tests.live import desktop
from tests.live.browsers import ENCODED, evaluated, pixels_of, web_clients
from tests.live.processes import Mastaba, changed, free_port, public_folder
from tests.live.test_terrain_clients import HEAD, page_with
from tests.live.test_terrain_clients import libraries as libraries
from tests.tiny import tiny_installation
from xstatic.pkg import leaflet

from mastaba_access.identifiers.signed import secrets_of
from mastaba_access.identifiers.tokens import Token, sign
from mastaba_conformance.tiny_installation import tiny_float_tile, tiny_integer_tile

pytestmark = pytest.mark.live

SERVICES = ("wms", "wmts", "tms", "ogcapi", "terrain", "elevation", "viewer")
STYLES = "styles"
"""Path of the service ``stylesheets``."""
LEVEL, ROW, COL = "4", 6, 9
SIDE = 2 * 20037508.342789244 / 2 ** int(LEVEL)
WEST, NORTH = COL * SIDE - 20037508.342789244, 20037508.342789244 - ROW * SIDE
BOX = (WEST, NORTH - SIDE, WEST + SIDE, NORTH)
WGS84 = (22.5, 21.943045533438177, 45.0, 40.97989806962013)
"""The same tile: west, south, east, north."""
LAYERS = ("RGB_PNG", "RGB_JPG", "RGBA_PNG", "RGB_RAW", "GREY_PNG", "FLOAT32_ZIP", "VECTOR")
PIXELS = np.asarray(tiny_integer_tile(3)(LEVEL, ROW, COL))
USER, PASSWORD = "anna", "a-secret-of-hers"


@dataclass(frozen=True)
class Server:
    """A server that shows nothing to anonymous clients.

    Attributes:
        url: of the server.
        credential: segment of the addresses; empty for HTTP Basic.
    """

    url: str
    credential: str

    def service(self, name: str) -> str:
        """Return the address of a service, as a user enters it."""
        return f"{self.url}/{name}{self.credential and '/~'}{self.credential}"


@pytest.fixture(scope="module", params=["key", "signed", "basic"])
def any_server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server, and one credential for it. Afterwards, its log has no request without it."""
    with public_folder() as folder:
        credentials, port = Credentials(folder), free_port()
        url = f"http://127.0.0.1:{port}"
        if request.param == "basic":
            credentials.user(USER, PASSWORD)
        rules = {"default": "deny", "rules": [{"name": "all", "who": ["known"], "allow": {}}]}
        (folder / "rules.json").write_text(json.dumps(rules))
        section = {"rules": str(folder / "rules.json"), **credentials.section()}
        secrets = secrets_of(section)
        assert secrets is not None
        credential = {
            "key": credentials.key(label="clients"),
            "signed": sign(Token(secrets.first, int(time.time()) + 3600, {}), secrets),
            "basic": "",
        }[request.param]
        installation = tiny_installation(
            folder / "tiny",
            services=(*SERVICES, "stylesheets"),
            public_url=url,
            services_overrides={"global": {"cors": True}},
        )
        for name in LAYERS[:-1]:
            layer = folder / "tiny" / "layers" / f"{name}.json"
            document = json.loads(layer.read_bytes())
            layer.write_text(json.dumps(document | {"get_feature_info": {"type": "PYRAMID"}}))
        file = changed(
            installation,
            folder / "http.json",
            plugins={"access": section},
            logger={"output": "standard_output", "level": "info", "access": "json"},
        )
        server = Mastaba(file, folder, http=port)
        try:
            yield Server(url, credential)
        finally:
            server.stop()
        texts = re.findall(r"\{.*\}", server.log.read_text("utf-8"))
        lines = [json.loads(text) for text in texts]
        requests = [
            line for line in lines if line.get("path", "/").split("/")[1] in (*SERVICES, STYLES)
        ]
        # Clients ask for tiles that are not there.
        wrong = [
            one for one in requests if one["key"] == "-" or one["status"] not in (200, 304, 404)
        ]
        assert [(one["path"], one["query"], one["status"]) for one in wrong] == []


@pytest.fixture
def server(any_server: Server) -> Server:
    if not any_server.credential:
        pytest.skip("browsers ask users for passwords")
    return any_server


def picture(data: bytes) -> Any:
    return np.asarray(Image.open(BytesIO(data)).convert("RGB"))


def authorised(server: Server) -> dict[str, str]:
    """Return the arguments of OWSLib with which it sends a password."""
    return {} if server.credential else {"username": USER, "password": PASSWORD}


# ---------------------------------------------------------------- programs


def test_owslib(any_server: Server) -> None:
    access = authorised(any_server)
    for version in ("1.1.1", "1.3.0"):
        wms = WebMapService(any_server.service("wms"), version=version, **access)
        assert set(LAYERS[:-1]) <= wms.contents.keys()
        place = {"srs": "EPSG:3857", "bbox": BOX, "size": (256, 256), "format": "image/png"}
        shown = wms.getmap(layers=["RGB_PNG"], styles=["normal"], **place)
        assert np.array_equal(picture(shown.read()), PIXELS)
        info = wms.getfeatureinfo(
            layers=["RGB_PNG"],
            query_layers=["RGB_PNG"],
            info_format="application/json",
            xy=(9, 9),
            **place,
        )
        assert b"4" in info.read()
        if any_server.credential:
            legend = wms.contents["GREY_PNG"].styles["ember"]["legend"]
            with urlopen(legend) as response:
                assert picture(response.read()).size
    wmts = WebMapTileService(any_server.service("wmts"), **access)
    assert set(LAYERS[:-1]) <= wmts.contents.keys()
    for name in ("RGB_PNG", "RGB_RAW"):
        tile = wmts.gettile(
            layer=name, tilematrixset="PM", tilematrix=LEVEL, row=ROW, column=COL, style="normal"
        )
        assert np.array_equal(picture(tile.read()), PIXELS)
    tms = TileMapService(f"{any_server.service('tms')}/1.0.0", **access)
    assert all(any(name.endswith(f"/{one}") for name in tms.contents) for one in LAYERS)


@pytest.mark.parametrize("protocol", ["KVP", "RESTful", "TMS", "TileJSON", "WMS"])
def test_gdal(any_server: Server, tmp_path: Path, protocol: str) -> None:
    wmts = any_server.service("wmts")
    source = {
        "KVP": f"WMTS:{wmts}?SERVICE=WMTS&REQUEST=GetCapabilities,layer=RGBA_PNG",
        "RESTful": f"WMTS:{wmts}/1.0.0/WMTSCapabilities.xml,layer=RGBA_PNG",
        "TMS": f"{any_server.service('tms')}/1.0.0/RGBA_PNG",
        "TileJSON": f"{any_server.service('tms')}/1.0.0/RGBA_PNG/gdal.xml",
        "WMS": f"WMS:{any_server.service('wms')}?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap"
        "&LAYERS=RGBA_PNG&STYLES=normal&CRS=EPSG:3857&FORMAT=image/png&TRANSPARENT=TRUE"
        f"&BBOX={','.join(map(repr, BOX))}&WIDTH=256&HEIGHT=256",
    }[protocol]
    if protocol == "WMS":
        # As a user gets it: from the list of layers.
        listed = gdal(any_server, tmp_path, "gdalinfo", f"WMS:{any_server.service('wms')}")
        names = [line.partition("=")[2] for line in listed.splitlines() if "_NAME=" in line]
        source = next(name for name in names if "LAYERS=RGB_PNG&" in name)
        assert f"/~{any_server.credential}" in source or not any_server.credential
    target = tmp_path / "tile.png"
    west, south, east, north = BOX
    window = ["-projwin", *map(repr, (west, north, east, south)), "-outsize", "256", "256"]
    if protocol == "WMS" and "EPSG:4326" in source:
        west, south, east, north = WGS84
        window = ["-projwin", *map(repr, (west, north, east, south)), "-outsize", "256", "256"]
    gdal(any_server, tmp_path, "gdal_translate", *window, "-of", "PNG", "-q", source, target)
    found = np.asarray(Image.open(target))[:, :, :3]
    if protocol == "WMS":
        assert found[:, :, 0].std() > 5
    else:
        assert np.array_equal(found, PIXELS)


def gdal(server: Server, folder: Path, *command: str | Path) -> str:
    """Run a program of GDAL; return what it prints."""
    password = {"GDAL_HTTP_USERPWD": f"{USER}:{PASSWORD}", "GDAL_HTTP_AUTH": "BASIC"}
    return desktop.gdal(folder, *command, variables=None if server.credential else password)


def test_qgis(any_server: Server, tmp_path: Path) -> None:
    wms, wmts = any_server.service("wms"), any_server.service("wmts")
    tiles = f"{any_server.service('tms')}/1.0.0"
    access = {} if any_server.credential else {"username": USER, "password": PASSWORD}
    common = {"crs": "EPSG:3857", "format": "image/png", "styles": "normal", **access}
    place = "{z}/{x}/{y}"
    items = {
        "wms": urlencode({**common, "layers": "RGB_PNG", "url": wms}),
        "ember": urlencode({**common, "layers": "GREY_PNG", "styles": "ember", "url": wms}),
        "wmts": urlencode(
            {
                **common,
                "layers": "RGB_PNG",
                "tileMatrixSet": "PM_2_4",
                "url": f"{wmts}?SERVICE=WMTS&REQUEST=GetCapabilities",
            }
        ),
        "xyz": f"type=xyz&url={quote(f'{tiles}/RGB_PNG/{place}.png')}&zmin=2&zmax=4",
        "vector": f"type=xyz&url={quote(f'{tiles}/VECTOR/{place}.pbf')}&zmin=2&zmax=4",
    }
    if not any_server.credential:
        items = {name: uri for name, uri in items.items() if "type=xyz" not in uri}
    (tmp_path / "items.json").write_text(json.dumps({"box": BOX, "sources": items}))
    desktop.qgis(tmp_path, Path(__file__).with_name("qgis_keyed.py"))
    for name in items:
        found = np.asarray(Image.open(tmp_path / f"{name}.png").convert("RGB")).astype(int)
        assert found.reshape(-1, 3).std(axis=0).max() > 1, name
        if name in ("wms", "wmts", "xyz"):
            assert np.median(np.abs(found - PIXELS).max(axis=2)) <= 4, name
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["info"]
    assert found["legend"]


# ---------------------------------------------------------------- pages

OPENLAYERS = """
    const read = async (reader, address) => reader.read(await (await fetch(address)).text());
    const drawn = (source) => new Promise((resolve, reject) => {
        document.getElementById("map").replaceChildren();
        const layer = source instanceof ol.source.ImageWMS
            ? new ol.layer.Image({source}) : new ol.layer.Tile({source});
        const made = new ol.Map({
            target: "map", controls: [], interactions: [], pixelRatio: 1, layers: [layer],
            view: new ol.View({center: a.centre, resolution: a.resolution,
                               constrainResolution: false, smoothResolutionConstraint: false})});
        for (const event of ["tileloaderror", "imageloaderror"])
            source.on(event, () => reject(new Error(event)));
        made.once("rendercomplete", () => resolve(pixels(document.querySelector("#map canvas"))));
    });
    const wmts = await read(new ol.format.WMTSCapabilities(),
                            `${a.wmts}?SERVICE=WMTS&REQUEST=GetCapabilities`);
    const found = {tiles: {}, layers: wmts.Contents.Layer.map((layer) => layer.Identifier)};
    for (const requestEncoding of ["KVP", "REST"]) {
        const options = ol.source.WMTS.optionsFromCapabilities(
            wmts, {layer: "RGB_PNG", requestEncoding});
        found.tiles[requestEncoding] = await drawn(new ol.source.WMTS(options));
    }
    const wms = await read(new ol.format.WMSCapabilities(),
                           `${a.wms}?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetCapabilities`);
    const address = wms.Capability.Request.GetMap.DCPType[0].HTTP.Get.OnlineResource;
    const params = {LAYERS: "RGB_PNG", STYLES: "normal", FORMAT: "image/png"};
    const image = new ol.source.ImageWMS({url: address, params, ratio: 1});
    found.tiles.WMS = await drawn(image);
    const info = image.getFeatureInfoUrl(a.centre, a.resolution, "EPSG:3857",
                                         {INFO_FORMAT: "text/plain", QUERY_LAYERS: "RGB_PNG"});
    found.info = await (await fetch(info)).text();
    const grey = wms.Capability.Layer.Layer.find((layer) => layer.Name === "GREY_PNG");
    const legend = grey.Style.find((style) => style.LegendURL).LegendURL[0].OnlineResource;
    found.legend = (await (await fetch(legend)).blob()).type;
    const maps = new ol.source.OGCMapTile({
        url: `${a.ogcapi}/collections/RGB_PNG/map/tiles/PM`, mediaType: "image/png"});
    await new Promise((resolve, reject) => maps.on("change", () =>
        maps.getState() === "ready" ? resolve()
        : maps.getState() === "error" && reject(maps.getError())));
    found.tiles["OGC API"] = await drawn(maps);
    return found;
"""


def names(server: Server) -> dict[str, Any]:
    """Return what scripts get: addresses of services, and a place."""
    addresses = {name: server.service(name) for name in (*SERVICES, STYLES)}
    centre = [(BOX[0] + BOX[2]) / 2, (BOX[1] + BOX[3]) / 2]
    return {**addresses, "centre": centre, "resolution": SIDE / 256, "box": BOX, "degrees": WGS84}


def evaluate(browser: Any, server: Server, files: dict[str, Path], script: str) -> Any:
    script = f"[a] = a; {script}"
    return evaluated(browser, server.url, files, script, names(server))


def test_openlayers(browser: Any, server: Server) -> None:
    files = {"ol.js": web_clients() / "ol/dist/ol.js"}
    found = evaluate(browser, server, files, OPENLAYERS)
    assert set(LAYERS[:-1]) <= set(found["layers"])
    for name, data in found["tiles"].items():
        assert np.array_equal(pixels_of(data), PIXELS), name
    assert "error" not in found["info"].lower()
    assert found["legend"] == "image/png"


def test_leaflet(browser: Any, server: Server) -> None:
    folder = Path(leaflet.BASE_DIR)
    files = {
        name: next(folder.rglob(name), folder / name) for name in ("leaflet.js", "leaflet.css")
    }
    script = """
        const options = {zoomControl: false, attributionControl: false, fadeAnimation: false,
                         zoomAnimation: false};
        const found = {};
        const layers = {
            tms: L.tileLayer(`${a.tms}/1.0.0/RGB_PNG/{z}/{x}/{y}.png`),
            wms: L.tileLayer.wms(a.wms, {layers: "RGB_PNG", styles: "normal", format: "image/png"}),
        };
        for (const [name, layer] of Object.entries(layers)) {
            const map = L.map("map", options);
            map.setView(L.CRS.EPSG3857.unproject(L.point(...a.centre)), 4, {animate: false});
            await new Promise((resolve, reject) => {
                layer.on("load", resolve);
                layer.on("tileerror", (event) => reject(new Error(event.tile.src)));
                layer.addTo(map);
            });
            const corner = document.getElementById("map").getBoundingClientRect();
            const canvas = document.createElement("canvas");
            canvas.width = canvas.height = 256;
            for (const tile of document.querySelectorAll(".leaflet-tile")) {
                tile.crossOrigin = null;
                const box = tile.getBoundingClientRect();
                canvas.getContext("2d").drawImage(tile, box.x - corner.x, box.y - corner.y);
            }
            found[name] = pixels(canvas);
            map.remove();
        }
        return found;
    """
    for name, data in evaluate(browser, server, files, script).items():
        assert np.array_equal(pixels_of(data), PIXELS), name


def test_maplibre(browser: Any, server: Server, libraries: str) -> None:
    script = """
        const maplibregl = await import(`${location.origin}/maplibre-gl/dist/maplibre-gl.mjs`);
        const [west, south, east, north] = a.degrees;
        const made = async (style) => {
            const map = new maplibregl.Map({
                container: "map", interactive: false, attributionControl: false, fadeDuration: 0,
                pixelRatio: 1, canvasContextAttributes: {preserveDrawingBuffer: true},
                bounds: [west, south, east, north], style});
            await new Promise((resolve, reject) => {
                map.on("error", (event) => reject(event.error));
                map.once("idle", resolve);
            });
            return map;
        };
        const raster = async (map) => {
            const canvas = document.createElement("canvas");
            canvas.width = canvas.height = 256;
            const context = canvas.getContext("2d");
            context.drawImage(map.getCanvas(), 0, 0);
            return context.getImageData(0, 0, 256, 256).data;
        };
        const found = {};
        const sources = {
            raster: {type: "raster", url: `${a.tms}/1.0.0/RGB_PNG/metadata.json`, tileSize: 256},
            vector: {type: "vector", url: `${a.tms}/1.0.0/VECTOR/metadata.json`}};
        let map = await made({version: 8, sources, layers: [
            {id: "raster", type: "raster", source: "raster"},
            {id: "vector", type: "line", source: "vector", "source-layer": "tiles"}]});
        found.colours = new Set(await raster(map)).size;
        found.vector = map.queryRenderedFeatures({layers: ["vector"]}).length;
        map.remove();
        map = await made(`${a.styles}/VECTOR.json`);
        found.styled = map.queryRenderedFeatures({layers: ["centres symbol"]}).length;
        map.remove();
        map = await made(`${a.terrain}/FLOAT32_ZIP/style.json`);
        found.sources = Object.keys(map.getStyle().sources);
        found.height = map.terrain.getElevationForLngLat(
            new maplibregl.LngLat((west + east) / 2, (south + north) / 2), map.transform);
        map.remove();
        return found;
    """
    with page_with(browser, libraries, HEAD, ignored="404 (Not Found)") as page:
        found = page.evaluate(f"async (a) => {{ {script} }}", names(server))
    assert found["colours"] > 20
    assert found["vector"] > 0, "vector"
    assert found["styled"] > 0, "labels"
    assert len(found["sources"]) >= 2
    assert found["height"] > 1000


CESIUM = """
    const {Cesium} = window;
    const found = {};
    const read = (image) => {
        const canvas = document.createElement("canvas");
        canvas.width = canvas.height = 256;
        const context = canvas.getContext("2d");
        context.drawImage(image, 0, 0);
        return encoded(context.getImageData(0, 0, 256, 256).data);
    };
    const {level, row, col} = a;
    const wmts = new Cesium.WebMapTileServiceImageryProvider({
        url: a.wmts, layer: "RGB_PNG", style: "normal", format: "image/png",
        tileMatrixSetID: "PM", tilingScheme: new Cesium.WebMercatorTilingScheme()});
    found.wmts = read(await wmts.requestImage(col, row, level));
    const wms = new Cesium.WebMapServiceImageryProvider({
        url: a.wms, layers: "RGB_PNG", srs: "EPSG:3857",
        parameters: {styles: "normal", format: "image/png"},
        getFeatureInfoParameters: {info_format: "text/plain", format: "image/png", styles: ""},
        getFeatureInfoFormats: [new Cesium.GetFeatureInfoFormat("text", "text/plain")],
        tilingScheme: new Cesium.WebMercatorTilingScheme()});
    found.wms = read(await wms.requestImage(col, row, level));
    const rectangle = wms.tilingScheme.tileXYToRectangle(col, row, level);
    const middle = Cesium.Rectangle.center(rectangle);
    found.info = (await wms.pickFeatures(
        col, row, level, middle.longitude, middle.latitude)).length;
    const tms = new Cesium.UrlTemplateImageryProvider({
        url: `${a.tms}/1.0.0/RGB_PNG/{z}/{x}/{y}.png`});
    found.tms = read(await tms.requestImage(col, row, level));
    const terrain = await Cesium.CesiumTerrainProvider.fromUrl(
        `${a.terrain}/FLOAT32_ZIP/mesh`, {requestVertexNormals: true});
    const [place] = await Cesium.sampleTerrainMostDetailed(
        terrain, [new Cesium.Cartographic(middle.longitude, middle.latitude)]);
    found.height = place.height;
    return found;
"""


def test_cesium(browser: Any, server: Server, libraries: str) -> None:
    head = """<script>window.CESIUM_BASE_URL = "/cesium/Build/Cesium/";</script>
        <script src="/cesium/Build/Cesium/Cesium.js"></script>"""
    given = {**names(server), "level": int(LEVEL), "row": ROW, "col": COL}
    with page_with(browser, libraries, head) as page:
        found = page.evaluate(f"async (a) => {{ {ENCODED} {CESIUM} }}", given)
    for name in ("wmts", "wms", "tms"):
        # Cesium turns images over, for textures.
        assert np.array_equal(pixels_of(found[name])[::-1], PIXELS), name
    assert found["info"] == 1
    heights = tiny_float_tile(LEVEL, ROW, COL)
    assert heights.min() - 500 < found["height"] < heights.max() + 500
