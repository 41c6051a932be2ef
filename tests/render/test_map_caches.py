"""The memory that maps occupy after they are drawn is bounded for all requests."""

from __future__ import annotations

import gc
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from tests.render import in_numpy
from tests.render.ground import KERNELS, MESH_CENTRE, World, around, grid_positions

from mastaba.containers.index_cache import MAX_INDEX_BYTES, IndexCache
from mastaba.model import crs
from mastaba.model.crs import CRS, transform_points
from mastaba.slab.index import SlabIndex, index_length
from mastaba_render import native
from mastaba_render.sampling import BASE_RADIUS, FRACTIONS, LARGEST_STENCIL, stencil, weights_at
from mastaba_storage.file import FileStorage

MEBIBYTE = 1024 * 1024
CRSS = ("EPSG:2154", "EPSG:4326", "EPSG:3035", "EPSG:32631", "EPSG:3857")


@pytest.mark.thorough
def test_maps_of_few_pixels_leave_little_behind(mesh: World) -> None:
    """Each of them once kept the weights of a thousand fractions of each of its source pixels."""
    layers = [replace(mesh.layer("wave"), resampling=kernel) for kernel in KERNELS]

    def draw(number: int) -> None:
        code = CRSS[number % len(CRSS)]
        side = 6e4 + 150 * number
        side = side / 9e4 if code == "EPSG:4326" else side
        bbox = around(code, side, side * 0.9, MESH_CENTRE)
        size = (1 + number % 3, 1 + number % 2)
        mesh.draw(layers[number % len(KERNELS)], bbox, code, size)

    for number in range(30):
        draw(number)
    tracemalloc.start()
    try:
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        for number in range(30, 70):
            draw(number)
        gc.collect()
        kept = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert kept < 4 * MEBIBYTE


def test_stencils_have_a_bound_in_bytes() -> None:
    largest = stencil("lanczos_3", LARGEST_STENCIL / 2)
    size = largest.first.nbytes + largest.weights.nbytes
    most = stencil.cache_info().maxsize
    assert most is not None
    assert most * size < 9 * MEBIBYTE


@pytest.mark.parametrize(
    "taps", [LARGEST_STENCIL + 1, pytest.param(180, marks=pytest.mark.thorough)]
)
def test_many_taps_weigh_as_they_would_in_a_stencil(taps: int) -> None:
    """At the fractions of a position that a stencil is made for, in the same way."""
    pixels = np.random.default_rng(1).uniform(-500, 500, (400, 420, 2)).astype(np.float32)
    end = np.array([0.0, 4.0])
    columns, rows = np.meshgrid(np.array([180.3, 220.9]), np.array([181.7, 215.2]))
    grid, part = native.Grid.of(end, end, np.stack([columns, rows])), native.Window(0, 5, 0, 5)
    for kernel in KERNELS[1:]:
        weights = weights_at(kernel, np.arange(FRACTIONS) / FRACTIONS, taps / 2)
        expected = in_numpy.warp(pixels, (0, 0), grid, part, weights, weights)
        ratio = taps / 2 / BASE_RADIUS[kernel]
        positions = grid_positions(end, end, columns, rows, (ratio, ratio))
        found = positions.sampler(kernel, slice(0, 5), 0, 0)(pixels)
        assert np.abs(found - expected).max() < 0.02


@pytest.mark.thorough
def test_indices_have_a_bound_in_bytes() -> None:
    cache, tiles = IndexCache(1000, 60.0), 1 << 20

    def load() -> SlabIndex:
        data = b"II*\0".ljust(index_length(tiles), b"\0")
        return SlabIndex(data, tiles, storage=FileStorage(), key="key")

    for number in range(20):
        cache.get(number, load)
        assert cache.used <= MAX_INDEX_BYTES
    assert cache.peek(0) is None
    assert cache.peek(19) is not None
    kept = sum(cache.peek(number) is not None for number in range(20))
    assert cache.used == kept * 8 * tiles
    cache.clear()
    assert cache.used == 0


@pytest.mark.thorough
def test_transformations_are_bounded() -> None:
    degrees, x = CRS.from_code("CRS:84"), np.zeros(1)
    for number in range(32601, 32661):
        transform_points(degrees, CRS.from_code(f"EPSG:{number}"), x, x)
    info = crs._transformer.cache_info()
    assert info.currsize == info.maxsize == 32
