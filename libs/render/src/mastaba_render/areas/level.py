"""The tiles of one level that are in an area, and the pixels of those that its edge passes."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from mastaba.model.tile_matrix_set import TileLimits, TileMatrix
from mastaba_render.areas.area import Cut
from mastaba_render.areas.projected import Edges

Mask = npt.NDArray[np.bool_]
"""Shape (tile height, tile width), True inside."""
_Integers = npt.NDArray[np.int64]
_Floats = npt.NDArray[np.float64]
Row = tuple[list[int], list[int]]
"""Columns at which the state changes, and one state more than these."""

OUTSIDE: Final = 0
CUT: Final = 1
INSIDE: Final = 2

_NOTHING: Final[Row] = [], [OUTSIDE]
_MOST_ROWS: Final = 8192
_BESIDE: Final = 1e-6
"""Part of a tile: an edge so close to a tile passes it."""
_MOST_COUNTED: Final = 64
"""Rows of a level whose tiles are looked at for its limits."""


class _Masks:
    """The masks used last, one bit for each pixel.

    Args:
        size: bytes.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._used = 0
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[LevelArea, int, int], npt.NDArray[np.uint8]] = OrderedDict()

    def get(self, key: tuple[LevelArea, int, int]) -> npt.NDArray[np.uint8] | None:
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
            return found

    def put(self, key: tuple[LevelArea, int, int], bits: npt.NDArray[np.uint8]) -> None:
        with self._lock:
            if key in self._kept or bits.nbytes > self._size:
                return
            self._kept[key] = bits
            self._used += bits.nbytes
            while self._used > self._size:
                _, oldest = self._kept.popitem(last=False)
                self._used -= oldest.nbytes


_MASKS: Final = _Masks(8 * 1024**2)
"""Of all areas of a process."""


class LevelArea:
    """What an area shows of one level.

    Args:
        matrix: of the level.
        edges: returns the edges of each part of the area, in the CRS of the matrix; called when a
            tile is requested.
        cut: what is shown of tiles that an edge passes.
    """

    def __init__(self, matrix: TileMatrix, edges: Callable[[], Sequence[Edges]], cut: Cut) -> None:
        self.matrix = matrix
        self._edges = edges
        self._cut = cut
        self._rows: dict[int, Row] = {}
        self._lock = threading.Lock()

    def state(self, tile_row: int, tile_col: int) -> int:
        """Return `OUTSIDE`, `CUT` or `INSIDE`."""
        changes, states = self._rows.get(tile_row) or self._compiled(tile_row)
        return states[bisect_right(changes, tile_col)]

    def limits(self, within: TileLimits) -> TileLimits | None:
        """Return limits around the tiles of a level that are not outside; None for no tiles.

        Args:
            within: the limits of the level.
        """
        found: TileLimits | None = within
        for edges in self._edges():
            box = edges.bbox
            touched = None if box is None else self.matrix.limits_of(box)
            if found is None or touched is None:
                return None
            found = found.intersection(touched)
        if found is None or found.max_row - found.min_row >= _MOST_COUNTED:
            return found
        rows = [
            (row, *ends)
            for row in range(found.min_row, found.max_row + 1)
            if (ends := self._ends(row, found)) is not None
        ]
        if not rows:
            return None
        return TileLimits(
            rows[0][0], rows[-1][0], min(one[1] for one in rows), max(one[2] for one in rows)
        )

    def mask(self, tile_row: int, tile_col: int) -> Mask:
        """Return the pixels of a tile whose middle is in the area."""
        matrix = self.matrix
        shape = matrix.tile_height, matrix.tile_width
        key = self, tile_row, tile_col
        bits = _MASKS.get(key)
        if bits is None:
            mask = self._made(tile_row, tile_col, shape)
            _MASKS.put(key, np.packbits(mask))
            return mask
        return np.unpackbits(bits, count=shape[0] * shape[1]).view(np.bool_).reshape(shape)

    def _ends(self, tile_row: int, within: TileLimits) -> tuple[int, int] | None:
        """Return the first and the last column of a row that are not outside."""
        changes, states = self._rows.get(tile_row) or self._compiled(tile_row)
        starts = [within.min_col, *(max(one, within.min_col) for one in changes)]
        ends = [*(min(one - 1, within.max_col) for one in changes), within.max_col]
        shown = [
            (start, end)
            for start, end, state in zip(starts, ends, states, strict=True)
            if state != OUTSIDE and start <= end
        ]
        return (shown[0][0], shown[-1][1]) if shown else None

    def _compiled(self, tile_row: int) -> Row:
        parts = [self._row(edges, tile_row) for edges in self._edges()]
        if any(part is None for part in parts):
            row = _NOTHING
        else:
            changes = np.unique(np.concatenate([part[0] for part in parts if part is not None]))
            starts = np.append([-1], changes)
            states = np.min(
                [
                    part[1][np.searchsorted(part[0], starts, side="right")]
                    for part in parts
                    if part is not None
                ],
                axis=0,
            )
            if self._cut is not Cut.MASK:
                states[states == CUT] = INSIDE if self._cut is Cut.KEEP else OUTSIDE
            row = changes.tolist(), states.tolist()
        with self._lock:
            if len(self._rows) >= _MOST_ROWS:
                del self._rows[next(iter(self._rows))]
            self._rows[tile_row] = row
        return row

    def _row(self, edges: Edges, tile_row: int) -> tuple[_Integers, _Integers] | None:
        """Return the states of one row for one part of the area; None for an empty row."""
        matrix = self.matrix
        width, height = matrix.tile_width * matrix.cell_size, matrix.tile_height * matrix.cell_size
        top = matrix.origin_y - tile_row * height
        high, low = top + _BESIDE * height, top - (1 + _BESIDE) * height
        near = edges.between(low, high)
        if not near.x0.size:
            return None
        start, end = _within(near, low, high)
        left = (np.minimum(start, end) - matrix.origin_x) / width - _BESIDE
        right = (np.maximum(start, end) - matrix.origin_x) / width + _BESIDE
        first, after = _joined(
            np.clip(np.floor(left), -1, matrix.matrix_width + 1).astype(np.int64),
            np.clip(np.floor(right) + 1, -1, matrix.matrix_width + 1).astype(np.int64),
        )
        # Between these spans, no edge passes: one point decides.
        _, x, sign = crossings(near, top - height / 2, height, 1)
        order = np.argsort(x, kind="stable")
        depth = np.append([0], np.cumsum(sign[order]))
        middles = matrix.origin_x + (after + 0.5) * width
        is_inside = depth[np.searchsorted(x[order], middles)] > 0
        changes = np.stack([first, after], axis=1).reshape(-1)
        states = np.full(2 * len(first) + 1, CUT, np.int64)
        states[0] = OUTSIDE
        states[2::2] = np.where(is_inside, INSIDE, OUTSIDE)
        return changes, states

    def _made(self, tile_row: int, tile_col: int, shape: tuple[int, int]) -> Mask:
        matrix = self.matrix
        cell = matrix.cell_size
        top = matrix.origin_y - tile_row * shape[0] * cell
        left = matrix.origin_x + tile_col * shape[1] * cell
        found = np.ones(shape, np.bool_)
        for edges in self._edges():
            near = edges.between(top - shape[0] * cell, top)
            row, x, sign = crossings(near, top - cell / 2, cell, shape[0])
            column = np.clip(np.ceil((x - left) / cell - 0.5), 0, shape[1]).astype(np.int64)
            places = row * (shape[1] + 1) + column
            changes = np.bincount(places, sign, shape[0] * (shape[1] + 1))
            depth = np.cumsum(changes.reshape(shape[0], -1)[:, :-1], axis=1)
            found &= depth > 0.5
        return found


