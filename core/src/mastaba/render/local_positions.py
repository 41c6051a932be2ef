"""Positions and kernel ratios of maps whose scale varies: near the poles, or rotated.

One ratio for a whole map causes aliasing in one part of it and blur in another. Here each position
has its own ratios: the lengths of the gradients of the source column and of the source row over the
pixels of the map. Positions and ratios are computed on a grid of 8 × 8 pixels that is anchored at
the origin of the CRS of the map, not at a corner of the map. So they depend only on the place on
the ground and the size of a pixel, and adjacent maps or strips show the same pixels there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from mastaba.render.kernels import radii_of, reach_of

Floats = npt.NDArray[np.float64]
Place = Callable[[Floats, Floats], tuple[Floats, Floats]]
"""Returns source columns and rows at map positions x and y, pixels from the corner of the map."""

_PITCH: Final = 8
# Allowed error of an interpolated position in source pixels; in map pixels if the map shrinks.
_UNEVEN: Final = 1.0 / 8.0
# A block is not interpolated if the ratios of its corners differ by more than this factor.
_STEEP: Final = 1.25
# A step this many times longer than the one on the other side is a jump, not a gradient.
_LEAP: Final = 4.0
# Most blocks whose pixels are all transformed, so that a map costs at most a million points.
_MOST_BLOCKS: Final = (1 << 20) // (_PITCH * _PITCH)
_CHUNK_PIXELS: Final = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class LocalPixels:
    """Positions and ratios of some pixels, all of the same shape (rows, columns).

    Attributes:
        columns, rows: source positions, 0 is the centre of the first pixel; not finite where a
            pixel has no position in the source CRS.
        ratios_x, ratios_y: pixel size of the map in source columns and rows.
    """

    columns: Floats
    rows: Floats
    ratios_x: Floats
    ratios_y: Floats


@dataclass(frozen=True, slots=True, eq=False)
class LocalPositions:
    """A rectangle of pixels of a map whose scale varies.

    Attributes:
        top, left: first row and column in the map.
        height, width: size in pixels.
        source_top, source_left: first row and column of the source.
        ratio_x, ratio_y: medians of the ratios of the whole map.
    """

    grid: _Grid
    height: int
    width: int
    ratio_x: float
    ratio_y: float
    top: int = 0
    left: int = 0
    source_top: int = 0
    source_left: int = 0

    def cut(self, first: int, last: int) -> LocalPositions:
        """Return the rows from ``first`` to ``last``, both included."""
        return replace(self, top=self.top + first, height=last - first + 1)

    def only(self, row: int, column: int) -> LocalPositions:
        """Return the positions of one pixel."""
        return replace(self, top=self.top + row, left=self.left + column, height=1, width=1)

    def shifted(self, top: int, left: int) -> LocalPositions:
        """Return the same positions over a source that starts at a row and column."""
        return replace(self, source_top=self.source_top + top, source_left=self.source_left + left)

    def chunks(self) -> list[slice]:
        """Return ranges of rows to compute at a time."""
        step = max(1, _CHUNK_PIXELS // self.width)
        return [slice(i, min(i + step, self.height)) for i in range(0, self.height, step)]

    def pixels(self, rows: slice) -> LocalPixels:
        """Return positions and ratios of the pixels in some rows."""
        found = self.grid.pixels(
            self.top + rows.start, self.top + rows.stop, self.left, self.left + self.width
        )
        if self.source_top or self.source_left:
            return replace(
                found, columns=found.columns - self.source_left, rows=found.rows - self.source_top
            )
        return found

    def placed(self) -> npt.NDArray[np.bool_] | None:
        """Return the mask of pixels with a position in the source CRS; None if all have one."""
        if self.grid.is_complete:
            return None
        parts = [self.pixels(rows) for rows in self.chunks()]
        mask = np.concatenate([np.isfinite(part.columns + part.rows) for part in parts])
        return None if mask.all() else mask

    def window(self, kernel: str) -> tuple[int, int, int, int] | None:
        """Return the source pixels that are needed; None if no pixel has a position.

        Returns:
            first row, row after the last, first column, column after the last.
        """
        bounds = [self.grid.bounds(kernel, *part) for part in self._surveyed()]
        found = np.array([bound for bound in bounds if bound is not None])
        if not found.size:
            return None
        low, high = found.min(axis=0), found.max(axis=0)
        return (
            int(low[0]) - self.source_top,
            int(high[1]) - self.source_top,
            int(low[2]) - self.source_left,
            int(high[3]) - self.source_left,
        )

    def _surveyed(self) -> list[tuple[int, int, int, int]]:
        left, right = self.left, self.left + self.width
        if self.width < self.grid.width or self.height * self.width <= _CHUNK_PIXELS:
            return [(self.top, self.top + self.height, left, right)]
        # Asked for the whole map, then for each strip: both use the same cached ranges of rows.
        step = max(1, _CHUNK_PIXELS // self.width)
        start = self.top - self.top % step
        stop = self.top + self.height
        return [
            (row, min(row + step, self.grid.height), left, right)
            for row in range(start, stop, step)
        ]


@dataclass(slots=True, eq=False)
class _Axis:
    """The blocks that the pixels of a map touch along one axis.

    Attributes:
        start: position of the edge of the first pixel, in pixels from the origin of the CRS.
        first: index of the first block.
        count: number of blocks.
    """

    start: float
    first: int
    count: int

    @classmethod
    def of(cls, start: float, size: int) -> _Axis:
        first, last = (int(np.floor((start + i + 0.5) / _PITCH)) for i in (0, size - 1))
        return cls(start, first, last - first + 1)

    def nodes(self) -> Floats:
        """Return the corners of all blocks and one beyond each end, pixels of the map."""
        edges = np.arange(self.first - 1, self.first + self.count + 2, dtype=np.float64)
        return edges * _PITCH - self.start

    def parts(self, first: int, last: int) -> tuple[npt.NDArray[np.int64], Floats]:
        """Return the block of each pixel, and the position in the block as a fraction."""
        places = (self.start + np.arange(first, last) + 0.5) / _PITCH
        blocks = np.clip(np.floor(places).astype(np.int64) - self.first, 0, self.count - 1)
        return blocks, places - (blocks + self.first)

    def pixels_of(self, blocks: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the first pixel of blocks, given by their index on this axis."""
        edges = (blocks + self.first) * _PITCH - self.start
        first: npt.NDArray[np.int64] = np.ceil(edges - 0.5).astype(np.int64)
        return first


