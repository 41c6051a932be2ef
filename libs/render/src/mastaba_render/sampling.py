"""The source pixels that each pixel of a map reads, and their weights (resampling.md 5.2 to 5.4).

`StraightPositions` are those of maps whose axes are parallel to those of the source, and
`GridPositions` those of all others. Positions are source columns and rows as floats: 0 is the
centre of the first pixel of the level, rows count downward. A ratio is the size of an output pixel
in source pixels.

A kernel is stretched to a radius in source pixels. If the image shrinks, the radius grows with the
ratio, so every source pixel contributes. ``nn`` picks single pixels at any ratio.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from math import ceil
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from mastaba.model.bbox import BoundingBox
from mastaba.model.tile_matrix_set import TileMatrix
from mastaba_render import native
from mastaba_render.map_request import MapImage, Mask, Pixels
from mastaba_render.mosaic import Mosaic, mosaic_of
from mastaba_render.native import Floats, Weights, Window

NEAREST: Final = "nn"
"""Name of the kernel that picks the nearest source pixel."""

MEAN: Final = "mean"
"""Name of the kernel that weights source pixels by the area that they share with the output pixel,
of at least one source pixel."""

BASE_RADIUS: Final = {
    NEAREST: 0.5,
    MEAN: 1.0,
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
_BLOCK_VALUES: Final = 1 << 14
"""Weights computed at a time."""
_BYTES_PER_VALUE: Final = 64
"""Bytes that computing one weight takes, with the intermediate results."""

_MANY_TAPS: Final = 512
"""The sum of more taps than these is the integral of the kernel; it differs by less than 1e-5."""

ALIGNED: Final = 1.0 / 256.0
"""Fraction of a pixel within which pixels coincide."""

LARGEST_STENCIL: Final = 32
"""Taps; a stencil of this size takes 136 KB. Weights of more taps are computed for each pixel,
which costs little compared with the taps themselves."""

Sampler = Callable[[Pixels], Pixels]
"""Returns rows of the map from source pixels, with the same sample type and number of channels."""


class Needs(NamedTuple):
    """What it takes to draw some rows of a map.

    Attributes:
        window: the source pixels that the rows need.
        products: of a source pixel and a weight.
        memory: upper estimate of the bytes of positions and weights.
    """

    window: Window
    products: float
    memory: int


def radius_of(kernel: str, ratio: float) -> float:
    """Return the radius for one ratio, which covers a whole number of source pixels."""
    scale = 1.0 if kernel == NEAREST else max(1.0, ratio)
    if kernel == MEAN:
        return (scale + 1.0) / 2
    return ceil(2 * BASE_RADIUS[kernel] * scale - _TOLERANCE) / 2


def reach_of(
    positions: Floats, radii: Floats | float
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64] | np.int64]:
    """Return the first source pixel of each output pixel, and how many contribute.

    Args:
        positions: 0 is the centre of the first source pixel.
        radii: one for all positions, or one for each; the number that contribute is so, too.
    """
    first = np.ceil(positions - radii - _TOLERANCE).astype(np.int64)
    if isinstance(radii, float):
        # For every map; several times as fast as numpy.
        return first, np.int64(ceil(2 * radii - _TOLERANCE))
    return first, np.ceil(2 * radii - _TOLERANCE).astype(np.int64)


def weights_at(
    kernel: str, positions: Floats, radii: Floats | float, reach: tuple[int, int] | None = None
) -> Weights:
    """Return the weights for source positions in any order, shape (outputs,).

    Args:
        radii: as in `reach_of`; a weight beyond the radius of its pixel is 0.
        reach: as in `Axis`; a few pixels before and after it are read, and the outermost ones
            have the weight of all that are further away.
    """
    first, contributing = reach_of(positions, radii)
    count = np.full(positions.shape, contributing)
    scale = np.full(positions.shape, BASE_RADIUS[kernel] / radii)
    beyond = first + count
    start, end = _clipped(first, beyond, reach)
    taps = int((contributing if reach is None else end - start).max())
    # No tap lies beyond the last contributing one, so no further pixels are needed.
    low = np.minimum(start, int(end.max()) - taps)
    is_cut = np.zeros(0, np.bool_) if reach is None else (start > first) | (end < beyond)
    result = np.empty((positions.size, taps), np.float32)
    block = max(1, _BLOCK_VALUES // taps)
    for begin in range(0, positions.size, block):
        part = np.s_[begin : begin + block, np.newaxis]
        places = low[part] + np.arange(taps)
        distances = np.abs(places - positions[part])
        values = _weights(kernel, distances, scale[part])
        if np.ndim(radii) or reach is not None:
            values[(places < first[part]) | (places >= beyond[part])] = 0.0
        totals = values.sum(axis=1, keepdims=True)
        for line in np.flatnonzero(is_cut[begin : begin + block]):
            i = begin + int(line)
            totals[line] = _total(kernel, positions[i], first[i], count[i], scale[i])
            edge = start[i] if start[i] > first[i] else end[i] - 1
            values[line, edge - low[i]] += totals[line, 0] - values[line].sum()
        result[begin : begin + block] = values / totals
    return Weights(low, result)


def _clipped(
    first: npt.NDArray[np.int64], end: npt.NDArray[np.int64], reach: tuple[int, int] | None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the first source pixel that is read, and the one after the last."""
    if reach is None:
        return first, end
    # The last pixel without data on each side has the weight of all that are further away.
    low, high = reach[0] - LARGEST_STENCIL, reach[1] + LARGEST_STENCIL
    return np.clip(first, low, high - 1), np.clip(end, low + 1, high)


