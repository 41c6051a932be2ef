"""The cost of downloads: CPU time for each megapixel, memory, and the latency of tiles meanwhile.

``python -m benchmarks.coverages`` writes a float pyramid of formula and noise, serves it over HTTP,
and compares every downloaded value with the formula. It also reads the same values with GDAL from
a plain COG and from the WMS of the server, if GDAL is installed.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import numpy as np
import numpy.typing as npt

from benchmarks import plugins
from benchmarks.client import Answers, ask_steadily
from benchmarks.formula import SLAB, TILE, by_formula, encoded_heights, heights, kind_of
from benchmarks.processes import cpu_seconds, memory_of
from benchmarks.servers import Target, folder_of_files, plain_http
from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import synthetic

ORIGIN: Final = (0.0, 12_000_000.0)
FIRST_ROW, FIRST_COL = 100, 77
"""Cells by which the window is beside the tiles."""
NODATA: Final = -99999.0
ROUNDS: Final = 6
"""Times that latency is measured alone, and beside downloads."""
RATE: Final = 100
"""Tiles a second that are requested for latency: few, because downloads must not delay them."""
CONNECTIONS: Final = 4
"""Connections of their client, so that each process of the server has some."""
COVERAGE: Final = "/ogcapi/collections/heights/coverage"
JOBS: Final = "/export/processes/export-coverage/execution"
LARGE: Final = "large.bin"
EXPORTS: Final = "exports"
"""Folder of the jobs, beside the layers."""

Floats = npt.NDArray[np.float32]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.coverages", description=__doc__)
    parser.add_argument("--side", type=int, default=8192, help="cells of the window (%(default)d)")
    parser.add_argument("--ranges", type=int, default=500, help="random ranges (%(default)d)")
    parser.add_argument("--seconds", type=float, default=12, help="of latency (%(default)g)")
    parser.add_argument("--latency", action="store_true", help="measure the latency alone")
    parser.add_argument(
        "--formula",
        action="store_true",
        help="let a formula make the slabs when they are read: windows of any size need no room",
    )
    parser.add_argument("--folder", help="for the pyramid, which is kept there")
    parser.add_argument("--server-cpus", type=_cpus, help="processors of the server, as 0,1")
    parser.add_argument("--client-cpus", type=_cpus, help="processors of all clients")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mastaba-coverages-") as temporary:
        folder = Path(arguments.folder or temporary)
        # Of the servers that are started.
        os.environ["MASTABA_PLUGINS_DIR"] = str(Path(plugins.__file__).parent)
        server_json = write_heights(folder, arguments.side, formula=arguments.formula)
        if not arguments.latency:
            _downloads(server_json, Path(temporary), arguments.side, arguments.ranges)
        with _only_on(arguments.server_cpus):
            target = plain_http(server_json, Path(temporary), workers=2, threads=4)
            files = _control(Path(temporary))
        try:
            assert target.pid is not None
            server = _Server(target.address, target.pid)
            jobs = server_json.parent / EXPORTS / "jobs"
            loads = [
                _Load(idle=os.sched_getaffinity(0)),
                _Load(2, "20M", files=f"{files.address}/{LARGE}"),
                _Load(jobs=jobs),
                _Load(2, "20M"),
                _Load(2, "20M", jobs),
                _Load(2, "100G", jobs),
                _Load(4, "20M"),
                _Load(4, "100G"),
            ]
            with _only_on(arguments.client_cpus):
                _latency(server, arguments.side, arguments.seconds, loads)
        finally:
            files.stop()
            target.stop()
    return 0


def _control(folder: Path) -> Target:
    """Start nginx with a large file, which takes no room on the disk."""
    with (folder / LARGE).open("wb") as file:
        file.truncate(1 << 30)
    # nginx changes its user.
    folder.chmod(0o755)
    return folder_of_files(folder, folder)


def _cpus(text: str) -> frozenset[int]:
    return frozenset(map(int, text.split(",")))


@contextmanager
def _only_on(cpus: frozenset[int] | None) -> Iterator[None]:
    """Run this thread, and what it starts meanwhile, on some processors only; None for all."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus or before)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _downloads(server_json: Path, folder: Path, side: int, ranges: int) -> None:
    target = plain_http(server_json, folder, workers=1, threads=4)
    try:
        assert target.pid is not None
        server = _Server(target.address, target.pid)
        _window(server, side)
        _copy(server, side, ranges)
        _costs(server, min(side, 5000), folder)
    finally:
        target.stop()


