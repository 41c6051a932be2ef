"""CRSs in requests and documents (ogcapi.md section 2), and in which ones maps are offered.

Codes are ``AUTHORITY:CODE`` in upper case, ``CRS:84`` for longitude and latitude on WGS 84.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from mastaba.errors import InvalidParameterError
from mastaba.http.request import printable
from mastaba.model.bbox import BoundingBox
from mastaba.model.crs import CRS, UnknownCRSError
from mastaba.model.layer import Layer
from mastaba.model.settings import Settings

CRS84: Final = "CRS:84"
CRS84_URI: Final = "https://www.opengis.net/def/crs/OGC/1.3/CRS84"
EXTENT_CRS_URI: Final = "http://www.opengis.net/def/crs/OGC/1.3/CRS84"
"""The spelling that the schema of extents demands."""

_OPENGIS: Final = "www.opengis.net/def/crs/"
_IGNF_REGISTER: Final = "registre.ign.fr/ign/IGNF/crs/IGNF/"
_URN: Final = "urn:ogc:def:crs:"
_SCHEMES: Final = ("http://", "https://")
_MAX_LENGTH: Final = 200
# The same coordinates but for the order in which they are written.
_TWINS: Final = {"CRS:84": "EPSG:4326", "EPSG:4326": "CRS:84"}


def crs_uri(code: str) -> str:
    """Return the identifier of a CRS in documents and headers: a URI, or else a safe CURIE."""
    authority, _, number = code.partition(":")
    if code == CRS84:
        return CRS84_URI
    if authority == "EPSG":
        return f"https://{_OPENGIS}EPSG/0/{number}"
    if authority == "IGNF":
        return f"http://{_IGNF_REGISTER}{number}"
    return f"[{code}]"


def resolvable_crs(code: str) -> str:
    """Return the identifier of a CRS that most libraries understand, without any network."""
    uri = crs_uri(code)
    return uri.replace("https:", "http:") if uri.startswith(f"https://{_OPENGIS}") else code


def crs_code(text: str) -> str | None:
    """Return the code that a CRS identifier of a request means, None when it is of no known form.

    Forms are ``AUTHORITY:CODE``, the same in brackets, URIs of the OGC register of definitions
    and of the IGNF register, and OGC URNs.
    """
    text = text.strip()
    if len(text) > _MAX_LENGTH:
        return None
    lowered = text.lower()
    if lowered.startswith(_SCHEMES):
        return _of_uri(text.partition("://")[2])
    if lowered.startswith(_URN):
        parts = text[len(_URN) :].split(":")
        return _joined(parts[0], parts[-1]) if len(parts) == 3 else None
    if text.startswith("[") and text.endswith("]"):
        text = text[1:-1]
    authority, colon, number = text.partition(":")
    return _joined(authority, number) if colon else None


def _of_uri(rest: str) -> str | None:
    if rest.lower().startswith(_OPENGIS):
        parts = rest[len(_OPENGIS) :].split("/")
        return _joined(parts[0], parts[2]) if len(parts) == 3 else None
    if rest.lower().startswith(_IGNF_REGISTER.lower()):
        return _joined("IGNF", rest[len(_IGNF_REGISTER) :])
    return None


def _joined(authority: str, number: str) -> str | None:
    if not (authority and number):
        return None
    code = f"{authority}:{number}".upper()
    return CRS84 if code == "OGC:CRS84" else code


class CRSOffer:
    """In which CRSs maps are offered. Made once for a configuration.

    Attributes:
        shared: codes that all collections are offered in, ``CRS:84`` first; empty without
            reprojection.
    """

    def __init__(self, settings: Settings) -> None:
        self._equivalences = settings.equivalences
        self._reprojection = settings.map.reprojection
        found: dict[str, None] = {}
        if self._reprojection:
            for code in (CRS84, *map(str.upper, settings.map.crs)):
                found.update(dict.fromkeys((code, *self._equals(code))))
        self.shared = tuple(found)

    def of(self, layer: Layer) -> tuple[str, ...]:
        """Return the codes of a layer: native, CRS:84, extra ones, global ones."""
        native = layer.pyramid.tile_matrix_set.crs.code.upper()
        found = dict.fromkeys((native, *self._equals(native)))
        if self._reprojection:
            extra = (code for code in map(str.upper, layer.extra_crs) if _meets(code, layer))
            found = dict.fromkeys((native, CRS84, *found, *extra, *self.shared))
        return tuple(found)

    def equal(self, one: str, other: str) -> bool:
        """Tell whether two codes denote the same coordinates, in x, y order."""
        return self._equivalences.equal(one, other)

    def _equals(self, code: str) -> list[str]:
        twin = [_TWINS[code]] if code in _TWINS else []
        return [*twin, *self._equivalences.declared(code)]


def offered_crs(text: str, offered: Iterable[str], parameter: str) -> CRS:
    """Return the CRS that a parameter names.

    Only codes that are offered reach the projection library.

    Raises:
        InvalidParameterError: it is not offered.
    """
    code = crs_code(text)
    if code is None or code not in offered:
        raise InvalidParameterError(f"the CRS {printable(text)} is not offered here", parameter)
    return CRS.from_code(code)


def in_axis_order(bbox: BoundingBox, crs: CRS) -> list[float]:
    """Return both corners of a box as documents write them: in the axis order of the CRS."""
    if crs.northing_first:
        corners = (bbox.ymin, bbox.xmin, bbox.ymax, bbox.xmax)
    else:
        corners = (bbox.xmin, bbox.ymin, bbox.xmax, bbox.ymax)
    return [rounded(value) for value in corners]


def rounded(value: float) -> float:
    """Keep the 15 significant digits that every document gives."""
    return float(f"{value:.15g}")


def ordered_axes(crs: CRS) -> list[str]:
    """Return the names of the axes in the order of the CRS."""
    axes = ["Lon", "Lat"] if crs.is_geographic else ["E", "N"]
    return axes[::-1] if crs.northing_first else axes


def _meets(code: str, layer: Layer) -> bool:
    """Tell whether the area of use of a CRS has something in common with a layer."""
    try:
        area = CRS.from_code(code).area_of_use
    except UnknownCRSError:
        return False
    return area.intersection(layer.geographic_bbox) is not None