def _total(kernel: str, position: float, first: int, count: int, scale: float) -> float:
    """Return the sum of the weights of a pixel before they are divided by it."""
    if count > _MANY_TAPS and kernel != MEAN:
        return 2.0 * BASE_RADIUS[kernel] / scale * float(np.mean(table_of(kernel)))
    places = np.arange(first, first + count, dtype=np.float64)
    return float(_weights(kernel, np.abs(places - position), scale).sum())


def _weights(kernel: str, distances: Floats, scale: Floats | float) -> Floats:
    """Return the weights at distances in source pixels, not yet divided by their sum."""
    if kernel == MEAN:
        # The outermost pixels share only a part of their side, one pixel long.
        return np.clip(BASE_RADIUS[MEAN] / scale - distances, 0.0, 1.0)
    return evaluate(kernel, distances * scale)


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """The source positions of the columns, or rows, of a map.

    Attributes:
        positions: shape (size,).
        ratio: ratio of the map.
        ratios: shape (size,), ratio of each column or row; None if it hardly varies.
        reach: the first source pixel that may hold data, and the one after the last; None if all
            that the map needs may.
    """

    positions: Floats
    ratio: float
    ratios: Floats | None = None
    reach: tuple[int, int] | None = None

    def weights(self, kernel: str, part: slice, start: int) -> Weights:
        """Return the weights of a part of the axis over source pixels from ``start`` on."""
        radii = self._radii(kernel, part)
        first, weights = weights_at(kernel, self.positions[part], radii, self.reach)
        return Weights(first - start, weights)

    def within(self, kernel: str, reach: tuple[int, int]) -> tuple[Axis, slice] | None:
        """Return the columns or rows that meet source pixels, and which these are; None if none.

        Args:
            reach: of the result.
        """
        first, count = reach_of(self.positions, self._radii(kernel, slice(None)))
        met = np.flatnonzero((first < reach[1]) & (first + count > reach[0]))
        if not met.size:
            return None
        part = slice(int(met[0]), int(met[-1]) + 1)
        return replace(self._part(part), reach=reach), part

    def only(self, place: int) -> Axis:
        """Return one column or row."""
        return self._part(slice(place, place + 1))

    def _part(self, part: slice) -> Axis:
        ratios = None if self.ratios is None else self.ratios[part]
        return replace(self, positions=self.positions[part], ratios=ratios)

    def taps(self, kernel: str, part: slice) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the first source pixel of each output pixel, and the one after the last."""
        first, count = reach_of(self.positions[part], self._radii(kernel, part))
        return _clipped(first, first + count, self.reach)

    def _span(self, kernel: str, part: slice) -> tuple[int, int, int, int]:
        """Return the first source pixel of a part, the one after the last, its size and its taps.

        The number of taps is that of the output pixel with most.
        """
        first, count = reach_of(self.positions[part], self._radii(kernel, part))
        if self.reach is None and self.ratios is None:
            return int(first.min()), int(first.max() + count), first.size, int(count)
        start, end = _clipped(first, first + count, self.reach)
        return int(start.min()), int(end.max()), first.size, int((end - start).max())

    def _radii(self, kernel: str, part: slice) -> Floats | float:
        if self.ratios is None or kernel == NEAREST:
            return radius_of(kernel, self.ratio)
        ratios = np.maximum(self.ratios[part], 1.0)
        return (ratios + 1.0) / 2 if kernel == MEAN else ratios * BASE_RADIUS[kernel]


def evaluate(kernel: str, distances: Floats) -> Floats:
    """Return the values of a kernel at distances from its centre, source pixels.

    Args:
        distances: not negative; for `NEAREST` none beyond its radius, but for rounding errors.
    """
    d = distances
    if kernel in (NEAREST, MEAN):
        # `MEAN` is stretched so far here that the ends of its box do not matter.
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

    def within(self, kernel: str, area: Window) -> tuple[StraightPositions, Window] | None:
        """Return the positions whose kernels meet source pixels; None if there are none.

        Args:
            area: source pixels that may hold data. Others are nodata, and are not read but next to
                these.

        Returns:
            the positions of a part of the map, and that part.
        """
        kernel = NEAREST if self.aligned else kernel
        down = self.down.within(kernel, (area.top, area.bottom))
        across = self.across.within(kernel, (area.left, area.right))
        if down is None or across is None:
            return None
        rows, columns = down[1], across[1]
        part = Window(rows.start, rows.stop, columns.start, columns.stop)
        return replace(self, down=down[0], across=across[0]), part

    def boxes(self, kernel: str, rows: slice, where: Mask) -> npt.NDArray[np.int64]:
        """Return the source pixels of some pixels of a map, shape (n, 4), a `Window` for each.

        Args:
            where: shape (rows, columns), the pixels.
        """
        i, j = np.nonzero(where)
        down, across = self.down.taps(kernel, rows), self.across.taps(kernel, slice(None))
        return np.stack([*(ends[i] for ends in down), *(ends[j] for ends in across)], axis=1)

    def only(self, row: int, column: int) -> StraightPositions:
        """Return the positions of one pixel."""
        return replace(self, across=self.across.only(column), down=self.down.only(row))

    def needs(self, kernel: str, rows: slice) -> Needs:
        """Return what it takes to draw some rows."""
        kernel = NEAREST if self.aligned else kernel
        top, bottom, height, high = self.down._span(kernel, rows)
        left, right, width, wide = self.across._span(kernel, slice(None))
        window = Window(top, bottom, left, right)
        if self.aligned:
            return Needs(window, 0.0, 0)
        memory = 4 * (height * high + width * wide) + _BYTES_PER_VALUE * (
            max(_BLOCK_VALUES, high) + max(_BLOCK_VALUES, wide)
        )
        return Needs(window, float(height * high * (right - left) + height * width * wide), memory)

    @property
    def varies(self) -> bool:
        """Whether kernels may be so wide, next to a pole, that they reach far beyond the level."""
        return self.down.ratios is not None

    def placed(self, rows: slice, kernel: str = NEAREST) -> None:
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
        area: source pixels that may hold data; None if all that the map needs may. A pixel whose
            kernel meets none of them counts as one without a position.
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
    area: Window | None = None

    @property
    def varies(self) -> bool:
        """Whether each pixel has its own ratios; see `StraightPositions.varies`."""
        return len(self.fields) > 2

    def within(self, kernel: str, area: Window) -> tuple[GridPositions, Window] | None:
        """Return the positions with another area; see `StraightPositions.within`."""
        found = replace(self, area=area)
        top, bottom, left, right = self.part
        whole = Window(0, bottom - top, 0, right - left)
        return None if found.needs(kernel, slice(0, whole.bottom)) is None else (found, whole)

    def boxes(self, kernel: str, rows: slice, where: Mask) -> npt.NDArray[np.int64]:
        """Return the source pixels of some pixels of a map; see `StraightPositions.boxes`."""
        part = self._rows(rows)
        found = np.zeros((*part.shape, 4), np.int64)
        native.survey(self._grid(kernel), part, self._radii(kernel), every_row=True, boxes=found)
        return found[where]

    def only(self, row: int, column: int) -> GridPositions:
        """Return the positions of one pixel."""
        return replace(self, part=Window(row, row + 1, column, column + 1))

    def needs(self, kernel: str, rows: slice) -> Needs | None:
        """Return what it takes to draw some rows; None if no pixel has a position."""
        radii, part = self._radii(kernel), self._rows(rows)
        every_row = not self._is_everywhere or self.blocks is not None or self.wrap != 0
        taps = min(2 * (ceil(radii[0]) + ceil(radii[1])), 2 * LARGEST_STENCIL)
        memory = self.fields.nbytes + FRACTIONS * taps * 4
        if self.blocks is not None and self.details is not None:
            memory += self.blocks.nbytes + self.details.nbytes
        found = native.survey(self._grid(kernel), part, radii, every_row=every_row)
        if found is None:
            return None
        (top, bottom, left, right), products = found
        if not every_row:
            products = 4 * math.prod((*radii, *part.shape))
        # Positions are rounded down later, which may move their first tap. The last one may move
        # where only some rows were looked at.
        return Needs(Window(top - 1, bottom + 1, left - 1, right + 1), products, memory)

    def placed(self, rows: slice, kernel: str = NEAREST) -> Mask | None:
        """Return which pixels of some rows have a position; None if all have one."""
        if self._is_everywhere:
            return None
        part = self._rows(rows)
        mask = np.empty(part.shape, np.bool_)
        radii = self._radii(kernel)
        native.survey(self._grid(kernel), part, radii, every_row=True, placed=mask)
        return None if mask.all() else mask

    def sampler(self, kernel: str, rows: slice, top: int, left: int) -> Sampler:
        """Return what draws some rows from source pixels that begin at a row and column.

        Pixels without a position become 0.
        """
        radius_x, radius_y = radii = self._radii(kernel)
        source, part = (top, left), self._rows(rows)
        if self._is_local(kernel):
            table, grid = table_of(kernel), self._grid(kernel)
            return lambda pixels: native.warp_locally(pixels, source, grid, part, table, radii)
        down, across = stencil(kernel, radius_y), stencil(kernel, radius_x)
        return partial(
            native.warp,
            source=source,
            grid=self._grid(kernel),
            part=part,
            rows=down,
            columns=across,
        )

    @property
    def _is_everywhere(self) -> bool:
        return self.complete and self.area is None

    def _has_radii(self, kernel: str) -> bool:
        """Return whether each pixel has a kernel radius of its own."""
        return self.varies and kernel != NEAREST

    def _is_local(self, kernel: str) -> bool:
        """Return whether weights are computed for each pixel rather than taken from a stencil."""
        return self._has_radii(kernel) or 2 * max(self._radii(kernel)) > LARGEST_STENCIL

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
            *(self.across, self.down, fields, self.blocks, self.details),
            *(self.wrap, self.centre, self.area),
            # A kernel of a stencil that meets the area reads no further in any case.
            margin=1.0 if self._is_local(kernel) else np.inf,
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

    Floats next to nodata are averaged over valid pixels only, and stay in the range of these; 8-bit
    colours mix with the nodata colour. In both cases a pixel is valid if at least half of its
    weights are.

    Args:
        window: the source pixels, at least those of ``positions.window``.
        source: their pixels.
        nodata: one value per channel, for pixels that are not valid.
    """
    pixels, valid, placed = source.pixels, source.valid, positions.placed(rows, kernel)
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
            part = MapRows(positions, kernel, rows, window.top, window.left)
            bounded(part, values, valid, result, found & (weights != 1)[:, :, 0])
            result[~found] = nodata
    if placed is not None:
        found = placed if found is None else found & placed
        result[~placed] = nodata
    return MapImage(result, found, nodata)


