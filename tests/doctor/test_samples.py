"""Which slabs are looked at."""

from __future__ import annotations

import pytest

from mastaba.model.pyramid import Level
from mastaba.model.tile_matrix_set import TileLimits, TileMatrix
from mastaba_doctor.samples import slab_count, slab_positions, tiles_of

MATRIX = TileMatrix("9", 1.0, 0.0, 0.0, 256, 256, 100_000, 100_000)


def level(min_row: int, max_row: int, min_col: int, max_col: int, size: int = 4) -> Level:
    return Level(MATRIX, size, size, TileLimits(min_row, max_row, min_col, max_col))


def test_a_small_level_is_looked_at_whole_from_its_middle_on() -> None:
    found = list(slab_positions(level(4, 15, 8, 19), 100))
    assert found[0] == (3, 2)
    assert sorted(found) == [(col, row) for col in (2, 3, 4) for row in (1, 2, 3)]


@pytest.mark.parametrize("most", [1, 2, 7, 64])
def test_a_large_level_gives_the_requested_number(most: int) -> None:
    large = level(1001, 90_000, 5, 80_000)
    found = list(slab_positions(large, most))
    assert len(set(found)) == len(found) == most
    for col, row in found:
        assert any(True for _ in tiles_of(large, col, row))


def test_the_sample_is_spread_over_the_level() -> None:
    found = list(slab_positions(level(0, 79_999, 0, 79_999), 16))
    quarters = {(col // 10_000, row // 10_000) for col, row in found}
    assert quarters == {(0, 0), (0, 1), (1, 0), (1, 1)}


def test_a_narrow_level_ends() -> None:
    found = list(slab_positions(level(0, 3, 0, 4 * 70 - 1), 64))
    assert 32 <= len(set(found)) == len(found) <= 64


def test_the_same_slabs_each_time() -> None:
    large = level(0, 50_000, 0, 50_000)
    assert list(slab_positions(large, 9)) == list(slab_positions(large, 9))


def test_tiles_outside_the_limits_are_left_out() -> None:
    assert list(tiles_of(level(5, 6, 7, 9), 1, 1)) == [(5, 7), (6, 7)]


def test_slabs_are_counted_by_their_edges() -> None:
    assert slab_count(level(3, 4, 3, 11)) == 2 * 3
