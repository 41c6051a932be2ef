"""An area on the ground, in which data may be shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, reduce
from hashlib import blake2b
from typing import Any, Final

import numpy as np

from mastaba.model.bbox import WORLD, BoundingBox
from mastaba.model.crs import CRS, WGS84, geographic_bbox, transform_points
from mastaba_render.areas.parsing import Polygon, polygons_of, polygons_of_text

TURN: Final = 360.0
_MOST_EASTERN: Final = 540.0
"""Degrees: an area may go on across the antimeridian."""


class Cut(StrEnum):
    """What is shown of a tile that the edge of an area passes.

    Attributes:
        KEEP: all of it.
        MASK: its pixels whose middle is in the area; of vector tiles, nothing.
        DROP: nothing.
    """

    KEEP = "keep"
    MASK = "mask"
    DROP = "drop"


@dataclass(frozen=True, slots=True, eq=False)
class PolygonSet:
    """Polygons, of which an area is the union, or one of several that it is the intersection of.

    Attributes:
        polygons: they may overlap.
        crs: of their coordinates, x before y. Edges are straight in it.
    """

    polygons: tuple[Polygon, ...]
    crs: CRS

    def contains(self, x: float, y: float) -> bool:
        """Return whether a point in the CRS of the part is in one of the polygons."""
        around = (0.0, -TURN, TURN) if self.crs.is_geographic else (0.0,)
        return any(_is_odd(polygon, x + shift, y) for shift in around for polygon in self.polygons)


class Area:
    """Polygons, or the common part of several such areas. Immutable.

    Args:
        parts: what the area is the intersection of; at least one.

    Attributes:
        parts: as given.
        digest: 8 hexadecimal digits that change with the area.
    """

    def __init__(self, parts: Sequence[PolygonSet]) -> None:
        self.parts = tuple(parts)
        digest = blake2b(digest_size=4)
        for part in self.parts:
            digest.update(part.crs.code.encode())
            for polygon in part.polygons:
                digest.update(b"polygon")
                for ring in polygon:
                    digest.update(b"ring" + ring.tobytes())
        self.digest = digest.hexdigest()

    @classmethod
    def from_geojson(cls, document: Any) -> Area:
        """Return the area of a GeoJSON object: WGS 84, longitude first (RFC 7946).

        An area across the antimeridian consists of polygons on both sides, or goes on beyond 180
        degrees.

        Raises:
            ValueError: it does not consist of valid polygons, or has more than 100,000 vertices.
        """
        return cls._of(polygons_of(document), WGS84)

    @classmethod
    def from_wkt(cls, text: str, crs: CRS) -> Area:
        """Return the area of a POLYGON or MULTIPOLYGON in well-known text.

        Args:
            crs: of the coordinates, which are x before y (longitude before latitude).

        Raises:
            ValueError: it is not one of these, or has more than 100,000 vertices.
        """
        return cls._of(polygons_of_text(text), crs)

    @classmethod
    def _of(cls, polygons: tuple[Polygon, ...], crs: CRS) -> Area:
        if crs.is_geographic:
            for ring in (ring for polygon in polygons for ring in polygon):
                far = np.abs(ring).max(axis=0)
                if far[0] > _MOST_EASTERN or far[1] > 90:
                    raise ValueError("an area is in degrees, longitude before latitude")
        return cls([PolygonSet(polygons, crs)])

    def __and__(self, other: Area) -> Area:
        """Return what is in both areas."""
        return Area([*self.parts, *other.parts])

    def __repr__(self) -> str:
        return f"Area({self.digest})"

    @cached_property
    def bbox(self) -> BoundingBox | None:
        """The box around the area, WGS 84 degrees; None if it is empty."""
        found: BoundingBox | None = WORLD
        for part in self.parts:
            found = None if found is None else found.intersection(_bbox(part))
        return found

    def contains(self, x: float, y: float, crs: CRS) -> bool:
        """Return whether a point is in the area.

        Args:
            x, y: in units of ``crs``, x before y.
        """
        for part in self.parts:
            one, other = transform_points(crs, part.crs, np.array([x]), np.array([y]))
            if not (np.isfinite(one[0]) and np.isfinite(other[0])):
                return False
            if not part.contains(float(one[0]), float(other[0])):
                return False
        return True


def _bbox(part: PolygonSet) -> BoundingBox:
    boxes = []
    for polygon in part.polygons:
        low, high = polygon[0].min(axis=0), polygon[0].max(axis=0)
        box = BoundingBox(float(low[0]), float(low[1]), float(high[0]), float(high[1]))
        if part.crs.is_geographic and not WORLD.contains(box):
            # Both sides of the antimeridian.
            box = BoundingBox(WORLD.xmin, box.ymin, WORLD.xmax, box.ymax)
        boxes.append(box)
    union = reduce(BoundingBox.union, boxes)
    if part.crs == WGS84:
        return union
    try:
        return geographic_bbox(union, part.crs)
    except ValueError:
        return WORLD


def _is_odd(polygon: Polygon, x: float, y: float) -> bool:
    crossings = 0
    for ring in polygon:
        x0, y0, x1, y1 = *ring[:-1].T, *ring[1:].T
        met = (y0 <= y) != (y1 <= y)
        x0, y0, x1, y1 = x0[met], y0[met], x1[met], y1[met]
        crossings += int((x0 + (y - y0) / (y1 - y0) * (x1 - x0) <= x).sum())
    return crossings % 2 == 1
