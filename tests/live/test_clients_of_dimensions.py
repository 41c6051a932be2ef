"""Times of layers in clients (time.md section 2.8).

OWSLib, GDAL, QGIS, OpenLayers, Leaflet, terriajs and MapLibre.
"""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pytest
from owslib.wms import WebMapService
from owslib.wmts import WebMapTileService
from PIL import Image
from tests.live.browsers import MAPLIBRE, drawn, web_clients
from tests.live.processes import Mastaba, changed, free_port, public_folder
from tests.live.test_clients import gdal
from tests.live.test_web_clients import open_layers, place
from tests.series import colour_of, series_document, series_installation

pytestmark = pytest.mark.live

YEARS = ("1950", "1975", "2023")
TILE = (3, 2, 4)
HALF = 20037508.342789244
SIZE = HALF / 4
BOX = (0.0, SIZE, SIZE, 2 * SIZE)
"""Extent of the tile in Web Mercator."""
QGIS = Path("/usr/lib/python3/dist-packages/qgis")
HEIGHTS = ("500", "490")
SERVICES = ("wms", "wmts", "tms")
TERRIA = "8.7.11"
TERRIA_DIGEST = (
    "dvA2UujJN616K4vBna/hl0Xr0KjllNrbk/eK4JAMLRvWXR7WXtZrZfzYwO0fwQGCJ1lDGcZ0KoMVJUnX3F4C7w=="
)
"""SHA-512 of the package."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A server of ORTHO, with three years, and LAKES, with two elevations."""
    with public_folder() as folder:
        port = free_port()
        address = f"http://127.0.0.1:{port}"
        lakes = series_document(
            folder / "lakes",
            [{"elevation": text} for text in HEIGHTS],
            dimensions=[{"name": "elevation", "units": "CRS:88", "default": "500"}],
            default=0,
        )
        server_json = series_installation(
            folder,
            [{"time": year} for year in YEARS],
            services=SERVICES,
            get_feature_info={"type": "PYRAMID"},
            others={"LAKES": lakes},
            services_overrides={name: {"endpoint_uri": f"{address}/{name}"} for name in SERVICES},
        )
        with Mastaba(changed(server_json, folder / "server-http.json"), folder, http=port):
            yield address


def is_of(pixels: Any, year: str) -> bool:
    """Return whether all pixels but those on the border have the colour of a year."""
    inner = np.asarray(pixels)[8:-8, 8:-8, :3].astype(int)
    # Some clients choose a format with losses.
    return bool((np.abs(inner - colour_of(YEARS.index(year))) <= 2).all())


def picture(data: Any) -> Any:
    return np.asarray(Image.open(BytesIO(data.read())).convert("RGB"))


# ---------------------------------------------------------------- Python and programs


@pytest.mark.parametrize("version", ["1.1.1", "1.3.0"])
def test_owslib_wms(url: str, version: str) -> None:
    service = WebMapService(f"{url}/wms", version=version)
    assert service["ORTHO"].timepositions == list(YEARS)
    ask = {"styles": [""], "srs": "EPSG:3857", "bbox": BOX, "size": (256, 256)}
    for year in YEARS:
        found = service.getmap(layers=["ORTHO"], format="image/png", time=year, **ask)
        assert is_of(picture(found), year)
    # OWSLib has elevations only for 1.3.0.
    for position, text in enumerate(HEIGHTS if version == "1.3.0" else ()):
        found = service.getmap(
            layers=["LAKES"], format="image/png", dimensions={"elevation": text}, **ask
        )
        assert (picture(found)[8:-8, 8:-8] == colour_of(position)).all()


@pytest.mark.filterwarnings("ignore:Truth-testing of elements")
def test_owslib_wmts(url: str) -> None:
    service = WebMapTileService(f"{url}/wmts")
    for year in YEARS:
        tile = service.gettile(
            layer="ORTHO",
            style="normal",
            format="image/png",
            tilematrixset="PM",
            tilematrix="3",
            row=2,
            column=4,
            time=year,
        )
        assert is_of(picture(tile), year)


