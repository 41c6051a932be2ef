"""Where the points of a grid over a tile matrix are in the pixels of a group."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from pyproj import Transformer

from mastaba.api.catalogue import TileMatrix
from mastaba_build.sources.groups import Group

Floats: TypeAlias = npt.NDArray[np.float64]

_LINEAR = 1 / 16
"""Largest error of positions between grid points, in source pixels."""


class Cells(NamedTuple):
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

    def columns(self, part: slice) -> Cells:
        """Return some columns of cells."""
        return Cells(
            self.fields[:, :, part.start : part.stop + 1],
            self.is_curved[:, part],
            (self.ratios[0][:, part], self.ratios[1][:, part]),
            self.near[:, part],
        )


class GridLocator:
    """Finds the points of grids of one matrix in the pixels of one group.

    Args:
        back: from the CRS of the matrix to that of the group; None if they are equal.
        radius: of the kernel, for pixels less than two source pixels wide.
    """

    def __init__(
        self, group: Group, matrix: TileMatrix, back: Transformer | None, radius: float
    ) -> None:
        self._matrix = matrix
        self._back = back
        self._radius = radius
        self._sizes = group.width, group.height
        self._turn = group.turn
        self._is_closed = group.closed_turn > 0
        a, b, c, d, e, f = group.transform
        area = a * e - b * d
        self._inverse = (e / area, -b / area, -d / area, a / area)
        self._origin = (c, f)

    def locate(self, rows: Floats, columns: Floats) -> Floats:
        """Return source columns and rows of output pixels, each column in any turn."""
        cell = self._matrix.cell_size
        x = np.broadcast_to(
            self._matrix.origin_x + (columns + 0.5) * cell, (len(rows), len(columns))
        )
        y = np.broadcast_to(
            self._matrix.origin_y - (rows[:, np.newaxis] + 0.5) * cell, (len(rows), len(columns))
        )
        if self._back is not None:
            x, y = (np.asarray(one) for one in self._back.transform(x, y))
        x, y = x - self._origin[0], y - self._origin[1]
        ix, jx, iy, jy = self._inverse
        with np.errstate(invalid="ignore"):
            fields = np.stack([ix * x + jx * y - 0.5, iy * x + jy * y - 0.5])
        fields[:, ~np.isfinite(fields).all(axis=0)] = np.nan
        return fields

    def cells(self, nodes: Floats, centres: Floats, step: int) -> Cells:
        """Return the cells of a grid, given positions at its points and at the cell centres."""
        middles = _corners(nodes, self._turn).mean(axis=0)
        error = np.abs(_within_half(centres - middles, self._turn))
        # A cell with a corner but not all of them needs a finer look.
        is_known = np.isfinite(nodes[0])
        some, every = _any_corner(is_known), ~_any_corner(~is_known)
        is_curved = ~every & (some | ~np.isnan(centres[0]))
        is_curved |= (np.nan_to_num(error) > _LINEAR).any(axis=0)
        # Between conformal CRSs the errors along rows and columns cancel each other in the middle.
        is_curved |= _is_bent(nodes, 1, self._turn) | _is_bent(nodes, 2, self._turn)
        ratios = _ratios(nodes, step, self._turn)
        return Cells(nodes, is_curved, ratios, self.near(nodes, ratios, self._turn))

    def apart(self, down: Floats, across: Floats, cells: Cells) -> tuple[Floats, Floats, Cells]:
        """Return a grid in which a pixel needs no position of its neighbours.

        Beside a horizon, some pixels have a position and their neighbours none. The grid has two
        equal points for each pixel, at its centre and half a pixel further.

        Args:
            down, across: rows and columns of the points of the cells.
            cells: of one pixel each.

        Returns:
            rows and columns of the points, and the cells between them.
        """
        axes = [
            np.repeat(one[:-1], 2) + np.tile([0.0, 0.5], len(one) - 1) for one in (down, across)
        ]
        fields = cells.fields[:, :-1, :-1].repeat(2, axis=1).repeat(2, axis=2)
        # A pixel without any neighbour is as large as the largest one.
        ratios = [
            np.where(np.isnan(one), np.fmax.reduce(one, axis=None, initial=1.0), one)
            for one in cells.ratios
        ]
        x, y = (one.repeat(2, axis=0).repeat(2, axis=1)[:-1, :-1] for one in ratios)
        is_curved = np.zeros(x.shape, np.bool_)
        near = self.near(fields, (x, y), self._turn)
        # Between two pixels, there is none.
        near[1::2] = near[:, 1::2] = False
        return axes[0], axes[1], Cells(fields, is_curved, (x, y), near)

    def near(
        self, fields: Floats, ratios: tuple[Floats, Floats], turn: float
    ) -> npt.NDArray[np.bool_]:
        """Return which cells of the grid may need pixels of the group.

        Args:
            turn: source columns in a full turn, if the group may be in any; else 0.
        """
        corners = _corners(fields, turn)
        near = np.asarray(np.isfinite(corners).all(axis=(0, 1)))
        for axis, (ratio, size) in enumerate(zip(ratios, self._sizes, strict=True)):
            low, high = corners[:, axis].min(axis=0), corners[:, axis].max(axis=0)
            margin = (self._radius * np.maximum(ratio, 1)) + 2
            if axis == 1 or not turn:
                near &= (high > -margin) & (low < size + margin)
            elif not self._is_closed:
                first, last = (low - size - margin) / turn, (high + margin) / turn
                near &= np.ceil(first) <= np.floor(last)
        return near


def _within_half(fields: Floats, turn: float) -> Floats:
    """Return differences of fields, whose columns are at most half a turn."""
    if turn:
        fields[0] -= turn * np.round(fields[0] / turn)
    return fields


def _corners(fields: Floats, turn: float) -> Floats:
    """Return fields at the corners of each cell, shape (4, 2, rows, columns), without jumps."""
    first = fields[:, :-1, :-1]
    others = (fields[:, :-1, 1:], fields[:, 1:, :-1], fields[:, 1:, 1:])
    return np.stack([first, *(first + _within_half(one - first, turn) for one in others)])


def _any_corner(nodes: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Return for which cells of a grid one of the corners is true."""
    sides = nodes[:, :-1] | nodes[:, 1:]
    found: npt.NDArray[np.bool_] = sides[:-1] | sides[1:]
    return found


