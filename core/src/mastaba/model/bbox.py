"""Axis-aligned boxes, always in x (easting or longitude), y (northing or latitude) order."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BoundingBox:
    """A box in the units of a CRS. Only protocols deal with the axis order of the CRS.

    Attributes:
        xmin: least easting or longitude.
        ymin: least northing or latitude.
        xmax: greatest easting or longitude.
        ymax: greatest northing or latitude.
    """

    xmin: float
    ymin: float
    xmax: float
    ymax: float

    @property
    def is_finite(self) -> bool:
        """Whether no coordinate is infinite or NaN."""
        return all(map(math.isfinite, (self.xmin, self.ymin, self.xmax, self.ymax)))

    def corners(self, *, northing_first: bool) -> tuple[float, float, float, float]:
        """Return the lower and the upper corner in the axis order of a CRS."""
        if northing_first:
            return self.ymin, self.xmin, self.ymax, self.xmax
        return self.xmin, self.ymin, self.xmax, self.ymax

    def contains(self, other: BoundingBox) -> bool:
        """Return whether another box lies inside; edges may coincide."""
        return (
            self.xmin <= other.xmin
            and self.ymin <= other.ymin
            and self.xmax >= other.xmax
            and self.ymax >= other.ymax
        )

    def intersection(self, other: BoundingBox) -> BoundingBox | None:
        """Return the common part, or None if the boxes have no area in common."""
        xmin, ymin = max(self.xmin, other.xmin), max(self.ymin, other.ymin)
        xmax, ymax = min(self.xmax, other.xmax), min(self.ymax, other.ymax)
        if xmin >= xmax or ymin >= ymax:
            return None
        return BoundingBox(xmin, ymin, xmax, ymax)

    def union(self, other: BoundingBox) -> BoundingBox:
        """Return the smallest box that contains both."""
        return BoundingBox(
            min(self.xmin, other.xmin),
            min(self.ymin, other.ymin),
            max(self.xmax, other.xmax),
            max(self.ymax, other.ymax),
        )


WORLD = BoundingBox(-180.0, -90.0, 180.0, 90.0)
"""The geographic box of the whole Earth, in degrees."""
