"""The cache of decoded tiles keeps to its size (`mastaba_render.tile_cache`)."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

import numpy as np
import pytest
from tests.render.ground import World

from mastaba.model.tile_matrix_set import TileLimits
from mastaba_render.tile_cache import TileCache, _name

SIZE = 64 * 1024


def tile(size: int, value: int = 0) -> np.ndarray:
    return np.full(size, value, np.uint8)


def has(cache: TileCache, key: object) -> bool:
    return cache.get([key])[0] is not None


def in_another_process(work: Callable[[], None]) -> None:
    """Run a function in a forked process; fail if it fails."""
    wait_for(fork(work))


def fork(work: Callable[[], None]) -> int:
    """Run a function in a forked process; return its pid."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return pid


def wait_for(pid: int) -> None:
    """Wait for a forked process; fail if it failed."""
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_tiles_cached_longest_ago_make_room() -> None:
    cache = TileCache(SIZE)
    for key in "abc":
        cache.put(key, tile(20_000))
    assert all(has(cache, key) for key in "abc")
    cache.put("d", tile(20_000))
    assert [has(cache, key) for key in "abcd"] == [False, True, True, True]
    cache.put("e", tile(60_000))
    assert [has(cache, key) for key in "abcde"] == [False, False, False, False, True]
    assert cache.used == SIZE


def test_tiles_keep_their_values_shape_and_type() -> None:
    cache = TileCache(SIZE)
    tiles = {
        "bytes": np.arange(5 * 7 * 3, dtype=np.uint8).reshape(5, 7, 3),
        "floats": np.linspace(0, 1, 5 * 7, dtype=np.float32).reshape(5, 7, 1),
        "part": np.arange(200, dtype=np.uint8).reshape(10, 20)[2:5, 3:9],
    }
    for key, pixels in tiles.items():
        cache.put(key, pixels)
    for pixels, found in zip(tiles.values(), cache.get([*tiles]), strict=True):
        assert found is not None
        assert found.dtype == pixels.dtype
        np.testing.assert_array_equal(found, pixels)


def test_a_copy_stays_when_its_tile_is_replaced() -> None:
    cache = TileCache(SIZE)
    cache.put("a", tile(40_000, 1))
    (found,) = cache.get(["a"])
    cache.put("b", tile(40_000, 2))
    assert not has(cache, "a")
    assert found is not None
    assert (found == 1).all()


def test_a_part_is_copied_to_its_array() -> None:
    cache = TileCache(SIZE)
    whole = np.arange(60, dtype=np.uint8).reshape(6, 10, 1)
    cache.put("a", whole)
    part, pixels = (slice(1, 4), slice(2, 9)), np.zeros((3, 7, 1), np.uint8)
    found = cache.get(["a", "a", "b"], [(part, pixels), None, (part, pixels.copy())])
    assert found[0] is pixels
    np.testing.assert_array_equal(pixels, whole[part])
    np.testing.assert_array_equal(found[1], whole)
    assert found[2] is None


def test_tile_larger_than_the_cache_is_not_kept() -> None:
    cache = TileCache(SIZE)
    cache.put("a", tile(60_000))
    cache.put("b", tile(SIZE))
    assert not has(cache, "b")
    assert has(cache, "a")


def test_nothing_is_kept_without_size() -> None:
    cache = TileCache(0)
    cache.put("a", tile(1))
    assert not has(cache, "a")
    assert not cache.wants("a", 1)
    assert not cache.wants("a", 1)
    assert cache.used == 0


def test_a_tile_cached_again_is_the_new_one() -> None:
    cache = TileCache(SIZE)
    cache.put("a", tile(60, 1))
    cache.put("a", tile(50, 2))
    (found,) = cache.get(["a"])
    assert found is not None
    assert found.tolist() == [2] * 50


def test_a_tile_is_wanted_the_second_time() -> None:
    cache = TileCache(SIZE)
    assert [cache.wants("a", 100) for _ in range(3)] == [False, True, False]
    # As many tiles as the cache would hold since then.
    assert not cache.wants("b", SIZE)
    assert not cache.wants("c", SIZE)
    assert not cache.wants("b", SIZE)