def write_heights(folder: Path, side: int, *, formula: bool) -> Path:
    """Write the pyramid and its installation, unless they exist.

    Args:
        folder: for all files.
        side: cells of a window that the finest level contains.
        formula: whether slabs come from `FormulaHeights`, for servers with its plugin.

    Returns:
        the path of the server.json.
    """
    ready = folder / f"ready-{side}{'-formula' if formula else ''}"
    if ready.is_file():
        return Path(ready.read_text())
    count = (side + max(FIRST_ROW, FIRST_COL)) // TILE + 1
    levels = max(1, (count - 1).bit_length())
    size = 1 << levels
    sizes = [size >> step for step in range(levels, -1, -1)]
    matrices = synthetic(
        "GRID",
        crs="EPSG:2154",
        origin=ORIGIN,
        cell_sizes=[0.5 * (size // one) for one in sizes],
        matrix_sizes=[(one, one) for one in sizes],
        tile_size=(TILE, TILE),
    )
    encoded = [] if formula else encoded_heights()

    def tile(level: str, row: int, col: int) -> bytes | None:
        kind = None if formula else kind_of(row, col)
        return None if kind is None else encoded[kind]

    plans = [
        LevelPlan(str(number), 0, (count - 1) >> step, 0, (count - 1) >> step)
        for step, number in enumerate(range(levels, -1, -1))
    ]
    write_pyramid(
        folder / "pyramids",
        "heights",
        tile_matrix_set=matrices,
        format="TIFF_ZIP_FLOAT32",
        channels=1,
        levels=plans,
        tile=tile,
        tiles_per_width=SLAB,
        tiles_per_height=SLAB,
    )
    if formula:
        by_formula(folder / "pyramids/heights.json")
    layer = layer_document(
        folder / "pyramids/heights.json",
        tile_matrix_sets={"GRID": matrices},
        coverages=True,
        export={"enabled": True},
    )
    server_json = write_installation(
        folder,
        layers={"heights": layer},
        tile_matrix_sets={"GRID": matrices},
        services=["wms", "wmts", "ogcapi", "export"],
        public_url="http://127.0.0.1",
        services_overrides={
            "ogcapi": {"coverages": True},
            "export": {"directory": str(folder / EXPORTS), "workers": 1},
        },
    )
    ready.write_text(str(server_json))
    return server_json


@dataclass(frozen=True)
class _Server:
    """A running server."""

    address: str
    pid: int

    @contextmanager
    def get(self, path: str, **headers: str) -> Iterator[http.client.HTTPResponse]:
        parts = urlsplit(self.address)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=600)
        try:
            connection.request("GET", path, headers=headers)
            response = connection.getresponse()
            if response.status >= 400:
                raise SystemExit(f"{path}: {response.status} {response.read(500)!r}")
            yield response
        finally:
            connection.close()

    def send(self, method: str, path: str, content: Any = None) -> dict[str, Any]:
        """Send a request with a JSON document; return that of the answer."""
        data = None if content is None else json.dumps(content).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.address + path, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=60) as response:
            found: dict[str, Any] = json.loads(response.read())
        return found

    def temporary_files(self) -> int:
        """Return the number of open files without a name, of all processes."""
        count = 0
        for member in Path("/proc").glob("[0-9]*"):
            try:
                parent = (member / "stat").read_text().rpartition(")")[2].split()[1]
                if str(self.pid) not in (member.name, parent):
                    continue
                links = [os.readlink(file) for file in (member / "fd").iterdir()]
            except OSError:
                continue
            count += sum(link.endswith("(deleted)") and "/memfd:" not in link for link in links)
        return count


def _subset(side: int) -> str:
    west, north = ORIGIN[0] + FIRST_COL * 0.5, ORIGIN[1] - FIRST_ROW * 0.5
    return (
        f"subset=E({west}:{west + side / 2}),N({north - side / 2}:{north})&subset-crs=[EPSG:2154]"
    )


