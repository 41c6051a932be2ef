"""Real map clients, reading through nginx."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from owslib.tms import TileMapService
from owslib.wmts import WebMapTileService
from PIL import Image
from tests.live import fronts
from tests.live.desktop import gdal
from tests.live.installations import ACCENTED_LAYER, TILE, make_installation
from tests.live.processes import Mastaba, changed, free_port, public_folder

from mastaba_conformance.tiny_installation import tiny_integer_tile

pytestmark = pytest.mark.live

LEVEL, COL, ROW = TILE


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The address of nginx, which is also what the documents tell clients."""
    with public_folder() as folder:
        port = free_port()
        address = f"http://127.0.0.1:{port}"
        installation = make_installation(folder / "tiny", public_url=address)
        sock = str(folder / "mastaba.sock")
        file = changed(installation, folder / "server.json", port=sock)
        way = fronts.fastcgi(sock, keep=True)
        with Mastaba(file, folder), fronts.nginx(folder, [way], [port]):
            yield address


def test_owslib_wmts(url: str) -> None:
    service = WebMapTileService(f"{url}/wmts")
    assert {"RGB_JPG", "GREY_PNG", ACCENTED_LAYER} <= set(service.contents)
    tile = service.gettile(
        layer="RGB_PNG",
        style="normal",
        format="image/png",
        tilematrixset="PM",
        tilematrix=LEVEL,
        row=ROW - 1,
        column=COL,
    )
    pixels = np.asarray(Image.open(BytesIO(tile.read())))
    assert np.array_equal(pixels, tiny_integer_tile(3)(LEVEL, ROW - 1, COL))


def test_owslib_tms(url: str) -> None:
    service = TileMapService(f"{url}/tms/1.0.0")
    assert any(name.endswith("/RGB_JPG") for name in service.contents)


def test_gdal_wmts(url: str, tmp_path: Path) -> None:
    service = f"WMTS:{url}/wmts?SERVICE=WMTS&VERSION=1.0.0&REQUEST=GetCapabilities"
    assert "RGB_PNG" in gdal(tmp_path, "gdalinfo", service)
    source = f"{service},layer=RGBA_PNG"
    assert "Size is" in gdal(tmp_path, "gdalinfo", source)
    _check_tile(tmp_path, source)


def test_gdal_tms(url: str, tmp_path: Path) -> None:
    source = f"{url}/tms/1.0.0/RGBA_PNG/gdal.xml"
    assert "Size is" in gdal(tmp_path, "gdalinfo", source)
    _check_tile(tmp_path, source)


def _check_tile(folder: Path, source: str) -> None:
    """Let GDAL cut one tile out of a layer of four channels, and compare its pixels."""
    target = folder / "tile.png"
    options = ["-projwin", *map(repr, _window()), "-outsize", "256", "256", "-of", "PNG", "-q"]
    gdal(folder, "gdal_translate", *options, source, target)
    pixels = np.asarray(Image.open(target))
    assert np.array_equal(pixels, tiny_integer_tile(4)(LEVEL, ROW, COL))


def _window() -> tuple[float, float, float, float]:
    """Left, top, right and bottom of the tile in Web Mercator."""
    half = 20037508.342789244
    size = 2 * half / 2 ** int(LEVEL)
    left, top = COL * size - half, half - ROW * size
    return left, top, left + size, top - size
