"""Files of GDAL and of an export, served by the command, and read by clients and a browser."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from owslib.wms import WebMapService
from owslib.wmts import WebMapTileService
from rasterio.transform import Affine
from rasterio.warp import transform_bounds
from tests.export.ground import planned
from tests.serve.test_command import answer
from tests.support.ports import free_port
from tests.viewer.browser import Page
from werkzeug.test import Client

from mastaba_export.run import run

pytestmark = pytest.mark.live

CELL = 2 * 20037508.3427892 / 256 / 2**13
WEST, NORTH = 4138 * 256 * CELL - 20037508.3427892, 20037508.3427892 - 2868 * 256 * CELL
"""Corner of a tile of zoom 13."""
QUARTERS = {(128, 128): (220, 30, 40), (384, 128): (30, 200, 60), (128, 384): (40, 60, 210)}
"""Colours by a pixel in the middle; the last quarter is white."""
NODATA = -9999.0


def write_pictures(path: Path) -> None:
    pixels = np.full((3, 512, 512), 255, np.uint8)
    for (x, y), colour in QUARTERS.items():
        pixels[:, y - 128 : y + 128, x - 128 : x + 128] = np.reshape(colour, (3, 1, 1))
    write(path, pixels, crs="EPSG:3857", transform=Affine(CELL, 0, WEST, 0, -CELL, NORTH))


def write_heights(path: Path) -> None:
    row, column = np.mgrid[:512, :512]
    values = (500 + 400 * np.sin(column / 90) * np.cos(row / 120)).astype(np.float32)
    values[:256, :256] = NODATA
    place = Affine(20, 0, 400000, 0, -20, 5300000)
    write(path, values[None], crs="EPSG:32631", transform=place, nodata=NODATA)


def write(path: Path, pixels: Any, **profile: Any) -> None:
    count, height, width = pixels.shape
    profile |= {"count": count, "height": height, "width": width, "dtype": pixels.dtype}
    with rasterio.open(path, "w", driver="GTiff", **profile) as file:
        file.write(pixels)


@pytest.fixture(scope="module")
def files(client: Client, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Write a file of each container."""
    folder = tmp_path_factory.mktemp("files")
    pictures, heights = folder / "source.tif", folder / "values.tif"
    write_pictures(pictures)
    write_heights(heights)
    found = [folder / name for name in ("photo.mbtiles", "plan.gpkg", "heights.tif")]
    for source, path, format in zip(
        (pictures, pictures, heights), found, ("MBTILES", "GPKG", "COG"), strict=True
    ):
        subprocess.run(["gdal_translate", "-q", "-of", format, source, path], check=True)
    run(planned(client.application.site, "VECTOR", "pmtiles"), folder / "VECTOR.pmtiles")
    return [*found, folder / "VECTOR.pmtiles"]


@pytest.fixture(scope="module")
def site(files: list[Path]) -> Iterator[str]:
    """Serve the files, and return the address."""
    address = f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "mastaba", "serve", *map(str, files), "--http", address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert address in process.stdout.readline()
            answer(f"http://{address}/viewer", process)
            yield f"http://{address}"
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate()
    assert process.returncode == 0


def test_clients_find_titles_boxes_and_pixels(
    site: str, gdal_environment: dict[str, str], tmp_path: Path
) -> None:
    wms = WebMapService(f"{site}/wms", version="1.3.0")
    assert {"photo", "plan", "heights"} == set(wms.contents)
    assert wms["photo"].title == "photo"
    corners = (WEST, NORTH - 512 * CELL, WEST + 512 * CELL, NORTH)
    degrees = transform_bounds("EPSG:3857", "EPSG:4326", *corners)
    assert wms["photo"].boundingBoxWGS84 == pytest.approx(degrees)
    tiles = WebMapTileService(f"{site}/wmts")
    assert set(tiles.contents) == {"photo", "plan", "heights"}
    # Maps, tiles by WMTS, and tiles by TMS.
    box = ",".join(map(str, corners))
    window = ["-projwin", *(str(corners[side]) for side in (0, 3, 2, 1))]
    get_map = (
        f"WMS:{site}/wms?SERVICE=WMS&VERSION=1.1.1&REQUEST=GetMap&LAYERS=plan&STYLES="
        f"&SRS=EPSG:3857&BBOX={box}&FORMAT=image/png"
    )
    for source, options in (
        (get_map, ["-outsize", "512", "512"]),
        (f"WMTS:{site}/wmts?SERVICE=WMTS&REQUEST=GetCapabilities,layer=photo", window),
        (f"{site}/tms/1.0.0/photo", window),
    ):
        path = tmp_path / "found.tif"
        subprocess.run(
            ["gdal_translate", "-q", *options, source, path], check=True, env=gdal_environment
        )
        with rasterio.open(path) as found:
            pixels = found.read()
        assert pixels.shape[1:] == (512, 512)
        for (x, y), colour in QUARTERS.items():
            assert np.abs(pixels[:3, y, x] - np.array(colour, int)).max() <= 2, source


def test_the_viewer_shows_each_file(site: str, browser: Any) -> None:
    page = Page(browser, site)
    for name in ("photo", "plan"):
        page.open(name)
        assert name in page.page.title()
        for (x, y), colour in QUARTERS.items():
            found = page.tile_pixel(x, y)
            assert np.abs(np.subtract(found, [*colour, 255])).max() <= 2, (name, found)
    page.open("heights")
    assert page.tile_pixel(128, 128)[3] == 0
    drawn = {tuple(page.tile_pixel(x, y)) for x, y in ((300, 300), (400, 300), (300, 450))}
    assert len(drawn) > 1
    assert {pixel[3] for pixel in drawn} == {255}
    page.open("VECTOR")
    assert page.page.locator("#map canvas").count()
    page.close()
