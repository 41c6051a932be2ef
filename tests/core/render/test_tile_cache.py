"""The cache of decoded tiles keeps to its size (`mastaba.render.tile_cache`)."""

from __future__ import annotations

import threading

import numpy as np
from tests.core.render.ground import World

from mastaba.model.tile_matrix_set import TileLimits
from mastaba.render.tile_cache import TileCache


def tile(size: int) -> np.ndarray:
    return np.zeros(size, np.uint8)


def test_tiles_used_longest_ago_make_room() -> None:
    cache = TileCache(100)
    for key in "abc":
        cache.put(key, tile(30))
    assert cache.get(["a"])[0] is not None
    cache.put("d", tile(30))
    assert cache.get(["b"])[0] is None
    assert all(cache.get([key])[0] is not None for key in "acd")
    assert cache.used == 90
    cache.put("e", tile(100))
    assert cache.used == 100
    assert all(cache.get([key])[0] is None for key in "acd")


def test_tile_larger_than_the_cache_is_not_kept() -> None:
    cache = TileCache(100)
    cache.put("a", tile(60))
    cache.put("b", tile(101))
    assert cache.get(["b"])[0] is None
    assert cache.get(["a"])[0] is not None


def test_nothing_is_kept_without_size() -> None:
    cache = TileCache(0)
    cache.put("a", tile(1))
    assert cache.get(["a"])[0] is None
    assert cache.used == 0


def test_tile_cached_again_counts_once() -> None:
    cache = TileCache(100)
    cache.put("a", tile(60))
    replacement = tile(50)
    cache.put("a", replacement)
    assert cache.used == 50
    assert cache.get(["a"])[0] is replacement


def test_hits_and_misses_are_counted() -> None:
    cache = TileCache(100)
    cache.get(["a"])
    cache.put("a", tile(1))
    cache.get(["a"])
    cache.get(["a"])
    assert (cache.hits, cache.misses) == (2, 1)


def test_size_is_bounded_with_many_threads() -> None:
    cache = TileCache(1000)
    failures = []

    def work(seed: int) -> None:
        random = np.random.default_rng(seed)
        for _ in range(500):
            key = int(random.integers(40))
            if cache.get([key])[0] is None:
                cache.put(key, tile(10 + key))
            if cache.used < 0:
                failures.append(cache.used)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    kept = [found for found in cache.get(range(40)) if found is not None]
    assert cache.used == sum(found.nbytes for found in kept) <= 1000


def test_maps_take_known_tiles_from_the_cache(mesh: World) -> None:
    matrix = mesh.layer("ramp").pyramid.finest.matrix
    box = matrix.bbox_of(TileLimits(10, 10, 7, 8))
    mesh.draw("ramp", box, "EPSG:3857", (128, 48))
    tiles = mesh.site.renderer.tiles
    before = tiles.hits, tiles.misses
    mesh.draw("ramp", box, "EPSG:3857", (128, 48))
    assert (tiles.hits - before[0], tiles.misses - before[1]) == (2, 0)
