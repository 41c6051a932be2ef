"""A pyramid harvested from MapServer has the pixels that MapServer draws."""

from __future__ import annotations

import io
import itertools
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image
from tests.build.ground import grid, noise, read_tiles, write_raster
from tests.build.test_pixels import aligned, cell
from tests.live.fronts import apache, fcgid
from tests.live.processes import public_folder

pytestmark = pytest.mark.live

MAPSERVER = Path("/usr/lib/cgi-bin/mapserv")
LEVEL = 12
ROW, COLUMN = 1403, 2107
"""Of the first tile, not at the border of a slab."""
ROWS, COLUMNS = 10, 11
MARGIN = 77
_CONFIG = """
CONFIG
  ENV
    MS_MAPFILE "{path}"
  END
END
"""
_MAP = """
MAP
  NAME "test"
  SIZE 256 256
  MAXSIZE 4096
  UNITS METERS
  IMAGECOLOR 255 255 255
  EXTENT {left} {lower} {right} {upper}
  PROJECTION "init=epsg:3857" END
  OUTPUTFORMAT
    NAME "png"
    DRIVER AGG/PNG
    MIMETYPE "image/png"
    IMAGEMODE RGB
  END
  WEB METADATA
    "wms_title" "test"
    "wms_onlineresource" "http://127.0.0.1/"
    "wms_srs" "EPSG:3857 EPSG:4326"
    "wms_enable_request" "*"
  END END
  LAYER
    NAME "ground"
    TYPE RASTER
    STATUS ON
    DATA "{raster}"
    PROJECTION "init=epsg:3857" END
    METADATA "wms_title" "ground" END
  END
  LAYER
    NAME "paths"
    TYPE LINE
    STATUS ON
    PROJECTION "init=epsg:3857" END
    METADATA "wms_title" "paths" "wms_extent" "{left} {lower} {right} {upper}" END
    FEATURE POINTS {left} {lower} {right} {upper} END END
    FEATURE POINTS {left} {upper} {right} {middle} END END
    CLASS STYLE COLOR 200 0 0 WIDTH 3 END END
  END
END
"""


@pytest.fixture(scope="module")
def mapserver() -> Iterator[str]:
    """Return the address of MapServer behind Apache."""
    if not MAPSERVER.exists():
        pytest.skip("install the Debian package cgi-mapserver (make install-live)")
    size = cell(LEVEL) * 256
    left, upper = aligned(LEVEL, ROW, COLUMN)
    right, lower = left + COLUMNS * size, upper - ROWS * size
    # The extent ends inside tiles.
    margin = MARGIN * cell(LEVEL)
    left, lower, right, upper = left + margin, lower + margin, right - margin, upper - margin
    with public_folder() as folder:
        # The raster does not cover the last column, which is white. No pixel of a map is at the
        # border of two of its pixels, where rounding would decide.
        coarse = 1.37 * cell(LEVEL)
        pixels = noise(3, *(int(count * 256 / 1.37) - 120 for count in (ROWS, COLUMNS - 1)))
        place = grid(left + 0.3 * cell(LEVEL), upper - 0.3 * cell(LEVEL), coarse)
        raster = write_raster(folder / "ground.tif", pixels, place, "EPSG:3857")
        (folder / "mapserver.conf").write_text(_CONFIG.format(path=folder / "test.map"))
        values = {"left": left, "lower": lower, "right": right, "upper": upper}
        text = _MAP.format(**values, middle=(lower + upper) / 2, raster=raster)
        (folder / "test.map").write_text(text)
        for path in folder.iterdir():
            path.chmod(0o644)
        way = f"""
FcgidInitialEnv MAPSERVER_CONFIG_FILE {folder}/mapserver.conf
{fcgid(str(MAPSERVER))}"""
        with apache(folder / "apache", [way]) as front:
            yield front.urls[0]


def drawn(url: str, **query: object) -> npt.NDArray[np.uint8]:
    """Return the map of a request that this test writes itself."""
    asked = {"SERVICE": "WMS", "REQUEST": "GetMap", "STYLES": "", "FORMAT": "image/png", **query}
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"{url}/?{urlencode(asked)}", timeout=60) as answer:
        data = answer.read()
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image.convert("RGB"))


def drawn_by_slab(
    url: str, layers: str, level: int, first: tuple[int, int], shape: tuple[int, int], slab: int
) -> npt.NDArray[np.uint8]:
    """Return the pixels of some tiles, from one map of each slab.

    How MapServer rounds the places of pixels depends on the extent of the map, so the extents must
    be those of a harvest.

    Args:
        first: row and column of the first tile.
        shape: rows and columns of tiles.
        slab: width and height of a slab in tiles; it has at most 2048 x 2048 pixels.
    """
    whole = np.zeros((shape[0] * 256, shape[1] * 256, 3), np.uint8)
    size = cell(level) * 256
    for top, bottom in parts(first[0], shape[0], slab):
        for start, end in parts(first[1], shape[1], slab):
            left, upper = aligned(level, top, start)
            box = (left, upper - (bottom - top) * size, left + (end - start) * size, upper)
            into = np.s_[
                (top - first[0]) * 256 : (bottom - first[0]) * 256,
                (start - first[1]) * 256 : (end - first[1]) * 256,
            ]
            whole[into] = drawn(
                url,
                VERSION="1.1.1",
                LAYERS=layers,
                SRS="EPSG:3857",
                BBOX=",".join(map(repr, box)),
                WIDTH=(end - start) * 256,
                HEIGHT=(bottom - top) * 256,
            )
    return whole