def _window(server: _Server, side: int) -> None:
    """Download a window uncompressed, and compare every bit."""
    with server.get(f"{COVERAGE}?subset=E(0:10),N(11999990:12000000)&subset-crs=EPSG:2154") as one:
        one.read()
    before, cpu = memory_of(server.pid).resident, cpu_seconds(server.pid)
    largest, files = before, 0
    started = time.monotonic()
    with server.get(f"{COVERAGE}?{_subset(side)}&compression=none") as response:
        first = response.read(65536)
        first_byte = time.monotonic() - started
        size = int(response.headers["Content-Length"])
        reader = _Tiff(first, response)
        taken = 0.0
        for row in range(reader.down):
            pixels = reader.row()
            pause = time.monotonic()
            expected = _expected(row * TILE, side)
            if pixels[: len(expected), :side].tobytes() != expected.tobytes():
                raise SystemExit(f"row {row} of tiles differs")
            if row % 8 == 0:
                largest = max(largest, memory_of(server.pid).resident)
                files = max(files, server.temporary_files())
            taken += time.monotonic() - pause
    seconds = time.monotonic() - started - taken
    cpu = cpu_seconds(server.pid) - cpu
    pixels_of = side * side / 1e6
    print(f"window {side} x {side}, uncompressed: all bits equal, {size / 1e6:,.0f} MB")
    print(f"  first byte {first_byte:.2f} s, {size / 1e6 / seconds:,.0f} MB/s without comparing")
    print(f"  CPU {cpu:.1f} s, {1000 * cpu / pixels_of:.1f} ms for each megapixel")
    print(f"  memory grows by {(largest - before) / 1e6:,.0f} MB, {files} temporary files")
    _CPU["window"] = cpu


_CPU: Final[dict[str, float]] = {}