def test_tiles_needed_together_are_both_wanted_in_the_end() -> None:
    """Although both are remembered in the same place."""
    cache, count = TileCache(SIZE), 10
    one, *others = range(1000)
    other = next(key for key in others if place_of(key, count) == place_of(one, count))
    wanted: set[int] = set()
    for _ in range(200):
        wanted |= {key for key in (one, other) if cache.wants(key, SIZE // count)}
    assert wanted == {one, other}


def test_tiles_needed_again_after_too_many_others_are_not_wanted() -> None:
    """The cache would lose them before they are needed again."""
    cache, count = TileCache(SIZE), 10
    tiles, rounds = 3 * count, 200
    wanted = sum(cache.wants(key, SIZE // count) for key in [*range(tiles)] * rounds)
    assert wanted < 0.01 * tiles * rounds


def place_of(key: int, count: int) -> int:
    """Return the first place of a tile among those of the tiles that were needed once."""
    return int.from_bytes(_name(key)[:8], "little") % count


def test_hits_and_misses_are_counted() -> None:
    cache = TileCache(SIZE)
    cache.get(["a"])
    cache.put("a", tile(1))
    cache.get(["a"])
    cache.get(["a", "b"])
    assert (cache.hits, cache.misses) == (2, 2)


def test_processes_share_their_tiles() -> None:
    cache = TileCache(SIZE)
    cache.put("parent", tile(100, 1))

    def work() -> None:
        assert has(cache, "parent")
        assert not cache.wants("seen", 100)
        cache.put("child", tile(100, 2))

    in_another_process(work)
    (found,) = cache.get(["child"])
    assert found is not None
    assert (found == 2).all()
    assert cache.wants("seen", 100)


def test_a_process_that_hangs_or_dies_while_it_writes_stops_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cache = TileCache(SIZE)
    cache.put("old", tile(100))
    inside, leave = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        real = np.ascontiguousarray

        def hang(pixels: np.ndarray) -> np.ndarray:
            os.write(inside[1], b"x")
            os.read(leave[0], 1)
            os._exit(0)
            return real(pixels)

        monkeypatch.setattr(np, "ascontiguousarray", hang)
        cache.put("half", tile(100))
        os._exit(1)
    os.read(inside[0], 1)
    cache.put("refused", tile(100))
    assert [has(cache, key) for key in ("old", "refused", "half")] == [True, False, False]
    os.write(leave[1], b"x")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    cache.put("next", tile(100))
    assert [has(cache, key) for key in ("old", "next", "half")] == [True, True, False]
    for descriptor in (*inside, *leave):
        os.close(descriptor)


@pytest.mark.thorough
def test_no_reader_gets_a_tile_that_is_being_overwritten() -> None:
    """Threads and processes write all the time; each tile has one value, which its key names."""
    cache = TileCache(SIZE)
    failures: list[object] = []

    def work(seed: int) -> None:
        random = np.random.default_rng(seed)
        for _ in range(2000):
            key = int(random.integers(40))
            (found,) = cache.get([key])
            if found is None:
                cache.put(key, tile(1000 + 100 * key, key))
            elif found.shape != (1000 + 100 * key,) or (found != key).any():
                failures.append(key)

    def work_in_threads() -> None:
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures

    pid = fork(work_in_threads)
    work_in_threads()
    wait_for(pid)
    assert cache.hits > 0
    assert cache.used <= SIZE


def test_maps_take_known_tiles_from_the_cache(mesh: World) -> None:
    matrix = mesh.layer("ramp").pyramid.finest.matrix
    box = matrix.bbox_of(TileLimits(10, 10, 7, 8))
    mesh.draw("ramp", box, "EPSG:3857", (128, 48))
    tiles = mesh.site.renderer.tiles
    before = tiles.hits, tiles.misses
    mesh.draw("ramp", box, "EPSG:3857", (128, 48))
    assert (tiles.hits - before[0], tiles.misses - before[1]) == (2, 0)