@dataclass(slots=True, eq=False)
class _Grid:
    """Positions and ratios of a whole map."""

    width: int
    height: int
    across: _Axis
    down: _Axis
    # Four fields at the corners of blocks: columns, rows, ratios in x and y.
    nodes: tuple[Floats, Floats, Floats, Floats]
    # Blocks that are not interpolated: their indices down and across, and the fields of their
    # pixels, shape (4, blocks, 8, 8).
    bent: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
    details: Floats
    is_complete: bool
    # Length of a full turn in source columns, after which they repeat, and the middle of the turn
    # that contains this map; both 0 if columns do not repeat.
    wrap: float
    centre: float
    _bounds: dict[tuple[object, ...], tuple[int, int, int, int] | None] = field(
        default_factory=dict
    )

    def pixels(self, top: int, bottom: int, left: int, right: int) -> LocalPixels:
        rows, row_parts = self.down.parts(top, bottom)
        columns, column_parts = self.across.parts(left, right)
        row_parts = row_parts[:, np.newaxis]
        # Blocks with a corner that is not finite are filled from their details.
        with np.errstate(invalid="ignore"):
            fields = []
            for values in self.nodes:
                lines = values[rows] * (1.0 - row_parts) + values[rows + 1] * row_parts
                fields.append(
                    lines[:, columns] * (1.0 - column_parts) + lines[:, columns + 1] * column_parts
                )
        self._fill(fields, top, bottom, left, right)
        if self.wrap:
            fields[0] = fields[0] - self.wrap * np.round((fields[0] - self.centre) / self.wrap)
        return LocalPixels(*(np.ascontiguousarray(values) for values in fields))

    def _fill(self, fields: list[Floats], top: int, bottom: int, left: int, right: int) -> None:
        steps = np.arange(_PITCH)
        first_rows = self.down.pixels_of(self.bent[0])
        near = np.flatnonzero((first_rows < bottom) & (first_rows + _PITCH > top))
        if not near.size:
            return
        rows = (first_rows[near, np.newaxis] + steps)[:, :, np.newaxis]
        columns = self.across.pixels_of(self.bent[1][near])[:, np.newaxis, np.newaxis] + steps
        inside = (rows >= top) & (rows < bottom) & (columns >= left) & (columns < right)
        rows, columns = np.broadcast_arrays(rows, columns)
        places = rows[inside] - top, columns[inside] - left
        for values, detail in zip(fields, self.details, strict=True):
            values[places] = detail[near][inside]

    def bounds(
        self, kernel: str, top: int, bottom: int, left: int, right: int
    ) -> tuple[int, int, int, int] | None:
        """Return the source pixels that some pixels need; see `LocalPositions.window`."""
        key = (kernel, top, bottom, left, right)
        if key not in self._bounds:
            found = self.pixels(top, bottom, left, right)
            placed = np.isfinite(found.columns + found.rows)
            self._bounds[key] = None
            if placed.any():
                self._bounds[key] = (
                    *_span(kernel, found.rows[placed], found.ratios_y[placed]),
                    *_span(kernel, found.columns[placed], found.ratios_x[placed]),
                )
        return self._bounds[key]


