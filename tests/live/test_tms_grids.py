"""OpenLayers on TMS layers whose tile matrix set is not a quadtree: right pixels at every level."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.live.processes import Mastaba, changed, free_port, public_folder
from tests.live.test_web_clients import open_layers
from tests.tms.test_ground import LEVELS, SETS, SIZE, install

from mastaba_conformance.tiny_installation import tiny_integer_tile

pytestmark = pytest.mark.live

PROJECTION = """
    const projection = new ol.proj.Projection({code: "EPSG:2154", units: "m"});
    const source = (url, zooms, options) => new ol.source.XYZ({
        projection, tileGrid: new ol.tilegrid.TileGrid(options),
        tileUrlFunction: ([z, x, y]) => url(zooms[z], x, y)});
"""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with public_folder() as folder:
        port = free_port()
        address = f"http://127.0.0.1:{port}"
        server_json = install(folder, address, None)
        with Mastaba(changed(server_json, folder / "http.json"), folder, http=port):
            yield address


CASES = [(layer, plan.id) for layer in ("SHIFTED", "IRREGULAR") for plan in LEVELS[layer]]


def centre(layer: str, level: str) -> tuple[list[float], float, Any]:
    """Return the centre of the first tile of a level, its resolution and its pixels."""
    plan = next(plan for plan in LEVELS[layer] if plan.id == level)
    matrix = next(m for m in SETS[layer]["tileMatrices"] if m["id"] == level)
    side, (x0, y0) = SIZE * matrix["cellSize"], matrix["pointOfOrigin"]
    place = [x0 + (plan.min_col + 0.5) * side, y0 - (plan.min_row + 0.5) * side]
    pixels = np.asarray(tiny_integer_tile(3)(level, plan.min_row, plan.min_col))
    return place, matrix["cellSize"], pixels


@pytest.mark.parametrize(("layer", "level"), CASES)
def test_grid_of_the_tilejson(browser: Any, url: str, layer: str, level: str) -> None:
    script = """
        const tilejson = await (await fetch(`${url}/tms/1.0.0/${a[0]}/metadata.json`)).json();
        const matrices = tilejson.matrices;
        const grid = {
            origins: matrices.map((matrix) => matrix.origin),
            resolutions: matrices.map((matrix) => matrix.cellSize),
            sizes: matrices.map((matrix) => matrix.matrixSize),
            tileSizes: matrices.map((matrix) => matrix.tileSize)};
        const tiles = (z, x, y) => tilejson.tiles[0]
            .replace("{z}", z).replace("{x}", x).replace("{y}", y);
        return await map(source(tiles, matrices.map((matrix) => matrix.zoom), grid),
                         a[1], a[2], projection);
    """
    place, resolution, expected = centre(layer, level)
    found = open_layers(browser, url, PROJECTION + script, layer, place, resolution)
    assert np.array_equal(found, expected)


@pytest.mark.parametrize(("layer", "level"), CASES)
def test_tile_map_of_a_level(browser: Any, url: str, layer: str, level: str) -> None:
    script = """
        const address = `${url}/tms/1.0.0/${a[0]}@${a[0]}:${a[1]}`;
        const xml = new DOMParser().parseFromString(
            await (await fetch(address)).text(), "text/xml");
        const number = (node, name) => Number(xml.querySelector(node).getAttribute(name));
        const grid = {
            origin: [number("Origin", "x"), number("Origin", "y")],
            resolutions: [number("TileSet", "units-per-pixel")],
            tileSize: [number("TileFormat", "width"), number("TileFormat", "height")]};
        const href = xml.querySelector("TileSet").getAttribute("href");
        // OpenLayers counts rows downwards from the origin.
        const tiles = (z, x, y) => `${href}/${x}/${-y - 1}.png`;
        return await map(source(tiles, [0], grid), a[2], a[3], projection);
    """
    place, resolution, expected = centre(layer, level)
    found = open_layers(browser, url, PROJECTION + script, layer, level, place, resolution)
    assert np.array_equal(found, expected)
