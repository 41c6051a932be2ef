"""CRSs in requests and documents (ogcapi.md section 2)."""

from __future__ import annotations

from typing import Final

from mastaba.api.catalogue import CRS, BoundingBox
from mastaba_ows.boxes import rounded
from mastaba_ows.crs import crs_uri

_OPENGIS: Final = "http://www.opengis.net/def/crs/"


def resolvable_crs(code: str) -> str:
    """Return a CRS identifier that most libraries resolve without a network."""
    uri = crs_uri(code)
    return uri if uri.startswith(_OPENGIS) else code


def in_axis_order(bbox: BoundingBox, crs: CRS) -> list[float]:
    """Return the lower and upper corner of a box, in the axis order of the CRS."""
    if crs.northing_first:
        corners = (bbox.ymin, bbox.xmin, bbox.ymax, bbox.xmax)
    else:
        corners = (bbox.xmin, bbox.ymin, bbox.xmax, bbox.ymax)
    return [rounded(value) for value in corners]


def ordered_axes(crs: CRS) -> list[str]:
    """Return the axis names in the order of the CRS."""
    axes = ["Lon", "Lat"] if crs.is_geographic else ["E", "N"]
    return axes[::-1] if crs.northing_first else axes
