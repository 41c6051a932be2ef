"""Coordinates and boxes, as JSON documents have them."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
