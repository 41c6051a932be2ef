"""Points along a line (elevation.md 1.5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from mastaba.api.catalogue import CRS, WGS84, transform_points
from mastaba_elevation.queries.ground import (
    TURN,
    Floats,
    destinations,
    geodesics,
    is_geodesic,
    steps,
    to_degrees,
)

EVEN: Final = "even"
FILL: Final = "fill"
VERTICES: Final = "vertices"
AUTO: Final = "auto"
MODES: Final = (EVEN, FILL, VERTICES, AUTO)


@dataclass(frozen=True, slots=True)
class Measure:
    """How a line runs between its vertices, and how its length is measured.

    Attributes:
        geodesic_path: along geodesics of WGS 84 instead of straight in the CRS.
        geodesic_distance: metres on the ellipsoid instead of CRS units in the plane.
    """

    geodesic_path: bool = False
    geodesic_distance: bool = True

    @classmethod
    def of(cls, crs: CRS, path: str = "", distance: str = "") -> Measure:
        """Return the measure for the parameters ``path`` and ``distance``; empty for defaults."""
        return cls(path == "geodesic", distance == "geodesic" if distance else is_geodesic(crs))


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """A line with at least one vertex.

    Attributes:
        x, y: vertices, shape (m,), CRS units, x before y. Longitudes may go beyond ±180.
        lengths: of its segments, shape (m - 1,).
    """

    x: Floats
    y: Floats
    crs: CRS
    measure: Measure
    lengths: Floats

    @classmethod
    def of(cls, x: Floats, y: Floats, crs: CRS, measure: Measure) -> Line:
        """Return the line through vertices. A step of more than 180° goes the short way."""
        if crs.is_geographic and len(x) > 1:
            x = np.unwrap(x, period=TURN)
        geodesic = measure.geodesic_distance or measure.geodesic_path
        return cls(x, y, crs, measure, steps(crs, x, y, geodesic=geodesic))

    @property
    def length(self) -> float:
        return float(self.lengths.sum())

    def points(self, mode: str, count: int) -> tuple[Floats, Floats]:
        """Return points along the line in order, both ends included and exact.

        Args:
            mode: ``even``: ``count`` points at equal distances, vertices lost; ``fill``: all
                vertices, and further points in proportion to the lengths of the segments;
                ``vertices``. With fewer points than vertices, ``fill`` is ``even``.
            count: at least 2 unless the mode is ``vertices``.
        """
        if mode == VERTICES or len(self.x) == 1:
            return self.x, self.y
        if mode == FILL and count >= len(self.x):
            return self._filled(count)
        ends = np.concatenate([[0.0], np.cumsum(self.lengths)])
        targets = np.linspace(0.0, ends[-1], count)
        segments = np.clip(np.searchsorted(ends, targets, "right") - 1, 0, len(self.lengths) - 1)
        lengths = self.lengths[segments]
        parts = np.where(lengths > 0, (targets - ends[segments]) / np.where(lengths, lengths, 1), 0)
        x, y = self._between(segments, np.clip(parts, 0.0, 1.0))
        x[[0, -1]], y[[0, -1]] = self.x[[0, -1]], self.y[[0, -1]]
        return x, y

    def _filled(self, count: int) -> tuple[Floats, Floats]:
        extra = shared_out(self.lengths, count - len(self.x))
        return self.divided(extra + 1)

    def divided(self, intervals: npt.NDArray[np.int64]) -> tuple[Floats, Floats]:
        """Return all vertices, and points that divide each segment into equal intervals."""
        segments = np.repeat(np.arange(len(intervals)), intervals)
        starts = np.cumsum(intervals) - intervals
        parts = (np.arange(len(segments)) - starts[segments]) / intervals[segments]
        x, y = self._between(segments, parts)
        x[starts], y[starts] = self.x[:-1], self.y[:-1]
        return np.append(x, self.x[-1]), np.append(y, self.y[-1])

    def _between(self, segments: npt.NDArray[np.int64], parts: Floats) -> tuple[Floats, Floats]:
        """Return points in segments, at a fraction of each from its beginning."""
        x, y = self.x, self.y
        if not self.measure.geodesic_path:
            return (
                x[segments] + parts * (x[segments + 1] - x[segments]),
                y[segments] + parts * (y[segments + 1] - y[segments]),
            )
        longitude, latitude = to_degrees(self.crs, x, y)
        azimuth, length = geodesics(longitude, latitude)
        found = destinations(
            longitude[segments], latitude[segments], azimuth[segments], length[segments] * parts
        )
        return found if self.crs.is_geographic else transform_points(WGS84, self.crs, *found)

    def distances(self, x: Floats, y: Floats) -> Floats:
        """Return the distance of points along the line from the first one, shape (n,)."""
        lengths = steps(self.crs, x, y, geodesic=self.measure.geodesic_distance)
        return np.concatenate([[0.0], np.cumsum(lengths)])


def shared_out(shares: Floats, count: int) -> npt.NDArray[np.int64]:
    """Return whole numbers in proportion to shares that add up to a count (largest remainder)."""
    total = shares.sum()
    exact = shares / total * count if total > 0 else np.full(len(shares), count / len(shares))
    whole: npt.NDArray[np.int64] = np.floor(exact).astype(np.int64)
    missing = count - int(whole.sum())
    whole[np.argsort(whole - exact, kind="stable")[:missing]] += 1
    return whole
