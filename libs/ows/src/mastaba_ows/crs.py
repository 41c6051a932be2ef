"""Identifiers of CRSs in documents and requests of OGC API (ogcapi.md section 2).

Codes are ``AUTHORITY:CODE`` in upper case; ``CRS:84`` is longitude and latitude on WGS 84.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from mastaba.api.catalogue import CRS, CRS84
from mastaba.api.web import printable
from mastaba.errors import InvalidParameterError

CRS84_URI: Final = "http://www.opengis.net/def/crs/OGC/1.3/CRS84"
"""Identifier of `CRS84` in documents."""

_OPENGIS: Final = "http://www.opengis.net/def/crs/"
_IGNF_REGISTER: Final = "http://registre.ign.fr/ign/IGNF/crs/IGNF/"
_MAX_LENGTH: Final = 200
# Authority and code: in a URI, a URN, brackets, or on their own.
_FORMS: Final = re.compile(
    r"https?://www\.opengis\.net/def/crs/([^/]+)/[^/]*/([^/]+)"
    r"|https?://registre\.ign\.fr/ign/IGNF/crs/(IGNF)/(.+)"
    r"|urn:ogc:def:crs:([^:]+):[^:]*:([^:]+)"
    r"|\[([^:/]+):([^/]+)\]"
    r"|([^:/]+):([^/]+)",
    re.IGNORECASE,
)


def crs_uri(code: str) -> str:
    """Return a CRS identifier for documents and headers: a URI, or a safe CURIE without one.

    OGC URIs begin with ``http:``, as registered; clients compare them as text.
    """
    authority, _, number = code.partition(":")
    if code == CRS84:
        return CRS84_URI
    if authority == "EPSG":
        return f"{_OPENGIS}EPSG/0/{number}"
    if authority == "IGNF":
        return f"{_IGNF_REGISTER}{number}"
    return f"[{code}]"


def offered_crs(text: str, offered: Iterable[str], parameter: str) -> CRS:
    """Return the CRS that a parameter names in any form that `crs_code` reads.

    Only offered codes reach the projection library.

    Raises:
        InvalidParameterError: it is not offered.
    """
    code = crs_code(text)
    if code is None or code not in offered:
        raise InvalidParameterError(f"the CRS {printable(text)} is not offered here", parameter)
    return CRS.from_code(code)


def crs_code(text: str) -> str | None:
    """Return the code for a CRS identifier in a request; None for an unknown form.

    Forms are ``AUTHORITY:CODE``, the same in brackets, URIs from the OGC definitions register
    and the IGNF register, and OGC URNs.
    """
    text = text.strip()
    match = _FORMS.fullmatch(text) if len(text) <= _MAX_LENGTH else None
    if match is None:
        return None
    code = ":".join(filter(None, match.groups())).upper()
    return CRS84 if code == "OGC:CRS84" else code
