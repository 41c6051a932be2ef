"""Heights along the lines of a trajectory query (elevation.md 2.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from mastaba.errors import InvalidParameterError
from mastaba_elevation.facades.native import simplification
from mastaba_elevation.queries.ground import Floats
from mastaba_elevation.queries.lines import FILL, VERTICES, Line, Measure, shared_out
from mastaba_elevation.queries.profile import MINMAX, Profile, simplified, with_peaks
from mastaba_elevation.queries.sampling import Samples, SamplingOptions

if TYPE_CHECKING:
    from mastaba_elevation.edr.answers import Found
    from mastaba_elevation.queries.queries import Queries
    from mastaba_elevation.web.geometry import Geometry
    from mastaba_elevation.web.parameters import Parameters

_POINTS: Final = 200
_LAST_INSTANT: Final = 253_402_300_799
"""Unix seconds at the end of the year 9999."""


def heights_along(
    queries: Queries, found: Found, geometry: Geometry, parameters: Parameters, method: str
) -> tuple[Floats, Floats, Samples, Floats, Floats | None]:
    """Return the points along lines: x, y, heights, distances, and times from ascending M values.

    Raises:
        InvalidParameterError: an M value is not a time, or a parameter is invalid.
        TooMuchError: there are too many points.
        SlabFormatError, StorageError: the data cannot be read.
    """
    queries.check_count(len(geometry.x))
    path = parameters.choice("path", ("straight", "geodesic"), "")
    measure = Measure.of(found.crs, path)
    lines = [Line.of(part[:, 0], part[:, 1], found.crs, measure) for part in geometry.parts]
    limit = queries.limits.points
    vertices = np.array([len(line.x) for line in lines])
    count = parameters.integer("points", min(_POINTS, limit), 0, limit)
    simplify = simplification(parameters)
    # With more points, peaks are found that fewer would miss.
    wanted = limit if simplify == MINMAX else count
    extra = max(0, wanted - int(vertices.sum()))
    more = shared_out(np.array([line.length for line in lines]), extra)
    sampled = [
        line.points(FILL if extra else VERTICES, int(total))
        for line, total in zip(lines, vertices + more, strict=True)
    ]
    along = [line.distances(*points) for line, points in zip(lines, sampled, strict=True)]
    starts = np.concatenate([[0.0], np.cumsum([part[-1] for part in along])])
    distances = np.concatenate([part + start for part, start in zip(along, starts, strict=False)])
    x = np.concatenate([points[0] for points in sampled])
    y = np.concatenate([points[1] for points in sampled])
    samples = queries.points(
        found.dataset, x, y, found.crs, SamplingOptions(method, affordable=True)
    )
    profile = Profile(x, y, distances, samples, _times(geometry.measures, lines, along))
    if simplify == MINMAX:
        profile = with_peaks(profile, max(count, 2))
    elif simplify:
        profile = simplified(profile, float(simplify))
    return profile.x, profile.y, profile.samples, profile.distances, profile.times


def _times(measures: Floats | None, lines: list[Line], along: list[Floats]) -> Floats | None:
    """Return the time of each point; None without ascending M values.

    A line may begin when the one before it ends, or later.

    Args:
        measures: of the vertices of all lines, in Unix seconds.
        along: distances of the points of each line from its beginning.
    """
    if measures is None:
        return None
    if np.abs(measures).max() > _LAST_INSTANT:
        raise InvalidParameterError("an M value is not a time in Unix seconds", "coords")
    if (np.diff(measures) < 0).any():
        return None
    ends = np.cumsum([len(line.x) for line in lines])[:-1]
    found = []
    for line, times, distances in zip(lines, np.split(measures, ends), along, strict=True):
        known = line.distances(line.x, line.y)
        if not ((np.diff(times) > 0).all() and (np.diff(known) > 0).all()):
            return None
        found.append(np.interp(distances, known, times))
    return np.concatenate(found)