def _is_bent(fields: Floats, axis: int, turn: float) -> npt.NDArray[np.bool_]:
    """Return which cells have sides along an axis in whose middle positions are not linear.

    Args:
        fields: at three points along the axis at least; otherwise no cell is.
    """
    steps = _within_half(np.diff(fields, axis=axis), turn)
    bends = (np.abs(np.nan_to_num(np.diff(steps, axis=axis))) / 8 > _LINEAR).any(axis=0)
    # Each point but the first and the last bends the cells on both sides.
    along = np.zeros(np.array(fields.shape[1:]) - (np.arange(1, 3) == axis), bool)
    before, after = (
        (slice(None, -1), slice(1, None)) if axis == 1 else (np.s_[:, :-1], np.s_[:, 1:])
    )
    along[before] |= bends
    along[after] |= bends
    # A cell has two such sides.
    return along[:, :-1] | along[:, 1:] if axis == 1 else along[:-1] | along[1:]


def _ratios(fields: Floats, step: float, turn: float) -> tuple[Floats, Floats]:
    """Return the size of an output pixel in source columns and rows, in each cell."""
    along = np.abs(_within_half(np.diff(fields, axis=2), turn))
    along = np.fmax(along[:, :-1], along[:, 1:])
    across = np.abs(_within_half(np.diff(fields, axis=1), turn))
    across = np.fmax(across[:, :, :-1], across[:, :, 1:])
    ratios: Floats = np.hypot(np.nan_to_num(along), np.nan_to_num(across)) / step
    ratios[np.isnan(along) & np.isnan(across)] = np.nan
    return ratios[0], ratios[1]
