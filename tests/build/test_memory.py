"""A worker needs no more memory for a larger input."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tests.build.ground import MASTABA, grid, write_raster

LIMIT = 300
"""MiB of one process, with everything that it has loaded."""


@pytest.mark.parametrize("kind", ["float", "alpha"])
def test_the_worst_slabs_fit(tmp_path: Path, kind: str) -> None:
    # Noise cannot be compressed. The input is larger than a slab, and rotated against it.
    generator = np.random.default_rng(1)
    size = 5200
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
    with subprocess.Popen(
        [*MASTABA, "build", str(source), "--output", str(tmp_path / "out"), *words],
        stdout=subprocess.DEVNULL,
    ) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    slabs = [path.stat().st_size for path in (tmp_path / "out").rglob("*.tif")]
    assert max(slabs) > 30 << 20
    assert usage.ru_maxrss / 1024 <= LIMIT
