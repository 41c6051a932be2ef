"""The speed of `mastaba export` for each format of archives.

``python -m benchmarks.export`` writes a pyramid with noise as payloads, and exports it in new
processes. The pyramid is in the page cache. With ``--latency 20``, its slabs come from a storage by
formula, each read of which takes 20 ms: so ``--tiles 1000000`` needs no room for the pyramid, and
reads are counted. With ``--verify``, every tile is compared with the pyramid, and PMTiles are also
verified by the program ``go-pmtiles`` or ``pmtiles``, if one is on the path.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.formula import SLAB, FormulaPlugin, FormulaStorage, formula_pyramid
from mastaba.plugins.manager import Plugins
from mastaba.tooling.memory import keep_freed_memory
from mastaba.wsgi import create_application
from mastaba_export.plan import plan
from mastaba_export.request import ExportRequest
from mastaba_export.run import run
from mastaba_export.verify import verify
from mastaba_writer.descriptor import LevelPlan
from mastaba_writer.installation import write_installation
from mastaba_writer.pyramids import write_pyramid
from mastaba_writer.tile_matrix_sets import web_mercator

FORMATS = ("pmtiles", "mbtiles", "gpkg", "dir", "pyramid")
LEVEL = 12
SPAN = 8 * 1024 * 1024
"""Bytes of a read at most."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.export", description=__doc__)
    parser.add_argument("--tiles", type=int, default=8192, help="(%(default)d)")
    parser.add_argument("--size", type=int, default=40_000, help="bytes of a tile (%(default)d)")
    parser.add_argument("--format", choices=FORMATS, action="append", help="only this one")
    parser.add_argument(
        "--latency",
        type=int,
        metavar="MS",
        help="read from a storage by formula that is so far away; 0 for its formula alone",
    )
    parser.add_argument(
        "--dedup", choices=("small", "all"), help="hash tiles of any size, or small"
    )
    parser.add_argument("--verify", action="store_true", help="compare every tile")
    parser.add_argument("--directory", help="of the files; a temporary one by default")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.directory) as name:
        directory = Path(name)
        server = written(directory, arguments.tiles, arguments.size, arguments.latency)
        place = "files" if arguments.latency is None else f"reads of {arguments.latency} ms"
        print(
            f"{arguments.tiles:,} tiles of {arguments.size:,} bytes, slabs of {SLAB} x {SLAB}, "
            f"from {place}"
        )
        print(
            f"{'format':9} {'tiles/s':>9} {'MB/s':>7} {'CPU us/tile':>12} "
            f"{'MiB more':>9} {'MiB':>5} {'reads':>7} {'at most':>7} {'verified':>9}"
        )
        for form in arguments.format or FORMATS:
            inputs = {"format": form}
            if arguments.dedup and form in ("pmtiles", "mbtiles"):
                inputs["dedup"] = arguments.dedup
            found = in_a_process(server, inputs, directory, is_verified=arguments.verify)
            rate = found["tiles"] / found["seconds"]
            print(
                f"{form:9} {rate:9,.0f} {rate * arguments.size / 1e6:7,.0f} "
                f"{found['cpu'] / found['tiles'] * 1e6:12,.0f} {found['memory']:9,.0f} "
                f"{found['peak']:5,.0f} {found['reads']:7,} {found['most_reads']:7,.0f} "
                f"{found['verified']:9,}",
                flush=True,
            )
    return 0


def written(directory: Path, tiles: int, size: int, latency: int | None) -> Path:
    """Write an installation, and return the path of its server.json."""
    side = max(int(tiles**0.5) // SLAB, 1) * SLAB
    rows = -(-tiles // side)
    noise = random.Random(1).randbytes(2 * size)

    def tile(_level: str, row: int, column: int) -> bytes:
        # Each one is different, and making them costs little.
        start = (row * 7919 + column * 104729) % size
        return b"\x89PNG%d/%d" % (row, column) + noise[start : start + size]

    levels = [LevelPlan(str(LEVEL), 1024, 1023 + rows, 1024, 1023 + side)]
    folder = directory / "pyramids"
    if latency is not None:
        images = formula_pyramid(folder, levels[0], size, latency)
    else:
        images = write_pyramid(
            folder,
            "IMAGES",
            tile_matrix_set=web_mercator(),
            format="TIFF_PNG_UINT8",
            levels=levels,
            tile=tile,
            tiles_per_width=SLAB,
            tiles_per_height=SLAB,
        )
    return write_installation(directory, layers={"IMAGES": images}, services=["wmts"])


def in_a_process(
    server: Path, inputs: dict[str, Any], directory: Path, *, is_verified: bool = False
) -> dict[str, Any]:
    """Export in a new process; return its figures.

    Args:
        server: path of the server.json.
        inputs: of the export, beside the layer.
        directory: for the output, which is removed.
        is_verified: whether each tile is compared with the pyramid afterwards.

    Returns:
        ``tiles``, ``seconds``, ``cpu`` seconds, ``memory`` added and ``peak`` of memory in MiB,
        ``reads`` of the storage by formula and ``most_reads`` that are expected of it, ``verified``
        tiles, and ``program``, what another program says of PMTiles.
    """
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(
        target=export, args=(str(server), inputs, str(directory), sender, is_verified)
    )
    process.start()
    # If it dies, there is nothing to wait for.
    sender.close()
    found: dict[str, Any] = json.loads(receiver.recv())
    process.join()
    return found


def export(
    server: str, inputs: dict[str, Any], directory: str, sender: Any, is_verified: bool
) -> None:
    keep_freed_memory()  # as the command does
    plugins = Plugins(extra={"formula": FormulaPlugin()})
    site = create_application(server, plugins).site
    request = ExportRequest.from_inputs({"layer": "IMAGES", **inputs})
    form = inputs["format"]
    made = plan(request, site)
    out = Path(directory) / f"out-{form}{made.extension}"
    before = peak()
    cpu, begin = time.process_time(), time.perf_counter()
    FormulaStorage.reads.clear()
    result = run(made, out)
    slabs = -(-result.tiles // SLAB**2)
    figures = {
        "tiles": result.tiles,
        "seconds": time.perf_counter() - begin,
        "cpu": time.process_time() - cpu,
        "memory": peak() - before,
        "peak": peak(),
        "reads": len(FormulaStorage.reads),
        "most_reads": 2 * slabs + sum(FormulaStorage.reads) / SPAN,
        "verified": 0,
        "program": "",
    }
    if is_verified:
        figures["verified"] = verify(made, out, deep=True).compared
        figures["program"] = said_by_program(out) if form == "pmtiles" else ""
    sender.send(json.dumps(figures))
    if out.is_dir():
        shutil.rmtree(out)
    else:
        out.unlink()
    shutil.rmtree(out.with_suffix(""), ignore_errors=True)


def said_by_program(path: Path) -> str:
    """Let go-pmtiles verify a file; return what it says, or an empty text if it is absent.

    Raises:
        SystemExit: it finds a fault.
    """
    program = shutil.which("go-pmtiles") or shutil.which("pmtiles")
    if program is None:
        return ""
    done = subprocess.run([program, "verify", path], capture_output=True, text=True, check=False)
    said = (done.stdout + done.stderr).strip()
    if done.returncode:
        raise SystemExit(said)
    return said


def peak() -> float:
    """Return the greatest memory of this process so far, MiB."""
    # Not ru_maxrss: that begins with the memory of the process that started this one.
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


if __name__ == "__main__":
    sys.exit(main())
