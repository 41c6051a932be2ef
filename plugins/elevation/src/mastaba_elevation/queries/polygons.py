"""Polygons on the cells of a grid: which are inside, and which are touched (elevation.md 1.6).

The cost of a polygon is the number of rows that its edges cross. It is counted before the work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from mastaba_elevation.errors import TooMuchError
from mastaba_elevation.queries.ground import Floats

Booleans = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int64]
Ring = Floats
"""Shape (n, 2), x and y; closed: the last point equals the first."""
Edges = Floats
"""Shape (n, 4): x and y of the beginning, then of the end."""

MOST_PIECES: Final = 500_000
"""Parts into which the rows and the cells of a grid may divide the edges of a polygon."""

_FAR: Final = 1e9
"""Cells; no grid is larger."""
_BESIDE: Final = 1e-6
"""Part of a cell by which an edge may be inside without touching it: rounding errors."""


def closed(points: Floats) -> Ring:
    """Return a ring whose last point is the first."""
    if len(points) and (points[0] != points[-1]).any():
        return np.concatenate([points, points[:1]])
    return points


@dataclass(frozen=True, slots=True, eq=False)
class Outline:
    """Closed rings, one after the other.

    Attributes:
        points: shape (n, 2), x and y.
        starts: first point of each ring, shape (r,).
    """

    points: Floats
    starts: Integers

    @classmethod
    def of(cls, rings: Sequence[Ring]) -> Outline:
        """Return the outline of at least one ring."""
        sizes = np.array([len(ring) for ring in rings])
        return cls(np.concatenate(rings), np.cumsum(sizes) - sizes)

    @property
    def edges(self) -> Edges:
        """The edges of all rings."""
        joined = np.hstack([self.points[:-1], self.points[1:]])
        return np.delete(joined, self.starts[1:] - 1, axis=0)

    @property
    def rings(self) -> Integers:
        """Number of the ring of each point."""
        return np.repeat(np.arange(len(self.starts)), np.diff(self.starts, append=len(self.points)))

    def densified(self, longest: float, most: int) -> Outline:
        """Return an outline with further points, so that no edge is longer.

        Args:
            longest: more than 0. It is larger if there would be too many points.
            most: further points at most.
        """
        lengths = np.hypot(*np.diff(self.points, axis=0).T)
        lengths[self.starts[1:] - 1] = 0.0
        around = float(lengths.sum())
        parts = np.ones(len(self.points), np.int64)
        parts[:-1] = np.maximum(np.ceil(lengths / max(longest, around / most)), 1)
        edges = np.repeat(np.arange(len(parts)), parts)
        starts = np.cumsum(parts) - parts
        along = (np.arange(len(edges)) - starts[edges]) / parts[edges]
        steps = np.diff(self.points, axis=0, append=self.points[-1:])
        points = self.points[edges] + along[:, np.newaxis] * steps[edges]
        return Outline(points, starts[self.starts])

    def moved(self, x: Floats, y: Floats) -> Outline | None:
        """Return the outline with other coordinates, without rings that have a point nowhere.

        Args:
            x, y: shape (n,).

        Returns:
            None if no ring is left.
        """
        known = np.isfinite(x) & np.isfinite(y)
        points = np.column_stack([x, y])
        if known.all():
            return Outline(points, self.starts)
        is_whole = np.logical_and.reduceat(known, self.starts)
        if not is_whole.any():
            return None
        sizes = np.diff(self.starts, append=len(points))[is_whole]
        return Outline(points[is_whole[self.rings]], np.cumsum(sizes) - sizes)

    def unwrapped(self, period: float) -> Outline:
        """Return the outline with rings that go on where x jumps by more than half a period."""
        steps = np.diff(self.points[:, 0], prepend=self.points[0, 0])
        turns = np.where(np.abs(steps) > period / 2, -np.round(steps / period), 0.0)
        turns[self.starts] = 0.0
        total = np.cumsum(turns)
        total -= total[self.starts][self.rings]
        return Outline(self.points + np.outer(total * period, (1.0, 0.0)), self.starts)


def edges_of(rings: Sequence[Ring]) -> Edges:
    """Return the edges of rings that count in the even-odd rule.

    An edge that occurs twice, in any direction, has the same on both sides, so it is left out.
    """
    return simplest(Outline.of(rings).edges)


def simplest(edges: Edges) -> Edges:
    """Return edges without points and without those that occur an even number of times."""
    backward = (edges[:, 0] > edges[:, 2]) | (
        (edges[:, 0] == edges[:, 2]) & (edges[:, 1] > edges[:, 3])
    )
    ordered = np.where(backward[:, np.newaxis], edges[:, [2, 3, 0, 1]], edges) + 0.0
    ordered = ordered[(ordered[:, :2] != ordered[:, 2:]).any(axis=1)]
    # Rows are compared as bytes, which is faster than by columns.
    rows = np.ascontiguousarray(ordered).view(np.dtype((np.void, 32))).ravel()
    _, first, counts = np.unique(rows, return_index=True, return_counts=True)
    return np.asarray(ordered[np.sort(first[counts % 2 == 1])])


def meets(edges: Edges, left: float, top: float, right: float, bottom: float) -> bool:
    """Return whether a polygon has a part inside a rectangle (even-odd rule)."""
    x0, y0, x1, y1 = edges.T
    # The shares of each edge at which it enters and leaves the rectangle.
    enter, leave = np.zeros(len(edges)), np.ones(len(edges))
    for start, end, low, high in ((x0, x1, left, right), (y0, y1, top, bottom)):
        step = end - start
        outside = (start <= low) | (start >= high)
        with np.errstate(divide="ignore", invalid="ignore"):
            first, last = (low - start) / step, (high - start) / step
        along = step == 0
        enter = np.fmax(enter, np.where(along, np.where(outside, 2.0, 0.0), np.fmin(first, last)))
        leave = np.fmin(leave, np.where(along, 1.0, np.fmax(first, last)))
    if (enter < leave).any():
        return True
    # No edge is inside, so all of the rectangle is in the polygon, or nothing.
    x, y = (left + right) / 2, (top + bottom) / 2
    crossing = edges[(y0 > y) != (y1 > y)]
    x0, y0, x1, y1 = crossing.T
    beyond = x0 + (y - y0) / (y1 - y0) * (x1 - x0) > x
    return bool(np.count_nonzero(beyond) % 2)


def pieces_of(edges: Edges, top: int, bottom: int) -> int:
    """Return how many rows of a window the edges cross, each for itself."""
    low, high = _rows(edges, top, bottom)
    return int(np.maximum(high - low + 1, 0).sum())


def _rows(edges: Edges, top: int, bottom: int) -> tuple[Integers, Integers]:
    """Return the first and the last row of each edge, counted from the top of a window."""
    rows = np.floor(np.clip(edges[:, 1::2], -_FAR, _FAR)).astype(np.int64) - top
    return np.maximum(rows.min(axis=1), 0), np.minimum(rows.max(axis=1), bottom - top - 1)


def inside(
    edges: Edges, top: int, bottom: int, left: int, right: int, *, union: bool = False
) -> Booleans:
    """Return which cells have their centre inside (even-odd rule).

    Args:
        edges: in cells; 0 is the left or upper edge of the first one.
        top, bottom, left, right: window; the last row and column are not included.
        union: whether a centre inside of any ring is inside. The rings have the same direction.

    Returns:
        shape (bottom - top, right - left).

    Raises:
        TooMuchError: the edges cross too many rows.
    """
    rows, columns = bottom - top, right - left
    # Centres of rows are at whole numbers, and an edge owns its upper end.
    starts, ends = edges[:, :2] - (left + 0.5, top + 0.5), edges[:, 2:] - (left + 0.5, top + 0.5)
    first = np.clip(np.ceil(np.minimum(starts[:, 1], ends[:, 1])), 0, rows).astype(np.int64)
    last = np.clip(np.ceil(np.maximum(starts[:, 1], ends[:, 1])), 0, rows).astype(np.int64)
    counts = last - first
    check_pieces(int(counts.sum()))
    numbers, row = expanded(first, counts)
    x, y = starts[numbers].T
    across, down = (ends - starts)[numbers].T
    column = np.clip(np.ceil(x + (row - y) * (across / down)), 0, columns).astype(np.int64)
    if union:
        turns = np.zeros((rows, columns + 1), np.int32)
        np.add.at(turns, (row, column), np.where(down > 0, 1, -1))
        return np.asarray(np.add.accumulate(turns, axis=1)[:, :columns] != 0)
    toggles = np.zeros((rows, columns + 1), np.bool_)
    # An even number of crossings at one place cancels out.
    np.bitwise_xor.at(toggles, (row, column), True)
    return np.bitwise_xor.accumulate(toggles, axis=1)[:, :columns]


def met(
    edges: Edges, top: int, bottom: int, left: int, right: int, *, union: bool = False
) -> Booleans:
    """Return which cells a polygon meets, however narrow it is.

    Args and errors are those of `inside`.
    """
    found = inside(edges, top, bottom, left, right, union=union)
    parts = Fragments.of(edges, top, bottom, left, right)
    x = np.stack([parts.x0, parts.x1]) - parts.columns
    y = np.stack([parts.y0, parts.y1]) - parts.rows
    # An edge along the side of a cell does not enter it.
    enters = np.ones(len(parts.rows), np.bool_)
    for place in (x, y):
        enters &= (place.max(axis=0) > _BESIDE) & (place.min(axis=0) < 1.0 - _BESIDE)
    found[parts.rows[enters], parts.columns[enters]] = True
    if not found.any():
        found[parts.rows, parts.columns] = True
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Fragments:
    """Parts of edges, each in one cell of a window; shape (n,).

    Attributes:
        rows, columns: of the cell, counted from the window.
        x0, y0, x1, y1: ends in cells from the corner of the window; y0 is not below y1.
        left: y where the edge crosses the left side of the cell; NaN where it does not.
    """

    rows: Integers
    columns: Integers
    x0: Floats
    y0: Floats
    x1: Floats
    y1: Floats
    left: Floats

    @classmethod
    def of(cls, edges: Edges, top: int, bottom: int, left: int, right: int) -> Fragments:
        """Divide edges at the sides of the cells of a window. Errors are those of `inside`.

        A point on a side belongs to the cell on the right of it or below it.
        """
        edges = edges - (left, top, left, top)
        first, last = _rows(edges, 0, bottom - top)
        counts = np.maximum(last - first + 1, 0)
        check_pieces(int(counts.sum()))
        numbers, row = expanded(first, counts)
        down = downward(edges)[numbers]
        _, y0, _, y1 = down.T
        above, below = y0 < row, y1 > row + 1
        x0 = np.where(above, x_at(down, row), down[:, 0])
        x1 = np.where(below, x_at(down, row + 1), down[:, 2])
        y0, y1 = np.where(above, row, y0), np.where(below, row + 1, y1)
        return cls._in_columns(row, x0, y0, x1, y1, right - left)

    @classmethod
    def _in_columns(
        cls, rows: Integers, x0: Floats, y0: Floats, x1: Floats, y1: Floats, columns: int
    ) -> Fragments:
        """Divide parts of edges, each in one row, at the left and right sides of cells."""
        ends = np.floor(np.clip(np.stack([x0, x1]), -_FAR, _FAR)).astype(np.int64)
        whole_first = ends.min(axis=0)
        first, last = np.maximum(whole_first, 0), np.minimum(ends.max(axis=0), columns - 1)
        counts = np.maximum(last - first + 1, 0)
        check_pieces(int(counts.sum()))
        numbers, column = expanded(first, counts)
        ax, ay, bx, by = x0[numbers], y0[numbers], x1[numbers], y1[numbers]

        def at(x: Integers) -> Floats:
            share = np.divide(x - ax, bx - ax, out=np.zeros(len(ax)), where=ax != bx)
            return np.clip(ay + np.clip(share, 0.0, 1.0) * (by - ay), ay, by)

        eastward = ax <= bx
        low, high = np.minimum(ax, bx), np.maximum(ax, bx)
        on_left, on_right = low < column, high > column + 1
        yl, yr = at(column), at(column + 1)
        # The western end, then the eastern one.
        wx, ex = np.where(on_left, column, low), np.where(on_right, column + 1, high)
        wy = np.where(on_left, yl, np.where(eastward, ay, by))
        ey = np.where(on_right, yr, np.where(eastward, by, ay))
        # A part that ends on the right side begins there in the next cell.
        crosses = column > whole_first[numbers]
        return cls(
            rows[numbers],
            column,
            np.where(eastward, wx, ex),
            np.where(eastward, wy, ey),
            np.where(eastward, ex, wx),
            np.where(eastward, ey, wy),
            np.where(crosses, yl, np.nan),
        )


def downward(edges: Edges) -> Edges:
    """Return edges that all go down: the end is not above the beginning."""
    turned = edges[:, 1] > edges[:, 3]
    return np.where(turned[:, np.newaxis], edges[:, [2, 3, 0, 1]], edges)


def x_at(edges: Edges, y: Integers) -> Floats:
    """Return x of edges that go down, each at a y. Equal edges have equal bits."""
    x0, y0, x1, y1 = edges.T
    share = np.divide(y - y0, y1 - y0, out=np.ones(len(y)), where=(y0 < y1) & (y < y1))
    found = np.where(share < 1.0, x0 + np.maximum(share, 0.0) * (x1 - x0), x1)
    return np.asarray(np.clip(found, np.minimum(x0, x1), np.maximum(x0, x1)))


def expanded(firsts: Integers, counts: Integers) -> tuple[Integers, Integers]:
    """Return, for ranges of whole numbers, the number of the range and each of its numbers."""
    numbers = np.repeat(np.arange(len(counts)), counts)
    starts = np.cumsum(counts) - counts
    return numbers, firsts[numbers] + np.arange(len(numbers)) - starts[numbers]


def check_pieces(count: int) -> None:
    """Refuse a polygon whose edges have too many parts.

    Raises:
        TooMuchError: they have more than `MOST_PIECES`.
    """
    if count > MOST_PIECES:
        raise TooMuchError("the polygon has too many edges; request a simpler one")
