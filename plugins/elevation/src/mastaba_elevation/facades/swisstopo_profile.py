"""Profiles of swisstopo: their points, and their forms as JSON and CSV (elevation.md 3.2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from mastaba_elevation.queries.ground import Floats
from mastaba_elevation.queries.lines import FILL, VERTICES, Line, Measure
from mastaba_elevation.queries.profile import finest_step
from mastaba_elevation.queries.queries import ProfileOptions, Queries
from mastaba_elevation.web.numbers import number

if TYPE_CHECKING:
    from mastaba.api.catalogue import CRS
    from mastaba_elevation.queries.datasets import Dataset
    from mastaba_elevation.web.geometry import Geometry
    from mastaba_elevation.web.parameters import Parameters

MOST: Final = 5000
"""Points of a profile."""

_DEFAULT_COUNT: Final = 200
_METRES: Final = 2.0
"""Smallest step of ``smart_filling``."""


@dataclass(frozen=True, slots=True)
class HeightProfile:
    """Points with a height, and whether their number is the requested one."""

    distances: Floats
    heights: list[float]
    x: Floats
    y: Floats
    is_complete: bool


def profile_of(
    queries: Queries,
    dataset: Dataset,
    parameters: Parameters,
    geometry: Geometry,
    crs: CRS,
    method: str,
) -> HeightProfile:
    """Return the profile that parameters ask for.

    Raises:
        InvalidParameterError: a parameter is invalid.
        TooMuchError, SlabFormatError, StorageError: as in `Queries.profile`.
    """
    name = "nb_points" if "nb_points" in parameters else "nbpoints"
    count = parameters.integer(name, _DEFAULT_COUNT, 2, MOST)
    line = Line.of(geometry.x, geometry.y, crs, Measure.of(crs, distance="planar"))
    x, y = _path(dataset, parameters, line, count)
    options = ProfileOptions(VERTICES, len(x), None, method)
    found = queries.profile(dataset, Line.of(x, y, crs, line.measure), options)
    heights = _smoothed(found.samples.heights, parameters.integer("offset", 0, 0, MOST))
    known = ~np.isnan(heights)
    shown = [number(height, 1) or 0.0 for height in heights[known].tolist()]
    complete = name not in parameters or int(known.sum()) == count
    return HeightProfile(found.distances[known], shown, found.x[known], found.y[known], complete)


def _path(
    dataset: Dataset, parameters: Parameters, line: Line, count: int
) -> tuple[Floats, Floats]:
    """Return the points of a profile."""
    if parameters.flag("only_requested_points") or len(line.x) == 1:
        return line.points(VERTICES, count)
    if parameters.flag("smart_filling"):
        step = max(_METRES, finest_step(dataset, line))
        most = np.maximum(1, np.floor(line.lengths / step)).astype(np.int64)
    else:
        most = np.full(len(line.lengths), MOST)
    if parameters.flag("distinct_points"):
        return line.points(FILL, count)
    if not line.length:
        return line.points(VERTICES, count)
    # The formula of the service: its number of points may differ from the requested one.
    shares = np.round((count - 1) * line.lengths / line.length)
    return line.divided(np.minimum(np.maximum(1, shares).astype(np.int64), most))


def _smoothed(heights: Floats, offset: int) -> Floats:
    """Return moving averages over ± offset points with weights 1 / (distance + 1)."""
    offset = min(offset, len(heights) - 1)
    if offset < 1:
        return heights
    weights = 1.0 / (np.abs(np.arange(-offset, offset + 1)) + 1.0)
    known = ~np.isnan(heights)
    total = np.convolve(np.where(known, heights, 0.0), weights)[offset:-offset]
    share = np.convolve(known.astype(float), weights)[offset:-offset]
    return np.where(known, total / np.where(share > 0, share, 1.0), np.nan)


def entries(profile: HeightProfile, names: Iterable[str]) -> list[Mapping[str, Any]]:
    """Return the points for JSON.

    Args:
        names: keys of the height.
    """
    return [
        {
            "alts": dict.fromkeys(names, height),
            "dist": distance,
            "easting": x,
            "northing": y,
        }
        for height, distance, x, y in _rows(profile)
    ]


def csv(profile: HeightProfile) -> str:
    """Return the points as CSV."""
    lines = ['"Distance";"Altitude";"Easting";"Northing"\r\n']
    lines += [
        f'"{distance}";"{height}";"{x}";"{y}"\r\n' for height, distance, x, y in _rows(profile)
    ]
    return "".join(lines)


def _rows(profile: HeightProfile) -> list[tuple[float, float, float, float]]:
    return list(
        zip(
            profile.heights,
            np.round(profile.distances, 1).tolist(),
            np.round(profile.x, 3).tolist(),
            np.round(profile.y, 3).tolist(),
            strict=True,
        )
    )
