"""GDAL's driver for OGC API reads collections where they lie."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

pytestmark = pytest.mark.live

ENVIRONMENT = {"PATH": "/usr/bin:/bin", "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
"""Of GDAL's commands: no proxy between."""


@pytest.fixture(scope="module")
def address(serving: Any, rich_path: Callable[[str], Path]) -> Any:
    if shutil.which("gdalinfo") is None or "OGCAPI" not in _run(["gdalinfo", "--formats"]):
        pytest.skip("GDAL with its driver for OGC API is not installed")
    with serving(rich_path) as url:
        yield f"{url}/ogcapi"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the cache of GDAL out of the working directory."""
    monkeypatch.setitem(ENVIRONMENT, "GDAL_DEFAULT_WMS_CACHE_PATH", str(tmp_path / "gdalwmscache"))


def _run(command: list[str], folder: Path | None = None) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=ENVIRONMENT, cwd=folder
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def info(name: str, *options: str) -> dict[str, Any]:
    arguments = [item for option in options for item in ("-oo", option)]
    found: dict[str, Any] = json.loads(_run(["gdalinfo", "-json", name, *arguments]))
    return found


def test_collections_are_subdatasets(address: str) -> None:
    found = info(f"OGCAPI:{address}")["metadata"]["SUBDATASETS"]
    names = [value for name, value in found.items() if name.endswith("_NAME")]
    assert f"OGCAPI:{address}/collections/b_europe?f=json" in names
    assert len(names) == 8


HALF = 20037508.3427892
# GDAL 3.6 takes the extent for one in the CRS of the tiles, and the height of the whole matrix for
# that of the collection: these options, and collections as high as the world, spare it both.
WORLD = (f"MINX={-HALF}", f"MINY={-HALF}", f"MAXX={HALF}", f"MAXY={HALF}")


def test_tiles_are_read_where_they_lie(address: str, tmp_path: Path) -> None:
    name = f"OGCAPI:{address}/collections/a_world"
    found = info(name, "API=TILES", "CACHE=NO", *WORLD)
    assert '"EPSG",3857' in found["coordinateSystem"]["wkt"]
    assert found["size"] == [1024, 1024]
    cell = 2 * HALF / 1024
    assert found["geoTransform"] == pytest.approx([-HALF, cell, 0, HALF, 0, -cell], rel=1e-9)
    output = tmp_path / "part.tif"
    options = ("API=TILES", "CACHE=NO", "TILEMATRIX=1", *WORLD)
    arguments = [item for option in options for item in ("-oo", option)]
    name = f"OGCAPI:{address}/collections/f_pacific"
    _run(["gdal_translate", "-q", *arguments, name, str(output)])
    pixels = np.asarray(Image.open(output))
    # East of Greenwich the collection is blue, west of it red.
    assert pixels.shape[:2] == (512, 512)
    assert (pixels[:, :256, :3] == (255, 0, 0)).all()
    assert (pixels[:, 256:, :3] == (0, 0, 255)).all()


def test_tiles_of_a_set_with_the_northing_first_are_read_where_they_lie(address: str) -> None:
    name = f"OGCAPI:{address}/collections/d_lambert"
    box = ("MINX=3125000", "MINY=2125000", "MAXX=5375000", "MAXY=4375000")
    found = info(name, "API=TILES", "CACHE=NO", *box)
    assert '"EPSG",3035' in found["coordinateSystem"]["wkt"]
    origin_x, cell, _, origin_y, _, _ = found["geoTransform"]
    assert (origin_x, cell, origin_y) == pytest.approx((3125000, 2197.265625, 4375000))


def test_maps_are_read_where_they_lie(address: str, tmp_path: Path) -> None:
    """The driver takes every map for one in degrees: so is the CRS of this collection."""
    name = f"OGCAPI:{address}/collections/c_degrees"
    found = info(name, "API=MAP", "CACHE=NO")
    assert '"EPSG",4326' in found["coordinateSystem"]["wkt"]
    origin_x, _, _, origin_y, _, _ = found["geoTransform"]
    # The finest level begins at 0 degrees, the coarser ones show the world.
    assert (origin_x, origin_y) == pytest.approx((-180, 90), abs=1e-6)
    output = tmp_path / "map.tif"
    # One pixel of the finest level, 180 / 1024 degrees, to one of the output.
    _run(
        [
            "gdal_translate",
            "-q",
            "-oo",
            "API=MAP",
            "-oo",
            "CACHE=NO",
            "-projwin",
            "0",
            "90",
            "45",
            "45",
            "-outsize",
            "256",
            "256",
            name,
            str(output),
        ]
    )
    pixels = np.asarray(Image.open(output)).astype(int)
    columns = (1024 + np.arange(256)) // 4 % 256
    inside = slice(8, -8)
    difference = np.abs(pixels[100, inside, 0] - columns[inside])
    assert np.minimum(difference, 256 - difference).max() <= 8
