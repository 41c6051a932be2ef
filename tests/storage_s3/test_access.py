"""Number of reads per tile and map, and behaviour when the store fails."""

import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from tests.sizes import only_full

from mastaba.containers.index_cache import IndexCache
from mastaba.errors import SlabFormatError, StorageUnavailableError
from mastaba.plugins.manager import Plugins
from mastaba.slab.layout import PrefixLayout
from mastaba.slab.reader import LevelReader
from mastaba.storage_pool import StoragePool
from mastaba_conformance.object_server import Faults, ObjectServer
from mastaba_render.plan import read_tiles
from mastaba_storage.environment import Environment
from mastaba_writer.slab_writer import build_slab

SIDE = 16
OpenReader = Callable[..., LevelReader]


def payload(row: int, col: int, generation: int = 0) -> bytes:
    """Return a tile whose content and length identify its position and generation."""
    name = f"{generation}:{row}/{col};".encode()
    return name * (20 + (row * 7 + col * 3 + generation * 5) % 60)


def put_slab(server: ObjectServer, slab_col: int, slab_row: int, generation: int = 0) -> None:
    tiles = [
        payload(slab_row * SIDE + row, slab_col * SIDE + col, generation)
        for row in range(SIDE)
        for col in range(SIDE)
    ]
    slab = build_slab(tiles, format="TIFF_PBF_MVT", tiles_per_width=SIDE, tiles_per_height=SIDE)
    server.put("maps", f"P/DATA_9_{slab_col}_{slab_row}", slab)


@pytest.fixture
def open_reader(server: ObjectServer) -> Iterator[OpenReader]:
    pools: list[StoragePool] = []

    def open_reader(cache_size: int = 100, **variables: str) -> LevelReader:
        given = {"S3_URL": server.url, "S3_KEY": "key", "S3_SECRETKEY": "secret", **variables}
        environment = Environment({f"MASTABA_{name}": text for name, text in given.items()})
        pools.append(StoragePool(Plugins().storages, environment))
        level: Any = SimpleNamespace(tiles_per_width=SIDE, tiles_per_height=SIDE)
        storage = pools[-1].open("s3", "maps")
        return LevelReader(level, PrefixLayout("P/DATA_9"), storage, IndexCache(cache_size, 60))

    yield open_reader
    for pool in pools:
        pool.close()


def test_a_tile_needs_two_reads_without_a_cached_index_and_one_with_it(
    server: ObjectServer, open_reader: OpenReader
) -> None:
    put_slab(server, 0, 0)
    reader = open_reader()
    for cost in (2, 1, 1):
        server.requests.clear()
        tile = reader.locate(3, 4)
        assert tile is not None
        assert tile.read() == payload(3, 4)
        assert len(server.requests) == cost
    server.requests.clear()
    assert reader.locate(100, 100) is None
    assert len(server.requests) == 1


def test_a_map_needs_two_reads_per_slab_and_then_one(
    server: ObjectServer, open_reader: OpenReader
) -> None:
    for slab_col in (0, 1):
        for slab_row in (0, 1):
            put_slab(server, slab_col, slab_row)
    reader = open_reader()
    window = [(row, col) for row in range(13, 19) for col in range(13, 19)]
    expected = [payload(row, col) for row, col in window]
    for cost in (8, 4):
        server.requests.clear()
        assert read_tiles(reader, window) == expected
        assert len(server.requests) == cost


def test_slabs_of_a_map_are_requested_in_parallel(
    server: ObjectServer, open_reader: OpenReader
) -> None:
    for slab_col in range(4):
        put_slab(server, slab_col, 0)
    reader = open_reader()
    server.gate = threading.Barrier(4)
    window = [(0, slab_col * SIDE) for slab_col in range(4)]
    # The gate opens only when four requests are in progress.
    assert read_tiles(reader, window) == [payload(row, col) for row, col in window]