def parts(first: int, count: int, slab: int) -> list[tuple[int, int]]:
    """Return the first tile and the one after the last in each slab."""
    inner = [one for one in range(first + 1, first + count) if one % slab == 0]
    edges = [first, *inner, first + count]
    return list(itertools.pairwise(edges))


def build(folder: Path, source: str, *words: str) -> str:
    """Run the command, which succeeds; return what it says."""
    command = [sys.executable, "-m", "mastaba", "build", source, "--allow-network"]
    done = subprocess.run(
        [*command, "--output", str(folder), "--name", "map", *words],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def mosaic(descriptor: Path, level: str, first: tuple[int, int], shape: tuple[int, int]) -> object:
    """Return the pixels of a level from a tile on; white where there is none.

    Args:
        first: row and column of the tile.
        shape: rows and columns of tiles.
    """
    whole = np.full((shape[0] * 256, shape[1] * 256, 3), 255, np.uint8)
    for (one, row, column), tile in read_tiles(descriptor).items():
        down, right = row - first[0], column - first[1]
        if one == level:
            assert 0 <= down < shape[0]
            assert 0 <= right < shape[1]
            part = np.s_[down * 256 : (down + 1) * 256, right * 256 : (right + 1) * 256]
            whole[part] = tile
    return whole


@pytest.mark.parametrize("layers", ["ground", "ground,paths"])
def test_a_harvest_equals_drawing(tmp_path: Path, mapserver: str, layers: str) -> None:
    said = build(
        *(tmp_path, f"wms:{mapserver}/#layers={layers}&format=image/png"),
        *("--bottom", str(LEVEL), "--top", "10", "--slab", "8x8", "--concurrency", "3"),
    )
    assert "requests" in said
    whole = drawn_by_slab(mapserver, layers, LEVEL, (ROW, COLUMN), (ROWS, COLUMNS), 8)
    assert len(np.unique(whole)) > 100
    found = mosaic(tmp_path / "map.json", str(LEVEL), (ROW, COLUMN), (ROWS, COLUMNS))
    assert np.array_equal(found, whole)


@pytest.mark.parametrize("version", ["1.3.0", "1.1.1"])
def test_degrees(tmp_path: Path, mapserver: str, version: str) -> None:
    source = f"wms:{mapserver}/?version={version}#layers=ground&format=image/png"
    build(tmp_path, source, "--tms", "4326", "--bottom", "10", "--top", "10")
    tiles = read_tiles(tmp_path / "map.json")
    rows = sorted({row for _, row, _ in tiles})
    columns = sorted({column for _, _, column in tiles})
    size = 180 / 2**10
    box = [
        -180 + columns[0] * size,
        90 - (rows[-1] + 1) * size,
        -180 + (columns[-1] + 1) * size,
        90 - rows[0] * size,
    ]
    shape = len(rows), len(columns)
    whole = drawn(
        mapserver,
        VERSION="1.1.1",
        LAYERS="ground",
        SRS="EPSG:4326",
        BBOX=",".join(map(repr, box)),
        WIDTH=shape[1] * 256,
        HEIGHT=shape[0] * 256,
    )
    found = mosaic(tmp_path / "map.json", "10", (rows[0], columns[0]), shape)
    assert (whole < 255).any(axis=2).mean() > 0.5
    assert np.array_equal(found, whole)


def test_levels_may_be_drawn(tmp_path: Path, mapserver: str) -> None:
    source = f"wms:{mapserver}/#layers=paths&format=image/png"
    build(tmp_path, source, "--bottom", str(LEVEL), "--top", "11", "--draw-levels", "--slab", "8x8")
    first, last = (ROW // 2, COLUMN // 2), ((ROW + ROWS - 1) // 2, (COLUMN + COLUMNS - 1) // 2)
    shape = last[0] - first[0] + 1, last[1] - first[1] + 1
    whole = drawn_by_slab(mapserver, "paths", 11, first, shape, 8)
    found = mosaic(tmp_path / "map.json", "11", first, shape)
    assert np.array_equal(found, whole)


def test_an_unknown_layer_gets_the_names(tmp_path: Path, mapserver: str) -> None:
    command = [sys.executable, "-m", "mastaba", "build", f"wms:{mapserver}/#layers=roads"]
    command += ["--allow-network", "--bottom", "12", "--output", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "has no layer 'roads'; it has ground, paths" in done.stderr
