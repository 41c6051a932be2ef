"""The cache of slab indices (storage.md section 9)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from mastaba.containers.index_cache import IndexCache
from mastaba.errors import ObjectNotFoundError, StorageUnavailableError
from mastaba.slab.index import SlabIndex, index_length
from mastaba_storage.file import FileStorage


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Loader:
    """Creates indices and records which ones were loaded."""

    def __init__(self) -> None:
        self.loads: list[str] = []

    def of(self, key: str) -> Callable[[], SlabIndex]:
        def load() -> SlabIndex:
            self.loads.append(key)
            return make_index(key)

        return load


def make_index(key: str = "a", version: str | None = "1") -> SlabIndex:
    data = b"II*\0".ljust(index_length(1), b"\0")
    return SlabIndex(data, 1, storage=FileStorage(), key=key, version=version)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def loader() -> Loader:
    return Loader()


def test_cached_index_is_returned_without_a_load(clock: Clock, loader: Loader) -> None:
    cache = IndexCache(2, 60, clock)

    first = cache.get("a", loader.of("a"))
    assert cache.get("a", loader.of("a")) is first
    assert loader.loads == ["a"]
    assert (cache.hits, cache.misses) == (1, 1)


def test_full_cache_drops_the_least_recently_used_index(clock: Clock, loader: Loader) -> None:
    cache = IndexCache(2, 60, clock)
    for key in ("a", "b", "a", "c"):
        cache.get(key, loader.of(key))

    assert cache.peek("b") is None
    assert cache.peek("a") is not None
    assert cache.peek("c") is not None
    assert loader.loads == ["a", "b", "c"]


def test_peek_counts_as_use(clock: Clock, loader: Loader) -> None:
    cache = IndexCache(2, 60, clock)
    for key in ("a", "b"):
        cache.get(key, loader.of(key))
    assert cache.peek("a") is not None
    cache.get("c", loader.of("c"))

    assert cache.peek("a") is not None
    assert cache.peek("b") is None


def test_index_is_loaded_again_when_its_validity_is_over(clock: Clock, loader: Loader) -> None:
    cache = IndexCache(2, 60, clock)
    first = cache.get("a", loader.of("a"))

    clock.now += 59.9
    assert cache.get("a", loader.of("a")) is first
    clock.now += 0.1
    assert cache.peek("a") is None
    assert cache.get("a", loader.of("a")) is not first
    assert loader.loads == ["a", "a"]


def test_use_does_not_prolong_the_validity_of_an_index(clock: Clock, loader: Loader) -> None:
    cache = IndexCache(2, 60, clock)
    for _ in range(10):
        cache.get("a", loader.of("a"))
        clock.now += 7

    assert loader.loads == ["a", "a"]


def test_dropped_index_is_loaded_again(clock: Clock, loader: Loader) -> None:
    cache = IndexCache(2, 60, clock)
    stale = cache.get("a", loader.of("a"))

    cache.drop("a", stale)
    assert cache.get("a", loader.of("a")) is not stale


def test_dropping_a_stale_index_keeps_its_successor(clock: Clock, loader: Loader) -> None:
    cache = IndexCache(2, 60, clock)
    stale = cache.get("a", loader.of("a"))
    cache.drop("a", stale)
    fresh = cache.get("a", loader.of("a"))

    cache.drop("a", stale)
    assert cache.get("a", loader.of("a")) is fresh


def test_cleared_cache_is_empty(clock: Clock, loader: Loader) -> None:
    cache = IndexCache(2, 60, clock)
    cache.get("a", loader.of("a"))

    cache.clear()
    assert cache.peek("a") is None


def in_threads(
    cache: IndexCache, load: Callable[[], SlabIndex], count: int
) -> tuple[ThreadPoolExecutor, list[Future[SlabIndex]]]:
    pool = ThreadPoolExecutor(count)
    return pool, [pool.submit(cache.get, "a", load) for _ in range(count)]


def wait_for_misses(cache: IndexCache, count: int) -> None:
    # A thread counts its miss in the same critical section in which it joins the flight.
    while cache.misses < count:
        threading.Event().wait(0.001)


def test_concurrent_misses_for_one_slab_cause_one_load() -> None:
    cache, gate, loads = IndexCache(2, 60), threading.Event(), []

    def load() -> SlabIndex:
        loads.append(threading.get_ident())
        gate.wait()
        return make_index()

    pool, futures = in_threads(cache, load, 8)
    with pool:
        wait_for_misses(cache, 8)
        gate.set()
    assert len({id(future.result()) for future in futures}) == 1
    assert len(loads) == 1


def test_slow_slab_does_not_block_another_one(loader: Loader) -> None:
    cache, gate = IndexCache(2, 60), threading.Event()

    def load() -> SlabIndex:
        gate.wait()
        return make_index()

    pool, futures = in_threads(cache, load, 1)
    with pool:
        wait_for_misses(cache, 1)
        assert cache.get("b", loader.of("b")).key == "b"
        gate.set()
    assert futures[0].result().key == "a"


@pytest.mark.parametrize(
    "failure", [ObjectNotFoundError("absent"), StorageUnavailableError("dead"), OSError("odd")]
)
def test_failed_load_is_raised_in_all_waiting_threads_and_not_cached(
    failure: Exception, loader: Loader
) -> None:
    cache, gate, loads = IndexCache(2, 60), threading.Event(), []

    def load() -> SlabIndex:
        loads.append(1)
        gate.wait()
        raise failure

    pool, futures = in_threads(cache, load, 8)
    with pool:
        wait_for_misses(cache, 8)
        gate.set()
    assert [type(future.exception()) for future in futures] == [type(failure)] * 8
    assert len(loads) == 1

    assert cache.get("a", loader.of("a")).key == "a"


def test_cache_does_not_exceed_its_size_with_many_threads() -> None:
    cache = IndexCache(5, 60)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: cache.get(n % 40, make_index), range(2000)))

    assert sum(cache.peek(key) is not None for key in range(40)) == 5


def test_an_index_that_is_being_read_when_the_cache_is_emptied_is_not_cached(
    clock: Clock, loader: Loader
) -> None:
    cache = IndexCache(10, 60, clock)

    def load() -> SlabIndex:
        cache.clear()
        # Who asks from now on reads again, and that index stays.
        newer.append(cache.get("a", loader.of("a")))
        return make_index("a")

    newer: list[SlabIndex] = []
    older = cache.get("a", load)
    assert older is not newer[0]
    assert cache.peek("a") is newer[0]
    assert loader.loads == ["a"]


@pytest.mark.parametrize(("validity", "seconds"), [(3600.0, 60.0), (10.0, 10.0)])
def test_an_index_without_a_version_is_read_again_after_a_minute(
    clock: Clock, validity: float, seconds: float
) -> None:
    cache = IndexCache(2, validity, clock)
    cache.put("a", make_index("a", None))
    clock.now += seconds - 1
    assert cache.peek("a") is not None
    clock.now += 1
    assert cache.peek("a") is None
