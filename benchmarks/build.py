"""Tiles per second of ``mastaba build``: ``python -m benchmarks.build``, beside tools of GDAL.

Every case builds all levels from the same GeoTIFF with one process. The tiles counted are those of
the finest level.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import rasterio
from rasterio.transform import Affine

_MEMORY_LIMIT = 300
"""MiB of a worker, for any size of input."""
_CELL = 156543.033928041 / 2**15
_KINDS = ("3857", "2154", "float")
_PNG = "RGB PNG, libdeflate"
CASES = {
    "RGB JPEG, same grid": ("3857", ["--format", "jpg"]),
    "RGB JPEG, reprojected": ("2154", ["--format", "jpg"]),
    "RGB PNG, zlib": ("2154", ["--format", "png", "--encoder", "zlib"]),
    "RGB PNG, libdeflate": ("2154", ["--format", "png", "--encoder", "libdeflate"]),
    "float ZIP, zlib": ("float", ["--format", "zip", "--encoder", "zlib"]),
    "float ZIP, libdeflate": ("float", ["--format", "zip", "--encoder", "libdeflate"]),
}


@dataclass(frozen=True)
class Run:
    """One finished program: tiles of the finest level, seconds, MiB at most.

    Attributes:
        slabs: seconds from the first slab to the last one; 0 if unknown.
    """

    tiles: int
    wall: float
    slabs: float
    cpu: float
    memory: float


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; return 1 if a worker used too much memory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=6000, help="width and height of the input")
    options = parser.parse_args(argv)
    largest = 0.0
    with tempfile.TemporaryDirectory(prefix="mastaba-build-") as name:
        folder = Path(name)
        sources = make_sources(folder, options.size)
        tiny = make_sources(folder / "tiny", 64)
        start = _mastaba(tiny["2154"], folder / "out", ["--format", "jpg"]).cpu
        print(f"start of the program: {start:.1f} CPU s, which the last but one column leaves out")
        print(f"{'case':26}{'tiles':>8}{'wall s':>9}{'CPU s':>9}{'tiles/CPU s':>13}{'MiB':>7}")
        for case, (kind, words) in CASES.items():
            run = _mastaba(sources[kind], folder / "out", words)
            largest = max(largest, run.memory)
            _print(case, run, start)
        one, two = (
            _mastaba(
                sources["2154"], folder / "out", [*CASES[_PNG][1], "--slab", "4x4"], workers=count
            )
            for count in (1, 2)
        )
        _print(f"{_PNG}, 2 workers", two, start)
        print(
            f"two workers are {one.slabs / two.slabs:.2f} times as fast as one, without the start"
        )
        for name, command in _peers(sources["2154"], folder).items():
            if shutil.which(command[0]):
                _print(name, _peer(command, folder / "tiles"))
            else:
                print(f"{name}: {command[0]} is not installed")
    if largest > _MEMORY_LIMIT:
        print(f"a worker used {largest:.0f} MiB, more than {_MEMORY_LIMIT}", file=sys.stderr)
        return 1
    return 0


def _print(case: str, run: Run, start: float = 0.0) -> None:
    speed = run.tiles / (run.cpu - start)
    line = f"{case:26}{run.tiles:8}{run.wall:9.1f}{run.cpu:9.1f}{speed:13.0f}{run.memory:7.0f}"
    print(line, flush=True)


def make_sources(folder: Path, size: int) -> dict[str, Path]:
    """Write the inputs of the cases, by kind."""
    folder.mkdir(exist_ok=True)
    # In another process: the peak of a child begins with the memory of its parent.
    with ProcessPoolExecutor(1, get_context("spawn")) as other:
        made = {kind: other.submit(_source, folder, kind, size) for kind in _KINDS}
        return {kind: future.result() for kind, future in made.items()}


def _source(folder: Path, kind: str, size: int) -> Path:
    """Write an image of hills and grain."""
    generator = np.random.default_rng(1)
    x, y = np.arange(size, dtype=np.float32), np.arange(size, dtype=np.float32)[:, np.newaxis]
    hills = np.sin(x / 97) * np.cos(y / 71) + np.sin((x + y) / 233)
    grain = generator.normal(0, 4, (size, size)).astype(np.float32)
    if kind == "float":
        pixels = (800 + 300 * hills + grain / 10)[np.newaxis]
    else:
        planes = [128 + gain * hills + grain for gain in (40, 55, 30)]
        pixels = np.clip(np.stack(planes), 0, 255).astype(np.uint8)
    corner = (700000.0, 5700000.0) if kind == "3857" else (900000.0, 6500000.0)
    cell = _CELL if kind == "3857" else 4.0
    if kind == "3857":
        half = 20037508.3427892
        x0, y0 = (round((one + half) / cell) * cell - half for one in corner)
        corner = x0, y0
    path = folder / f"{kind}.tif"
    with rasterio.open(
        path,
        "w",
        driver="GTiff",
        width=size,
        height=size,
        count=len(pixels),
        dtype=pixels.dtype,
        crs="EPSG:3857" if kind == "3857" else "EPSG:2154",
        transform=Affine(cell, 0, corner[0], 0, -cell, corner[1]),
        tiled=True,
        compress="deflate",
    ) as dataset:
        dataset.write(pixels)
    return path


def _mastaba(source: Path, output: Path, words: list[str], workers: int = 1) -> Run:
    shutil.rmtree(output, ignore_errors=True)
    command = [sys.executable, "-m", "mastaba", "build", str(source), "--output", str(output)]
    command += ["--workers", str(workers), "--json", *words]
    lines, wall, cpu, memory = _timed(command)
    events = [(when, json.loads(line)) for when, line in lines]
    plan = next(event for _, event in events if event["event"] == "plan")
    times = [when for when, event in events if event["event"] == "slab"]
    # Beginning with the first slab: every worker has imported its libraries.
    return Run(plan["levels"][0]["tiles"], wall, times[-1] - times[0], cpu, memory)


def _peers(source: Path, folder: Path) -> dict[str, list[str]]:
    """Return the commands of other tools that make PNG tiles of the same levels."""
    tiles = str(folder / "tiles")
    return {
        "gdal2tiles PNG": [
            *("gdal2tiles.py", "-q", "-r", "cubic", "-w", "none", "--processes=1", "--xyz"),
            *("-z", "0-15", str(source), tiles),
        ],
        "gdal raster tile PNG": [
            *(sys.executable, "-m", "benchmarks.gdal_tile"),
            *("-q", "-r", "cubic", "--webviewer", "none", "-j", "1"),
            *("--min-zoom", "0", "--max-zoom", "15", str(source), tiles),
        ],
    }


def _peer(command: list[str], output: Path) -> Run:
    shutil.rmtree(output, ignore_errors=True)
    _, wall, cpu, memory = _timed(command)
    return Run(sum(1 for _ in (output / "15").rglob("*.png")), wall, 0.0, cpu, memory)


def _timed(command: list[str]) -> tuple[list[tuple[float, str]], float, float, float]:
    """Run a program; return its lines with their times, wall and CPU seconds, and MiB at most."""
    started = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [(time.monotonic(), line) for line in process.stdout]
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command[0]} failed")
    cpu = usage.ru_utime + usage.ru_stime
    return lines, time.monotonic() - started, cpu, usage.ru_maxrss / 1024


if __name__ == "__main__":
    sys.exit(main())
