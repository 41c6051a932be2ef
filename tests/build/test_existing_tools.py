"""What is built equals what the ROK4 tools write, and their library reads it."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import zlib
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.build.conftest import Build
from tests.build.ground import grid, noise, read_payloads, read_tiles, write_raster

from mastaba_writer.tile_matrix_sets import PUBLISHED

_READ = """
import sys
sys.path.append("/usr/lib/python3/dist-packages")  # GDAL from Debian
import hashlib, json
from rok4.pyramid import Pyramid
from rok4.storage import exists
pyramid = Pyramid.from_descriptor(sys.argv[1])
tiles = {}
for level, row, column in json.load(sys.stdin):
    data = pyramid.get_tile_data_raster(level, column, row)
    tiles[f"{level} {row} {column}"] = hashlib.sha256(data.tobytes()).hexdigest()
pyramid.load_list()
slabs = [slab["slab"] for _, slab in pyramid.list_generator()]
found = sum(
    exists(pyramid.get_slab_path_from_infos(kind, level, column, row))
    for (kind, level, column, row), _ in pyramid.list_generator()
)
print(json.dumps([tiles, len(slabs), found]))
"""


@pytest.mark.sampled(one_in=4)
@pytest.mark.shared_data
@pytest.mark.skipif("ng" in zlib.ZLIB_RUNTIME_VERSION, reason="another zlib writes other bytes")
@pytest.mark.parametrize(
    "name",
    [
        *("DEV_RGB_ZIP", "DEV_RGB_PNG", "DEV_GREY_PNG", "DEV_GREYA_PNG", "DEV_RGBA_PNG"),
        *("DEV_F32_ZIP", "DEV_F32_ZIP_4326"),
    ],
)
def test_equal_pixels_have_equal_bytes(shared_data: Path, build_of: Build, name: str) -> None:
    existing = shared_data / f"alps/pyramids/{name}.json"
    document = json.loads(existing.read_text())
    specification = document["raster_specifications"]
    finest = max((level["id"] for level in document["levels"]), key=int)
    built = build_of(
        existing,
        tile_matrix_set=document["tile_matrix_set"],
        tile_matrix_sets=str(shared_data / "alps/tilematrixsets"),
        format=document["format"],
        channels=specification["channels"],
        nodata=[int(value) for value in specification["nodata"].split(",")],
        bottom=finest,
        top=finest,
        encoder="zlib",
    )
    stored, ours = read_payloads(existing), read_payloads(built)
    common = [tile for tile in ours if tile in stored]
    assert common
    for tile in common:
        assert ours[tile] == stored[tile], tile


@pytest.mark.live
@pytest.mark.parametrize("format", ["png", "jpg", "zip"])
def test_the_library_of_rok4_reads_a_pyramid(tmp_path: Path, build_of: Build, format: str) -> None:
    pytest.importorskip("rok4")
    if find_spec("osgeo") is None and not Path("/usr/lib/python3/dist-packages/osgeo").is_dir():
        pytest.skip("the GDAL of Debian is not installed (python3-gdal)")
    pixels = noise(1 if format == "zip" else 3, 900, 1000).astype(
        "float32" if format == "zip" else "uint8"
    )
    source = write_raster(tmp_path / "a.tif", pixels, grid(900000, 6500000, 5), "EPSG:2154")
    descriptor = build_of(source, format=format, slab=[4, 4])
    (tmp_path / "PM.json").write_text(json.dumps(PUBLISHED["PM"]()))
    ours = read_tiles(descriptor)
    reader = subprocess.run(
        [sys.executable, "-c", _READ, str(descriptor)],
        input=json.dumps([list(tile) for tile in ours]),
        env=os.environ | {"ROK4_TMS_DIRECTORY": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert reader.returncode == 0, reader.stderr
    theirs, listed, found = json.loads(reader.stdout)
    assert listed == found == len(list(descriptor.with_suffix("").rglob("*.tif")))
    assert len(theirs) == len(ours) > 10
    if format != "jpg":  # decoders of JPEG differ by one level
        for (level, row, column), tile in ours.items():
            expected = hashlib.sha256(tile.tobytes()).hexdigest()
            assert theirs[f"{level} {row} {column}"] == expected
