"""Archives to take away, in the programs that open them: MapLibre, GDAL and QGIS."""

from __future__ import annotations

import functools
import http.server
import json
import math
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.export.ground import NATIONAL_LEVELS, heights, opened, planned, write_world
from tests.live.browsers import MAPLIBRE, drawn, web_clients
from tests.tiny import tiny_installation

from mastaba_export.run import run
from mastaba_writer.installation import write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import web_mercator

pytestmark = pytest.mark.live

SYSTEM_PYTHON = "/usr/bin/python3"
ROW, COLUMN = 22, 33
"""A tile of level 6."""


def colours(level: str, row: int, column: int) -> Any:
    """Return squares of 32 pixels, different in each tile."""
    chance = np.random.default_rng([int(level), row, column])
    squares = chance.integers(0, 255, (8, 8, 3), dtype=np.uint8)
    return squares.repeat(32, axis=0).repeat(32, axis=1)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of tiles of an area, with its TileJSON."""
    folder = tmp_path_factory.mktemp("site")
    images = write_pyramid(
        folder / "pyramids",
        "IMAGES",
        tile_matrix_set=web_mercator(),
        format="TIFF_PNG_UINT8",
        levels=[LevelPlan("6", 20, 27, 30, 37), LevelPlan("5", 10, 13, 15, 18)],
        tile=colours,
    )
    site = opened(write_installation(folder, layers={"IMAGES": images}, services=["wmts"]))
    out = tmp_path_factory.mktemp("out") / "tiles"
    run(planned(site, "IMAGES", "dir"), out)
    site.catalogue.storages.close()
    return out


@pytest.fixture(scope="module")
def url(directory: Path) -> Iterator[str]:
    """Serve the folder as any web server does."""
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(directory))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_maplibre_draws_a_directory_of_tiles(browser: Any, url: str) -> None:
    modules = web_clients() / "maplibre-gl" / "dist"
    files = {name: modules / name for name in MAPLIBRE}
    script = """
        const maplibregl = await import(`${url}/client/maplibre-gl.mjs`);
        // MapLibre takes relative addresses for those of the page.
        const tilejson = await (await fetch(`${url}/tilejson.json`)).json();
        tilejson.tiles = tilejson.tiles.map((one) => `${url}/${one}`);
        const map = new maplibregl.Map({
            container: "map", interactive: false, attributionControl: false, fadeDuration: 0,
            pixelRatio: 1, canvasContextAttributes: {preserveDrawingBuffer: true},
            center: a[0], zoom: 5,
            style: {version: 8,
                    sources: {world: {...tilejson, type: "raster", tileSize: 256}},
                    layers: [{id: "world", type: "raster", source: "world",
                              paint: {"raster-resampling": "nearest",
                                      "raster-fade-duration": 0}}]}});
        await new Promise((resolve, reject) => {
            map.on("error", (event) => reject(event.error));
            map.once("idle", resolve);
        });
        return pixels(map.getCanvas());
    """
    longitude = (COLUMN + 0.5) / 64 * 360 - 180
    latitude = math.degrees(math.atan(math.sinh(math.pi * (1 - 2 * (ROW + 0.5) / 64))))
    found = drawn(browser, url, files, script, [longitude, latitude])
    difference = np.abs(found.astype(int) - colours("6", ROW, COLUMN))
    # At the edges of squares, drawing may round to the neighbour.
    inner = (np.arange(256) % 32 > 2) & (np.arange(256) % 32 < 29)
    assert difference[np.ix_(inner, inner)].max() <= 2


@pytest.fixture(scope="module")
def geopackage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a GeoPackage of heights on a national grid."""
    site = opened(write_world(tmp_path_factory.mktemp("world")))
    out = tmp_path_factory.mktemp("out") / "heights.gpkg"
    run(planned(site, "HEIGHTS", "gpkg"), out)
    site.catalogue.storages.close()
    return out