def resampled(
    positions: StraightPositions,
    kernel: str,
    corner: tuple[int, int],
    pixels: Pixels,
    nodata: tuple[float, ...],
) -> Pixels:
    """Return the pixels at positions; values that are not finite count as nodata.

    Args:
        corner: source row and column of the first one of ``pixels``.
        pixels: all that the positions need, shape (rows, columns, channels).
        nodata: one value per channel.
    """
    if pixels.dtype == np.float32 and not np.isfinite(pixels).all():
        pixels = np.where(np.isfinite(pixels), pixels, np.float32(nodata[0]))
    height, width = pixels.shape[:2]
    top, left = corner
    window = Window(top, top + height, left, left + width)
    source = mosaic_of(pixels, None, nodata)
    count = positions.down.positions.size
    return drawn(positions, kernel, slice(0, count), window, source, nodata).pixels


def resampled_with_gaps(
    positions: StraightPositions,
    kernel: str,
    corner: tuple[int, int],
    values: npt.NDArray[np.float32],
    valid: Mask | None,
) -> tuple[npt.NDArray[np.float32], Mask | None]:
    """Return the values at positions, of those with data only, and which have data themselves.

    Args:
        corner: source row and column of the first one of ``values``.
        values: all that the positions need, shape (rows, columns, channels).
        valid: shape (rows, columns), where there is data; None for everywhere.

    Returns:
        values, shape (rows, columns, channels), 0 where less than half of the weight is data, and
        where that is not so; None for nowhere.
    """
    top, left = corner
    window = Window(top, top + values.shape[0], left, left + values.shape[1])
    rows = slice(0, positions.down.positions.size)
    zeros = (0.0,) * values.shape[2]
    found = drawn(positions, kernel, rows, window, Mosaic(values, valid), zeros)
    return found.pixels.astype(np.float32, copy=False), found.valid


