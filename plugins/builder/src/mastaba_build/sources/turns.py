"""Full turns around the earth: CRSs whose x repeats, and images whose columns do."""

from __future__ import annotations

from functools import lru_cache
from math import ceil, floor, pi

import numpy as np
import numpy.typing as npt
import pyproj

from mastaba.api.catalogue import BoundingBox

Floats = npt.NDArray[np.float64]

_EVEN = 1e-6
_SAMPLES = 24
_LATITUDES = (10.0, 40.0)
"""Two parallels, in 360ths of a full turn; on both, cylindrical projections have the same x."""
_CLOSED = 1 / 16
"""Largest part of a column by which a turn may differ from whole columns."""
_DUPLICATES = 2
"""Columns that an image around the earth may contain twice."""
_GAP = 4
"""A gap in a row of samples is that many times as wide as the usual one."""


@lru_cache(maxsize=256)
def period_of(wkt: str) -> float:
    """Return the units of x in a full turn; 0 if x does not repeat.

    It repeats in geographic CRSs and in cylindrical projections.
    """
    crs = pyproj.CRS.from_wkt(wkt)
    crs = crs.sub_crs_list[0] if crs.is_compound else crs
    if crs.is_bound and crs.source_crs is not None:
        crs = crs.source_crs
    if crs.is_geographic:
        return 2 * pi / crs.axis_info[0].unit_conversion_factor
    geographic = crs.geodetic_crs
    if not crs.is_projected or geographic is None or not geographic.is_geographic:
        return 0.0
    turn = 2 * pi / geographic.axis_info[0].unit_conversion_factor
    longitudes = np.arange(_SAMPLES) * (turn / _SAMPLES)
    try:
        change = pyproj.Transformer.from_crs(geographic, crs, always_xy=True)
        low, high = (
            np.asarray(change.transform(longitudes, np.full(_SAMPLES, one * turn / 360))[0])
            for one in _LATITUDES
        )
    except pyproj.exceptions.ProjError:
        return 0.0
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        return 0.0
    steps = np.diff(low)
    step = float(np.median(steps))
    period = abs(step) * _SAMPLES
    tolerance = _EVEN * period
    if not period or (abs(low - high) > tolerance).any():
        return 0.0
    uneven = in_nearest_turn(steps - step, period)
    return 0.0 if (abs(uneven) > tolerance).any() else period


def in_nearest_turn(difference: Floats, period: float) -> Floats:
    """Return differences of x without full turns.

    Args:
        period: units of x in a full turn; 0 if it does not repeat.
    """
    return difference - period * np.round(difference / period) if period else difference


def closed_turn(turn: float, width: int) -> int:
    """Return the columns in a full turn of an image that is closed around the earth, or 0.

    Args:
        turn: columns in a full turn, not always a whole number.
        width: columns of the image.
    """
    whole = round(turn)
    is_closed = whole <= width <= whole + _DUPLICATES and abs(turn - whole) < _CLOSED
    return whole if is_closed else 0


def continuous(columns: Floats, turn: float) -> Floats | None:
    """Return columns of a grid without jumps of a turn, NaN where they are unknown.

    Args:
        columns: shape (rows, columns), each in any turn.

    Returns:
        None if there are jumps in every turn: the grid goes around a pole, or around the earth.
    """
    finite = np.isfinite(columns)
    if finite.all():
        rows = np.unwrap(columns, axis=1, period=turn)
        first = rows[:, :1]
        result: Floats = rows + (np.unwrap(first, axis=0, period=turn) - first)
    elif finite.any():
        start, gap = _widest_gap(columns[finite], turn)
        result = columns - turn * np.floor((columns - start - gap / 2) / turn)
    else:
        return columns
    with np.errstate(invalid="ignore"):
        jumps = [(np.abs(np.diff(result, axis=axis)) > turn / 2).any() for axis in (0, 1)]
    return None if any(jumps) else result


def _widest_gap(places: Floats, turn: float) -> tuple[float, float]:
    """Return the widest part of a circle without places: the place before it, and its width."""
    sorted_places = np.sort(places % turn)
    gaps = np.diff(sorted_places, append=sorted_places[0] + turn)
    widest = int(np.argmax(gaps))
    return float(sorted_places[widest]), float(gaps[widest])


def boxes_in(
    x: Floats, y: Floats, period: float, extent: BoundingBox, samples: int
) -> tuple[BoundingBox, ...]:
    """Return the parts of an extent around points; none, one, or more across the end of a turn.

    Args:
        x, y: finite, at least one; x in any turn.
        period: units of x in a full turn; 0 if it does not repeat.
        samples: points on a side of the image; 1 if no other point can be further out.
    """
    left, right = float(x.min()), float(x.max())
    if period and samples > 1:
        place, gap = _widest_gap(x, period)
        usual = period / samples
        if right - left > period / 2 and gap > _GAP * usual and gap > period / _SAMPLES:
            left, right = place + gap, place + period
    margins = [0.0, 0.0]
    if samples > 1:
        # Points between the samples, and the pole of a projection, may lie further out.
        margins = [(right - left) / (samples - 1), float(np.ptp(y)) / (samples - 1)]
    bottom, top = float(y.min()) - margins[1], float(y.max()) + margins[1]
    left, right = left - margins[0], right + margins[0]
    turns = [0.0]
    if period:
        first, last = ceil((extent.xmin - right) / period), floor((extent.xmax - left) / period)
        turns = [number * period for number in range(first, last + 1)]
    found = []
    for turn in turns:
        cut = BoundingBox(left + turn, bottom, right + turn, top).intersection(extent)
        if cut is not None and cut.xmax > cut.xmin and cut.ymax > cut.ymin:
            found.append(cut)
    if len(found) < 2:
        return tuple(found)
    return tuple(
        one for one in found if not any(one != other and _contains(other, one) for other in found)
    )


def _contains(outer: BoundingBox, inner: BoundingBox) -> bool:
    return outer.intersection(inner) == inner
