"""Where the pixels of a tile are in a source: grids anchored to the tile matrix.

The positions of a pixel depend on its absolute column and row, its tile and the group, and never on
the slab or the worker. So a pixel has one value in every layout of slabs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, floor
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyproj

from mastaba.api.catalogue import CRS, TileMatrix
from mastaba.api.maps import Window
from mastaba.api.resampling import (
    BASE_RADIUS,
    NEAREST,
    Axis,
    GridPositions,
    Positions,
    StraightPositions,
    radius_of,
)
from mastaba_build.errors import SourceError
from mastaba_build.groups import Group, is_same_crs, transformer
from mastaba_build.sets import proj_crs

Floats: TypeAlias = npt.NDArray[np.float64]
Rectangle: TypeAlias = tuple[int, int, int, int]
"""First row, row after the last, first column, column after the last."""

_STEP = 16
_LINEAR = 1 / 16
"""Largest error of positions between grid points, in source pixels."""
_VARIATION = 1.1
_ALIGNED = 1e-3
_LARGEST_WINDOW = 1 << 24
"""Source pixels, after averaging, that one block may need."""


@dataclass(frozen=True, slots=True)
class Placement:
    """The part of a tile that a group covers, and the source pixels it needs.

    Attributes:
        part: pixels of the tile.
        positions: in source cells of ``factor`` x ``factor`` pixels.
        factor: source pixels, on a side, that are averaged first.
        window: source cells that the kernel reaches; it may extend beyond the group.
    """

    part: Rectangle
    positions: Positions
    kernel: str
    factor: int
    window: Rectangle


class _Cells(NamedTuple):
    """The cells of a grid of output pixels.

    Attributes:
        fields: shape (2, rows + 1, columns + 1), source columns and rows at the corners.
        is_curved: shape (rows, columns), whether positions are not linear in a cell.
        ratios: size of an output pixel in source columns and rows, each (rows, columns).
        near: shape (rows, columns), which cells may need pixels of the group.
    """

    fields: Floats
    is_curved: npt.NDArray[np.bool_]
    ratios: tuple[Floats, Floats]
    near: npt.NDArray[np.bool_]

    def columns(self, part: slice) -> _Cells:
        """Return some columns of cells."""
        return _Cells(
            self.fields[:, :, part.start : part.stop + 1],
            self.is_curved[:, part],
            (self.ratios[0][:, part], self.ratios[1][:, part]),
            self.near[:, part],
        )


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
        self._crs = crs
        self._kernel = kernel
        self._is_mean = decimation == "average"
        a, b, c, d, e, f = group.transform
        self._same = is_same_crs(group, crs)
        self._straight = self._same and b == d == 0
        area = a * e - b * d
        self._inverse = (e / area, -b / area, -d / area, a / area)
        self._origin = (c, f)

    @cached_property
    def _transformer(self) -> pyproj.Transformer:
        return transformer(proj_crs(self._crs), pyproj.CRS.from_wkt(self._group.crs))

    @cached_property
    def _wrap(self) -> float:
        """Source columns in a full turn; 0 if columns do not repeat."""
        a, b, _, d, _, _ = self._group.transform
        is_geographic = pyproj.CRS.from_wkt(self._group.crs).is_geographic
        return 360 / abs(a) if is_geographic and not self._same and b == d == 0 else 0.0

    @cached_property
    def _is_aligned(self) -> bool:
        """Whether the pixels of the group are those of the matrix."""
        a, _, c, _, e, f = self._group.transform
        cell = self._matrix.cell_size
        drift = (
            max(abs(a - cell), abs(e + cell)) / cell * max(self._group.width, self._group.height)
        )
        phases = (c - self._matrix.origin_x) / cell, (self._matrix.origin_y - f) / cell
        return drift < _ALIGNED and all(abs(p - round(p)) < _ALIGNED for p in phases)

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
        nodes = self._located(rows, across)
        centres = self._located(rows[:-1] + _STEP // 2, across[:-1] + _STEP // 2)
        strip = None if self._wrap else self._cells(nodes, centres, _STEP)
        count = width // _STEP
        for column in columns:
            part = slice((column - columns[0]) * count, (column - columns[0] + 1) * count)
            if strip is not None:
                cells = strip.columns(part)
            else:
                points = nodes[:, :, part.start : part.stop + 1]
                cells = self._cells(points, centres[:, :, part], _STEP)
            for placement in self._block(top, column * width, whole, cells):
                yield column, placement

    def _block(
        self, top: int, left: int, block: Rectangle, known: _Cells | None
    ) -> Iterator[Placement]:
        """Yield the placements of a block.

        Args:
            known: the cells of the coarsest grid.
        """
        found: Placement | bool | None = (
            self._straightly(top, left, block)
            if self._straight
            else self._by_grid(top, left, block, known)
        )
        if isinstance(found, Placement):
            rows, columns = found.window[1] - found.window[0], found.window[3] - found.window[2]
            if rows * columns <= _LARGEST_WINDOW:
                yield found
                return
            found = True
        if not found:
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

    def _straightly(self, top: int, left: int, block: Rectangle) -> Placement | None:
        a, _, c, _, e, f = self._group.transform
        cell = self._matrix.cell_size
        ratios = cell / abs(a), cell / abs(e)
        factor = self._factor(*ratios)
        x = self._matrix.origin_x + (left + np.arange(block[2], block[3]) + 0.5) * cell
        y = self._matrix.origin_y - (top + np.arange(block[0], block[1]) + 0.5) * cell
        aligned = self._is_aligned
        kernel = self._kernel_for(factor)
        across = self._axis((x - c) / a, ratios[0], factor, self._group.width, kernel)
        down = self._axis((y - f) / e, ratios[1], factor, self._group.height, kernel)
        if across is None or down is None:
            return None
        positions = StraightPositions(across[0], down[0], aligned)
        rows = len(down[0].positions)
        window = positions.window(kernel, slice(0, rows))
        assert window is not None
        part = (
            *(block[0] + down[1], block[0] + down[1] + rows),
            *(block[2] + across[1], block[2] + across[1] + len(across[0].positions)),
        )
        return Placement(part, positions, kernel, factor, window)

    @staticmethod
    def _axis(
        places: npt.NDArray[np.floating[Any]], ratio: float, factor: int, size: int, kernel: str
    ) -> tuple[Axis, int] | None:
        """Return the positions within reach of the group, and the index of the first one."""
        positions, ratio = places / factor - 0.5, ratio / factor
        reach = radius_of(kernel, ratio) + 1
        near = np.flatnonzero((positions > -reach) & (positions < size / factor + reach))
        if not len(near):
            return None
        return Axis(positions[near[0] : near[-1] + 1], ratio), int(near[0])

    def _by_grid(
        self, top: int, left: int, block: Rectangle, known: _Cells | None
    ) -> Placement | bool:
        """Return a placement, False if the group is elsewhere, or True to split the block."""
        step = _STEP
        while True:
            down = np.arange(block[0], block[1] + step, step).astype(np.float64)
            across = np.arange(block[2], block[3] + step, step).astype(np.float64)
            if known is None:
                nodes = self._located(top + down, left + across)
                half = step / 2
                centres = self._located(top + down[:-1] + half, left + across[:-1] + half)
                known = self._cells(nodes, centres, step)
            fields, is_curved, ratios, near = known
            if step == 1 or not is_curved.any():
                break
            step //= 2
            known = None
        if not near.any():
            return False
        rows, columns = np.flatnonzero(near.any(axis=1)), np.flatnonzero(near.any(axis=0))
        cells = np.s_[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
        highest = [float(np.nanmax(one[cells])) for one in ratios]
        lowest = [float(np.nanmin(one[cells])) for one in ratios]
        splits = max(high / max(low, 0.25) for high, low in zip(highest, lowest, strict=True))
        large = min(block[1] - block[0], block[3] - block[2]) > _STEP
        if splits > _VARIATION and max(highest) > 1 and large:
            return True
        factor = self._factor(*highest)
        ratio_x, ratio_y = (ceil(16 * one / factor - 1e-6) / 16 for one in highest)
        fields = fields[:, rows[0] : rows[-1] + 2, columns[0] : columns[-1] + 2]
        # A node at column n is the centre of that pixel; source position 0 is a centre, too.
        fields = np.ascontiguousarray((fields + 0.5) / factor - 0.5)
        part = Window(
            *(int(down[rows[0]]), min(block[1], int(down[rows[-1] + 1]))),
            *(int(across[columns[0]]), min(block[3], int(across[columns[-1] + 1]))),
        )
        positions = GridPositions(
            across=np.ascontiguousarray(across[columns[0] : columns[-1] + 2]),
            down=np.ascontiguousarray(down[rows[0] : rows[-1] + 2]),
            fields=fields,
            part=part,
            ratios=(ratio_x, ratio_y),
            complete=bool(np.isfinite(fields).all()),
            wrap=self._wrap / factor,
            centre=(self._group.width / factor - 1) / 2 if self._wrap else 0.0,
        )
        kernel = self._kernel_for(factor)
        window = positions.window(kernel, slice(0, part[1] - part[0]))
        return Placement(part, positions, kernel, factor, window) if window else False

    def _factor(self, ratio_x: float, ratio_y: float) -> int:
        if self._kernel == NEAREST and self._is_mean:
            return 1
        return max(1, floor(min(ratio_x, ratio_y) + 1e-9))

    def _kernel_for(self, factor: int) -> str:
        """Return the kernel for cells: only means of pixels may be mixed with each other."""
        return self._kernel if factor == 1 or self._is_mean else NEAREST

    def _located(self, rows: Floats, columns: Floats) -> Floats:
        """Return source columns and rows of output pixels, each column in any turn."""
        cell = self._matrix.cell_size
        x = np.broadcast_to(
            self._matrix.origin_x + (columns + 0.5) * cell, (len(rows), len(columns))
        )
        y = np.broadcast_to(
            self._matrix.origin_y - (rows[:, np.newaxis] + 0.5) * cell, (len(rows), len(columns))
        )
        if not self._same:
            x, y = (np.asarray(one) for one in self._transformer.transform(x, y))
        x, y = x - self._origin[0], y - self._origin[1]
        ix, jx, iy, jy = self._inverse
        with np.errstate(invalid="ignore"):
            fields = np.stack([ix * x + jx * y - 0.5, iy * x + jy * y - 0.5])
        fields[:, ~np.isfinite(fields).all(axis=0)] = np.nan
        return fields

    def _in_one_turn(self, fields: Floats) -> Floats:
        """Return fields of a block whose columns do not jump where they begin to repeat."""
        if not self._wrap:
            return fields
        fields = fields.copy()
        centre = (self._group.width - 1) / 2
        fields[0] -= self._wrap * np.round((fields[0] - centre) / self._wrap)
        if np.isfinite(fields).all() and np.ptp(fields[0]) > self._wrap / 2:
            fields[0] = _unwrapped(fields[0], self._wrap)
        return fields

    def _cells(self, nodes: Floats, centres: Floats, step: int) -> _Cells:
        """Return the cells of a grid, given positions at its points and at the cell centres."""
        fields, exact = self._in_one_turn(nodes), self._in_one_turn(centres)
        corners = (
            fields[:, :-1, :-1] + fields[:, 1:, :-1] + fields[:, :-1, 1:] + fields[:, 1:, 1:]
        ) / 4
        error = np.abs(exact - corners)
        if self._wrap:
            error[0] = np.minimum(error[0], np.abs(error[0] - self._wrap))
        # A cell with a corner but not all of them needs a finer look.
        is_curved = np.isnan(corners[0]) & ~np.isnan(exact[0])
        is_curved |= (np.nan_to_num(error) > _LINEAR).any(axis=0)
        ratios = _ratios(fields, step)
        return _Cells(fields, is_curved, ratios, self._near(fields, ratios))

    def _near(self, fields: Floats, ratios: tuple[Floats, Floats]) -> npt.NDArray[np.bool_]:
        """Return which cells of the grid may need pixels of the group."""
        near: npt.NDArray[np.bool_] = np.isfinite(fields[0][:-1, :-1])
        for corner in ((0, 1), (1, 0), (1, 1)):
            near &= np.isfinite(_corner(fields[0], *corner))
        reach = BASE_RADIUS[self._kernel]
        for field, ratio, size in zip(
            fields, ratios, (self._group.width, self._group.height), strict=True
        ):
            corners = [_corner(field, i, j) for i in (0, 1) for j in (0, 1)]
            margin = (reach * np.maximum(ratio, 1)) + 2
            high, low = np.maximum.reduce(corners), np.minimum.reduce(corners)
            inside = (high > -margin) & (low < size + margin)
            if self._wrap and field is fields[0]:
                turn = self._wrap
                inside |= (high + turn > -margin) & (low + turn < size + margin)
                inside |= (high - turn > -margin) & (low - turn < size + margin)
            near &= inside
        return near


def _unwrapped(columns: Floats, turn: float) -> Floats:
    """Return columns without jumps of a full turn."""
    result: Floats = np.unwrap(np.unwrap(columns, period=turn), axis=0, period=turn)
    return result


def _corner(field: Floats, row: int, column: int) -> Floats:
    return field[row : field.shape[0] - 1 + row, column : field.shape[1] - 1 + column]


def _ratios(fields: Floats, step: float) -> tuple[Floats, Floats]:
    """Return the size of an output pixel in source columns and rows, in each cell."""

    def ratio(field: Any) -> Floats:
        along = np.diff(field, axis=1)
        along = np.fmax(np.abs(along[:-1]), np.abs(along[1:]))
        across = np.diff(field, axis=0)
        across = np.fmax(np.abs(across[:, :-1]), np.abs(across[:, 1:]))
        result: Floats = np.hypot(along, across) / step
        return result

    return ratio(fields[0]), ratio(fields[1])