def cut(folder: Path, source: str) -> Any:
    """Return the tile that GDAL cuts out of a source."""
    west, south, east, north = map(repr, BOX)
    target = folder / "tile.png"
    options = ["-projwin", west, north, east, south, "-outsize", "256", "256", "-of", "PNG", "-q"]
    gdal(folder, "gdal_translate", *options, source, target)
    return np.asarray(Image.open(target).convert("RGB"))


def test_gdal_wmts_draws_the_default(url: str, tmp_path: Path) -> None:
    service = f"WMTS:{url}/wmts?SERVICE=WMTS&VERSION=1.0.0&REQUEST=GetCapabilities"
    assert is_of(cut(tmp_path, f"{service},layer=ORTHO"), "2023")


def test_gdal_draws_the_layer_of_a_value(url: str, tmp_path: Path) -> None:
    for year in YEARS:
        west, south, east, north = BOX
        source = (
            f"WMS:{url}/wms?SERVICE=WMS&VERSION=1.1.1&REQUEST=GetMap&LAYERS=ORTHO&STYLES="
            f"&SRS=EPSG:3857&BBOX={west},{south},{east},{north}&FORMAT=image/png&TIME={year}"
        )
        assert is_of(cut(tmp_path, source), year)


def qgis_source(url: str, service: str, year: str) -> dict[str, str]:
    """Return what QGIS makes of the capabilities; with WMTS, a user has chosen the year."""
    time = {"type": "wmst", "temporalSource": "provider", "allowTemporalUpdates": "true"}
    common = {"layers": "ORTHO", "format": "image/png", "crs": "EPSG:3857"}
    wms = {**common, "styles": "", "url": f"{url}/wms", "timeDimensionExtent": ",".join(YEARS)}
    if service == "wms":
        return {**time, **wms}
    document = f"{url}/wmts?SERVICE=WMTS&REQUEST=GetCapabilities"
    wmts = {**common, "styles": "normal", "url": document, "tileMatrixSet": "PM_2_3"}
    return {**wmts, "tileDimensions": f"Time={year}"}


