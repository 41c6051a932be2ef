"""iTowns, ogc-client of Camptocamp and the OpenLayers extensions of the Géoplateforme."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np
import pytest
from PIL import Image
from tests.live.browsers import drawn, evaluated, web_clients
from tests.live.installations import TILE, make_installation
from tests.live.processes import Mastaba, changed, free_port, public_folder

from mastaba_conformance.tiny_installation import tiny_float_tile, tiny_integer_tile

pytestmark = pytest.mark.live

LEVEL, COL, ROW = TILE
HALF = 20037508.342789244
SIDE = 2 * HALF / 2 ** int(LEVEL)
CENTRE = [(COL + 0.5) * SIDE - HALF, HALF - (ROW + 0.5) * SIDE]
FOLDER = "national_clients"

OGC_CLIENT = """
    const {WmtsEndpoint, WmsEndpoint, TmsEndpoint, OgcApiEndpoint} = await import(process.argv[2]);
    const url = process.argv[3];
    const wmts = await new WmtsEndpoint(`${url}/wmts`).isReady();
    const wms = await new WmsEndpoint(`${url}/wms`).isReady();
    const tms = new TmsEndpoint(`${url}/tms/1.0.0`);
    const api = new OgcApiEndpoint(`${url}/ogcapi`);
    const [level, row, col] = process.argv.slice(4);
    const layer = (name) => wmts.getLayerByName(name);
    const tile = (name) => {
        const link = wmts.getLayerResourceLink(name);
        return {format: link.format, url: wmts.getTileUrl(
            name, layer(name).defaultStyle, layer(name).matrixSets[0].identifier, level, row, col,
            link.format)};
    };
    const maps = await tms.allTileMaps;
    const info = await tms.getTileMapInfo(maps.find((map) => map.href.endsWith("/RGB_PNG")).href);
    console.log(JSON.stringify({
        wmts: wmts.getLayers().map((one) => one.name),
        wms: wms.getLayers()[0].children.map((one) => one.name),
        tms: maps.map((map) => map.href),
        levels: info.tileSets.length,
        api: await api.mapTileCollections,
        tilesets: await api.getMapTilesetUrl("FLOAT32_ZIP", "PM"),
        usual: await api.getMapTilesetUrl("FLOAT32_ZIP"),
        picture: tile("RGB_PNG"),
        heights: tile("FLOAT32_ZIP")}));
    process.exit(0);
