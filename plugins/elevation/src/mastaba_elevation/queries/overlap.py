"""How much of each cell of a grid is inside a polygon, exactly (elevation.md 1.6).

Cells without an edge are inside or outside as a whole. The others are divided into strips between
the ends and the crossings of their edges. In a strip no edges cross, so what is inside is a row of
trapezoids, whose area is the height of the strip times the width in its middle.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from mastaba_elevation.errors import TooMuchError
from mastaba_elevation.queries.ground import Floats
from mastaba_elevation.queries.polygons import (
    MOST_PIECES,
    Edges,
    Fragments,
    Integers,
    downward,
    expanded,
    x_at,
)

MOST_PAIRS: Final = 1_000_000
"""Pairs of edges in the same cell, and of edges and strips."""

_CROWDED: Final = 8
"""Edges of a cell from which a finer grid is faster."""
_FINER: Final = 4
_MOST_CELLS: Final = 1 << 20
"""Cells of a finer grid, by which many edges in few cells are divided."""


def overlap(edges: Edges, top: int, bottom: int, left: int, right: int) -> npt.NDArray[np.float32]:
    """Return the part of each cell that is inside (even-odd rule).

    Args:
        edges: in cells; 0 is the left or upper edge of the first one.
        top, bottom, left, right: window; the last row and column are not included.

    Returns:
        shape (bottom - top, right - left), from 0 to 1.

    Raises:
        TooMuchError: there are too many edges, or too many of them are in the same cells.
    """
    rows, columns = bottom - top, right - left
    parts = Fragments.of(edges, top, bottom, left, right)
    keys = parts.rows * columns + parts.columns
    cells, number, counts = np.unique(keys, return_inverse=True, return_counts=True)
    pairs = int((counts * counts).sum())
    is_small = rows * columns * _FINER**2 <= _MOST_CELLS and len(keys) * _FINER <= MOST_PIECES
    if is_small and pairs > _CROWDED * len(keys):
        window = (side * _FINER for side in (top, bottom, left, right))
        fine = overlap(edges * _FINER, *window)
        return np.asarray(fine.reshape(rows, _FINER, columns, _FINER).mean(axis=(1, 3)))
    if pairs > MOST_PAIRS:
        raise _too_complicated()
    corners = _corners(edges, top, rows, left, columns)
    found = corners.astype(np.float32)
    if len(cells):
        is_inside = corners.ravel()[cells]
        found.ravel()[cells] = _areas(parts, number.ravel(), cells // columns, is_inside)
    return found


def _corners(edges: Edges, top: int, rows: int, left: int, columns: int) -> npt.NDArray[np.bool_]:
    """Return which cells have their upper left corner inside, just above and to the left of it."""
    edges = downward(edges - (left, top, left, top))
    first, last = (np.clip(np.floor(edges[:, y]) + 1, 0, rows).astype(np.int64) for y in (1, 3))
    numbers, row = expanded(first, last - first)
    # The same numbers as in `Fragments`, so that both agree on the side of a corner.
    x = x_at(edges[numbers], row)
    column = np.clip(np.floor(x) + 1, 0, columns).astype(np.int64)
    toggles = np.zeros((rows, columns + 1), np.bool_)
    np.bitwise_xor.at(toggles, (row, column), True)
    return np.bitwise_xor.accumulate(toggles, axis=1)[:, :columns]


def _areas(
    parts: Fragments, cell: Integers, rows: Integers, corners: npt.NDArray[np.bool_]
) -> Floats:
    """Return the part of each touched cell that is inside.

    Args:
        cell: number of the cell of each fragment.
        rows: of each cell.
        corners: whether the upper left corner of each cell is inside.
    """
    order = np.argsort(cell, kind="stable")
    cell = cell[order]
    ax, ay, bx, by = (values[order] for values in (parts.x0, parts.y0, parts.x1, parts.y1))
    ax, bx = ax - parts.columns[order], bx - parts.columns[order]
    left = parts.left[order]
    counts = np.bincount(cell, minlength=len(rows))
    starts = np.cumsum(counts) - counts
    slope = np.divide(bx - ax, by - ay, out=np.zeros(len(ax)), where=by > ay)
    crossed, heights = _crossings(cell, starts, counts, (ax, ay, by, slope))
    # The strips of each cell.
    everywhere = np.arange(len(rows))
    places = np.concatenate([everywhere, everywhere, cell, cell, crossed])
    ends = np.concatenate([rows, rows + 1.0, ay, by, heights])
    sort = np.lexsort((ends, places))
    places, ends = places[sort], ends[sort]
    is_strip = (places[1:] == places[:-1]) & (ends[1:] > ends[:-1])
    where = places[:-1][is_strip]
    upper, height = ends[:-1][is_strip], np.diff(ends)[is_strip]
    middle = upper + height / 2
    total = int(counts[where].sum())
    if total > 4 * MOST_PAIRS:
        raise _too_complicated()
    strip, edge = expanded(starts[where], counts[where])
    at = middle[strip]
    before = np.bincount(strip, left[edge] < at, len(where)).astype(np.int64)
    state = corners[where] ^ (before % 2 == 1)
    active = (ay[edge] < at) & (at < by[edge])
    strip, edge, at = strip[active], edge[active], at[active]
    x = np.clip(ax[edge] + (at - ay[edge]) * slope[edge], 0.0, 1.0)
    sort = np.lexsort((x, strip))
    strip, x = strip[sort], x[sort]
    crossings = np.bincount(strip, minlength=len(where))
    rank = np.arange(len(strip)) - (np.cumsum(crossings) - crossings)[strip]
    width = np.bincount(strip, np.where(rank % 2 == 1, x, -x), len(where)) + crossings % 2
    width = np.where(state, 1.0 - width, width)
    return np.clip(np.bincount(where, width * height, len(rows)), 0.0, 1.0)


def _crossings(
    cell: Integers, starts: Integers, counts: Integers, edges: tuple[Floats, ...]
) -> tuple[Integers, Floats]:
    """Return the cell and the height of each place where two edges of a cell cross."""
    ax, ay, by, slope = edges
    one, other = expanded(starts[cell], counts[cell])
    first = one < other
    one, other = one[first], other[first]
    upper, lower = np.maximum(ay[one], ay[other]), np.minimum(by[one], by[other])
    together = upper < lower
    one, other, upper, lower = one[together], other[together], upper[together], lower[together]

    def apart(y: Floats) -> Floats:
        there = ax[one] + (y - ay[one]) * slope[one]
        return np.asarray(there - ax[other] - (y - ay[other]) * slope[other])

    begin, end = apart(upper), apart(lower)
    crossing = begin * end < 0
    begin, end, upper, lower = begin[crossing], end[crossing], upper[crossing], lower[crossing]
    return cell[one[crossing]], upper + (lower - upper) * (begin / (begin - end))


def _too_complicated() -> TooMuchError:
    return TooMuchError("the polygon is too complicated; request a simpler one")