@pytest.mark.parametrize("service", ["wms", "wmts"])
def test_qgis(url: str, tmp_path: Path, service: str) -> None:
    """Of WMS, its temporal controller, which sends a range of time for each frame."""
    if not QGIS.exists():
        pytest.skip("python3-qgis is not installed")
    items = [
        {
            "uri": urlencode(qgis_source(url, service, year)),
            "box": BOX,
            "begin": f"{year}-01-01T00:00:00Z",
            "end": f"{year}-{month}-31T23:59:59Z",
            "picture": str(tmp_path / f"{year}-{month}.png"),
            "is_temporal": service == "wms",
        }
        for year in YEARS
        for month in ("01", "12")
    ]
    (tmp_path / "items.json").write_text(json.dumps(items))
    environment = {
        "HOME": str(tmp_path),
        "PATH": "/usr/bin:/bin",
        "QT_QPA_PLATFORM": "offscreen",
        "XDG_RUNTIME_DIR": str(tmp_path),
        "NO_PROXY": "127.0.0.1",
    }
    script = Path(__file__).with_name("qgis_temporal.py")
    done = subprocess.run(
        ["/usr/bin/python3", script, tmp_path / "items.json"],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for item in items:
        name = Path(str(item["picture"]))
        found = np.asarray(Image.open(name).convert("RGB"))
        assert is_of(found, name.stem[:4]), name


# ---------------------------------------------------------------- browsers


@pytest.mark.parametrize("kind", ["TileWMS", "ImageWMS"])
def test_openlayers_wms(browser: Any, url: str, kind: str) -> None:
    script = """
        const source = new ol.source[a[0]]({
            url: `${url}/wms`, params: {LAYERS: "ORTHO", FORMAT: "image/png"}, ratio: 1});
        source.updateParams({TIME: a[1]});
        if (a[0] === "TileWMS") return await map(source, a[2], a[3], "EPSG:3857");
        const made = new ol.Map({
            target: "map", controls: [], interactions: [], pixelRatio: 1,
            layers: [new ol.layer.Image({source})],
            view: new ol.View({center: a[2], resolution: a[3], constrainResolution: false})});
        await new Promise((resolve, reject) => {
            source.on("imageloaderror", () => reject(new Error("image")));
            made.once("rendercomplete", resolve);
        });
        return pixels(document.querySelector("#map canvas"));
    """
    for year in YEARS:
        assert is_of(open_layers(browser, url, script, kind, year, *place(*TILE)), year)


@pytest.mark.parametrize("encoding", ["KVP", "REST"])
def test_openlayers_wmts(browser: Any, url: str, encoding: str) -> None:
    """Without a value, OpenLayers asks for the default of the capabilities."""
    script = """
        const text = await (await fetch(`${url}/wmts?SERVICE=WMTS&REQUEST=GetCapabilities`)).text();
        const options = ol.source.WMTS.optionsFromCapabilities(
            new ol.format.WMTSCapabilities().read(text),
            {layer: "ORTHO", matrixSet: "PM_2_3", requestEncoding: a[0]});
        if (options.requestEncoding !== a[0]) throw new Error(options.requestEncoding);
        const source = new ol.source.WMTS(options);
        if (a[1]) source.updateDimensions({Time: a[1]});
        return await map(source, a[2], a[3], "EPSG:3857");
    """
    for year in (*YEARS, ""):
        found = open_layers(browser, url, script, encoding, year, *place(*TILE))
        assert is_of(found, year or "2023")


def test_leaflet_time_dimension(browser: Any, url: str) -> None:
    """It reads the times from the capabilities of WMS 1.1.1, and writes them as instants."""
    modules = web_clients()
    files = {
        "leaflet.js": modules / "leaflet/dist/leaflet.js",
        "leaflet.css": modules / "leaflet/dist/leaflet.css",
        "iso8601.js": modules / "iso8601-js-period/iso8601.js",
        "timedimension.js": modules / "leaflet-timedimension/dist/leaflet.timedimension.src.js",
    }
    script = """
        const map = L.map("map", {zoomControl: false, attributionControl: false,
                                  fadeAnimation: false, zoomAnimation: false,
                                  timeDimension: true});
        map.setView(L.CRS.EPSG3857.unproject(L.point(...a[1])), 3, {animate: false});
        const wms = L.tileLayer.wms(`${url}/wms`, {layers: "ORTHO", format: "image/png"});
        const timed = L.timeDimension.layer.wms(
            wms, {requestTimeFromCapabilities: true, updateTimeDimension: true, cache: 0});
        const loaded = new Promise((resolve) => map.timeDimension.on(
            "availabletimeschanged", resolve));
        timed.addTo(map);
        await loaded;
        const times = map.timeDimension.getAvailableTimes();
        if (times.length !== 3) throw new Error(`${times.length} times`);
        map.timeDimension.setCurrentTimeIndex(a[0]);
        const shown = () => timed._currentLayer && timed._currentTime === times[a[0]]
            && timed.isReady(times[a[0]]) && !timed._currentLayer._loading;
        for (let n = 0; n < 200 && !shown(); n++)
            await new Promise((resolve) => setTimeout(resolve, 50));
        const corner = document.getElementById("map").getBoundingClientRect();
        const canvas = document.createElement("canvas");
        canvas.width = canvas.height = 256;
        const pane = timed._currentLayer.getContainer();
        for (const tile of pane.querySelectorAll(".leaflet-tile")) {
            const box = tile.getBoundingClientRect();
            canvas.getContext("2d").drawImage(tile, box.x - corner.x, box.y - corner.y);
        }
        return pixels(canvas);
    """
    for number, year in enumerate(YEARS):
        found = drawn(browser, url, files, script, number, place(*TILE)[0])
        assert is_of(found, year), year


@pytest.fixture(scope="module")
def terria() -> Path:
    """A script with the layers of WMS of terriajs, bundled from the sources in its package.

    The package needs all of a web application. Here are only the libraries of these layers.
    """
    folder = web_clients("terria_client").parent
    bundle = folder / f"{TERRIA}.js"
    if not bundle.exists():
        npm, node = shutil.which("npm"), shutil.which("node")
        assert npm
        assert node
        pack = [npm, "pack", f"terriajs@{TERRIA}", "--silent"]
        done = subprocess.run(pack, cwd=folder, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"npm cannot load terriajs: {done.stderr.strip()[-300:]}")
        archive = folder / f"terriajs-{TERRIA}.tgz"
        digest = hashlib.sha512(archive.read_bytes()).digest()
        assert base64.b64encode(digest).decode() == TERRIA_DIGEST
        with tarfile.open(archive) as opened:
            opened.extractall(folder, filter="data")
        made = folder / "made.js"
        command: list[str | Path] = [node, folder / "build.mjs", folder / "package", made]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        made.rename(bundle)
    return bundle


@pytest.mark.parametrize("version", ["1.3.0", "1.1.1"])
def test_terriajs(browser: Any, url: str, terria: Path, version: str) -> None:
    """It lists the times of the capabilities, and writes them as they are."""
    script = """
        const site = {
            configParameters: {}, timelineStack: {contains: () => false},
            corsProxy: {shouldUseProxy: () => false, getURL: (address) => address}};
        const item = new terria.Item("ortho", site);
        const set = (stratum, name, value) => item.setTrait(stratum, name, value);
        set("definition", "url", `${url}/wms?version=${a[1]}`);
        set("definition", "layers", "ORTHO");
        (await item.loadMetadata()).throwIfError();
        const times = item.discreteTimes.map((one) => one.time);
        if (times.join() !== a[0].join()) throw new Error(times.join());
        // It knows no default of WMS 1.1.1, and takes the clock.
        if (a[1] !== "1.1.1" && item.currentTime !== times[2]) throw new Error(item.currentTime);
        (await item.loadMapItems()).throwIfError();
        set("user", "currentTime", times[a[2]]);
        const [level, row, column] = a[3];
        const {imageryProvider} = item.mapItems[0];
        const canvas = document.createElement("canvas");
        canvas.width = canvas.height = 256;
        const image = await imageryProvider.requestImage(column, row, level);
        canvas.getContext("2d").drawImage(image, 0, 0);
        return pixels(canvas);
    """
    files = {"terria.js": terria}
    for number, year in enumerate(YEARS):
        found = drawn(browser, url, files, script, YEARS, version, number, TILE)
        assert is_of(found, year), year


@pytest.mark.parametrize("way", ["query", "name", "template"])
def test_maplibre(browser: Any, url: str, way: str) -> None:
    """TileJSON with a value in its query or in the name of the layer, or a template of values."""
    modules = web_clients() / "maplibre-gl" / "dist"
    files = {name: modules / name for name in MAPLIBRE}
    script = """
        const maplibregl = await import(`${url}/client/maplibre-gl.mjs`);
        const [way, year, x, y] = a;
        const start = `${url}/tms/1.0.0/ORTHO`;
        const address = {
            query: `${start}/metadata.json?time=${year}`,
            name: `${start};time=${year}/metadata.json`,
            template: `${start}/metadata.json`}[way];
        const map = new maplibregl.Map({
            container: "map", interactive: false, attributionControl: false, fadeDuration: 0,
            pixelRatio: 1, canvasContextAttributes: {preserveDrawingBuffer: true},
            center: new maplibregl.MercatorCoordinate(x, y).toLngLat(), zoom: 2,
            style: {version: 8,
                    sources: {ortho: {type: "raster", url: address, tileSize: 256}},
                    layers: [{id: "ortho", type: "raster", source: "ortho",
                              paint: {"raster-fade-duration": 0}}]}});
        const idle = () => new Promise((resolve, reject) => {
            map.on("error", (event) => reject(event.error));
            map.once("idle", resolve);
        });
        await idle();
        if (way === "template") {
            const {time} = (await (await fetch(address)).json()).dimensions;
            if (!time.values.includes(year)) throw new Error(time.values.join());
            map.getSource("ortho").setTiles([time.template.replace("{time}", year)]);
            await idle();
        }
        return pixels(map.getCanvas());
    """
    level, row, column = TILE
    middle = [(one + 0.5) / 2**level for one in (column, row)]
    for year in YEARS:
        found = drawn(browser, url, files, script, way, year, *middle)
        assert is_of(found, year), year