@pytest.mark.parametrize(
    "count",
    [40, pytest.param(400, marks=pytest.mark.thorough), *only_full(1200)],
)
def test_no_wrong_data_is_served_from_a_failing_store(
    server: ObjectServer, open_reader: OpenReader, count: int
) -> None:
    for slab_col in range(3):
        put_slab(server, slab_col, 0)
    reader = open_reader(
        cache_size=2,
        OBJECT_READ_ATTEMPTS="3",
        OBJECT_ATTEMPTS_WAIT="0",
        OBJECT_BREAKER_FAILURES="0",
        # Many threads of a busy machine may wait longer than those of a few.
        NETWORK_TIMEOUT="1" if count < 100 else "3",
    )
    server.faults = Faults(errors=0.01, resets=0.01, stalls=0.02, truncations=0.01)
    errors: list[Exception] = []

    def request(number: int) -> int:
        chooser = random.Random(number)
        row, col = chooser.randrange(SIDE - 2), chooser.randrange(3 * SIDE - 2)
        window = [(row + y, col + x) for y in range(2) for x in range(2)]
        try:
            tiles = read_tiles(reader, window if number % 4 == 0 else window[:1])
        except StorageUnavailableError as error:
            errors.append(error)
            return 0
        assert tiles == [payload(*place) for place in window[: len(tiles)]]
        return 1

    with ThreadPoolExecutor(16) as threads:
        served = sum(threads.map(request, range(count)))
    assert served + len(errors) == count
    # One attempt in twenty fails, so three failures in a row are rare.
    assert served > 0.98 * count
    assert any(request.status == 503 for request in server.requests)


def test_every_failure_is_reported_when_retries_are_off(
    server: ObjectServer, open_reader: OpenReader
) -> None:
    put_slab(server, 0, 0)
    reader = open_reader(OBJECT_BREAKER_FAILURES="0", NETWORK_TIMEOUT="1")
    assert reader.locate(0, 0) is not None
    server.faults = Faults(errors=0.25, resets=0.25, truncations=0.25, seed=3)
    outcomes = set()
    for number in range(60):
        tile = reader.locate(number % SIDE, 5)
        assert tile is not None
        try:
            assert tile.read() == payload(number % SIDE, 5)
            outcomes.add("served")
        except StorageUnavailableError:
            outcomes.add("failed")
    assert outcomes == {"served", "failed"}


def test_a_failed_store_is_not_contacted_until_the_circuit_closes(
    server: ObjectServer, open_reader: OpenReader
) -> None:
    put_slab(server, 0, 0)
    reader = open_reader(OBJECT_BREAKER_FAILURES="3", OBJECT_BREAKER_PAUSE="1")
    assert reader.locate(0, 0) is not None
    server.faults = Faults(errors=1)
    server.requests.clear()
    for _ in range(20):
        with pytest.raises(StorageUnavailableError):
            read_tiles(reader, [(0, 0)])
    assert len(server.requests) == 3
    server.faults = Faults()
    waiting = threading.Event()
    while not waiting.wait(0.05):
        try:
            assert read_tiles(reader, [(0, 0)]) == [payload(0, 0)]
            break
        except StorageUnavailableError:
            assert len(server.requests) == 3
    assert len(server.requests) == 4


@pytest.mark.parametrize(
    "count",
    [50, pytest.param(500, marks=pytest.mark.thorough), *only_full(3000)],
)
def test_tiles_are_complete_and_of_one_generation_while_slabs_are_replaced(
    server: ObjectServer, open_reader: OpenReader, count: int
) -> None:
    put_slab(server, 0, 0, 1)
    reader = open_reader()
    stop = threading.Event()

    answered: list[int] = []

    def replace() -> None:
        generation = 1
        while not stop.wait(0.03):
            # Not more often than the requests of a busy machine can bear.
            if len(answered) >= 24 * generation:
                generation += 1
                put_slab(server, 0, 0, generation)

    def request(number: int) -> int:
        answered.append(number)
        chooser = random.Random(number)
        row, col = chooser.randrange(SIDE - 1), chooser.randrange(SIDE - 1)
        window = [(row, col), (row, col + 1), (row + 1, col)]
        try:
            tiles = read_tiles(reader, window)
        except (SlabFormatError, StorageUnavailableError) as error:
            raise AssertionError("the store did not fail") from error
        except Exception:  # the slab was replaced twice during one request
            return 0
        first = tiles[0]
        assert first is not None
        generation = int(first.partition(b":")[0])
        assert tiles == [payload(*place, generation) for place in window]
        return 1

    writer = threading.Thread(target=replace)
    writer.start()
    try:
        with ThreadPoolExecutor(8) as threads:
            served = sum(threads.map(request, range(count)))
    finally:
        stop.set()
        writer.join()
    assert served > 0.9 * count
