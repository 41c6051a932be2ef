"""COGs of all raster formats in the readers of other projects.

Each file is validated by two programs, and read by GDAL, rasterio, tifffile and geotiff.js.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.coverage.ground import FORMATS, ORIGIN, TILE, Ground, written
from tests.live.browsers import web_clients
from tests.sizes import sized

from mastaba_coverage import CoveragePlan, TiffOptions, layout
from mastaba_writer.tile_encoder import encode_tile

pytestmark = [
    pytest.mark.live,
    pytest.mark.thorough,
    pytest.mark.skipif(shutil.which("gdal_translate") is None, reason="GDAL is not installed"),
]

rasterio = pytest.importorskip("rasterio")
tifffile = pytest.importorskip("tifffile")
cog_validate = pytest.importorskip("rio_cogeo.cogeo").cog_validate

SYSTEM_PYTHON = "/usr/bin/python3"
VALIDATOR = "osgeo_utils.samples.validate_cloud_optimized_geotiff"
JPEG_DECODERS = 32
"""How much two decoders of JPEG may differ: geotiff.js repeats colours, others interpolate them."""


REGISTRATIONS = ("area", "post")


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((name, registration), id=f"{name}-{registration}")
        for number, name in enumerate(FORMATS)
        for registration in sized((REGISTRATIONS[number % 2],), REGISTRATIONS)
    ],
)
def ground(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Ground]:
    name, registration = request.param
    channels = 1 if "FLOAT" in name else 3
    made = Ground(tmp_path_factory.mktemp("g"), name, channels, registration=registration)
    yield made
    made.close()


# By default, areas are in classic files and posts in big ones; each format has one of both.
KINDS = sized(("",), ("classic", "big"))


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest, ground: Ground) -> str:
    return request.param or {"area": "classic", "post": "big"}[ground.layer.registration]


def make_file(
    ground: Ground, kind: str, plan: CoveragePlan, path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Write a file of one of the two kinds of TIFF."""
    if kind == "big":
        monkeypatch.setattr(layout, "LARGEST_CLASSIC", 1000)
    written(ground.extract(plan), path)
    magic = 43 if kind == "big" else 42
    assert path.read_bytes()[:4] == bytes([0x49, 0x49, magic, 0])
    return path


@pytest.fixture
def cog(ground: Ground, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the COG of the whole layer."""
    return make_file(ground, kind, ground.whole(), tmp_path / "whole.tif", monkeypatch)


def expected_of(ground: Ground, number: int) -> Any:
    """Return the stored values of an image of the COG, shape (rows, columns, channels)."""
    cells = ground.whole().images[number].cells
    edges = (cells.top, cells.bottom, cells.left, cells.right)
    return ground.values(str(3 - number), *edges)


def check(found: Any, expected: Any, name: str) -> None:
    assert found.shape == expected.shape
    if "JPG" not in name:
        assert np.ascontiguousarray(found).tobytes() == expected.tobytes()
        return
    stored = (expected != 255).any(axis=2)
    difference = np.abs(found.astype(int) - expected)[stored]
    assert difference.max() <= JPEG_DECODERS


def test_validators_find_nothing(cog: Path) -> None:
    assert cog_validate(cog, strict=True) == (True, [], [])
    command = [SYSTEM_PYTHON, "-m", VALIDATOR, "--full-check=yes", str(cog)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    said = (done.stdout + done.stderr).lower()
    assert "is a valid cloud optimized geotiff" in said
    assert "warning" not in said
    assert "error" not in said


def test_gdal_reads_the_values(cog: Path, ground: Ground, tmp_path: Path) -> None:
    for number in range(3):
        raw = tmp_path / f"{number}.raw"
        level = ["-oo", f"OVERVIEW_LEVEL={number - 1}"] if number else []
        command = ["gdal_translate", "-q", "-of", "ENVI", "-co", "INTERLEAVE=BIP", *level]
        subprocess.run([*command, cog, raw], check=True, capture_output=True)
        expected = expected_of(ground, number)
        found = np.fromfile(raw, expected.dtype).reshape(expected.shape)
        check(found, expected, ground.name)


def test_tifffile_reads_the_values(cog: Path, ground: Ground) -> None:
    with tifffile.TiffFile(cog) as file:
        levels = file.series[0].levels
        assert len(levels) == 3
        for number, level in enumerate(levels):
            expected = expected_of(ground, number)
            found = level.asarray().reshape(expected.shape)
            cells, nodata = ground.whole().images[number].cells, 0
            # It takes sparse tiles for zeros where a file has nodata: compare what is stored.
            stored = np.zeros(expected.shape[:2], bool)
            for row, col in np.ndindex(-(-cells.rows // TILE), -(-cells.columns // TILE)):
                page = level.pages[0].dataoffsets[row * -(-cells.columns // TILE) + col]
                block = slice(row * TILE, row * TILE + TILE), slice(col * TILE, col * TILE + TILE)
                stored[block] = page != 0
            check(
                np.where(stored[:, :, None], found, nodata),
                np.where(stored[:, :, None], expected, np.asarray(nodata, expected.dtype)),
                ground.name,
            )


def test_geotiff_js_reads_the_values(
    ground: Ground, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads no sparse files, as most readers other than GDAL."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed (Debian package nodejs)")
    library = web_clients() / "geotiff/dist-node/geotiff.js"
    script = Path(__file__).with_name("read_geotiff.mjs")
    coverage = ground.coverage
    tiff = TiffOptions(is_sparse=False)
    plan = CoveragePlan.cog(coverage, coverage.finest.window, coverage.fields, tiff)
    cog = make_file(ground, kind, plan, tmp_path / "whole.tif", monkeypatch)
    for number, image in enumerate(plan.images):
        command = [node, str(script), str(library), str(cog), str(number)]
        done = subprocess.run(command, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()
        line, _, data = done.stdout.partition(b"\n")
        facts = json.loads(line)
        assert facts["count"] == 3
        assert (facts["height"], facts["width"]) == (image.rows, image.columns)
        expected = expected_of(ground, number)
        found = np.frombuffer(data, expected.dtype).reshape(expected.shape)
        check(found, expected, ground.name)
        if number == 0:
            is_post = ground.layer.registration == "post"
            assert facts["isPoint"] == is_post
            # geotiff.js gives the tiepoint: the middle of the first cell for posts.
            half = 0.5 if is_post else 0.0
            corner = ORIGIN[0] + plan.cells.left + half, ORIGIN[1] - plan.cells.top - half
            assert tuple(facts["origin"][:2]) == corner
            assert facts["nodata"] == (-99999 if "FLOAT" in ground.name else 255)


def test_jpeg_tiles_are_those_that_are_stored(ground: Ground, tmp_path: Path) -> None:
    """A copied tile has the bytes of the slab, so any decoder gives the same for both."""
    if "PNG" in ground.name:
        pytest.skip("filtered rows of PNG are no TIFF tiles")
    path = written(ground.extract(ground.whole()), tmp_path / "whole.tif")
    plan = ground.whole()
    with tifffile.TiffFile(path) as file:
        page = file.series[0].levels[0].pages[0]
        data = path.read_bytes()
        across = -(-plan.cells.columns // TILE)
        count = 0
        for place, (offset, size) in enumerate(
            zip(page.dataoffsets, page.databytecounts, strict=True)
        ):
            row, col = plan.cells.top // TILE + place // across, place % across
            col += plan.cells.left // TILE
            if not size:
                continue
            pixels = ground.made("3", row, col)
            assert pixels is not None
            assert data[offset : offset + size] == encode_tile(ground.name, pixels)
            count += 1
    assert count > 300
