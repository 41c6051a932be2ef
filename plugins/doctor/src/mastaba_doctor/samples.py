"""Choice of the slabs of a level to examine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mastaba.api.catalogue import Level, TileLimits

# Steps of a sequence that fills a square evenly with any number of points: powers of the
# inverse of the real root of x³ = x + 1.
_STEP_X: Final = 0.7548776662466927
_STEP_Y: Final = 0.5698402909980532


def slab_positions(level: Level, most: int) -> Iterator[tuple[int, int]]:
    """Yield columns and rows of slabs that may exist: the middle one, then others all around.

    Always the same ones, without duplicates, and all of them if there are at most ``most``.
    """
    return _positions(level.limits, level.tiles_per_width, level.tiles_per_height, most)


def tile_positions(level: Level, most: int) -> Iterator[tuple[int, int]]:
    """Yield columns and rows of tiles within the limits, in the order of `slab_positions`."""
    return _positions(level.limits, 1, 1, most)


def _positions(
    limits: TileLimits, tiles_per_width: int, tiles_per_height: int, most: int
) -> Iterator[tuple[int, int]]:
    first_col, last_col = (c // tiles_per_width for c in (limits.min_col, limits.max_col))
    first_row, last_row = (r // tiles_per_height for r in (limits.min_row, limits.max_row))
    width, height = last_col - first_col + 1, last_row - first_row + 1
    total, seen = width * height, set()
    x = y = 0.5
    # In a narrow level, many points fall into one place, so their number is limited too.
    for _ in range(8 * min(most, total)):
        place = first_col + int(x * width), first_row + int(y * height)
        if place not in seen:
            seen.add(place)
            yield place
            if len(seen) == most:
                return
        x, y = (x + _STEP_X) % 1.0, (y + _STEP_Y) % 1.0
    if total <= most:
        for number in range(total):
            row, col = divmod(number, width)
            if (first_col + col, first_row + row) not in seen:
                yield first_col + col, first_row + row


def slab_count(level: Level) -> int:
    """Return the number of slabs within the limits of a level."""
    limits = level.limits
    width, height = level.tiles_per_width, level.tiles_per_height
    return (limits.max_col // width - limits.min_col // width + 1) * (
        limits.max_row // height - limits.min_row // height + 1
    )


def tiles_of(level: Level, slab_col: int, slab_row: int) -> Iterator[tuple[int, int]]:
    """Yield rows and columns of the tiles of a slab within the limits of the level."""
    limits = level.limits
    width, height = level.tiles_per_width, level.tiles_per_height
    for row in range(slab_row * height, (slab_row + 1) * height):
        for col in range(slab_col * width, (slab_col + 1) * width):
            if limits.contains(row, col):
                yield row, col
