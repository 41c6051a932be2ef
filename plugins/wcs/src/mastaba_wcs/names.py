"""Namespaces of the documents, as prefixes of names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

WCS: Final = "{http://www.opengis.net/wcs/2.0}"
OWS: Final = "{http://www.opengis.net/ows/2.0}"
GML: Final = "{http://www.opengis.net/gml/3.2}"
GMLCOV: Final = "{http://www.opengis.net/gmlcov/1.0}"
SWE: Final = "{http://www.opengis.net/swe/2.0}"
CRS: Final = "{http://www.opengis.net/wcs/crs/1.0}"
INTERPOLATION: Final = "{http://www.opengis.net/wcs/interpolation/1.0}"
WCS_100: Final = "{http://www.opengis.net/wcs}"
GML_100: Final = "{http://www.opengis.net/gml}"

PREFIXES: Final[Mapping[str | None, str]] = {
    "wcs": WCS.strip("{}"),
    "ows": OWS.strip("{}"),
    "gml": GML.strip("{}"),
    "gmlcov": GMLCOV.strip("{}"),
    "swe": SWE.strip("{}"),
    "xlink": "http://www.w3.org/1999/xlink",
    "xsi": "http://www.w3.org/2001/XMLSchema-instance",
}
"""Namespaces of documents of version 2.0.1."""
SCHEMAS: Final = "http://www.opengis.net/wcs/2.0 http://schemas.opengis.net/wcs/2.0/wcsAll.xsd"