def expected() -> tuple[Any, tuple[float, float]]:
    """Return the finest level, NaN where it has no values, and its first corner."""
    finest = NATIONAL_LEVELS[0]
    rows = [
        np.concatenate(
            [_tile(row, column) for column in range(finest.min_col, finest.max_col + 1)], 1
        )
        for row in range(finest.min_row, finest.max_row + 1)
    ]
    corner = 600000.0 + finest.min_col * 128.0, 6800000.0 - finest.min_row * 128.0
    return np.concatenate(rows), corner


def _tile(row: int, column: int) -> Any:
    found = heights("2", row, column)
    return np.full((64, 64), np.nan, np.float32) if found is None else found


def test_gdal_reads_size_place_and_values(geopackage: Path, tmp_path: Path) -> None:
    values, corner = expected()
    done = subprocess.run(
        ["gdalinfo", "-json", str(geopackage)], check=True, capture_output=True, text=True
    )
    found = json.loads(done.stdout)
    assert 'ID["EPSG",2154]' in found["coordinateSystem"]["wkt"]
    assert found["size"] == [values.shape[1], values.shape[0]]
    assert found["geoTransform"] == [corner[0], 2.0, 0.0, corner[1], 0.0, -2.0]
    assert len(found["bands"][0]["overviews"]) == 2
    raw = tmp_path / "values.raw"
    command = ["gdal_translate", "-q", "-of", "ENVI", str(geopackage), str(raw)]
    subprocess.run(command, check=True, capture_output=True)
    read = np.fromfile(raw, np.float32).reshape(values.shape)
    known = np.isfinite(values)
    assert read[known].tobytes() == values[known].tobytes()


_QGIS = """
import json, sys
from qgis.core import QgsApplication, QgsRasterLayer
application = QgsApplication([], False)
application.initQgis()
layer = QgsRasterLayer(sys.argv[1], "heights", "gdal")
assert layer.isValid(), layer.error().message()
provider, extent = layer.dataProvider(), layer.extent()
block = provider.block(1, extent, layer.width(), layer.height())
with open(sys.argv[2], "wb") as file:
    file.write(bytes(block.data()))
print(json.dumps({
    "crs": layer.crs().authid(),
    "size": [layer.width(), layer.height()],
    "corner": [extent.xMinimum(), extent.yMaximum()],
    "type": int(block.dataType()),
}))
"""


@pytest.mark.skipif(
    subprocess.run(
        [SYSTEM_PYTHON, "-c", "import qgis.core"], check=False, capture_output=True
    ).returncode
    != 0,
    reason="QGIS is not installed",
)
def test_qgis_reads_size_place_and_values(geopackage: Path, tmp_path: Path) -> None:
    values, corner = expected()
    raw = tmp_path / "values.raw"
    done = subprocess.run(
        [SYSTEM_PYTHON, "-c", _QGIS, str(geopackage), str(raw)],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "QT_QPA_PLATFORM": "offscreen", "HOME": str(tmp_path)},
    )
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["crs"] == "EPSG:2154"
    assert found["size"] == [values.shape[1], values.shape[0]]
    assert found["corner"] == list(corner)
    assert found["type"] == 6  # Float32
    read = np.fromfile(raw, np.float32).reshape(values.shape)
    known = np.isfinite(values)
    assert read[known].tobytes() == values[known].tobytes()


@pytest.mark.skipif(shutil.which("mbtiles") is None, reason="mbtiles of martin is not installed")
@pytest.mark.parametrize("dedup", ["small", "all"])
@pytest.mark.parametrize("layer", ["RGB_PNG", "RGB_JPG", "VECTOR"])
def test_martin_validates_mbtiles(tmp_path: Path, layer: str, dedup: str) -> None:
    site = opened(tiny_installation(tmp_path / "tiny"))
    out = tmp_path / "out.mbtiles"
    run(planned(site, layer, "mbtiles", dedup=dedup), out)
    site.catalogue.storages.close()
    done = subprocess.run(
        ["mbtiles", "validate", "--integrity-check", "full", str(out)],
        capture_output=True,
        text=True,
        check=False,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert "WARN" not in said
