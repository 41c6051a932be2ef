"""Heights at the nodes of a lattice whose axes are those of its CRS (elevation.md 5.3, 6.1).

A node has the same height, bit for bit, in every lattice that contains it, so tiles meet without
gaps. Where the axes of the stored pixels are parallel to those of the lattice, a whole window is
interpolated at once. Every other node is sampled as a point, with the same result.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from mastaba.api.catalogue import transform_points
from mastaba_elevation.queries.ground import Floats, is_within, metres_per_unit, on_earth
from mastaba_elevation.queries.levels import GROUP, Budget
from mastaba_elevation.queries.sampling import SamplingOptions, level_for, sample
from mastaba_elevation.queries.taps import (
    Booleans,
    Integers,
    corner_weights,
    is_height,
    split,
    weighted_mean,
)

if TYPE_CHECKING:
    from mastaba.api.catalogue import CRS, Equivalences
    from mastaba_elevation.queries.datasets import Dataset
    from mastaba_elevation.queries.levels import HeightLayer, HeightLevel

_BILINEAR: Final = "bilinear"
_PLANES: Final = ("EPSG:4326", "EPSG:3857")
"""CRSs between which x depends on x only, and y on y only."""
_PIXELS_PER_NODE: Final = 32
"""Pixels of a window, for each node of the lattice. Nodes that are further apart are points."""
_PIXEL: Final = 4
_PER_NODE: Final = 300
"""Bytes of the taps and values of a node that is sampled as a point, and of pixels around it."""
_FAR: Final = 1e9
"""Pixels; positions further away are on no level."""


@dataclass(frozen=True, slots=True, eq=False)
class Lattice:
    """Heights of nodes.

    Attributes:
        heights: shape (rows, columns), metres; NaN without one.
        layers: number of the layer in the dataset, same shape; -1 without a height.
    """

    heights: Floats
    layers: npt.NDArray[np.int32]


def levels_for(dataset: Dataset, step: float, crs: CRS) -> tuple[int, ...]:
    """Return for each layer the number of the level with which sampling begins.

    It depends on nothing but the dataset and the step, so adjacent tiles use the same one.

    Args:
        step: distance of nodes, units of ``crs``.
    """
    found = []
    for layer in dataset.layers:
        box = layer.layer.geographic_bbox
        latitude = (box.ymin + box.ymax) / 2
        resolution = step * float(metres_per_unit(crs, latitude))
        found.append(level_for(layer, float(metres_per_unit(layer.crs, latitude)), resolution))
    return tuple(found)


def memory(dataset: Dataset, levels: tuple[int, ...], count: int, step: float, crs: CRS) -> int:
    """Return about how many bytes a square lattice needs at a time.

    Args:
        count: nodes on each side.
        step: distance of nodes, units of ``crs``.
    """
    most = 0
    for layer, number in zip(dataset.layers, levels, strict=True):
        level = layer.levels[number]
        tile = math.sqrt(level.tile_size / _PIXEL) * level.cell
        tile *= float(metres_per_unit(layer.crs, 0.0)) / float(metres_per_unit(crs, 0.0))
        tiles = min((count * step / tile + 2) ** 2, GROUP)
        most = max(most, math.ceil(tiles * level.tile_size))
    return most + count * count * _PER_NODE


def largest_tile(dataset: Dataset, levels: tuple[int, ...]) -> int:
    """Return the bytes of a decoded tile; the largest of the levels."""
    return max(
        layer.levels[level].tile_size for layer, level in zip(dataset.layers, levels, strict=True)
    )


def lattice(
    dataset: Dataset,
    x: Floats,
    y: Floats,
    crs: CRS,
    levels: tuple[int, ...],
    budget: Budget,
    equivalences: Equivalences,
) -> Lattice:
    """Return the heights of nodes, bilinear.

    Args:
        x: of the columns, shape (n,), units of ``crs``.
        y: of the rows, shape (m,).
        levels: from `levels_for`.
        budget: is reduced by what is read.

    Raises:
        TooMuchError: the nodes need too many tiles.
        SlabFormatError, StorageError: the data cannot be read.
    """
    heights = np.full((len(y), len(x)), np.nan)
    layers = np.full(heights.shape, -1, np.int32)
    columns, rows = on_earth(crs, x, np.zeros(len(x)))[0], on_earth(crs, np.zeros(len(y)), y)[1]
    first = dataset.layers[0]
    axes = _axes_in(first, columns, rows, crs, equivalences)
    if axes is not None:
        level = first.levels[levels[0]]
        found = _window(level, *axes, budget, dataset.valid_range)
        if found is not None:
            heights = found
            layers[~np.isnan(heights)] = 0
    missing = np.isnan(heights)
    if not missing.any():
        return Lattice(heights, layers)
    row, column = np.nonzero(missing)
    options = SamplingOptions(_BILINEAR, levels=levels)
    points = sample(dataset, columns[column], rows[row], crs, options, budget, equivalences)
    heights[missing], layers[missing] = points.heights, points.layers
    return Lattice(heights, layers)


def _axes_in(
    layer: HeightLayer, x: Floats, y: Floats, crs: CRS, equivalences: Equivalences
) -> tuple[Floats, Floats] | None:
    """Return the axes in the CRS of a layer; NaN outside its box; None if they are not axes."""
    if equivalences.equal(crs.code, layer.crs.code):
        return x, y
    for code in (crs.code, layer.crs.code):
        if not any(equivalences.equal(code, plane) for plane in _PLANES):
            return None
    if not crs.is_geographic:
        return None
    box = layer.layer.geographic_bbox
    middle_x, middle_y = (box.xmin + box.xmax) / 2, (box.ymin + box.ymax) / 2
    is_column = is_within(box, layer.margin, x, np.full(len(x), middle_y))
    is_row = is_within(box, layer.margin, np.full(len(y), middle_x), y)
    across, _ = transform_points(crs, layer.crs, x, np.zeros(len(x)))
    _, up = transform_points(crs, layer.crs, np.zeros(len(y)), y)
    return np.where(is_column, across, np.nan), np.where(is_row, up, np.nan)


@dataclass(frozen=True, slots=True, eq=False)
class _Axis:
    """The pixels around positions on an axis.

    Attributes:
        start, stop: range of the pixels.
        before: pixel before each position, counted from ``start``.
        fraction: of the next pixel; it is not looked at where this is 0.
        known: which positions are on the level.
    """

    start: int
    stop: int
    before: Integers
    fraction: Floats
    known: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, positions: Floats, turn: int) -> _Axis | None:
        """Return the pixels around positions, or None if none is on the level.

        Args:
            turn: pixels after which positions repeat; 0 if they do not.
        """
        known = np.abs(positions) < _FAR
        if not known.any():
            return None
        somewhere = positions[known][0]
        before, fraction = split(np.where(known, positions, somewhere))
        if turn:
            middle = before[known][len(before[known]) // 2]
            before = (before - middle + turn // 2) % turn + (middle - turn // 2)
        start, last = int(before.min()), int(before.max())
        return cls(start, last + 2, before - start, fraction, known)


def _window(
    level: HeightLevel,
    x: Floats,
    y: Floats,
    budget: Budget,
    valid_range: tuple[float, float],
) -> Floats | None:
    """Return the heights of nodes; NaN for those that the level has none for.

    Args:
        x, y: in the CRS of the level; NaN for nodes that are not on it.

    Returns:
        None if the nodes are too far apart.
    """
    across, down = level.positions(x, y)
    columns, rows = _Axis.of(across, level.turn), _Axis.of(down, 0)
    if columns is None or rows is None:
        return None
    box = rows.start, rows.stop, columns.start, columns.stop
    size = (rows.stop - rows.start) * (columns.stop - columns.start)
    tiles, _ = level.window(*box)
    if not tiles or size > _PIXELS_PER_NODE * len(x) * len(y):
        return None
    if not budget.fits(tiles, level.tile_size):
        return None
    budget.take(tiles, level.tile_size)
    pixels = level.values(*box)
    valid = is_height(pixels, *valid_range, level.nodata)
    values = pixels.astype(np.float64)
    heights = weighted_mean(partial(_sums, columns, rows), values, valid)
    known = np.logical_and.outer(rows.known, columns.known)
    if not known.all():
        heights[~known] = np.nan
    return heights


def _sums(columns: _Axis, rows: _Axis, pixels: Floats | Booleans) -> Floats:
    """Return bilinear sums of pixels, with the products and sums of a point, in their order."""
    top, below = pixels[_slice(rows.before)], pixels[_slice(rows.before + 1)]
    i, j = _slice(columns.before), _slice(columns.before + 1)
    weights = corner_weights(columns.fraction, rows.fraction[:, np.newaxis])
    corners = top[:, i], top[:, j], below[:, i], below[:, j]
    result: Floats = weights[0] * corners[0]
    for weight, corner in zip(weights[1:], corners[1:], strict=True):
        result += weight * corner
    return result


def _slice(places: Integers) -> Integers | slice:
    """Return places as a slice if each one follows the one before: slices are not copied."""
    if (np.diff(places) == 1).all():
        return slice(int(places[0]), int(places[-1]) + 1)
    return places
