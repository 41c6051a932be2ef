"""Where the pixels of a tile are in a source: grids anchored to the tile matrix.

The positions of a pixel depend on its absolute column and row, its tile and the group, and never on
the slab or the worker. So a pixel has one value in every layout of slabs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, floor, inf
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from mastaba.api.catalogue import CRS, TileMatrix
from mastaba_build.errors import SourceError
from mastaba_build.pixels.grids import Cells, Floats, GridLocator
from mastaba_build.sources.groups import Group, to_group
from mastaba_build.sources.turns import continuous
from mastaba_render.api.resampling import (
    BASE_RADIUS,
    NEAREST,
    Axis,
    GridPositions,
    Positions,
    StraightPositions,
    Window,
    radius_of,
)

Rectangle: TypeAlias = tuple[int, int, int, int]
"""First row, row after the last, first column, column after the last."""

_STEP = 16
_VARIATION = 1.1
_ALIGNED = 1e-3
_STRIP = 1 << 22
"""Source cells that are read at once for a row of tiles."""
_LARGEST_WINDOW = 1 << 24
"""Source pixels, after averaging, that one block may need."""


@dataclass(frozen=True, eq=False)
class Placement:
    """The part of some tiles side by side that a group covers, and the source pixels it needs.

    Attributes:
        part: pixels, counted from the first tile on.
        across, down: without ``fields``, the source columns and rows of the pixels, in cells;
            otherwise the columns and rows of the points of a grid.
        ratios: size of a pixel in source columns and rows.
        kernel: name of the kernel.
        factor: source pixels, on a side, that are averaged to a cell first.
        fields: shape (2, grid rows, grid columns), source columns and rows at these points.
        aligned: whether the pixels are source pixels.
    """

    part: Rectangle
    across: Floats
    down: Floats
    ratios: tuple[float, float]
    kernel: str
    factor: int
    fields: Floats | None = None
    aligned: bool = False

    @cached_property
    def positions(self) -> Positions:
        """Where the pixels are, in source cells of ``factor`` x ``factor`` pixels."""
        if self.fields is None:
            x, y = self.ratios
            return StraightPositions(Axis(self.across, x), Axis(self.down, y), self.aligned)
        part, is_complete = Window(*self.part), self.is_complete
        return GridPositions(self.across, self.down, self.fields, part, self.ratios, is_complete)

    @cached_property
    def window(self) -> Rectangle | None:
        """Source cells that the kernel reaches, also beyond the group; None if it is elsewhere."""
        needs = self.positions.needs(self.kernel, slice(0, self.part[1] - self.part[0]))
        return None if needs is None else needs.window

    @property
    def bounds(self) -> Rectangle:
        """Source cells around the window, or the window itself. They take less time to find."""
        if not self.is_complete:
            assert self.window is not None
            return self.window
        # Positions between grid points are between those of the points.
        columns, rows = (self.across, self.down) if self.fields is None else self.fields
        x, y = (ceil(radius_of(self.kernel, max(1.0, one))) + 2 for one in self.ratios)
        top, bottom = floor(rows.min()) - y, ceil(rows.max()) + y + 1
        return top, bottom, floor(columns.min()) - x, ceil(columns.max()) + x + 1

    @cached_property
    def is_complete(self) -> bool:
        """Whether all pixels have a position."""
        return self.fields is None or bool(np.isfinite(self.fields).all())

    @property
    def is_small(self) -> bool:
        """Whether the window has no more cells than may be read."""
        if self.is_complete:
            # Positions between grid points are between those of the points.
            ends = (self.across, self.down) if self.fields is None else self.fields
            reach = [2 * BASE_RADIUS[self.kernel] * max(1.0, one) + 8 for one in self.ratios]
            spans = [np.ptp(one) + more for one, more in zip(ends, reach, strict=True)]
            if spans[0] * spans[1] <= _LARGEST_WINDOW:
                return True
        return self.window is None or _area_of(self.window) <= _LARGEST_WINDOW

    def continues(self, other: Placement, shape: tuple[int, int]) -> bool:
        """Return whether this tile and the one on its left can be drawn at once.

        Each pixel is then the same as if they were not.

        Args:
            shape: height and width of a tile.
        """
        if (
            not self.part == other.part == (0, shape[0], 0, shape[1])
            or (self.kernel, self.factor, self.ratios) != (other.kernel, other.factor, other.ratios)
            or (self.fields is None) != (other.fields is None)
            or not np.array_equal(self.down, other.down)
        ):
            return False
        if self.fields is None or other.fields is None:
            # Not in another turn around the earth.
            return bool(abs(self.across[0] - other.across[-1]) < 2 * self.ratios[0])
        return (
            np.array_equal(self.fields[:, :, 0], other.fields[:, :, -1])
            and self.is_complete
            and other.is_complete
        )


class Run(NamedTuple):
    """Tiles side by side that may be drawn at once.

    Attributes:
        column: of the first tile.
        placements: of each tile; with one, it may cover part of the tile only.
    """

    column: int
    placements: list[Placement]

    def joined(self) -> Placement:
        """Return the placement of all these tiles."""
        first = self.placements[0]
        if len(self.placements) == 1:
            return first
        _, height, _, width = first.part
        part = 0, height, 0, width * len(self.placements)
        across = [one.across for one in self.placements]
        if first.fields is None:
            return replace(first, part=part, across=np.concatenate(across))
        # Two tiles share the points between them.
        points = [one[1:] + number * width for number, one in enumerate(across)]
        fields = [one.fields[:, :, 1:] for one in self.placements if one.fields is not None]
        return replace(
            first,
            part=part,
            across=np.concatenate([across[0][:1], *points]),
            fields=np.concatenate([first.fields[:, :, :1], *fields], axis=2),
        )


class Row(NamedTuple):
    """What a group covers in a row of tiles.

    Attributes:
        runs: from left to right.
        joined: the placement of each run.
        window: source cells that all of them need.
        at_once: whether they have one factor, and the window is small enough to be read at once.
    """

    runs: list[Run]
    joined: list[Placement]
    window: Rectangle
    at_once: bool


class Placer:
    """Places tiles of one matrix in the pixels of one group.

    Args:
        kernel: for pixels less than two source pixels wide, and for the means of wider ones.
        decimation: how the source pixels of wider ones become one; see `decimate`.
    """

    def __init__(
        self, group: Group, matrix: TileMatrix, crs: CRS, kernel: str, decimation: str
    ) -> None:
        self._group = group
        self._matrix = matrix
        self._kernel = kernel
        self._is_mean = decimation == "average"
        a, b, _, d, e, _ = group.transform
        back = to_group(group, crs)
        self._grids = GridLocator(group, matrix, back, BASE_RADIUS[kernel])
        self._turn = group.turn
        self._is_closed = group.closed_turn > 0
        self._straight = back is None and b == d == 0
        self._straight_ratios = matrix.cell_size / abs(a or 1), matrix.cell_size / abs(e or 1)
        if self._straight:
            self._straight_factor = self._factor(*self._straight_ratios)
            x, y = (one / self._straight_factor for one in self._straight_ratios)
            kernel = self._kernel_for(self._straight_factor)
            self._reaches = radius_of(kernel, x), radius_of(kernel, y)

    @cached_property
    def _is_aligned(self) -> bool:
        """Whether the pixels of the group are those of the matrix."""
        a, _, c, _, e, f = self._group.transform
        cell = self._matrix.cell_size
        drift = (
            max(abs(a - cell), abs(e + cell)) / cell * max(self._group.width, self._group.height)
        )
        phases = (c - self._matrix.origin_x) / cell, (self._matrix.origin_y - f) / cell
        turn = self._turn
        return (
            drift < _ALIGNED
            and all(abs(p - round(p)) < _ALIGNED for p in phases)
            and abs(turn - round(turn)) < _ALIGNED
        )

    def row(self, tile_row: int, columns: Sequence[int]) -> Row | None:
        """Return the parts of tiles of a row that the group covers; None if it is elsewhere.

        Args:
            columns: ascending.

        Raises:
            SourceError: as in `place`.
        """
        shape = self._matrix.tile_height, self._matrix.tile_width
        runs: list[Run] = []
        for column, placement in self.place(tile_row, columns):
            last = runs[-1] if runs else None
            if (
                last is not None
                and column == last.column + len(last.placements)
                and placement.continues(last.placements[-1], shape)
            ):
                last.placements.append(placement)
            else:
                runs.append(Run(column, [placement]))
        if not runs:
            return None
        joined = [run.joined() for run in runs]
        factors = {one.factor for one in joined}
        ends = np.array([one.window for one in joined if one.window is not None])
        (top, _, left, _), (_, bottom, _, right) = ends.min(axis=0), ends.max(axis=0)
        window = int(top), int(bottom), int(left), int(right)
        at_once = len(factors) == 1 and (bottom - top) * (right - left) <= _STRIP
        return Row(runs, joined, window, bool(at_once))

    def place(self, tile_row: int, columns: Sequence[int]) -> Iterator[tuple[int, Placement]]:
        """Yield the parts of tiles of a row that the group covers, with their column.

        Args:
            columns: ascending.

        Raises:
            SourceError: the transformation is too irregular here.
        """
        width, height = self._matrix.tile_width, self._matrix.tile_height
        top = tile_row * height
        whole = 0, height, 0, width
        if self._straight or width % _STEP or height % _STEP:
            for column in columns:
                for placement in self._block(top, column * width, whole, None):
                    yield column, placement
            return
        # One transformation for all tiles: a call of PROJ costs more than a few hundred points.
        left, right = columns[0] * width, (columns[-1] + 1) * width
        rows = np.arange(top, top + height + 1, _STEP, dtype=np.float64)
        across = np.arange(left, right + 1, _STEP, dtype=np.float64)
        nodes = self._grids.locate(rows, across)
        centres = self._grids.locate(rows[:-1] + _STEP // 2, across[:-1] + _STEP // 2)
        strip = self._grids.cells(nodes, centres, _STEP)
        count = width // _STEP
        for column in columns:
            part = slice((column - columns[0]) * count, (column - columns[0] + 1) * count)
            for placement in self._block(top, column * width, whole, strip.columns(part)):
                yield column, placement

    def _block(
        self, top: int, left: int, block: Rectangle, known: Cells | None
    ) -> Iterator[Placement]:
        """Yield the placements of a block.

        Args:
            known: the cells of the coarsest grid.
        """
        found = (
            self._straightly(top, left, block)
            if self._straight
            else self._by_grid(top, left, block, known)
        )
        if found is not None and all(one.is_small for one in found):
            yield from found
            return
        low, high, first, last = block
        if max(high - low, last - first) <= _STEP:
            raise SourceError(
                f"{self._group.name}: its CRS cannot be transformed evenly near row {top + low}, "
                f"column {left + first} of level {self._matrix.id}; limit its extent"
            )
        middle, centre = (low + high + 1) // 2, (first + last + 1) // 2
        for rows_of in ((low, middle), (middle, high)):
            for columns_of in ((first, centre), (centre, last)):
                if rows_of[1] > rows_of[0] and columns_of[1] > columns_of[0]:
                    yield from self._block(top, left, (*rows_of, *columns_of), None)

    def _straightly(self, top: int, left: int, block: Rectangle) -> list[Placement]:
        a, _, c, _, e, f = self._group.transform
        cell, factor = self._matrix.cell_size, self._straight_factor
        x = self._matrix.origin_x + (left + np.arange(block[2], block[3]) + 0.5) * cell
        y = self._matrix.origin_y - (top + np.arange(block[0], block[1]) + 0.5) * cell
        down = self._axis((y - f) / e, self._group.height, self._reaches[1])
        if down is None:
            return []
        places = (x - c) / a
        margin = factor * (self._reaches[0] + 2)
        found = []
        for shift in self._shifts(float(places.min()), float(places.max()), margin):
            width = inf if self._is_closed else self._group.width
            across = self._axis(places - shift, width, self._reaches[0])
            if across is None:
                continue
            part = (
                *(block[0] + down[1], block[0] + down[1] + len(down[0])),
                *(block[2] + across[1], block[2] + across[1] + len(across[0])),
            )
            ratios = self._straight_ratios[0] / factor, self._straight_ratios[1] / factor
            kernel = self._kernel_for(factor)
            found.append(
                Placement(
                    part, across[0], down[0], ratios, kernel, factor, aligned=self._is_aligned
                )
            )
        return found

    def _shifts(self, low: float, high: float, margin: float) -> list[float]:
        """Return the turns, in source columns, by which positions are in the group.

        Args:
            low, high: first and last source column.
            margin: columns beyond the group that count.
        """
        if not self._turn:
            return [0.0]
        if self._is_closed:
            # Its columns go on: any turn gives the same pixels.
            middle = (low + high - self._group.width) / 2
            return [self._turn * round(middle / self._turn)]
        return _shifts_of(low, high, self._group.width, self._turn, margin)

    def _axis(
        self, places: npt.NDArray[np.floating[Any]], size: float, radius: float
    ) -> tuple[Floats, int] | None:
        """Return the positions within reach of the group, and the index of the first one.

        Args:
            size: source pixels; infinite if they go on in both directions.
            radius: of the kernel.
        """
        positions = places / self._straight_factor - 0.5
        reach = inf if size == inf else radius + 1
        end = size / self._straight_factor + reach
        near = np.flatnonzero((positions > -reach) & (positions < end))
        return (positions[near[0] : near[-1] + 1], int(near[0])) if len(near) else None

    def _by_grid(
        self, top: int, left: int, block: Rectangle, known: Cells | None
    ) -> list[Placement] | None:
        """Return the placements of a block, none if the group is elsewhere; None to split it."""
        size = min(block[1] - block[0], block[3] - block[2])
        is_large = size > _STEP
        # Three points on a side show whether positions are linear between them.
        step = _STEP if known is not None else max(1, min(_STEP, size // 2))
        while True:
            down = np.arange(block[0], block[1] + step, step).astype(np.float64)
            across = np.arange(block[2], block[3] + step, step).astype(np.float64)
            if known is None:
                nodes = self._grids.locate(top + down, left + across)
                half = step / 2
                centres = self._grids.locate(top + down[:-1] + half, left + across[:-1] + half)
                known = self._grids.cells(nodes, centres, step)
            fields, is_curved, ratios, near = known
            columns = continuous(fields[0], self._turn) if self._turn else fields[0]
            if columns is None and is_large and near.any():
                return None
            if step == 1 or not (columns is None or is_curved.any()):
                break
            step //= 2
            known = None
        if step == 1 and not self._turn and np.isnan(fields).any():
            down, across, (fields, _, ratios, near) = self._grids.apart(down, across, known)
            columns = fields[0]
        if not near.any():
            return []
        if columns is None:  # around a pole; each pixel has its own position
            turn, middle = self._turn, (self._group.width - 1) / 2
            columns = fields[0] - turn * np.round((fields[0] - middle) / turn)
            shifts = [0.0]
        elif self._turn:
            margin = BASE_RADIUS[self._kernel] * max(1.0, float(np.nanmax(ratios[0]))) + 2
            ends = float(np.nanmin(columns)), float(np.nanmax(columns))
            shifts = self._shifts(*ends, margin)
        else:
            shifts = [0.0]
        found = []
        for shift in shifts:
            placed = np.stack([columns - shift, fields[1]])
            part = near if len(shifts) == 1 else self._grids.near(placed, ratios, 0.0)
            if not part.any():
                continue
            rows, places = np.flatnonzero(part.any(axis=1)), np.flatnonzero(part.any(axis=0))
            cells = np.s_[rows[0] : rows[-1] + 1, places[0] : places[-1] + 1]
            highest = [float(np.nanmax(one[cells])) for one in ratios]
            lowest = [float(np.nanmin(one[cells])) for one in ratios]
            splits = max(high / max(low, 0.25) for high, low in zip(highest, lowest, strict=True))
            if splits > _VARIATION and max(highest) > 1 and is_large:
                return None
            grid = (
                down[rows[0] : rows[-1] + 2],
                across[places[0] : places[-1] + 2],
                placed[:, rows[0] : rows[-1] + 2, places[0] : places[-1] + 2],
            )
            one = self._gridded(block, *grid, (highest[0], highest[1]))
            if one is not None:
                found.append(one)
        return found

    def _gridded(
        self,
        block: Rectangle,
        down: Floats,
        across: Floats,
        fields: Floats,
        ratios: tuple[float, float],
    ) -> Placement | None:
        """Return the placement of part of a block; None if no pixel has a position.

        Args:
            down, across: rows and columns of the points of a grid, in the block.
            fields: source columns and rows there.
            ratios: size of an output pixel in source columns and rows.
        """
        factor = self._factor(*ratios)
        ratio_x, ratio_y = (ceil(16 * one / factor - 1e-6) / 16 for one in ratios)
        # A node at column n is the centre of that pixel; source position 0 is a centre, too.
        fields = np.ascontiguousarray((fields + 0.5) / factor - 0.5)
        part = (
            *(ceil(down[0]), min(block[1], ceil(down[-1]))),
            *(ceil(across[0]), min(block[3], ceil(across[-1]))),
        )
        placement = Placement(
            part,
            np.ascontiguousarray(across),
            np.ascontiguousarray(down),
            (ratio_x, ratio_y),
            self._kernel_for(factor),
            factor,
            fields,
        )
        return None if not placement.is_complete and placement.window is None else placement

    def _factor(self, ratio_x: float, ratio_y: float) -> int:
        if self._kernel == NEAREST and self._is_mean:
            return 1
        return max(1, floor(min(ratio_x, ratio_y) + 1e-9))

    def _kernel_for(self, factor: int) -> str:
        """Return the kernel for cells: only means of pixels may be mixed with each other."""
        return self._kernel if factor == 1 or self._is_mean else NEAREST


def _shifts_of(low: float, high: float, size: int, turn: float, reach: float) -> list[float]:
    """Return the turns, in columns, by which an image of some columns meets others.

    Args:
        low, high: first and last position.
        reach: columns beyond the image that count.
    """
    first, last = ceil((low - size - reach) / turn), floor((high + reach) / turn)
    return [number * turn for number in range(first, last + 1)]


def _area_of(window: Rectangle) -> int:
    """Return the cells of a rectangle."""
    return (window[1] - window[0]) * (window[3] - window[2])
