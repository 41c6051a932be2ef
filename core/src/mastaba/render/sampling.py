"""The source pixels that each pixel of a map reads, and their weights (resampling.md 5.2 to 5.4).

`StraightPositions` are those of maps whose axes are parallel to those of the source, and
`GridPositions` those of all others. Positions are source columns and rows as floats: 0 is the
centre of the first pixel of the level, rows count downward. A ratio is the size of an output pixel
in source pixels.

A kernel is stretched to a radius in source pixels. If the image shrinks, the radius grows with the
ratio, so every source pixel contributes. ``nn`` picks single pixels at any ratio.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from math import ceil
from typing import Final

import numpy as np
import numpy.typing as npt

from mastaba.model.bbox import BoundingBox
from mastaba.model.tile_matrix_set import TileMatrix
from mastaba.render import native
from mastaba.render.map_request import MapImage, Mask, Pixels
from mastaba.render.mosaic import Mosaic
from mastaba.render.native import Floats, Weights, Window

NEAREST: Final = "nn"
"""Name of the kernel that picks the nearest source pixel."""

BASE_RADIUS: Final = {
    NEAREST: 0.5,
    "linear": 1.0,
    "bicubic": 2.0,
    "lanczos_2": 2.0,
    "lanczos_3": 3.0,
    "lanczos_4": 4.0,
}
"""Radius of each kernel at a ratio of 1 or less."""

FRACTIONS: Final = 1024
"""Positions across CRSs are rounded down to this fraction of a source pixel (`stencil`)."""

# Rounding errors must not decide on which side of a pixel edge a position falls.
_TOLERANCE: Final = 1e-7
_HALF: Final = 0.5
_TABLE_SIZE: Final = 4096
_BLOCK_VALUES: Final = 1 << 18

ALIGNED: Final = 1.0 / 256.0
"""Fraction of a pixel within which pixels coincide."""

LARGEST_STENCIL: Final = 32
"""Taps; a stencil of this size takes 136 KB. Weights of more taps are computed for each pixel,
which costs little compared with the taps themselves."""

Sampler = Callable[[Pixels], Pixels]
"""Returns rows of the map from source pixels, with the same sample type and number of channels."""


def radius_of(kernel: str, ratio: float) -> float:
    """Return the radius for one ratio, which covers a whole number of source pixels."""
    scale = 1.0 if kernel == NEAREST else max(1.0, ratio)
    return ceil(2 * BASE_RADIUS[kernel] * scale - _TOLERANCE) / 2


def reach_of(
    positions: Floats, radii: Floats | float
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the first source pixel of each output pixel, and how many contribute.

    Args:
        positions: 0 is the centre of the first source pixel.
        radii: one for all positions, or one for each.
    """
    first = np.ceil(positions - radii - _TOLERANCE).astype(np.int64)
    return first, np.ceil(2 * np.asarray(radii) - _TOLERANCE).astype(np.int64)


