"""Boxes of the ground that may cross the antimeridian."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from mastaba.model.bbox import BoundingBox
from mastaba.model.crs import CRS, WGS84, bbox_in_degrees, poles_in, transform_points
from mastaba_render.extent import is_point, transformed_box, turn_of

TURN: Final = 360.0
"""Degrees around the Earth."""


@dataclass(frozen=True, slots=True)
class GroundBox:
    """A box of the ground.

    Attributes:
        box: x before y. Across the antimeridian, its east is beyond ``seam``.
        seam: x of the antimeridian inside the box, or None.
        turn: width of the world in CRS units, used with a seam.
    """

    box: BoundingBox
    seam: float | None = None
    turn: float = 0.0

    @property
    def written(self) -> BoundingBox:
        """The box for clients; across the antimeridian, west is larger than east."""
        if self.seam is None:
            return self.box
        return replace(self.box, xmax=self.box.xmax - self.turn)

    def parts(self, columns: int) -> list[tuple[BoundingBox, int]]:
        """Return the boxes to draw side by side, each with its number of columns."""
        box = self.box
        if self.seam is None:
            return [(box, columns)]
        cell = (box.xmax - box.xmin) / columns
        west = min(max(round((self.seam - box.xmin) / cell), 0), columns)
        middle = box.xmin + west * cell
        left = replace(box, xmax=middle)
        right = replace(box, xmin=middle - self.turn, xmax=box.xmax - self.turn)
        return [(part, count) for part, count in ((left, west), (right, columns - west)) if count]


def across_antimeridian(box: BoundingBox, source: CRS, target: CRS) -> GroundBox | None:
    """Return what a box across the antimeridian covers in a CRS.

    It has a seam if the east and west edges of the CRS meet at the antimeridian, as in degrees and
    in Mercator. Otherwise it is the box around both sides.

    Args:
        box: in degrees; its east is beyond 180.
        source: CRS of the box.
        target: the CRS; the source itself if both are treated as the same.

    Returns:
        None if the box cannot be transformed.
    """
    cut = box.intersection(BoundingBox(-TURN, -90.0, 2 * TURN, 90.0)) or box
    if source is target or target.is_geographic:
        return GroundBox(cut, 180.0, TURN)
    western = transformed_box(replace(cut, xmax=180.0), source, target)
    eastern = transformed_box(replace(cut, xmin=-180.0, xmax=cut.xmax - TURN), source, target)
    if western is None or eastern is None:
        return None
    equator = transform_points(WGS84, target, np.array([-180.0, 180.0]), np.zeros(2))[0]
    turn = float(np.ptp(equator))
    union = western.union(eastern)
    if eastern.xmax < western.xmin and math.isclose(turn, union.xmax - union.xmin):
        joined = replace(union, xmin=western.xmin, xmax=eastern.xmax + turn)
        return GroundBox(joined, western.xmax, turn)
    return GroundBox(union)


def box_on_ground(box: BoundingBox, source: CRS, target: CRS) -> GroundBox | None:
    """Return what a box covers in another CRS.

    If it is in a projected CRS, it may contain a pole, or a part of the antimeridian; see
    `across_antimeridian`.

    Returns:
        None if the box cannot be transformed.
    """
    if source == target:
        return GroundBox(box)
    found = transformed_box(box, source, target)
    if found is None:
        return None
    poles = poles_in(box, source)
    is_belt = not source.is_geographic and found.xmax - found.xmin > turn_of(target) / 2
    # PROJ gives a pole on the border the central meridian, perhaps far from the box.
    is_drawn_out = any(not is_point(latitude, target.code) for latitude in poles)
    if any(poles.values()) or not (is_belt or is_drawn_out):
        return GroundBox(found)
    degrees = bbox_in_degrees(box, source)
    if degrees is None:
        return GroundBox(found)
    if degrees.xmax > TURN / 2:
        return across_antimeridian(degrees, WGS84, target) or GroundBox(found)
    if is_drawn_out or TURN / 2 in (-degrees.xmin, degrees.xmax):
        # A rounding error beyond the antimeridian, the longitude is one on the other side.
        found = transformed_box(degrees, WGS84, target) or found
    return GroundBox(found)
