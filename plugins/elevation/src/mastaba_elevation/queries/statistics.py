"""Statistics of the heights inside an area (elevation.md 1.6)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mastaba.api.catalogue import CRS, transform_points
from mastaba.api.web import check_wanted
from mastaba_elevation.queries.footprints import Footprint
from mastaba_elevation.queries.ground import Floats, areas_of_rows
from mastaba_elevation.queries.overlap import overlap
from mastaba_elevation.queries.taps import is_height

SamplePoints = Callable[[Floats, Floats, CRS], Floats]
"""Returns heights of points, NaN without one."""

PERCENTILES: Final = (5.0, 25.0, 50.0, 75.0, 95.0)

_SLIVER: Final = 1e-7
"""Part of the largest covered part of a pixel that is a rounding error."""
_AT_A_TIME: Final = 1 << 14
"""Pixels whose place is computed at a time."""
_STRIP: Final = 4_000_000
"""Pixels read at a time."""


@dataclass(frozen=True, slots=True)
class StatisticsOptions:
    """What is computed in addition to the moments.

    Attributes:
        percentiles: from 0 to 100.
        bins: number of bins of the histogram, or its edges; none without a histogram.
        plane: height above and below which volumes are computed.
    """

    percentiles: Sequence[float] = PERCENTILES
    bins: int | Sequence[float] = 0
    plane: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """The pixels with a weight, shape (n,).

    Attributes:
        heights: single precision, as stored; NaN without a value.
        areas: on the ground, m², only the part inside.
        rows, columns: in the window of the footprint.
    """

    heights: npt.NDArray[np.float32]
    areas: Floats
    rows: npt.NDArray[np.int32]
    columns: npt.NDArray[np.int32]


def cells_of(
    footprint: Footprint,
    valid_range: tuple[float, float],
    others: SamplePoints | None,
    most: int,
) -> Cells | None:
    """Read the pixels of a footprint.

    Args:
        valid_range: values outside are not heights.
        others: samples the layers after that of the footprint, for its holes.
        most: number of holes that may be sampled.

    Returns:
        None if there are more holes.

    Raises:
        TooMuchError: the polygon is too complicated.
        SlabFormatError, StorageError: the data cannot be read.
    """
    top, bottom, left, right = footprint.window
    level = footprint.level
    parts = overlap(footprint.edges, top, bottom, left, right)
    whole = np.flatnonzero(parts > _SLIVER * parts.max())
    rows, columns = (whole // (right - left)).astype(np.int32), whole.astype(np.int32)
    columns %= right - left
    del whole
    if footprint.is_alone and level.turn:
        inside = level.has_columns(left + columns)
        rows, columns = rows[inside], columns[inside]
    heights = np.full(len(rows), np.nan, np.float32)
    height = max(1, _STRIP // (right - left))
    for start in range(0, bottom - top, height):
        part = (rows >= start) & (rows < start + height)
        if not part.any():
            continue
        check_wanted()
        first, last = int(rows[part].min()), int(rows[part].max()) + 1
        values = level.values(top + first, top + last, left, right)
        found = values[rows[part] - first, columns[part]]
        heights[part] = np.where(is_height(found, *valid_range, level.nodata), found, np.nan)
    areas = parts[rows, columns].astype(np.float64)
    crs = footprint.layer.crs
    x, y = level.places(np.array([float(left)]), np.arange(top, bottom + 1, dtype=np.float64))
    areas *= areas_of_rows(crs, float(x[0]), y, level.cell)[rows]
    holes = np.flatnonzero(np.isnan(heights)) if others is not None else rows[:0]
    if len(holes) > most:
        return None
    for start in range(0, len(holes), _AT_A_TIME):
        check_wanted()
        some = holes[start : start + _AT_A_TIME]
        px, py = _centres(footprint, rows[some], columns[some])
        if others is not None:
            heights[some] = others(px, py, crs)
    return Cells(heights, areas, rows, columns)


def statistics(
    footprint: Footprint, cells: Cells, crs: CRS, wanted: StatisticsOptions
) -> dict[str, Any]:
    """Return the statistics of an area.

    Args:
        crs: of positions in the result.
    """
    has = ~np.isnan(cells.heights)
    heights, areas = cells.heights[has], cells.areas[has]
    whole = float(cells.areas.sum())
    result: dict[str, Any] = {
        "layer": footprint.layer.id,
        "level": footprint.level.id,
        "resolution": footprint.cell,
        "count": len(cells.heights),
        "valid": float(areas.sum()) / whole if whole else 0.0,
        "area": whole,
    }
    if not len(heights):
        return result
    total = float(areas.sum())
    mean = float(np.dot(heights, areas)) / total
    squares = heights.astype(np.float64)
    squares -= mean
    squares *= squares
    variance = float(np.dot(squares, areas)) / total
    del squares
    result |= {
        "min": _extreme(footprint, cells, int(np.nanargmin(cells.heights)), crs),
        "max": _extreme(footprint, cells, int(np.nanargmax(cells.heights)), crs),
        "mean": mean,
        "std": float(np.sqrt(variance)),
        "percentiles": {
            f"{share:g}": value
            for share, value in zip(
                wanted.percentiles,
                weighted_percentiles(heights, areas, wanted.percentiles),
                strict=True,
            )
        },
    }
    if wanted.bins:
        bins = wanted.bins if isinstance(wanted.bins, int) else np.asarray(wanted.bins)
        shares, edges = np.histogram(heights, bins, weights=areas)
        result["histogram"] = {"edges": edges.tolist(), "area": shares.tolist()}
    if wanted.plane is not None:
        off = (heights.astype(np.float64) - wanted.plane) * areas
        above, below = float(off[off > 0].sum()), float(-off[off < 0].sum())
        result["volume"] = {"plane": wanted.plane, "above": above, "below": below}
    return result


def weighted_percentiles(
    values: npt.NDArray[np.floating[Any]], weights: Floats, shares: Sequence[float]
) -> list[float]:
    """Return percentiles, linear between order statistics.

    With equal weights they are those of `numpy.percentile`.

    Args:
        shares: from 0 to 100.
    """
    order: npt.NDArray[np.intp] = np.argsort(values, kind="stable")
    ordered, weight = values[order], weights[order]
    del order
    middles = np.cumsum(weight)
    # In place: areas have millions of pixels.
    weight *= 0.5
    middles -= weight
    del weight
    span = middles[-1] - middles[0]
    places = middles[0] + np.asarray(shares, np.float64) / 100.0 * span
    return [float(value) for value in np.interp(places, middles, ordered)]


def _centres(
    footprint: Footprint, rows: npt.NDArray[np.int32], columns: npt.NDArray[np.int32]
) -> tuple[Floats, Floats]:
    """Return the CRS coordinates of the centres of pixels."""
    top, _, left, _ = footprint.window
    x = np.asarray(columns + (left + 0.5), np.float64)
    return footprint.level.places(x, np.asarray(rows + (top + 0.5), np.float64))


def _extreme(footprint: Footprint, cells: Cells, index: int, crs: CRS) -> dict[str, float]:
    here = slice(index, index + 1)
    x, y = _centres(footprint, cells.rows[here], cells.columns[here])
    if crs != footprint.layer.crs:
        x, y = transform_points(footprint.layer.crs, crs, x, y)
    return {"value": float(cells.heights[index]), "x": float(x[0]), "y": float(y[0])}
