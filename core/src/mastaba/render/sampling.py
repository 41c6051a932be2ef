"""The source pixels that each pixel of a map reads, and the reading of them.

`StraightPositions` are those of maps whose axes are parallel to those of the source, and
`GridPositions` those of all others. Positions are source columns and rows as floats: 0 is the
centre of the first pixel of the level, rows count downward. A ratio is the size of an output pixel
in source pixels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt

from mastaba.render import native
from mastaba.render.kernels import (
    BASE_RADIUS,
    NEAREST,
    Axis,
    Floats,
    radius_of,
    stencil,
    table_of,
)
from mastaba.render.map_request import Mask, Pixels
from mastaba.render.native import Rectangle

LARGEST_STENCIL: Final = 32
"""Taps; a stencil of this size takes 136 KB. Weights of more taps are computed for each pixel,
which costs little compared with the taps themselves."""

Sampler = Callable[[Pixels], Pixels]
"""Returns rows of the map from source pixels, with the same sample type and number of channels."""


@dataclass(frozen=True, slots=True, eq=False)
class StraightPositions:
    """Positions whose column does not depend on the row, and vice versa.

    Attributes:
        across: source columns of the columns of the map.
        down: source rows of the rows of the map.
        aligned: whether output pixels coincide with source pixels, which are then copied.
    """

    across: Axis
    down: Axis
    aligned: bool = False

    @property
    def ratios(self) -> tuple[float, float]:
        """Ratios in x and y of the whole map."""
        return self.across.ratio, self.down.ratio

    @property
    def varies(self) -> bool:
        """Whether kernels may be so wide, next to a pole, that they reach far beyond the level."""
        return self.down.ratios is not None

    def only(self, row: int, column: int) -> StraightPositions:
        """Return the positions of one pixel."""
        return replace(self, across=self.across.only(column), down=self.down.only(row))

    def window(self, kernel: str, rows: slice) -> Rectangle | None:
        """Return the source pixels that some rows need; None if no pixel has a position."""
        kernel = NEAREST if self.aligned else kernel
        return (*self.down.span(kernel, rows), *self.across.span(kernel, slice(None)))

    def sampler(self, kernel: str, rows: slice, top: int, left: int) -> Sampler:
        """Return what draws some rows from source pixels that begin at a row and column."""
        if self.aligned:
            return lambda pixels: pixels
        return partial(
            native.resample,
            rows=self.down.weights(kernel, rows, top),
            columns=self.across.weights(kernel, slice(None), left),
        )


@dataclass(frozen=True, slots=True, eq=False)
class GridPositions:
    """Positions of any transformation, given at points of a grid and linear between them.

    Attributes:
        across, down: shape (grid width,) and (grid height,), output columns and rows of the grid
            points, ascending, around all pixels.
        fields: shape (2 or 4, grid height, grid width): source columns and rows, and ratios in x
            and y if each pixel has its own. Not finite where a point has no position in the source
            CRS; the cells around it have none either.
        part: the pixels, of all those in the grid.
        ratios: ratios in x and y of the whole map.
        complete: whether all pixels have a position.
        blocks: shape (grid height - 1, grid width - 1): the block of each cell that is not linear,
            -1 for the others; None without any.
        details: shape (blocks, 4, 8, 8), fields of the pixels of each block.
        wrap: source columns in a full turn, after which they repeat; 0 if they do not.
        centre: the middle of the turn that contains the map.
    """

    across: Floats
    down: Floats
    fields: Floats
    part: Rectangle
    ratios: tuple[float, float]
    complete: bool
    blocks: npt.NDArray[np.int32] | None = None
    details: Floats | None = None
    wrap: float = 0.0
    centre: float = 0.0

    @property
    def varies(self) -> bool:
        """Whether each pixel has its own ratios; see `StraightPositions.varies`."""
        return len(self.fields) > 2

    def only(self, row: int, column: int) -> GridPositions:
        """Return the positions of one pixel."""
        return replace(self, part=(row, row + 1, column, column + 1))

    def window(self, kernel: str, rows: slice) -> Rectangle | None:
        """Return the source pixels that some rows need; None if no pixel has a position."""
        found = native.survey(
            self._grid(kernel),
            self._rows(rows),
            self._radii(kernel),
            every_row=not self.complete or self.blocks is not None or self.wrap != 0,
        )
        if found is None:
            return None
        top, bottom, left, right = found
        # Positions are rounded down later, which may move their first tap. The last one may move
        # where only some rows were looked at.
        return top - 1, bottom + 1, left - 1, right + 1

    def placed(self, rows: slice) -> Mask | None:
        """Return which pixels of some rows have a position; None if all have one."""
        if self.complete:
            return None
        part = top, bottom, left, right = self._rows(rows)
        mask = np.empty((bottom - top, right - left), np.bool_)
        native.survey(self._grid(NEAREST), part, (0.5, 0.5), every_row=True, placed=mask)
        return None if mask.all() else mask

    def sampler(self, kernel: str, rows: slice, top: int, left: int) -> Sampler:
        """Return what draws some rows from source pixels that begin at a row and column.

        Pixels without a position become 0.
        """
        radius_x, radius_y = radii = self._radii(kernel)
        source, grid, part = (top, left), self._grid(kernel), self._rows(rows)
        if self._has_radii(kernel) or 2 * max(radii) > LARGEST_STENCIL:
            table = table_of(kernel)
            return lambda pixels: native.warp_locally(pixels, source, grid, part, table, radii)
        down, across = stencil(kernel, radius_y), stencil(kernel, radius_x)
        return lambda pixels: native.warp(pixels, source, grid, part, down, across)

    def _has_radii(self, kernel: str) -> bool:
        """Return whether each pixel has a kernel radius of its own."""
        return self.varies and kernel != NEAREST

    def _radii(self, kernel: str) -> tuple[float, float]:
        if self._has_radii(kernel):
            return BASE_RADIUS[kernel], BASE_RADIUS[kernel]
        ratio_x, ratio_y = self.ratios
        return radius_of(kernel, ratio_x), radius_of(kernel, ratio_y)

    def _rows(self, rows: slice) -> Rectangle:
        top, _, left, right = self.part
        return top + rows.start, top + rows.stop, left, right

    def _grid(self, kernel: str) -> native.Grid:
        fields = self.fields if self._has_radii(kernel) else self.fields[:2]
        return native.Grid.of(
            self.across, self.down, fields, self.blocks, self.details, self.wrap, self.centre
        )


Positions = StraightPositions | GridPositions
"""The source positions of the pixels of a map."""