def _span(kernel: str, positions: Floats, ratios: Floats) -> tuple[int, int]:
    first, count = reach_of(positions, radii_of(kernel, ratios))
    # Positions are rounded down later, which may move their first tap.
    return int(first.min()) - 1, int((first + count).max())


def local_positions(
    place: Place,
    size: tuple[int, int],
    start: tuple[float, float],
    turn: float,
    *,
    wraps: bool,
    largest: float,
) -> LocalPositions | None:
    """Return the positions of a map.

    Args:
        place: returns source columns and rows at positions in the map.
        size: width and height of the map.
        start: left and upper edge of the map, in its pixels from the origin of its CRS (rows
            downward).
        turn: length of a full turn of the Earth in source columns; infinite if there is none.
        wraps: whether columns repeat after a turn.
        largest: upper limit for the ratios. A single pixel, such as one at a pole, may cover a
            large part of the source.

    Returns:
        None if no pixel has a position in the source CRS.
    """
    width, height = size
    across, down = _Axis.of(start[0], width), _Axis.of(start[1], height)
    corners = place(*np.meshgrid(across.nodes(), down.nodes()))
    with np.errstate(invalid="ignore"):
        ratios, uneven, leap = _node_fields(corners, turn, largest)
        bent = leap | _any_corner(uneven) | (_any_corner_spread(ratios) > _STEEP)
    # If there are too many, take the worst ones.
    order = np.flatnonzero(bent.ravel())
    if order.size > _MOST_BLOCKS:
        badness = np.nan_to_num(_any_corner_spread(ratios), nan=np.inf).ravel()[order]
        order = np.sort(order[np.argsort(-badness, kind="stable")[:_MOST_BLOCKS]])
    rows, columns = np.divmod(order, across.count)
    details = _details(place, down.pixels_of(rows), across.pixels_of(columns), turn, largest)
    nodes = corners[0][1:-1, 1:-1], corners[1][1:-1, 1:-1], *ratios
    plain = bent.size - order.size
    if not plain and not np.isfinite(details[0] + details[1]).any():
        return None
    wrap = turn if wraps else 0.0
    known = np.concatenate([values[np.isfinite(values)] for values in (nodes[0], details[0])])
    grid = _Grid(
        width,
        height,
        across,
        down,
        nodes,
        (rows, columns),
        details,
        is_complete=bool(np.isfinite(details[:2]).all() and order.size == np.count_nonzero(bent)),
        wrap=wrap,
        centre=_centre(known, wrap) if wrap else 0.0,
    )
    return LocalPositions(grid, height, width, _median(ratios[0]), _median(ratios[1]))


def _median(ratios: Floats) -> float:
    known = ratios[np.isfinite(ratios)]
    return float(np.median(known)) if known.size else 1.0


def gradients(place: Place, x: Floats, y: Floats, turn: float) -> tuple[Floats, Floats]:
    """Return the kernel ratios at single positions of a map; not finite where undefined.

    Args:
        place, turn: as for `local_positions`.
        x, y: positions in the map, any shape.

    Returns:
        ratios along source columns and rows, of the same shape.
    """
    offsets = ((0.0, 0.0), (-0.5, 0.0), (0.5, 0.0), (0.0, -0.5), (0.0, 0.5))
    found = place(
        np.stack([x + across for across, _ in offsets]), np.stack([y + down for _, down in offsets])
    )
    ratios = []
    with np.errstate(invalid="ignore"):
        for values, period in zip(found, (turn, np.inf), strict=True):
            middle, *ends = values
            left, right, above, below = (_step(end - middle, period) for end in ends)
            ratios.append(2.0 * np.hypot(_typical(left, right), _typical(above, below)))
    return ratios[0], ratios[1]


