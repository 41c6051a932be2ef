"""What source numbers cost a build: ``python -m benchmarks.provenance``.

Four sheets of one grid are built with and without source numbers, in turns: processor time, memory
and bytes. Slabs of pixels must be the same.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import median

import numpy as np
import rasterio
from rasterio.transform import Affine

from benchmarks.build import _timed

_MOST_SIZE, _MOST_TIME, _MOST_MEMORY = 0.01, 0.08, 0.10
_CELL = 156543.03392804097 / 2**15
_HALF = 20037508.3427892
CASES = {
    "RGB JPEG, same grid": ("3857", ["--format", "jpg"]),
    "RGB JPEG, reprojected": ("2154", ["--format", "jpg"]),
    "float ZIP, reprojected": ("float", ["--format", "zip"]),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table, and whether all figures are within their bars."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=4096, help="width and height of a sheet")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(argv)
    is_within = True
    print(f"{'case':26}{'CPU s':>9}{'more':>8}{'MiB':>7}{'more':>8}{'bytes':>12}{'more':>8}")
    with tempfile.TemporaryDirectory(prefix="mastaba-provenance-") as name:
        folder = Path(name)
        for case, (kind, words) in CASES.items():
            sheets = _sheets(folder / kind, kind, options.size)
            runs: dict[str, list[tuple[float, float]]] = {"--no-provenance": [], "--provenance": []}
            slabs = {}
            for _ in range(options.rounds):
                for flag, results in runs.items():
                    output = folder / "out"
                    shutil.rmtree(output, ignore_errors=True)
                    command = [sys.executable, "-m", "mastaba", "build", str(sheets)]
                    command += ["--output", str(output), "--workers", "1", flag, *words]
                    _, _, cpu, memory = _timed(command)
                    results.append((cpu, memory))
                    slabs[flag] = _sizes(output)
            without, numbers = slabs.values()
            if without["DATA"] != numbers["DATA"]:
                raise SystemExit(f"{case}: the slabs of pixels differ")
            (cpu, memory), (cpu_more, memory_more) = (
                (median(one for one, _ in results), median(one for _, one in results))
                for results in runs.values()
            )
            size = int(without["bytes"])
            more = int(numbers["bytes"]) / size - 1
            time, space = cpu_more / cpu - 1, memory_more / memory - 1
            print(f"{case:26}{cpu:9.1f}{time:8.1%}{memory:7.0f}{space:8.1%}{size:12}{more:8.2%}")
            is_within &= more <= _MOST_SIZE and time <= _MOST_TIME and space <= _MOST_MEMORY
    bars = f"{_MOST_TIME:.0%} time, {_MOST_MEMORY:.0%} memory, {_MOST_SIZE:.0%} bytes"
    print(f"{'within' if is_within else 'above'} the bars: {bars}")
    return 0


def _sizes(output: Path) -> dict[str, int | str]:
    """Return the bytes of a pyramid, and a digest of its slabs of pixels."""
    files = sorted(one for one in output.rglob("*") if one.is_file() and "server" not in one.parts)
    digest = hashlib.sha256()
    for one in files:
        if "DATA" in one.parts:
            digest.update(one.read_bytes())
    return {"bytes": sum(one.stat().st_size for one in files), "DATA": digest.hexdigest()}


def _sheets(folder: Path, kind: str, size: int) -> Path:
    """Write the sheets of a case; return their folder."""
    folder.mkdir()
    # In other processes: the peak of a child begins with the memory of its parent.
    with ProcessPoolExecutor(1, get_context("spawn")) as other:
        for number in range(4):
            other.submit(_write, folder, kind, size, number).result()
    return folder


def _write(folder: Path, kind: str, size: int, number: int) -> None:
    """Write one sheet of hills, with the grain of a photograph."""
    row, column = divmod(number, 2)
    generator = np.random.default_rng(number)
    x = np.arange(size, dtype=np.float32) + column * size
    y = (np.arange(size, dtype=np.float32) + row * size)[:, np.newaxis]
    hills = np.sin(x / 97) * np.cos(y / 71) + np.sin((x + y) / 233)
    grain = generator.normal(0, 10, (size, size)).astype(np.float32)
    if kind == "float":
        pixels = (800 + 300 * hills + grain / 10)[np.newaxis]
    else:
        planes = [128 + gain * hills + grain for gain in (40, 55, 30)]
        pixels = np.clip(np.stack(planes), 0, 255).astype(np.uint8)
    cell, left, top = 4.0, 900000.0, 6500000.0
    if kind == "3857":
        cell = _CELL
        left, top = (round((one + _HALF) / cell) * cell - _HALF for one in (700000, 5700000))
    with rasterio.open(
        folder / f"{number}.tif",
        "w",
        driver="GTiff",
        width=size,
        height=size,
        count=len(pixels),
        dtype=pixels.dtype,
        crs="EPSG:3857" if kind == "3857" else "EPSG:2154",
        transform=Affine(cell, 0, left + column * size * cell, 0, -cell, top - row * size * cell),
        tiled=True,
        compress="deflate",
    ) as dataset:
        dataset.write(pixels)


if __name__ == "__main__":
    sys.exit(main())