def weights_at(kernel: str, positions: Floats, radii: Floats | float) -> Weights:
    """Return the weights for source positions in any order, shape (outputs,).

    Args:
        radii: as in `reach_of`; a weight beyond the radius of its pixel is 0.
    """
    first, count = reach_of(positions, radii)
    taps = int(count.max())
    scale = BASE_RADIUS[kernel] / np.broadcast_to(radii, positions.shape)
    # No tap lies beyond the last contributing one, so no further pixels are needed.
    low = np.minimum(first, int((first + count).max()) - taps)
    result = np.empty((positions.size, taps), np.float32)
    block = max(1, _BLOCK_VALUES // taps)
    for start in range(0, positions.size, block):
        part = np.s_[start : start + block, np.newaxis]
        places = low[part] + np.arange(taps)
        distances = np.abs(places - positions[part]) * scale[part]
        values = evaluate(kernel, distances)
        if np.ndim(radii):
            values[(places < first[part]) | (places >= first[part] + count[part])] = 0.0
        result[start : start + block] = values / values.sum(axis=1, keepdims=True)
    return Weights(low, result)


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """The source positions of the columns, or rows, of a map.

    Attributes:
        positions: shape (size,).
        ratio: ratio of the map.
        ratios: shape (size,), ratio of each column or row; None if it hardly varies.
    """

    positions: Floats
    ratio: float
    ratios: Floats | None = None

    def span(self, kernel: str, part: slice) -> tuple[int, int]:
        """Return the first source pixel that a part needs, and the one after the last."""
        first, count = reach_of(self.positions[part], self._radii(kernel, part))
        return int(first.min()), int((first + count).max())

    def weights(self, kernel: str, part: slice, start: int) -> Weights:
        """Return the weights of a part of the axis over source pixels from ``start`` on."""
        first, weights = weights_at(kernel, self.positions[part], self._radii(kernel, part))
        return Weights(first - start, weights)

    def only(self, place: int) -> Axis:
        """Return one column or row."""
        part = slice(place, place + 1)
        ratios = None if self.ratios is None else self.ratios[part]
        return replace(self, positions=self.positions[part], ratios=ratios)

    def _radii(self, kernel: str, part: slice) -> Floats | float:
        if self.ratios is None or kernel == NEAREST:
            return radius_of(kernel, self.ratio)
        return np.maximum(self.ratios[part], 1.0) * BASE_RADIUS[kernel]


def evaluate(kernel: str, distances: Floats) -> Floats:
    """Return the values of a kernel at distances from its centre, source pixels.

    Args:
        distances: not negative; for `NEAREST` none beyond its radius, but for rounding errors.
    """
    d = distances
    if kernel == NEAREST:
        return np.ones_like(d)
    if kernel == "linear":
        return np.maximum(1.0 - d, 0.0)
    if kernel == "bicubic":
        near = 1.0 + d * d * (1.5 * d - 2.5)
        far = 2.0 + d * (-4.0 + d * (2.5 - 0.5 * d))
        return np.where(d <= 1.0, near, np.where(d <= 2.0, far, 0.0))
    order = BASE_RADIUS[kernel]
    return np.where(d <= order, np.sinc(d) * np.sinc(d / order), 0.0)


@lru_cache(maxsize=64)
def stencil(kernel: str, radius: float) -> Weights:
    """Return the weights for each fraction of a source pixel, shape (1024, taps)."""
    return weights_at(kernel, np.arange(FRACTIONS) / FRACTIONS, radius)


@lru_cache(maxsize=len(BASE_RADIUS))
def table_of(kernel: str) -> Floats:
    """Return a kernel sampled evenly from its centre to its radius, shape (4097,)."""
    return evaluate(kernel, np.linspace(0.0, BASE_RADIUS[kernel], _TABLE_SIZE + 1))


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

    def window(self, kernel: str, rows: slice) -> Window | None:
        """Return the source pixels that some rows need; None if no pixel has a position."""
        kernel = NEAREST if self.aligned else kernel
        return Window(*self.down.span(kernel, rows), *self.across.span(kernel, slice(None)))

    def placed(self, rows: slice) -> None:
        """Return which pixels of some rows have a position: None, because all have one."""

    def sampler(self, kernel: str, rows: slice, top: int, left: int) -> Sampler:
        """Return what draws some rows from source pixels that begin at a row and column."""
        if self.aligned:
            return lambda pixels: pixels
        return partial(
            native.resample,
            rows=self.down.weights(kernel, rows, top),
            columns=self.across.weights(kernel, slice(None), left),
        )


def same_crs_positions(
    bbox: BoundingBox, width: int, height: int, matrix: TileMatrix
) -> StraightPositions:
    """Return the positions for an extent in the CRS of the level."""
    left = (bbox.xmin - matrix.origin_x) / matrix.cell_size
    right = (bbox.xmax - matrix.origin_x) / matrix.cell_size
    top = (matrix.origin_y - bbox.ymax) / matrix.cell_size
    bottom = (matrix.origin_y - bbox.ymin) / matrix.cell_size
    aligned = _is_aligned(left, right, width) and _is_aligned(top, bottom, height)
    if aligned:
        left, right, top, bottom = round(left), round(right), round(top), round(bottom)
    return StraightPositions(_even(left, right, width), _even(top, bottom, height), aligned)


def _even(low: float, high: float, size: int) -> Axis:
    ratio = (high - low) / size
    return Axis(low - 0.5 + (np.arange(size, dtype=np.float64) + 0.5) * ratio, ratio)


def _is_aligned(low: float, high: float, size: int) -> bool:
    return (
        round(high) - round(low) == size
        and abs(low - round(low)) < ALIGNED
        and abs(high - round(high)) < ALIGNED
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
    part: Window
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
        return replace(self, part=Window(row, row + 1, column, column + 1))

    def window(self, kernel: str, rows: slice) -> Window | None:
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
        return Window(top - 1, bottom + 1, left - 1, right + 1)

    def placed(self, rows: slice) -> Mask | None:
        """Return which pixels of some rows have a position; None if all have one."""
        if self.complete:
            return None
        part = self._rows(rows)
        mask = np.empty(part.shape, np.bool_)
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

    def _rows(self, rows: slice) -> Window:
        top = self.part.top
        return self.part._replace(top=top + rows.start, bottom=top + rows.stop)

    def _grid(self, kernel: str) -> native.Grid:
        fields = self.fields if self._has_radii(kernel) else self.fields[:2]
        return native.Grid.of(
            self.across, self.down, fields, self.blocks, self.details, self.wrap, self.centre
        )


Positions = StraightPositions | GridPositions
"""The source positions of the pixels of a map."""


def drawn(
    positions: Positions,
    kernel: str,
    rows: slice,
    window: Window,
    source: Mosaic,
    nodata: tuple[float, ...],
) -> MapImage:
    """Return some rows of a map.

    Floats next to nodata are averaged over valid pixels only; 8-bit colours mix with the nodata
    colour. In both cases a pixel is valid if at least half of its weights are.

    Args:
        window: the source pixels, at least those of ``positions.window``.
        source: their pixels.
        nodata: one value per channel, for pixels that are not valid.
    """
    pixels, valid, placed = source.pixels, source.valid, positions.placed(rows)
    sample = positions.sampler(kernel, rows, window.top, window.left)
    found = None
    if valid is None:
        result = sample(pixels)
    else:
        # Exactly 1 where no weight is missing, so these pixels stay unchanged.
        weights = 1 - sample((~valid).astype(np.float32)[:, :, np.newaxis])
        # Rounding errors must not drop a pixel of which exactly half is data.
        found = weights[:, :, 0] >= np.float32(_HALF - 1e-5)
        if pixels.dtype == np.uint8:
            result = sample(pixels)
        else:
            values = np.where(valid[:, :, np.newaxis], pixels, np.float32(0))
            safe = np.where(found[:, :, np.newaxis], weights, np.float32(1))
            result = (sample(values) / safe).astype(np.float32, copy=False)
            result[~found] = nodata
    if placed is not None:
        found = placed if found is None else found & placed
        result[~placed] = nodata
    return MapImage(result, found, nodata)