class MapRows(NamedTuple):
    """Some rows of a map.

    Attributes:
        positions: of all pixels of the map.
        kernel: name.
        rows: of the map.
        top, left: source row and column of the first pixel that the rows are drawn from.
    """

    positions: Positions
    kernel: str
    rows: slice
    top: int
    left: int


def bounded(
    part: MapRows,
    source: npt.NDArray[np.float32],
    valid: Mask,
    result: npt.NDArray[np.float32],
    where: Mask,
) -> None:
    """Keep pixels next to gaps in the range of their valid source pixels, in place.

    A kernel with negative weights that misses some pixels may overshoot without bound.

    Args:
        part: the rows of ``result``.
        source: float32, shape (rows, columns, channels).
        valid: shape (rows, columns), the source pixels that count.
        result: float32, shape (rows, columns, channels), of the map.
        where: shape (rows, columns), the pixels of the map that miss some source pixels.
    """
    positions, kernel, rows, top, left = part
    if kernel in (NEAREST, MEAN, "linear") or not where.any():
        return
    boxes = positions.boxes(kernel, rows, where) - np.array([top, top, left, left])
    values = np.ascontiguousarray(result[where])
    by_rows = isinstance(positions, StraightPositions)
    native.bound(source, valid, boxes, values, by_rows=by_rows)
    result[where] = values
