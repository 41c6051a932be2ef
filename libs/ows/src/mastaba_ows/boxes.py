"""Coordinates and boxes, as JSON documents have them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mastaba.api.catalogue import BoundingBox


def rounded(value: float) -> float:
    """Return a number rounded to 15 significant digits, as in all documents."""
    return float(f"{value:.15g}")


def bounds(box: BoundingBox) -> list[float]:
    """Return the edges of a box: west, south, east, north."""
    return [rounded(edge) for edge in (box.xmin, box.ymin, box.xmax, box.ymax)]


def centre(box: BoundingBox) -> list[float]:
    """Return the middle of a box in degrees: of a symmetric one 0, not -1e-12."""
    return [round((box.xmin + box.xmax) / 2, 9) + 0.0, round((box.ymin + box.ymax) / 2, 9) + 0.0]


def polygon(edges: Sequence[float]) -> dict[str, Any]:
    """Return a box as a geometry of GeoJSON (RFC 7946), counterclockwise.

    Args:
        edges: west, south, east, north. If the box contains the antimeridian, west is more
            than east, and the geometry is divided there.
    """
    west, south, east, north = edges
    if west > east:
        parts = [(west, south, 180.0, north), (-180.0, south, east, north)]
        rings = [polygon(part)["coordinates"] for part in parts]
        return {"type": "MultiPolygon", "coordinates": rings}
    ring = [[west, south], [east, south], [east, north], [west, north], [west, south]]
    return {"type": "Polygon", "coordinates": [ring]}
