"""Which pictures of a service a slab needs, and where they are in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from mastaba.api.catalogue import TileLimits

_LARGEST = 2048
"""Pixels on a side of a map."""


class Span(NamedTuple):
    """Where a picture is on one axis.

    Attributes:
        number: of the picture on this axis; of a map, its first tile.
        start: first pixel, counted from the upper left corner of the slab.
        size: pixels.
    """

    number: int
    start: int
    size: int

    @property
    def stop(self) -> int:
        """The first pixel after it."""
        return self.start + self.size


class Grid(Protocol):
    """The pictures of one level; those of a slab are all pairs of a column and a row."""

    def columns(self, slab: int) -> list[Span]:
        """Return the columns of pictures in a column of slabs."""

    def rows(self, slab: int) -> list[Span]:
        """Return the rows of pictures in a row of slabs."""


class Axis(NamedTuple):
    """Tiles on one axis: pixels of a tile, tiles of a slab, first and last tile to harvest."""

    tile: int
    slab: int
    first: int
    last: int

    def tiles_of(self, slab: int) -> range:
        """Return the tiles of a slab that are harvested."""
        return range(
            max(self.first, slab * self.slab), min(self.last, (slab + 1) * self.slab - 1) + 1
        )


def axes_of(limits: TileLimits, slab: tuple[int, int], tile: tuple[int, int]) -> tuple[Axis, Axis]:
    """Return the axes of columns and rows of the tiles in limits.

    Args:
        slab: width and height in tiles.
        tile: width and height in pixels.
    """
    return (
        Axis(tile[0], slab[0], limits.min_col, limits.max_col),
        Axis(tile[1], slab[1], limits.min_row, limits.max_row),
    )


@dataclass(frozen=True, slots=True)
class MapGrid:
    """Maps of whole tiles; none crosses the border of a slab.

    Attributes:
        across, down: axes of the tiles.
        largest: width and height in pixels that the service draws at most.
    """

    across: Axis
    down: Axis
    largest: tuple[int, int]

    def columns(self, slab: int) -> list[Span]:
        return _blocks(self.across, slab, self.largest[0])

    def rows(self, slab: int) -> list[Span]:
        return _blocks(self.down, slab, self.largest[1])


def _blocks(axis: Axis, slab: int, largest: int) -> list[Span]:
    """Return blocks of tiles of about equal size."""
    tiles = axis.tiles_of(slab)
    if not tiles:
        return []
    most = max(1, min(largest, _LARGEST) // axis.tile)
    count = -(-len(tiles) // most)
    step = -(-len(tiles) // count)
    return [
        Span(
            first,
            (first - slab * axis.slab) * axis.tile,
            min(step, tiles.stop - first) * axis.tile,
        )
        for first in tiles[::step]
    ]


class TileAxis(NamedTuple):
    """Tiles of a service on one axis.

    Attributes:
        size: pixels of a tile.
        shift: first pixel of the matrix of the pyramid, in pixels of that of the service.
        first, last: tiles that exist.
    """

    size: int
    shift: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class TileGrid:
    """Tiles of a matrix of a service whose pixels are those of a matrix of the pyramid.

    Attributes:
        matrix: identifier at the service.
        across, down: axes of the tiles of the pyramid.
        across_service, down_service: axes of the tiles of the service.
    """

    matrix: str
    across: Axis
    down: Axis
    across_service: TileAxis
    down_service: TileAxis

    @property
    def is_equal(self) -> bool:
        """Whether the tiles are those of the pyramid."""
        return self.across_service.shift == self.down_service.shift == 0 and (
            self.across_service.size,
            self.down_service.size,
        ) == (self.across.tile, self.down.tile)

    def columns(self, slab: int) -> list[Span]:
        return _tiles(self.across, self.across_service, slab)

    def rows(self, slab: int) -> list[Span]:
        return _tiles(self.down, self.down_service, slab)


def _tiles(axis: Axis, service: TileAxis, slab: int) -> list[Span]:
    tiles = axis.tiles_of(slab)
    if not tiles:
        return []
    start, stop = (one * axis.tile + service.shift for one in (tiles.start, tiles.stop))
    first = max(service.first, start // service.size)
    last = min(service.last, (stop - 1) // service.size)
    corner = slab * axis.slab * axis.tile + service.shift
    return [Span(one, one * service.size - corner, service.size) for one in range(first, last + 1)]


def pictures_of(grid: Grid, slabs: Iterator[tuple[int, int]]) -> int:
    """Return how many pictures some slabs need, each given by its column and row."""
    columns: dict[int, int] = {}
    rows: dict[int, int] = {}
    total = 0
    for column, row in slabs:
        if column not in columns:
            columns[column] = len(grid.columns(column))
        if row not in rows:
            rows[row] = len(grid.rows(row))
        total += columns[column] * rows[row]
    return total
