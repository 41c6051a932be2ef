"""Which tiles of a matrix an area selects."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from mastaba.api.catalogue import BoundingBox, TileLimits, TileMatrix
from mastaba_export.errors import ExportTooLargeError

Ring = npt.NDArray[np.float64]
"""Shape (n, 2), x and y; closed: the last point equals the first."""
Integers = npt.NDArray[np.int64]

MOST_MARKED: Final = 50_000_000
"""Tiles around a polygon in one level."""
_MOST_PIECES: Final = 20_000_000
"""Rows of tiles that the edges of a polygon cross, each for itself."""
_CELLS_AT_A_TIME: Final = 4_000_000
_BESIDE: Final = 1e-9
"""Part of a tile by which an edge may be inside without touching it: rounding errors."""


@dataclass(frozen=True, slots=True, eq=False)
class Area:
    """An area in the CRS of a tile matrix set; its parts may overlap.

    Attributes:
        boxes: whole boxes.
        polygons: rings of each; what is inside follows from the even-odd rule.
    """

    boxes: tuple[BoundingBox, ...] = ()
    polygons: tuple[tuple[Ring, ...], ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """The selected tiles of one matrix; at least one.

    Attributes:
        limits: around them.
        mask: which tiles of the limits are selected, shape (rows, columns); None for all.
    """

    limits: TileLimits
    mask: npt.NDArray[np.bool_] | None = None

    @property
    def count(self) -> int:
        """Number of selected tiles."""
        if self.mask is not None:
            return int(self.mask.sum())
        limits = self.limits
        return (limits.max_row - limits.min_row + 1) * (limits.max_col - limits.min_col + 1)

    def inside(self, block: TileLimits) -> tuple[Integers, Integers]:
        """Return rows and columns of the selected tiles in a block, row by row."""
        common = block.intersection(self.limits)
        if common is None:
            empty = np.empty(0, np.int64)
            return empty, empty
        top, left = self.limits.min_row, self.limits.min_col
        rows = slice(common.min_row - top, common.max_row + 1 - top)
        columns = slice(common.min_col - left, common.max_col + 1 - left)
        if self.mask is None:
            shape = rows.stop - rows.start, columns.stop - columns.start
            found = np.indices(shape).reshape(2, -1)
        else:
            found = np.array(np.nonzero(self.mask[rows, columns]))
        return found[0] + common.min_row, found[1] + common.min_col

    def blocks(self, height: int, width: int) -> tuple[Integers, Integers]:
        """Return rows and columns of the blocks of tiles that contain selected tiles.

        Args:
            height, width: of a block, in tiles.
        """
        limits = self.limits
        top, bottom = limits.min_row // height, limits.max_row // height + 1
        left, right = limits.min_col // width, limits.max_col // width + 1
        if self.mask is None:
            rows, columns = np.indices((bottom - top, right - left)).reshape(2, -1)
            return rows + top, columns + left
        found: list[tuple[Integers, Integers]] = []
        for row in range(top, bottom):
            first = max(row * height - limits.min_row, 0)
            band = self.mask[first : (row + 1) * height - limits.min_row].any(axis=0)
            columns = np.unique((np.flatnonzero(band) + limits.min_col) // width)
            found.append((np.full(len(columns), row), columns))
        return np.concatenate([one[0] for one in found]), np.concatenate([one[1] for one in found])


def selected(area: Area | None, matrix: TileMatrix, limits: TileLimits) -> Selection | None:
    """Return the tiles within some limits whose squares touch an area; None if there are none.

    Tiles that the area only meets at a side are not selected.

    Args:
        area: None for all tiles.

    Raises:
        ExportTooLargeError: the area has too many tiles or edges.
    """
    if area is None:
        return Selection(limits)
    if len(area.boxes) == 1 and not area.polygons:
        found = matrix.limits_of(area.boxes[0])
        common = None if found is None else found.intersection(limits)
        return None if common is None else Selection(common)
    cells = [[_in_tiles(ring, matrix) for ring in rings] for rings in area.polygons]
    parts = [matrix.limits_of(box) for box in area.boxes]
    parts += [_around(np.concatenate(rings), matrix) for rings in cells]
    inside = [None if part is None else part.intersection(limits) for part in parts]
    common = _hull([part for part in inside if part is not None])
    if common is None:
        return None
    mask = np.zeros(_checked_shape(common, matrix), np.bool_)
    _check_pieces(
        [rings for rings, part in zip(cells, inside[len(area.boxes) :], strict=True) if part]
    )
    for number, part in enumerate(inside):
        if part is None:
            continue
        window = mask[
            part.min_row - common.min_row : part.max_row + 1 - common.min_row,
            part.min_col - common.min_col : part.max_col + 1 - common.min_col,
        ]
        if number < len(area.boxes):
            window[...] = True
        else:
            rings = cells[number - len(area.boxes)]
            edges = np.concatenate([np.hstack([ring[:-1], ring[1:]]) for ring in rings])
            _mark(window, edges - np.array([part.min_col, part.min_row] * 2))
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    if not len(rows):
        return None
    mask = mask[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    top, left = common.min_row + int(rows[0]), common.min_col + int(columns[0])
    hull = TileLimits(top, top + mask.shape[0] - 1, left, left + mask.shape[1] - 1)
    return Selection(hull, None if mask.all() else mask)


def inside_of(area: Area, matrix: TileMatrix, row: int, column: int) -> npt.NDArray[np.bool_]:
    """Return which pixels of a tile have their middle in an area.

    Returns:
        shape (tile height, tile width).
    """
    shape = matrix.tile_height, matrix.tile_width
    return cells_inside(area, matrix, row * shape[0], column * shape[1], shape)


def edges_of(area: Area, matrix: TileMatrix) -> npt.NDArray[np.float64]:
    """Return the edges of an area in tiles from the upper left corner of a matrix.

    Returns:
        shape (n, 4): x and y of the beginning, then of the end.
    """
    corners = [
        np.array([(a, b), (c, b), (c, d), (a, d), (a, b)])
        for a, b, c, d in ((box.xmin, box.ymin, box.xmax, box.ymax) for box in area.boxes)
    ]
    rings = [_in_tiles(ring, matrix) for part in (corners, *area.polygons) for ring in part]
    return np.concatenate([np.empty((0, 4)), *(np.hstack([one[:-1], one[1:]]) for one in rings)])


class Edges:
    """The edges of an area, sorted so that those near a block of tiles are found at once.

    Args:
        edges: as `edges_of` returns them.
    """

    def __init__(self, edges: npt.NDArray[np.float64]) -> None:
        top, bottom = np.minimum(edges[:, 1], edges[:, 3]), np.maximum(edges[:, 1], edges[:, 3])
        # Of edges up to twice as high as others, few begin above a block and do not reach it.
        sizes = np.ceil(np.log2(np.maximum(bottom - top, 1.0)))
        self._groups: list[tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], float]] = []
        for size in np.unique(sizes):
            chosen = np.flatnonzero(sizes == size)
            chosen = chosen[np.argsort(top[chosen])]
            self._groups.append((edges[chosen], top[chosen], 2.0**size))

    def crossed(self, block: TileLimits) -> npt.NDArray[np.bool_]:
        """Return which tiles of a block edges pass; shape (rows, columns)."""
        shape = block.max_row + 1 - block.min_row, block.max_col + 1 - block.min_col
        parts = []
        for edges, tops, height in self._groups:
            # One more tile, because rounding may make an edge longer.
            first = np.searchsorted(tops, block.min_row - height - 1)
            last = np.searchsorted(tops, block.max_row + 1, side="right")
            parts.append(edges[first:last])
        found = np.concatenate([np.empty((0, 4)), *parts])
        found -= np.array([block.min_col, block.min_row] * 2)
        low, high = np.minimum(found[:, :2], found[:, 2:]), np.maximum(found[:, :2], found[:, 2:])
        near = found[((high >= 0) & (low <= shape[::-1])).all(axis=1)]
        if not len(near):
            return np.zeros(shape, np.bool_)
        return _touched(shape, near, _pieces(near, shape[0]))


def around(polygons: Iterable[Iterable[Ring]]) -> BoundingBox | None:
    """Return the box around polygons; None if there are none."""
    rings = [ring for one in polygons for ring in one]
    if not rings:
        return None
    points = np.concatenate(rings)
    return BoundingBox(*points.min(axis=0).tolist(), *points.max(axis=0).tolist())


def cells_inside(
    area: Area, matrix: TileMatrix, top: int, left: int, shape: tuple[int, int]
) -> npt.NDArray[np.bool_]:
    """Return which cells of a matrix have their middle in an area.

    Args:
        top, left: row and column of the first cell.
        shape: rows and columns of the cells.
    """
    found = np.zeros(shape, np.bool_)
    x = matrix.origin_x + (left + np.arange(shape[1]) + 0.5) * matrix.cell_size
    y = matrix.origin_y - (top + np.arange(shape[0]) + 0.5) * matrix.cell_size
    for box in area.boxes:
        rows, columns = (y >= box.ymin) & (y <= box.ymax), (x >= box.xmin) & (x <= box.xmax)
        found |= rows[:, np.newaxis] & columns
    size = matrix.tile_width, matrix.tile_height
    for rings in area.polygons:
        pixels = [_in_tiles(ring, matrix) * size - (left, top) for ring in rings]
        edges = np.concatenate([np.hstack([ring[:-1], ring[1:]]) for ring in pixels])
        low, high = np.minimum(edges[:, 1], edges[:, 3]), np.maximum(edges[:, 1], edges[:, 3])
        edges = edges[(high >= 0) & (low <= shape[0])]
        found |= _middles(shape, edges, _pieces(edges, shape[0]))
    return found


def _checked_shape(limits: TileLimits, matrix: TileMatrix) -> tuple[int, int]:
    shape = limits.max_row - limits.min_row + 1, limits.max_col - limits.min_col + 1
    size = shape[0] * shape[1]
    if size > MOST_MARKED:
        raise ExportTooLargeError(
            f"the area has {size:,} tiles in level {matrix.id}; take a smaller area or fewer "
            f"levels (limit: {MOST_MARKED:,})",
            size,
            MOST_MARKED,
        )
    return shape


def _check_pieces(polygons: list[list[Ring]]) -> None:
    heights = (np.abs(np.diff(ring[:, 1])) for rings in polygons for ring in rings)
    pieces = int(sum((height.sum() + 2 * len(height) for height in heights), 0.0))
    if pieces > _MOST_PIECES:
        raise ExportTooLargeError(
            f"the edges of the area cross {pieces:,} rows of tiles; take a simpler area or fewer "
            f"levels (limit: {_MOST_PIECES:,})",
            pieces,
            _MOST_PIECES,
        )


def _in_tiles(ring: Ring, matrix: TileMatrix) -> Ring:
    """Return a ring in tiles from the upper left corner of a matrix."""
    width = matrix.tile_width * matrix.cell_size
    height = matrix.tile_height * matrix.cell_size
    x = (ring[:, 0] - matrix.origin_x) / width
    y = (matrix.origin_y - ring[:, 1]) / height
    # No matrix is larger; longer numbers would overflow as integers.
    return np.clip(np.column_stack([x, y]), -1e9, 1e9)


def _around(points: Ring, matrix: TileMatrix) -> TileLimits | None:
    low = np.floor(points.min(axis=0)).astype(np.int64)
    high = np.floor(points.max(axis=0)).astype(np.int64)
    limits = TileLimits(int(low[1]), int(high[1]), int(low[0]), int(high[0]))
    return limits.intersection(matrix.all_tiles)


def _hull(parts: list[TileLimits]) -> TileLimits | None:
    if not parts:
        return None
    return TileLimits(
        min(part.min_row for part in parts),
        max(part.max_row for part in parts),
        min(part.min_col for part in parts),
        max(part.max_col for part in parts),
    )


def _mark(mask: npt.NDArray[np.bool_], edges: npt.NDArray[np.float64]) -> None:
    """Mark the cells that a polygon touches.

    Args:
        mask: shape (rows, columns); the corner of its first cell is (0, 0).
        edges: shape (n, 4): x and y of the beginning, then of the end.
    """
    step = max(_CELLS_AT_A_TIME // mask.shape[1], 1)
    low, high = np.minimum(edges[:, 1], edges[:, 3]), np.maximum(edges[:, 1], edges[:, 3])
    for top in range(0, len(mask), step):
        band = mask[top : top + step]
        near = edges[(high >= top) & (low <= top + len(band))] - np.array([0, top, 0, top])
        pieces = _pieces(near, len(band))
        inside = _middles(band.shape, near, pieces)
        band |= inside
        band |= _touched(band.shape, near, pieces)


def _pieces(edges: npt.NDArray[np.float64], rows: int) -> tuple[Integers, Integers]:
    """Return number of the edge, and row, of each part of an edge in one row."""
    first = np.floor(np.minimum(edges[:, 1], edges[:, 3]) + _BESIDE)
    last = np.ceil(np.maximum(edges[:, 1], edges[:, 3]) - _BESIDE) - 1
    starts = np.maximum(first, 0).astype(np.int64)
    counts = np.maximum(np.minimum(last, rows - 1).astype(np.int64) - starts + 1, 0)
    return _expanded(starts, counts)


def _expanded(first: Integers, counts: Integers) -> tuple[Integers, Integers]:
    """Return, for ranges of whole numbers, the number of the range and each of its numbers."""
    numbers = np.repeat(np.arange(len(counts)), counts)
    return numbers, first[numbers] + np.arange(len(numbers)) - (np.cumsum(counts) - counts)[numbers]


def _touched(
    shape: tuple[int, ...], edges: npt.NDArray[np.float64], pieces: tuple[Integers, Integers]
) -> npt.NDArray[np.bool_]:
    """Return the cells that edges pass.

    Args:
        pieces: number of the edge, and row, of each part of an edge.
    """
    numbers, row = pieces
    x0, y0, x1, y1 = edges[numbers].T
    # Where the edge enters and leaves the row.
    height = y1 - y0
    with np.errstate(divide="ignore", invalid="ignore"):
        start = np.where(height == 0, 0.0, np.clip((row - y0) / height, 0.0, 1.0))
        end = np.where(height == 0, 1.0, np.clip((row + 1 - y0) / height, 0.0, 1.0))
    one, other = x0 + start * (x1 - x0), x0 + end * (x1 - x0)
    columns = shape[1]
    left = np.clip(np.floor(np.minimum(one, other) + _BESIDE), 0, columns).astype(np.int64)
    right = np.clip(np.ceil(np.maximum(one, other) - _BESIDE), 0, columns).astype(np.int64)
    known = right > left
    changes = np.zeros((shape[0], columns + 1), np.int32)
    np.add.at(changes, (row[known], left[known]), 1)
    np.add.at(changes, (row[known], right[known]), -1)
    return np.asarray(np.cumsum(changes, axis=1)[:, :columns] > 0)


def _middles(
    shape: tuple[int, ...], edges: npt.NDArray[np.float64], pieces: tuple[Integers, Integers]
) -> npt.NDArray[np.bool_]:
    """Return the cells whose middle is inside, by the even-odd rule. Arguments as `_touched`."""
    numbers, row = pieces
    x0, y0, x1, y1 = edges[numbers].T
    middle = row + 0.5
    crosses = (y0 <= middle) != (y1 <= middle)
    x0, y0, x1, y1, middle, row = (one[crosses] for one in (x0, y0, x1, y1, middle, row))
    x = x0 + (middle - y0) / (y1 - y0) * (x1 - x0)
    column = np.clip(np.ceil(x - 0.5), 0, shape[1]).astype(np.int64)
    toggles = np.zeros((shape[0], shape[1] + 1), np.bool_)
    # An even number of crossings at one place cancels out.
    np.bitwise_xor.at(toggles, (row, column), True)
    return np.asarray(np.bitwise_xor.accumulate(toggles, axis=1)[:, :-1])
