"""Heights of points: levels, layers, and one planned read (elevation.md 1.1 to 1.4).

For each layer, in the order of the dataset:

    points without a height ──▶ CRS of the layer ──▶ finest level ──▶ taps ──▶ tiles
                                                          │                      │ one plan
                                        no tile there     ▼                      ▼
                                     ◀────────── next coarser level ◀────── heights, holes
    holes ──▶ next layer
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from mastaba.api.catalogue import transform_points
from mastaba_elevation.queries.ground import (
    Floats,
    is_within,
    metres_per_unit,
    on_earth,
    to_degrees,
)
from mastaba_elevation.queries.levels import Budget, HeightLayer

if TYPE_CHECKING:
    from mastaba.api.catalogue import CRS, Equivalences
    from mastaba_elevation.queries.datasets import Dataset

Indices = npt.NDArray[np.intp]

_LEVELS_UP: Final = 4
"""Levels that are tried for a point: the wanted one and three coarser ones."""


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Heights of n points.

    Attributes:
        heights: shape (n,), float64; NaN without a height.
        layers: shape (n,), number of the layer in the dataset; -1 without a height.
        levels: shape (n,), number of the level in the layer, finest first.
    """

    heights: Floats
    layers: npt.NDArray[np.int32]
    levels: npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class SamplingOptions:
    """How points are sampled.

    Attributes:
        method: ``nearest``, ``bilinear`` or ``cubic``.
        resolution: wanted size of a cell in metres; None for the finest level.
        strict: whether all pixels of a weight must be valid.
        affordable: whether a coarser level is taken if the wanted one needs too many tiles.
        levels: number of the wanted level for each layer, instead of ``resolution``.
    """

    method: str
    resolution: float | None = None
    strict: bool = False
    affordable: bool = False
    levels: tuple[int, ...] | None = None


def sample(
    dataset: Dataset,
    x: Floats,
    y: Floats,
    crs: CRS,
    options: SamplingOptions,
    budget: Budget,
    equivalences: Equivalences,
) -> Samples:
    """Return the heights of points.

    Args:
        x, y: shape (n,), float64, CRS units, x before y. Longitudes may be beyond ±180.
        budget: is reduced by what is read.
        equivalences: CRSs of the same coordinates, between which nothing is transformed.

    Raises:
        TooMuchError: the points need too many tiles. No tile has been read.
        SlabFormatError, StorageError: the data cannot be read.
    """
    count = len(x)
    heights = np.full(count, np.nan)
    layers, levels = np.full(count, -1, np.int32), np.zeros(count, np.int32)
    is_same = [equivalences.equal(crs.code, layer.crs.code) for layer in dataset.layers]
    x, y = on_earth(crs, x, y)
    todo: Indices = np.arange(count)
    degrees: tuple[Floats, Floats] | None = None
    for number, layer in enumerate(dataset.layers):
        here, px, py = todo, x[todo], y[todo]
        if not is_same[number]:
            if degrees is None:
                degrees = to_degrees(crs, x, y)
            box = layer.layer.geographic_bbox
            inside = is_within(box, layer.margin, degrees[0][todo], degrees[1][todo])
            if not inside.any():
                continue
            here, px, py = todo[inside], px[inside], py[inside]
            px, py = transform_points(crs, layer.crs, px, py)
        if options.levels is not None:
            first = options.levels[number]
        else:
            first = _first_level(layer, px, py, options.resolution)
        found, used = _in_layer(layer, px, py, first, options, budget, dataset.valid_range)
        has = ~np.isnan(found)
        taken = here[has]
        heights[taken], layers[taken], levels[taken] = found[has], number, used[has]
        if len(taken) == len(todo):
            break
        todo = todo[np.isnan(heights[todo])]
    return Samples(heights, layers, levels)


def resolutions(dataset: Dataset, samples: Samples, crs: CRS, x: Floats, y: Floats) -> Floats:
    """Return the size on the ground of the cell that each height comes from, metres.

    Returns:
        shape (n,); NaN without a height.
    """
    result = np.full(len(x), np.nan)
    _, latitude = to_degrees(crs, x, y)
    for number, layer in enumerate(dataset.layers):
        here = samples.layers == number
        if here.any():
            unit = metres_per_unit(layer.crs, latitude[here])
            result[here] = layer.cells[samples.levels[here]] * unit
    return result


def _first_level(layer: HeightLayer, x: Floats, y: Floats, resolution: float | None) -> int:
    """Return the number of the level for a resolution at the middle latitude of points."""
    if resolution is None:
        return 0
    _, latitude = to_degrees(layer.crs, x, y)
    known = latitude[np.isfinite(latitude)]
    unit = float(metres_per_unit(layer.crs, float(known.mean()) if len(known) else 0.0))
    return level_for(layer, unit, resolution)


def level_for(layer: HeightLayer, unit: float, resolution: float) -> int:
    """Return the number of the level for a resolution: the coarsest that is fine enough.

    Args:
        unit: of the CRS of the layer, metres.
        resolution: wanted size of a cell, metres.
    """
    fitting = (n for n, level in enumerate(layer.levels) if level.is_fine_enough(resolution / unit))
    return max(fitting, default=0)


def levels_for(layer: HeightLayer, latitudes: Floats, resolutions: Floats) -> Indices:
    """Return the number of the level for the resolution at each point, as `level_for` does.

    Args:
        latitudes: degrees, shape (n,).
        resolutions: metres, shape (n,).
    """
    found = np.zeros(len(resolutions), np.intp)
    wanted = np.asarray(resolutions / metres_per_unit(layer.crs, latitudes))
    for number, level in enumerate(layer.levels):
        found[level.are_fine_enough(wanted)] = number
    return found


def _in_layer(
    layer: HeightLayer,
    x: Floats,
    y: Floats,
    first: int,
    options: SamplingOptions,
    budget: Budget,
    valid_range: tuple[float, float],
) -> tuple[Floats, npt.NDArray[np.int32]]:
    """Return the heights of points in one layer, NaN where it has none, and their levels."""
    heights = np.full(len(x), np.nan)
    used = np.zeros(len(x), np.int32)
    todo: Indices = np.arange(len(x))
    if options.affordable:
        counts = (level.count(x, y, options.method) for level in layer.levels[first:])
        sizes = (level.tile_size for level in layer.levels[first:])
        fits = (budget.fits(count, size) for count, size in zip(counts, sizes, strict=True))
        last = len(layer.levels) - 1
        first = next((n for n, is_affordable in enumerate(fits, first) if is_affordable), last)
    for number, level in list(enumerate(layer.levels))[first : first + _LEVELS_UP]:
        heights[todo], is_done = level.heights(
            x[todo], y[todo], options.method, budget, valid_range, strict=options.strict
        )
        used[todo] = number
        if is_done.all():
            break
        todo = todo[~is_done]
    return heights, used
