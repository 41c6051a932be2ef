"""A worker needs no more memory for a larger input."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.build.ground import MASTABA, grid, noise, write_raster

from mastaba_build.pixels.placement import Rectangle
from mastaba_build.pixels.reading import Reader
from mastaba_build.plan.plan import Plan
from mastaba_build.samples import Raster
from mastaba_build.sources.groups import Group
from mastaba_build.work.local_engine import processes
from mastaba_render.api.resampling import decimate

LIMIT = 300
"""MiB of one process, with everything that it has loaded."""

# The peak of a process begins with the memory of its parent, so the parent is a small one.
_MEASURE = """
import resource, subprocess, sys
status = subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(status)
"""


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["float", "alpha"])
def test_the_worst_slabs_fit(tmp_path: Path, kind: str) -> None:
    # Noise cannot be compressed. The input is larger than a slab, and rotated against it.
    generator = np.random.default_rng(1)
    size = 4200
    if kind == "float":
        pixels = generator.random((1, size, size), np.float32)
        words = ["--format", "zip"]
    else:
        pixels = generator.integers(1, 256, (4, size, size), np.uint8)
        words = ["--format", "png", "--channels", "4"]
    source = write_raster(
        tmp_path / "a.tif",
        pixels,
        grid(1000000, 6300000, 4),
        "EPSG:2154",
        photometric="minisblack" if kind == "float" else "rgb",
        blockxsize=512,
        blockysize=512,
    )
    del pixels
    words += ["--encoder", "isal", "--top", "13", "--workers", "1"]
    measured = subprocess.run(
        [
            *(sys.executable, "-c", _MEASURE),
            *(*MASTABA, "build", str(source), "--output", str(tmp_path / "out"), *words),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert measured.returncode == 0, measured.stderr
    slabs = [path.stat().st_size for path in (tmp_path / "out").rglob("*.tif")]
    assert max(slabs) > 30 << 20
    assert int(measured.stdout) / 1024 <= LIMIT


@pytest.mark.parametrize(("memory", "count"), [(None, 8), (5000, 8), (1000, 3), (100, 1)])
def test_memory_limits_the_processes(
    tmp_path: Path, plan_of: Callable[..., Plan], memory: int | None, count: int
) -> None:
    source = write_raster(tmp_path / "a.tif", noise(1, 9, 9), grid(0, 6500000, 1), "EPSG:2154")
    options = {} if memory is None else {"memory": memory}
    assert processes(plan_of(source, workers=8, **options).configuration) == count


@pytest.mark.thorough
def test_coarse_levels_are_read_in_parts(
    tmp_path: Path, plan_of: Callable[..., Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    # One pixel of LAMB93_1M_MNT may be 1000 x 1000 source pixels.
    pixels = noise(1, 400, 40_000)
    source = write_raster(tmp_path / "wide.tif", pixels, grid(0, 6500000, 1), "EPSG:2154")
    plan = plan_of(source)
    reader = Reader(plan.source_type, "average", plan.configuration.access)
    read = Reader._read
    sizes: list[int] = []

    def counted(reader: Reader, group: Group, window: Rectangle) -> Raster:
        sizes.append((window[1] - window[0]) * (window[3] - window[2]))
        return read(reader, group, window)

    monkeypatch.setattr(Reader, "_read", counted)
    found = reader.read(plan.groups[0], (-1, 2, -3, 203), 200)
    reader.close()
    assert max(sizes) <= 1 << 22
    whole = np.moveaxis(pixels, 0, -1)
    expected, _ = decimate(np.ascontiguousarray(whole), np.ones(whole.shape[:2], bool), 200)
    assert np.array_equal(found.samples[1:, 3:203, :1], expected)
    assert found.valid.sum() == expected.size
