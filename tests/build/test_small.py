"""Small sources: few bytes, no process too many, and an estimate that holds."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.build.conftest import Build
from tests.build.ground import grid, noise, read_payloads, read_tiles, write_raster
from tests.support.sampling import one_in
from werkzeug.test import Client

from mastaba.wsgi import create_application
from mastaba_build.commands.server import write_server
from mastaba_build.output.destination import Destination
from mastaba_build.plan.plan import Plan, slab_options
from mastaba_build.pyramid.verification import verify
from mastaba_build.work.estimate import estimate
from mastaba_build.work.local_engine import processes

PlanOf = Callable[..., Plan]


def sheet(folder: Path, size: int = 700, bands: int = 3) -> Path:
    place = grid(900000, 6500000, 5)
    return write_raster(folder / "a.tif", noise(bands, size, size), place, "EPSG:2154")


def options(**more: Any) -> dict[str, Any]:
    return {"slab": [8, 8], "top": "10", **more}


def stored_bytes(descriptor: Path) -> int:
    return sum(path.stat().st_size for path in descriptor.parent.rglob("*.tif"))


@pytest.mark.parametrize("format", one_in(2, ["jpg", "zip"]))
def test_tiles_without_data_are_absent(tmp_path: Path, build_of: Build, format: str) -> None:
    source = sheet(tmp_path)
    skipped = build_of(source, name="skipped", **options(format=format))
    stored = build_of(source, name="stored", **options(format=format, empty_tiles="store"))
    few, all_ = read_payloads(skipped), read_payloads(stored)
    assert len(all_) % 64 == 0
    assert set(few) == set(read_tiles(stored))
    assert few == {key: all_[key] for key in few}
    for name in ("skipped", "stored"):
        assert verify(Destination.parse(str(skipped.parent)), name, full=True)


@pytest.mark.thorough
def test_masks_of_absent_tiles_are_absent(tmp_path: Path, build_of: Build) -> None:
    source = sheet(tmp_path)
    one = build_of(source, name="one", **options(format="png", masks=True))
    masks = sum(path.stat().st_size for path in (one.parent / "one/MASK").rglob("*.tif"))
    two = build_of(source, name="two", **options(format="png", masks=True, empty_tiles="store"))
    more = sum(path.stat().st_size for path in (two.parent / "two/MASK").rglob("*.tif"))
    assert masks < more
    first = build_of({"path": str(one)}, name="first", **options(format="png", channels=4))
    second = build_of({"path": str(two)}, name="second", **options(format="png", channels=4))
    a, b = read_tiles(first), read_tiles(second)
    assert a.keys() == b.keys()
    assert all(np.array_equal(a[key], b[key]) for key in a)


@pytest.mark.thorough
def test_clients_get_404_for_absent_tiles(tmp_path: Path, build_of: Build, plan_of: PlanOf) -> None:
    source = sheet(tmp_path)
    descriptor = build_of(source, **options(format="png", nodata=[1, 2, 3]))
    server = write_server(plan_of(source, **options(format="png", nodata=[1, 2, 3])), "http://a")
    client = Client(create_application(str(server)))
    level = json.loads(descriptor.read_text())["levels"][-1]
    limits = level["tile_limits"]
    tiles = read_payloads(descriptor)
    codes = {
        (row, column): client.get(f"/tms/1.0.0/map/{level['id']}/{column}/{row}.png").status_code
        for row in range(limits["min_row"], limits["max_row"] + 1)
        for column in range(limits["min_col"], limits["max_col"] + 1)
    }
    expected = {place: 200 if (level["id"], *place) in tiles else 404 for place in codes}
    assert codes == expected


@pytest.mark.sampled(one_in=2)
@pytest.mark.parametrize("empty_tiles", ["skip", "store"])
def test_the_estimate_counts_the_levels_above(
    tmp_path: Path, build_of: Build, plan_of: PlanOf, empty_tiles: str
) -> None:
    source = sheet(tmp_path)
    wanted = options(format="jpg", empty_tiles=empty_tiles)
    found = estimate(plan_of(source, **wanted)).bytes
    real = stored_bytes(build_of(source, **wanted))
    assert 0.7 * real < found < 1.4 * real


def test_a_small_build_starts_no_process(tmp_path: Path, plan_of: PlanOf) -> None:
    plan = plan_of(sheet(tmp_path), workers=3, **options())
    assert processes(plan.configuration, plan) == 3
    automatic = replace(plan.configuration, workers=None)
    assert processes(automatic, plan) == 1
    large = plan_of(sheet(tmp_path, 1500), bottom="19", **options())
    assert processes(automatic, large) == processes(automatic)


def test_pyramids_of_earlier_versions_are_not_built_again(tmp_path: Path, plan_of: PlanOf) -> None:
    source = sheet(tmp_path)
    assert "empty_tiles" not in slab_options(plan_of(source).configuration)
    stored = plan_of(source, empty_tiles="store")
    assert slab_options(stored.configuration)["empty_tiles"] == "store"
    assert stored.identity != plan_of(source).identity


@pytest.mark.thorough
def test_rasterio_is_loaded_without_what_signs_requests() -> None:
    pytest.importorskip("boto3")
    code = (
        "import sys; from mastaba_build.commands import build; build._load_rasterio(); "
        "assert 'rasterio' in sys.modules; assert 'botocore' not in sys.modules; import boto3"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_small_build_loads_no_server(tmp_path: Path) -> None:
    source = sheet(tmp_path, 300)
    code = (
        "import sys; from mastaba.commands.main import main; "
        f"status = main(['build', {str(source)!r}, '--output', {str(tmp_path / 'out')!r}]); "
        "loaded = {'werkzeug', 'concurrent.futures.process', 'mastaba.site.application'}; "
        "assert status == 0; assert not loaded & sys.modules.keys(), loaded & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.thorough
def test_pixels_outside_of_a_photo_are_transparent(tmp_path: Path, build_of: Build) -> None:
    descriptor = build_of(sheet(tmp_path), format="png", channels=4, **options())
    tiles = np.concatenate(list(read_tiles(descriptor).values()))
    outside = tiles[:, :, 3] == 0
    assert 0.1 < outside.mean() < 0.9
    assert (tiles[~outside][:, 3] == 255).mean() > 0.99


def test_slabs_of_a_small_photo_are_small(tmp_path: Path, build_of: Build) -> None:
    """Each has room for 64 tiles, and few: they are little more than their tiles."""
    source = sheet(tmp_path)
    descriptor = build_of(source, format="png", **options())
    tiles = sum(len(data) for data in read_payloads(descriptor).values())
    levels = len(json.loads(descriptor.read_text())["levels"])
    assert 0 < tiles <= stored_bytes(descriptor) <= tiles + 4 * levels * (2048 + 64 * 16)