"""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with public_folder() as folder:
        port = free_port()
        address = f"http://127.0.0.1:{port}"
        installation = make_installation(folder / "tiny", public_url=address)
        layer = folder / "tiny" / "layers" / "RGB_PNG.json"
        document = json.loads(layer.read_bytes())
        layer.write_text(json.dumps(document | {"get_feature_info": {"type": "PYRAMID"}}))
        file = changed(installation, folder / "http.json")
        with Mastaba(file, folder, http=port):
            yield address


@pytest.mark.parametrize("layer", ["FLOAT32_RAW", "FLOAT32_ZIP"])
def test_itowns_reads_the_stored_heights(browser: Any, url: str, layer: str) -> None:
    """Values, not pictures: iTowns takes the format image/x-bil;bits=32 of ROK4 for textures."""
    files = {"itowns.umd.js": web_clients(FOLDER) / "itowns/dist/itowns.umd.js"}
    script = """
        const source = new itowns.WMTSSource({
            url: `${url}/wmts`, crs: "EPSG:3857", name: a[0], tileMatrixSet: "PM",
            format: "image/x-bil;bits=32", zoom: {min: 2, max: 4}});
        const tile = {zoom: a[1], row: a[2], col: a[3]};
        const texture = await source.fetcher(source.urlFromExtent(tile), source.networkOptions);
        return encoded(texture.image.data);
    """
    found = evaluated(browser, url, files, script, layer, int(LEVEL), ROW, COL)
    expected = tiny_float_tile(LEVEL, ROW, COL)
    heights = np.frombuffer(base64.b64decode(found), np.float32)
    assert np.array_equal(heights.reshape(256, 256), expected)


def test_itowns_stands_on_the_ground(browser: Any, url: str) -> None:
    """A view in three dimensions has the heights of the layer."""
    files = {"itowns.umd.js": web_clients(FOLDER) / "itowns/dist/itowns.umd.js"}
    script = """
        const [layer, west, south, side, x, y] = a;
        const extent = new itowns.Extent("EPSG:3857", west, west + side, south, south + side);
        const view = new itowns.PlanarView(document.getElementById("map"), extent, {
            placement: {coord: extent.center(), range: side, tilt: 90}});
        const source = new itowns.WMTSSource({
            url: `${url}/wmts`, crs: "EPSG:3857", name: layer, tileMatrixSet: "PM",
            format: "image/x-bil;bits=32", zoom: {min: 2, max: 4}});
        await view.addLayer(new itowns.ElevationLayer("heights", {source}));
        const place = new itowns.Coordinates("EPSG:3857", x, y, 0);
        for (let trial = 0; trial < 200; trial += 1) {
            const height = itowns.DEMUtils.getElevationValueAt(view.tileLayer, place, 1);
            if (height) return height;
            view.notifyChange();
            await new Promise((resolve) => setTimeout(resolve, 50));
        }
        return null;
    """
    x, y = CENTRE
    west, south = x - SIDE / 2, y - SIDE / 2
    found = evaluated(browser, url, files, script, "FLOAT32_ZIP", west, south, SIDE, x, y)
    heights = tiny_float_tile(LEVEL, ROW, COL)
    assert heights.min() <= found <= heights.max()


def test_ogc_client_reads_every_protocol(url: str, tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed (Debian package nodejs)")
    module = web_clients(FOLDER) / "@camptocamp/ogc-client/dist/dist-node.js"
    script = tmp_path / "client.mjs"
    script.write_text(OGC_CLIENT)
    done = subprocess.run(
        [node, script, module, url, LEVEL, str(ROW - 1), str(COL)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    rasters = {"RGB_PNG", "RGB_JPG", "RGB_RAW", "FLOAT32_RAW", "FLOAT32_ZIP"}
    assert rasters <= {*found["wmts"]}
    assert rasters <= {*found["wms"]}
    assert rasters <= {*found["api"]}
    assert rasters <= {address.rpartition("/")[2] for address in found["tms"]}
    assert found["levels"] == 5
    assert "/ogcapi/collections/FLOAT32_ZIP/map/tiles/" in found["tilesets"]
    # The client asks for WebMercatorQuad by default.
    assert found["usual"] == found["tilesets"]
    assert found["picture"]["format"] == found["heights"]["format"] == "image/png"
    with urlopen(found["picture"]["url"]) as response:
        pixels = np.asarray(Image.open(BytesIO(response.read())))
    assert np.array_equal(pixels, tiny_integer_tile(3)(LEVEL, ROW - 1, COL))
    with urlopen(found["heights"]["url"]) as response:
        assert Image.open(BytesIO(response.read())).size == (256, 256)


def test_geoplateforme_extensions(browser: Any, url: str) -> None:
    """Their WMTS source draws a layer, and its address of feature info is answered."""
    modules = web_clients(FOLDER)
    bundle = modules / "geopf.js"
    if not bundle.exists():
        entry = modules.parent / "geopf.js"
        command = [modules / ".bin/esbuild", entry, "--bundle", f"--outfile={bundle}"]
        subprocess.run([*map(str, command), "--log-level=error"], check=True)
    script = """
        const [layer, centre, resolution] = a;
        const text = await (await fetch(`${url}/wmts?SERVICE=WMTS&REQUEST=GetCapabilities`)).text();
        const options = geopf.optionsFromCapabilities(
            new geopf.WMTSCapabilities().read(text), {layer});
        const source = new geopf.WMTS(options);
        const view = new geopf.View({
            center: centre, resolution, projection: "EPSG:3857", constrainResolution: false,
            smoothResolutionConstraint: false, multiWorld: true});
        const map = new geopf.Map({
            target: "map", controls: [], interactions: [], pixelRatio: 1, view,
            layers: [new geopf.TileLayer({source})]});
        await new Promise((resolve) => map.once("rendercomplete", resolve));
        const address = source.getFeatureInfoUrl(
            centre, resolution, view.getProjection(), {INFOFORMAT: "application/json"});
        const answer = await fetch(address);
        if (!answer.ok) throw new Error(await answer.text());
        return pixels(document.querySelector("#map canvas"));
    """
    row = ROW - 1
    centre = [CENTRE[0], CENTRE[1] + SIDE]
    found = drawn(browser, url, {"geopf.js": bundle}, script, "RGB_PNG", centre, SIDE / 256)
    assert np.array_equal(found, np.asarray(tiny_integer_tile(3)(LEVEL, row, COL)))
