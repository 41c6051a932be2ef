"""The cost of tiles and maps from object storage: round trips, time, CPU.

``python -m benchmarks.storage`` sends real HTTP requests to a store in another process, which
delays each response like a store across a network.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from types import SimpleNamespace
from typing import Any, cast

from swiftclient.client import Connection as SwiftConnection

from mastaba.containers.index_cache import IndexCache
from mastaba.model.pyramid import Level
from mastaba.plugins.manager import Plugins
from mastaba.slab.layout import PrefixLayout
from mastaba.slab.reader import LevelReader
from mastaba.storage_pool import StoragePool
from mastaba_conformance.object_server import (
    SWIFT_PASSWORD,
    SWIFT_USER,
    Faults,
    ObjectServer,
)
from mastaba_render.plan import read_tiles
from mastaba_storage.base import ByteRange
from mastaba_storage.environment import Environment
from mastaba_storage_s3.clusters import find_cluster
from mastaba_storage_s3.storage import S3Storage
from mastaba_storage_swift.account import shared_account
from mastaba_storage_swift.storage import SwiftStorage
from mastaba_writer.slab_writer import build_slab

SIDE = 16
TILE = 20 * 1024
WINDOW = [(row, col) for row in range(13, 19) for col in range(13, 19)]
"""36 tiles around the common corner of four slabs."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.storage", description=__doc__)
    parser.add_argument("--latency", type=float, default=20, help="milliseconds (%(default)g)")
    parser.add_argument("--rounds", type=int, default=15, help="of each case (%(default)d)")
    arguments = parser.parse_args()
    with _Store(arguments.latency / 1000) as store:
        print(
            f"{len(WINDOW)} tiles of {TILE // 1024} KiB in 4 slabs of {SIDE} x {SIDE}; "
            f"{arguments.latency:g} ms added to each request; median of {arguments.rounds}"
        )
        print(f"{'storage':8} {'case':28} {'requests':>8} {'ms':>8} {'CPU ms':>8}")
        for name in ("s3", "swift"):
            for case, function in _cases(store.reader_maker(name)).items():
                requests, wall, cpu = _measure(store, function, arguments.rounds)
                print(f"{name:8} {case:28} {requests:8g} {wall * 1e3:8.1f} {cpu * 1e3:8.2f}")
        store.set_latency(0)
        print("\nCPU time of one range read, without latency; interleaved")
        reads = store.range_reads()
        times: dict[str, list[float]] = {case: [] for case in reads}
        for _ in range(arguments.rounds):
            for case, function in reads.items():
                times[case].append(_measure(store, function, 20)[2])
        for case, measured in times.items():
            print(f"{case:37} {statistics.median(measured) * 1e3:8.2f} ms")
    return 0


def _cases(make_reader: Callable[[], LevelReader]) -> dict[str, Callable[[], object]]:
    warm = make_reader()
    read_tiles(warm, WINDOW)

    def one_by_one() -> object:
        reader = make_reader()
        tiles = [reader.locate(row, col) for row, col in WINDOW]
        return [tile.read() for tile in tiles if tile is not None]

    return {
        "cold tile": lambda: read_tiles(make_reader(), WINDOW[:1]),
        "warm tile": lambda: read_tiles(warm, WINDOW[:1]),
        "cold map": lambda: read_tiles(make_reader(), WINDOW),
        "warm map": lambda: read_tiles(warm, WINDOW),
        "cold map, tile by tile": one_by_one,
    }


def _measure(
    store: _Store, function: Callable[[], object], rounds: int
) -> tuple[float, float, float]:
    """Return the median requests, seconds and CPU seconds of one call."""
    function()
    requests, walls, cpus = [], [], []
    for _ in range(rounds):
        before, wall, cpu = store.requests(), time.perf_counter(), time.process_time()
        function()
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
        requests.append(store.requests() - before)
    return statistics.median(requests), statistics.median(walls), statistics.median(cpus)


class _Store:
    """An object server in its own process, so that its CPU time is not counted."""

    def __init__(self, latency: float) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other, latency), daemon=True)

    def __enter__(self) -> _Store:
        self._process.start()
        self._url: str = self._connection.recv()
        account, _, user = SWIFT_USER.partition(":")
        variables = {
            "MASTABA_S3_URL": self._url,
            "MASTABA_S3_KEY": "key",
            "MASTABA_S3_SECRETKEY": "secret",
            "MASTABA_SWIFT_AUTHURL": f"{self._url}/auth/v1.0",
            "MASTABA_SWIFT_PUBLICURL": f"{self._url}/v1/AUTH_{account}",
            "MASTABA_SWIFT_ACCOUNT": account,
            "MASTABA_SWIFT_USER": user,
            "MASTABA_SWIFT_PASSWD": SWIFT_PASSWORD,
        }
        self._environment = Environment(variables)
        self._pool = StoragePool(Plugins().storages, self._environment)
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._pool.close()
        self._connection.send(None)
        self._process.join()

    def set_latency(self, seconds: float) -> None:
        self._connection.send(seconds)
        self._connection.recv()

    def range_reads(self) -> dict[str, Callable[[], object]]:
        """Return range reads of one tile by the drivers, and by the libraries that they use."""
        header = f"bytes=4096-{4096 + TILE - 1}"
        s3 = S3Storage.open("maps", self._environment)
        _, cluster = find_cluster(self._environment, "maps")
        account = shared_account(self._environment)
        connection = SwiftConnection(preauthurl=account.url(), preauthtoken=account.token())
        swift = SwiftStorage.open("maps", self._environment)
        wanted = ByteRange(4096, TILE)
        return {
            "s3": lambda: s3.read("P_0_0", wanted),
            "s3 with boto3": lambda: (
                cluster.client.get()
                .get_object(Bucket="maps", Key="P_0_0", Range=header)["Body"]
                .read()
            ),
            "swift": lambda: swift.read("P_0_0", wanted),
            "swift with python-swiftclient": lambda: connection.get_object(
                "maps", "P_0_0", headers={"Range": header}
            ),
        }

    def requests(self) -> int:
        """Return the number of requests so far."""
        self._connection.send("count")
        count: int = self._connection.recv()
        return count

    def reader_maker(self, name: str) -> Callable[[], LevelReader]:
        """Return a function that creates readers without cached indices."""
        level = cast(Level, SimpleNamespace(tiles_per_width=SIDE, tiles_per_height=SIDE))
        storage = self._pool.open(name, "maps")
        return lambda: LevelReader(level, PrefixLayout("P"), storage, IndexCache(100, 300))


def _serve(connection: Connection[Any, Any], latency: float) -> None:
    tiles = [bytes([number % 256]) * TILE for number in range(SIDE * SIDE)]
    slab = build_slab(tiles, format="TIFF_PBF_MVT", tiles_per_width=SIDE, tiles_per_height=SIDE)
    with ObjectServer() as server:
        for slab_col in (0, 1):
            for slab_row in (0, 1):
                server.put("maps", f"P_{slab_col}_{slab_row}", slab)
        server.faults = Faults(latency=latency)
        connection.send(server.url)
        while (message := connection.recv()) is not None:
            if isinstance(message, float | int):
                server.faults = Faults(latency=message)
            connection.send(len(server.requests))


if __name__ == "__main__":
    raise SystemExit(main())