def crossings(
    edges: Edges, first: float, step: float, count: int
) -> tuple[_Integers, _Floats, _Integers]:
    """Return where edges cross horizontal lines.

    Args:
        first: y of the first line, CRS units.
        step: from one line down to the next.
        count: of lines.

    Returns:
        For each crossing the number of the line, x, and 1 where a polygon begins or -1 where it
        ends; sorted by line, polygon and x.
    """
    # One line more on each side: the comparison below decides.
    begin = np.clip(np.ceil((first - edges.high) / step) - 1, 0, count).astype(np.int64)
    end = np.clip(np.floor((first - edges.low) / step) + 2, 0, count).astype(np.int64)
    counts = np.maximum(end - begin, 0)
    edge = np.repeat(np.arange(len(counts)), counts)
    line = begin[edge] + np.arange(len(edge)) - (np.cumsum(counts) - counts)[edge]
    y = first - line * step
    met = (edges.y0[edge] <= y) != (edges.y1[edge] <= y)
    edge, line, y = edge[met], line[met], y[met]
    x0, y0, x1, y1 = edges.x0[edge], edges.y0[edge], edges.x1[edge], edges.y1[edge]
    x = x0 + (y - y0) / (y1 - y0) * (x1 - x0)
    order = np.lexsort((x, edges.polygon[edge], line))
    # A closed polygon crosses each line an even number of times.
    sign = np.where(np.arange(len(order)) % 2, -1, 1)
    return line[order], x[order], sign


def _within(edges: Edges, low: float, high: float) -> tuple[_Floats, _Floats]:
    """Return x at both ends of the parts of edges in a range of y."""
    rise = edges.y1 - edges.y0
    with np.errstate(divide="ignore", invalid="ignore"):
        one = np.clip((low - edges.y0) / rise, 0.0, 1.0)
        other = np.clip((high - edges.y0) / rise, 0.0, 1.0)
    one[rise == 0], other[rise == 0] = 0.0, 1.0
    across = edges.x1 - edges.x0
    return edges.x0 + one * across, edges.x0 + other * across


def _joined(first: _Integers, after: _Integers) -> tuple[_Integers, _Integers]:
    """Return ranges sorted, with those joined that touch."""
    order = np.argsort(first, kind="stable")
    first, after = first[order], np.maximum.accumulate(after[order])
    is_new = np.append([True], first[1:] > after[:-1])
    is_last = np.append(is_new[1:], [True])
    return first[is_new], after[is_last]