def _node_fields(
    corners: tuple[Floats, Floats], turn: float, largest: float
) -> tuple[tuple[Floats, Floats], npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Return ratios at all nodes except the outer ones, which of these nodes are uneven, and which
    blocks have a jump between two corners."""
    ratios = []
    uneven = np.zeros(tuple(side - 2 for side in corners[0].shape), np.bool_)
    for values, period in zip(corners, (turn, np.inf), strict=True):
        raw = np.diff(values, axis=1), np.diff(values, axis=0)
        wide, high = (_step(steps, period) for steps in raw)
        left, right = wide[1:-1, :-1], wide[1:-1, 1:]
        above, below = high[:-1, 1:-1], high[1:, 1:-1]
        ratio = np.hypot(_typical(left, right), _typical(above, below)) / _PITCH
        errors = (np.abs(right - left) + np.abs(below - above)) / 8.0
        # In this form, values that are not finite count as uneven.
        uneven |= ~(errors <= _UNEVEN * np.maximum(1.0, ratio))
        ratios.append(np.clip(ratio, 1.0, largest))
        if values is corners[0]:
            across = np.abs(wide - raw[0])[1:-1, 1:-1] > 0.0
            down = np.abs(high - raw[1])[1:-1, 1:-1] > 0.0
            leap = across[:-1] | across[1:] | down[:, :-1] | down[:, 1:]
    return (ratios[0], ratios[1]), uneven, leap


def _details(
    place: Place,
    first_rows: npt.NDArray[np.int64],
    first_columns: npt.NDArray[np.int64],
    turn: float,
    largest: float,
) -> Floats:
    """Return the fields of each pixel in some blocks, shape (4, blocks, 8, 8)."""
    steps = np.arange(-1, _PITCH + 1) + 0.5
    shape = (len(first_rows), len(steps), len(steps))
    x = np.broadcast_to((first_columns[:, np.newaxis] + steps)[:, np.newaxis, :], shape)
    y = np.broadcast_to((first_rows[:, np.newaxis] + steps)[:, :, np.newaxis], shape)
    result = np.empty((4, len(first_rows), _PITCH, _PITCH))
    found = place(x, y)
    with np.errstate(invalid="ignore"):
        for i, (values, period) in enumerate(zip(found, (turn, np.inf), strict=True)):
            wide, high = (_step(np.diff(values, axis=axis), period) for axis in (2, 1))
            across = _typical(wide[:, 1:-1, :-1], wide[:, 1:-1, 1:])
            down = _typical(high[:, :-1, 1:-1], high[:, 1:, 1:-1])
            ratio = np.hypot(across, down)
            result[i] = values[:, 1:-1, 1:-1]
            result[i + 2] = np.clip(np.where(np.isfinite(ratio), ratio, 1.0), 1.0, largest)
    return result


def _step(steps: Floats, period: float) -> Floats:
    """Return steps, taken the shorter way around the Earth."""
    return steps - period * np.round(steps / period) if np.isfinite(period) else steps


def _typical(one: Floats, other: Floats) -> Floats:
    """Return the mean length of the steps on both sides, or the shorter one next to a jump."""
    one, other = np.abs(one), np.abs(other)
    short = np.fmin(one, other)
    long = np.fmax(one, other)
    mean: Floats = np.where(long > _LEAP * short + 1.0, short, (one + other) / 2.0)
    return mean


def _any_corner(flags: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    return flags[:-1, :-1] | flags[:-1, 1:] | flags[1:, :-1] | flags[1:, 1:]


def _any_corner_spread(ratios: tuple[Floats, Floats]) -> Floats:
    """Return the factor by which the ratios at the corners of each block differ."""
    factors = []
    for values in ratios:
        corners = np.stack([values[:-1, :-1], values[:-1, 1:], values[1:, :-1], values[1:, 1:]])
        factors.append(corners.max(axis=0) / corners.min(axis=0))
    most: Floats = np.maximum(*factors)
    return most


def _centre(columns: Floats, turn: float) -> float:
    """Return the middle of the shortest arc that contains all columns."""
    around = np.sort(columns % turn)
    gaps = np.diff(around, append=around[0] + turn)
    widest = int(np.argmax(gaps))
    return float(around[widest] + gaps[widest] / 2 - turn / 2)
