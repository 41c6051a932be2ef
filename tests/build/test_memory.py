"""A worker needs no more memory for a larger input."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.build.ground import MASTABA, grid, write_raster

LIMIT = 300
"""MiB of one process, with everything that it has loaded."""

# The peak of a process begins with the memory of its parent, so the parent is a small one.
_MEASURE = """
import resource, subprocess, sys
status = subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(status)
"""


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