class _Tiff:
    """Reads the uncompressed tiles of a file in their order."""

    def __init__(self, start: bytes, rest: http.client.HTTPResponse) -> None:
        self._rest = rest
        self._data = start
        is_big = start[2] == 43
        position = int.from_bytes(start[8:16] if is_big else start[4:8], "little")
        width = 8 if is_big else 2
        fields = {}
        for number in range(int.from_bytes(start[position : position + width], "little")):
            size = 20 if is_big else 12
            entry = start[position + width + number * size :][:size]
            value = entry[12:20] if is_big else entry[8:12]
            fields[int.from_bytes(entry[:2], "little")] = (
                int.from_bytes(entry[4 : 12 if is_big else 8], "little"),
                int.from_bytes(value, "little"),
            )
        columns, rows = fields[256][1], fields[257][1]
        self._across, self.down = -(-columns // TILE), -(-rows // TILE)
        count, where = fields[324]
        # The offsets are at the end of the head; the first one says where it ends.
        self._need(where + 8)
        first = int.from_bytes(self._data[where : where + (8 if is_big else 4)], "little")
        if count == 1:
            first = where
        self._need(first - 4)
        self._data = self._data[first - 4 :]

    def row(self) -> Floats:
        """Return the next row of tiles, side by side."""
        nbytes = TILE * TILE * 4
        data = self._take(self._across * (nbytes + 8))
        tiles = np.frombuffer(data, np.uint8).reshape(self._across, nbytes + 8)[:, 4:-4]
        values = np.ascontiguousarray(tiles).view("<f4").reshape(self._across, TILE, TILE)
        return np.ascontiguousarray(values.transpose(1, 0, 2)).reshape(TILE, -1)

    def _need(self, size: int) -> None:
        while len(self._data) < size:
            self._data += self._rest.read(size - len(self._data))

    def _take(self, size: int) -> bytes:
        found, self._data = self._data[:size], self._data[size:]
        if len(found) < size:
            found += self._rest.read(size - len(found))
        return found


_DECODED: Final = heights()


def _expected(first: int, side: int) -> Floats:
    """Return up to 256 rows of the window, from a row of it."""
    top, bottom = FIRST_ROW + first, FIRST_ROW + min(first + TILE, side)
    found = np.full((bottom - top, side), NODATA, np.float32)
    for row in range(top // TILE, (bottom - 1) // TILE + 1):
        for col in range(FIRST_COL // TILE, (FIRST_COL + side - 1) // TILE + 1):
            kind = kind_of(row, col)
            if kind is None:
                continue
            high, low = max(top, row * TILE), min(bottom, row * TILE + TILE)
            left = max(FIRST_COL, col * TILE)
            right = min(FIRST_COL + side, col * TILE + TILE)
            found[high - top : low - top, left - FIRST_COL : right - FIRST_COL] = _DECODED[kind][
                high - row * TILE : low - row * TILE, left - col * TILE : right - col * TILE
            ]
    return found


def _copy(server: _Server, side: int, ranges: int) -> None:
    """Download the same area as a COG, and random ranges of it."""
    path = f"{COVERAGE}?{_subset(side)}&f=cog"
    cpu, started = cpu_seconds(server.pid), time.monotonic()
    with tempfile.TemporaryFile() as file:
        with server.get(path) as response:
            etag = response.headers["ETag"]
            shutil.copyfileobj(response, file, 1 << 20)
        seconds, cpu = time.monotonic() - started, cpu_seconds(server.pid) - cpu
        size = file.tell()
        source = random.Random(1)
        for _ in range(ranges):
            start = source.randrange(size)
            end = min(size, start + source.choice([1, 1000, 65536, 1_000_000]))
            with server.get(path, **{"Range": f"bytes={start}-{end - 1}", "If-Range": etag}) as one:
                data = one.read()
            if one.status != 206 or data != os.pread(file.fileno(), end - start, start):
                raise SystemExit(f"bytes {start} to {end} differ")
    pixels = side * side / 1e6
    print(f"the same as a COG, copied: {size / 1e6:,.0f} MB, {size / 1e6 / seconds:,.0f} MB/s")
    print(f"  CPU {cpu:.2f} s, {1000 * cpu / pixels:.2f} ms for each megapixel,", end=" ")
    print(f"{cpu / _CPU['window']:.2f} of that of the window; {ranges} ranges equal")


def _costs(server: _Server, side: int, folder: Path) -> None:
    """Print the CPU time of a megapixel in several forms."""
    part = f"{COVERAGE}?{_subset(side)}"
    forms = {
        "copied (COG)": f"{part}&f=cog",
        "cut, uncompressed": f"{part}&compression=none",
        "cut, deflate": f"{part}&compression=deflate",
        "cut, zstd": f"{part}&compression=zstd",
        "resampled, shifted by half a cell": (
            f"{COVERAGE}?bbox=100.25,{ORIGIN[1] - 100.25 - side / 4},{100.25 + side / 4},"
            f"{ORIGIN[1] - 100.25}&bbox-crs=EPSG:2154&width={side // 2}&height={side // 2}"
        ),
    }
    print("CPU of the server, ms for each megapixel of the answer:")
    for name, path in forms.items():
        found = []
        for _ in range(3):
            cpu = cpu_seconds(server.pid)
            with server.get(path) as response:
                while response.read(1 << 20):
                    pass
            found.append(cpu_seconds(server.pid) - cpu)
        cells = side * side if "resampled" not in name else (side // 2) ** 2
        print(f"  {name}: {1000 * statistics.median(found) / cells * 1e6:.1f}")
    if shutil.which("gdal_translate") is None:
        return
    cog, window = folder / "plain.tif", folder / "window.tif"
    with server.get(f"{part}&f=cog&fit=tiles") as response, cog.open("wb") as file:
        shutil.copyfileobj(response, file)
    place = ["-srcwin", "37", "41", str(side // 2), str(side // 2)]
    spent = _spent(["gdal_translate", "-q", *place, str(cog), str(window)])
    print(f"  GDAL, cut from a plain COG: {1000 * spent / (side // 2) ** 2 * 1e6:.1f}")
    west, north = ORIGIN[0] + 38.5, ORIGIN[1] - 50
    size = min(2000, side)
    box = f"{west},{north - size / 2},{west + size / 2},{north}"
    cpu = cpu_seconds(server.pid)
    for _ in range(3):
        request = (
            "/wms?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&LAYERS=heights&STYLES=&CRS=EPSG:2154"
            f"&BBOX={box}&WIDTH={size}&HEIGHT={size}&FORMAT=image/geotiff"
        )
        with server.get(request) as response:
            response.read()
    cpu = (cpu_seconds(server.pid) - cpu) / 3
    print(f"  the same cells by WMS, {size} x {size}: {1000 * cpu / size**2 * 1e6:.1f}")


def _spent(command: list[str]) -> float:
    """Return the CPU time of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@dataclass(frozen=True)
class _Load:
    """What runs beside requests of tiles.

    Attributes:
        downloads: number of them.
        rate: bytes a second of each, as curl has it.
        jobs: directory of the files of jobs, if the server runs one; None for none.
        files: address of a file that is downloaded instead of an answer of the server: so much
            latency comes from clients and the kernel.
        idle: processors that are kept busy by processes which give way to all others: so much
            latency comes from a machine on which anything else runs.
    """

    downloads: int = 0
    rate: str = ""
    jobs: Path | None = None
    files: str = ""
    idle: Collection[int] = ()

    def __str__(self) -> str:
        source = " from nginx" if self.files else ""
        parts = [f"{self.downloads} downloads of {self.rate}B/s each{source}"] * (
            self.downloads > 0
        )
        parts += ["a job"] if self.jobs else []
        parts += [f"{len(self.idle)} idle loops"] if self.idle else []
        return " and ".join(parts) or "nothing"

    @contextmanager
    def running(self, server: _Server, download: str) -> Iterator[None]:
        """Run all this beside what is done inside the context.

        Args:
            download: address of a large answer.
        """
        stop = threading.Event()
        curl = ["curl", "-s", "-g", "-f", "-o", "/dev/null", "--limit-rate", self.rate]
        curl.append(self.files or download)
        works = [partial(_repeat, curl, stop)] * self.downloads
        works += [partial(_keep_busy, cpu, stop) for cpu in self.idle]
        if self.jobs is not None:
            works.append(partial(_export, server, self.jobs, stop))
        threads = [threading.Thread(target=work) for work in works]
        for thread in threads:
            thread.start()
        # A job has to be planned, and all slabs to be read once.
        time.sleep(2.0 if self.jobs else 0.3 if works else 0.0)
        try:
            yield
        finally:
            stop.set()
            for thread in threads:
                thread.join()


def _latency(server: _Server, side: int, seconds: float, loads: Sequence[_Load]) -> None:
    """Print the latency of tiles alone and under each load, in turns."""
    download = f"{server.address}{COVERAGE}?{_subset(side)}&compression=none"
    shown = [_Load(), *loads]
    found = [Answers() for _ in shown]
    _tiles_for(server, side, seconds / ROUNDS)
    for _ in range(ROUNDS):
        for load, answers in zip(shown, found, strict=True):
            with load.running(server, download):
                answers.latencies += _tiles_for(server, side, seconds / ROUNDS)
    parts = (50, 95, 99)
    print(f"latency of tiles in ms, {RATE} a second, and ratio to that beside nothing:")
    for load, answers in zip(shown, found, strict=True):
        texts = []
        for part in parts:
            taken, alone = answers.percentile(part / 100), found[0].percentile(part / 100)
            texts.append(f"p{part} {1000 * taken:.2f} ({taken / alone:.2f})")
        print(f"  beside {load}: {', '.join(texts)}, {len(answers.latencies)} tiles")


def _export(server: _Server, jobs: Path, stop: threading.Event) -> None:
    """Let the server export the layer again and again, compressed, until told to stop."""
    order = {"inputs": {"layer": "heights", "format": "tif", "compression": "deflate"}}
    while not stop.is_set():
        job = server.send("POST", JOBS, order)["jobID"]
        path = f"/export/jobs/{job}"
        while server.send("GET", f"{path}?f=json")["status"] in ("accepted", "running"):
            if stop.wait(0.25):
                break
        server.send("DELETE", path)
        while (jobs / job).exists():
            # Its worker has not noticed yet.
            time.sleep(0.05)


def _keep_busy(cpu: int, stop: threading.Event) -> None:
    """Use all time of a processor that nobody else wants, until told to stop."""
    command = [sys.executable, "-c", "while True: pass"]
    with subprocess.Popen(["chrt", "--idle", "0", *command]) as running:
        os.sched_setaffinity(running.pid, {cpu})
        stop.wait()
        running.kill()


def _repeat(command: list[str], stop: threading.Event) -> None:
    """Run a program until it is told to stop, in another process: it must not delay others."""
    while not stop.is_set():
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as running:
            while running.poll() is None and not stop.wait(0.05):
                pass
            running.kill()
        stop.wait(0.05)


def _tiles_for(server: _Server, side: int, seconds: float) -> list[float]:
    """Request tiles at a steady rate; return the seconds that each took."""
    level, source, count = _finest(server), random.Random(2), min(20, side // TILE)
    stored = [
        (row, col) for row in range(count) for col in range(count) if kind_of(row, col) is not None
    ]
    paths = [
        "/wmts?SERVICE=WMTS&REQUEST=GetTile&VERSION=1.0.0&LAYER=heights&STYLE=normal"
        f"&TILEMATRIXSET=GRID&TILEMATRIX={level}&TILEROW={row}&TILECOL={col}"
        "&FORMAT=image/x-bil;bits=32"
        for row, col in source.choices(stored, k=int(seconds * RATE))
    ]
    answers = ask_steadily(server.address, paths, rate=RATE, connections=CONNECTIONS)
    if answers.errors:
        raise SystemExit(answers.first_error)
    return answers.latencies


def _finest(server: _Server) -> str:
    with server.get("/ogcapi/tileMatrixSets/GRID?f=json") as response:
        document: dict[str, Any] = json.loads(response.read())
    return str(min(document["tileMatrices"], key=lambda one: one["cellSize"])["id"])


if __name__ == "__main__":
    raise SystemExit(main())
