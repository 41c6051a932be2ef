"""The index store with a million slabs: memory of a node, requests for first tiles, restarts.

``python -m benchmarks.index`` starts an object store that makes slabs of 16 x 16 JPEG tiles when
they are requested, and worker processes that read tiles of it with index packs.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import math
import multiprocessing
import os
import random
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import cache, lru_cache
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from benchmarks.processes import memory_of
from mastaba.containers.index_cache import IndexCache
from mastaba.model.pyramid import Level
from mastaba.plugins.manager import Plugins
from mastaba.slab.layout import PrefixLayout
from mastaba.slab.reader import LevelReader
from mastaba.storage_pool import StoragePool
from mastaba_conformance.object_server import ObjectServer, StoredObject
from mastaba_index_store.store import DiskStore
from mastaba_storage.environment import Environment
from mastaba_writer import index_packs
from mastaba_writer.index_packs import IndexRecord, PackLayout, encode_record, make_pack

SIDE = 16
COUNT = SIDE * SIDE
LAYOUT = PackLayout.of(COUNT)
MIB = 1024 * 1024
BUCKET = "maps"
MODIFIED = 1.6e9


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.index", description=__doc__)
    parser.add_argument("--slabs", type=int, default=1_000_000, help="(%(default)d)")
    parser.add_argument("--workers", type=int, default=2, help="(%(default)d)")
    parser.add_argument("--tiles", type=int, default=2000, help="read by each (%(default)d)")
    arguments = parser.parse_args()
    columns = math.ceil(math.sqrt(arguments.slabs))
    rows = math.ceil(arguments.slabs / columns)
    packs = [
        (column, row)
        for column in range(math.ceil(columns / LAYOUT.side))
        for row in range(math.ceil(rows / LAYOUT.side))
    ]
    folder = Path(tempfile.mkdtemp(prefix="mastaba-index-"))
    try:
        (folder / "packs").mkdir()
        begin = time.perf_counter()
        with ProcessPoolExecutor() as processes:
            jobs = [(folder, pack, columns, rows) for pack in packs]
            written = list(processes.map(_write_pack, jobs))
        print(
            f"{columns * rows} slabs of {SIDE} x {SIDE} tiles; {len(packs)} packs, "
            f"{sum(written) / MIB:.0f} MiB: {sum(written) / (columns * rows):.0f} bytes for each "
            f"slab ({time.perf_counter() - begin:.0f} s)"
        )
        with _Store(folder, columns, rows) as store:
            _run(arguments, store, folder, packs, (columns, rows))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def _run(
    arguments: argparse.Namespace,
    store: _Store,
    folder: Path,
    packs: list[tuple[int, int]],
    size: tuple[int, int],
) -> None:
    workers = [_Worker(store.url, folder / "store", number) for number in range(arguments.workers)]
    base = sum(worker.memory() for worker in workers)
    print(f"memory of {len(workers)} workers before the first tile: {base / MIB:.0f} MiB")

    tiles = [(row * LAYOUT.side * SIDE, column * LAYOUT.side * SIDE) for column, row in packs]
    before = store.requests()
    seconds, _ = workers[0].ask("tiles", tiles)
    print(
        f"first tile of each pack: {(store.requests() - before) / len(tiles):.3f} requests, "
        f"{1000 * seconds / len(tiles):.1f} ms"
    )
    _first_tiles(workers, store, size, arguments.tiles)
    # All indices are read, each by one worker.
    answers = [
        worker.ask("all", (range(number, size[0], len(workers)), range(size[1])))
        for number, worker in enumerate(workers)
    ]
    found = sum(one for _, one in answers)
    assert found == size[0] * size[1], found
    print(f"index from the store: {1e6 * sum(one for one, _ in answers) / found:.0f} us CPU")
    _show_memory(workers, base, folder)

    cached = workers[0].ask("cached", min(40_000, arguments.slabs))
    print(f"the same indices in a dictionary of each worker: {cached:.0f} bytes for each slab")

    for title in ("restart", "restart without a page cache"):
        for worker in workers:
            worker.close()
        if "without" in title:
            _forget_pages(folder / "store")
        begin = time.perf_counter()
        workers = [
            _Worker(store.url, folder / "store", number) for number in range(arguments.workers)
        ]
        workers[0].ask("tiles", [(5, 5)])
        print(f"{title}: first tile after {time.perf_counter() - begin:.2f} s")
        _first_tiles(workers, store, size, arguments.tiles)
    for worker in workers:
        worker.close()


def _first_tiles(workers: list[_Worker], store: _Store, size: tuple[int, int], count: int) -> None:
    """Read tiles of slabs of which no tile was read before, by all workers."""
    dice = random.Random()
    before, seconds = store.requests(), 0.0
    for worker in workers:
        tiles = [
            (dice.randrange(size[1] * SIDE), dice.randrange(size[0] * SIDE)) for _ in range(count)
        ]
        _, cpu = worker.ask("tiles", tiles)
        seconds += cpu
    total = count * len(workers)
    print(
        f"first tiles anywhere: {(store.requests() - before) / total:.4f} requests, "
        f"{1000 * seconds / total:.2f} ms CPU"
    )


def _show_memory(workers: list[_Worker], base: int, folder: Path) -> None:
    now = sum(worker.memory() for worker in workers)
    files = list((folder / "store").iterdir())
    used = sum(512 * path.stat().st_blocks for path in files)
    print(
        f"memory of the workers above the base: {(now - base) / MIB:.0f} MiB; "
        f"on the disk: {used / MIB:.0f} MiB"
    )
    if shutil.which("fincore"):
        words = ["fincore", "--bytes", "--noheadings", "--output", "RES", *map(str, files)]
        lines = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
        print(
            f"page cache of the store after all of it was read: "
            f"{sum(map(int, lines)) / MIB:.0f} MiB, which the system takes back when it needs it"
        )


def _forget_pages(directory: Path) -> None:
    for path in directory.iterdir():
        with open(path, "rb") as stream:
            os.fsync(stream.fileno())
            os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


class _Worker:
    """A process that reads tiles, as a worker of the server."""

    def __init__(self, url: str, directory: Path, number: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, other = context.Pipe()
        self._process = context.Process(target=_work, args=(url, str(directory), other))
        self._process.start()
        self._connection.recv()

    def memory(self) -> int:
        """Return the memory in bytes, shared pages divided."""
        assert self._process.pid is not None
        return memory_of(self._process.pid).divided

    def ask(self, *message: Any) -> Any:
        self._connection.send(message)
        return self._connection.recv()

    def close(self) -> None:
        self._connection.send(None)
        self._process.join()


def _work(url: str, directory: str, connection: Connection[Any, Any]) -> None:
    given = {"S3_URL": url, "S3_KEY": "key", "S3_SECRETKEY": "secret"}
    environment = Environment({f"MASTABA_{name}": text for name, text in given.items()})
    storage = StoragePool(Plugins().storages, environment).open("s3", BUCKET)
    disk = DiskStore.open({"directory": directory, "mebibytes": 4096})
    indices = IndexCache(1000, 300, store=disk)
    level = cast(Level, SimpleNamespace(tiles_per_width=SIDE, tiles_per_height=SIDE))
    layouts = PrefixLayout("P"), PrefixLayout("INDEX")
    reader = LevelReader(level, layouts[0], storage, indices, None, layouts[1])
    connection.send(None)
    while (message := connection.recv()) is not None:
        what, argument = message
        if what == "tiles":
            connection.send(_read_tiles(reader, argument))
        elif what == "all":
            begin, found = time.process_time(), 0
            assert reader._stored is not None
            for place in itertools.product(*argument):
                found += reader._stored.get(*place) is not None
            connection.send((time.process_time() - begin, found))
        else:
            connection.send(_size_of_cached(reader, argument))


def _read_tiles(reader: LevelReader, tiles: Iterable[tuple[int, int]]) -> tuple[float, float]:
    """Return seconds, and seconds of CPU."""
    begin, cpu = time.perf_counter(), time.process_time()
    for row, col in tiles:
        tile = reader.expect(row, col)
        assert tile is not None
        data = tile.read()
        assert len(data) == tile.length
    return time.perf_counter() - begin, time.process_time() - cpu


def _size_of_cached(reader: LevelReader, count: int) -> float:
    """Return the bytes of each index if all are cached in the process."""
    assert reader._stored is not None
    before = memory_of(os.getpid()).divided
    side = math.isqrt(count)
    kept = [reader._stored.get(*place) for place in np.ndindex(side, side)]
    assert None not in kept
    return (memory_of(os.getpid()).divided - before) / len(kept)


class _Store:
    """An object server in another process."""

    def __init__(self, folder: Path, columns: int, rows: int) -> None:
        self._connection, other = multiprocessing.Pipe()
        self._process = multiprocessing.Process(target=_serve, args=(other, folder, columns, rows))
        self._process.start()
        self.url = str(self._connection.recv())

    def __enter__(self) -> _Store:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.send(None)
        self._process.join()

    def requests(self) -> int:
        self._connection.send("count")
        return int(self._connection.recv())


def _serve(connection: Connection[Any, Any], folder: Path, columns: int, rows: int) -> None:
    with ObjectServer() as server:
        server.make_container(BUCKET)
        server._objects = _Objects(folder, columns, rows)
        connection.send(server.url)
        while connection.recv() is not None:
            connection.send(len(server.requests))


class _Objects(dict[tuple[str, str], StoredObject]):
    """Slabs that are made when they are requested, and packs from files."""

    def __init__(self, folder: Path, columns: int, rows: int) -> None:
        super().__init__()
        self._folder, self._columns, self._rows = folder, columns, rows

    def get(self, key: tuple[str, str], default: Any = None) -> Any:
        kind, column, row = key[1].split("_")
        if kind == "INDEX":
            path = self._folder / f"packs/{column}_{row}"
            return StoredObject(path.read_bytes(), key[1], MODIFIED)
        if int(column) >= self._columns or int(row) >= self._rows:
            return default
        index, end = _index(int(column), int(row))
        data = b"II*\0".ljust(2048, b"\0") + index
        return StoredObject(data.ljust(end, b"t"), _version(int(column), int(row)), MODIFIED)


def _version(column: int, row: int) -> str:
    text = f"{column} {row}".encode()
    return hashlib.md5(text, usedforsecurity=False).hexdigest()


@cache
def _indices() -> tuple[tuple[bytes, int], ...]:
    """Return indices of slabs of photographs, and the ends of the slabs.

    The mean of a slab is between 9 and 22 kB, the standard deviation of its tiles a fifth of it.
    """
    dice = np.random.default_rng(1)
    found = []
    for mean in dice.uniform(9000, 22000, 5000):
        sizes = dice.normal(mean, mean / 5, COUNT).clip(500).astype(np.int64)
        ends = 2048 + 8 * COUNT + np.cumsum((sizes + 15) & ~15)
        offsets = np.concatenate(([2048 + 8 * COUNT], ends[:-1])).astype("<u4")
        found.append((offsets.tobytes() + sizes.astype("<u4").tobytes(), int(ends[-1])))
    return tuple(found)


def _index(column: int, row: int) -> tuple[bytes, int]:
    indices = _indices()
    return indices[(column * 7919 + row * 104729) % len(indices)]


def _write_pack(job: tuple[Path, tuple[int, int], int, int]) -> int:
    folder, pack, columns, rows = job
    if not hasattr(index_packs.encode_index, "cache_info"):
        # The same indices are in many slabs of this benchmark.
        index_packs.encode_index = lru_cache(None)(index_packs.encode_index)
    side, records = LAYOUT.side, {}
    for column in range(pack[0] * side, min(columns, (pack[0] + 1) * side)):
        for row in range(pack[1] * side, min(rows, (pack[1] + 1) * side)):
            record = IndexRecord(_version(column, row), MODIFIED, _index(column, row)[0])
            records[column, row] = encode_record(column, row, record) or b""
    data = make_pack(LAYOUT, pack, records)
    (folder / f"packs/{pack[0]}_{pack[1]}").write_bytes(data)
    return len(data)


if __name__ == "__main__":
    raise SystemExit(main())
