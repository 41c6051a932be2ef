"""Identifiers of CRSs in documents and requests of OGC API (ogcapi.md section 2).

Codes are ``AUTHORITY:CODE`` in upper case; ``CRS:84`` is longitude and latitude on WGS 84.
"""

from __future__ import annotations

from typing import Final

CRS84: Final = "CRS:84"
"""Code of longitude and latitude on WGS 84."""

CRS84_URI: Final = "http://www.opengis.net/def/crs/OGC/1.3/CRS84"
"""Identifier of `CRS84` in documents."""

_OPENGIS: Final = "www.opengis.net/def/crs/"
_IGNF_REGISTER: Final = "registre.ign.fr/ign/IGNF/crs/IGNF/"
_URN: Final = "urn:ogc:def:crs:"
_SCHEMES: Final = ("http://", "https://")
_MAX_LENGTH: Final = 200


def crs_uri(code: str) -> str:
    """Return a CRS identifier for documents and headers: a URI, or a safe CURIE without one.

    OGC URIs begin with ``http:``, as registered; clients compare them as text.
    """
    authority, _, number = code.partition(":")
    if code == CRS84:
        return CRS84_URI
    if authority == "EPSG":
        return f"http://{_OPENGIS}EPSG/0/{number}"
    if authority == "IGNF":
        return f"http://{_IGNF_REGISTER}{number}"
    return f"[{code}]"


def crs_code(text: str) -> str | None:
    """Return the code for a CRS identifier in a request; None for an unknown form.

    Forms are ``AUTHORITY:CODE``, the same in brackets, URIs from the OGC definitions register
    and the IGNF register, and OGC URNs.
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
