"""CRSs of requests."""

from __future__ import annotations

from collections.abc import Iterable

from mastaba.api.catalogue import CRS, WGS84
from mastaba.api.web import printable
from mastaba.errors import InvalidParameterError
from mastaba_ows.crs import crs_code


def requested_crs(text: str, offered: Iterable[str], parameter: str = "crs") -> CRS:
    """Return the CRS that a parameter names in any form; WGS 84 longitude, latitude if empty.

    Only offered codes reach the projection library.

    Raises:
        InvalidParameterError: it is not offered.
    """
    if not text:
        return WGS84
    code = crs_code(text)
    if code is None or code not in offered:
        raise InvalidParameterError(f"the CRS {printable(text)} is not offered here", parameter)
    return CRS.from_code(code)
