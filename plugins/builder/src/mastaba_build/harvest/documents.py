"""Capabilities documents: reading of XML from a server that is not trusted."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from mastaba.api.catalogue import CRS, BoundingBox
from mastaba_build.errors import PlanError
from mastaba_build.harvest.address import Address
from mastaba_build.harvest.client import Answer
from mastaba_build.sources.sets import proj_crs

PICTURES = ("image/png", "image/jpeg", "image/x-bil;bits=32")
"""Media types that can be harvested, the preferred ones first."""
LARGEST = 64 << 20
"""Bytes of a capabilities document."""
_MOST_LISTED = 40
_LONGEST = 200
_URN = re.compile(r"urn:(?:x-)?ogc:def:crs:([A-Za-z]+):[^:]*:([A-Za-z0-9_]+)")
_URL = re.compile(r"https?://www\.opengis\.net/def/crs/([A-Za-z]+)/[^/]+/([A-Za-z0-9_]+)")
_WEB_MERCATOR = frozenset(
    {"EPSG:3857", "EPSG:900913", "EPSG:3785", "EPSG:102100", "EPSG:102113", "OSGEO:41001"}
)


def parsed(answer: Answer) -> Element:
    """Return the root of a document without namespaces.

    Raises:
        ValueError: it is not XML, or a report of an error.
    """
    if b"<!ENTITY" in answer.body:
        raise ValueError("the document declares entities, which are not read")
    try:
        root = ElementTree.fromstring(answer.body)  # noqa: S314 - without entities
    except (ElementTree.ParseError, LookupError) as error:
        raise ValueError(f"the answer is not XML ({error})") from None
    for element in root.iter():
        element.tag = str(element.tag).rpartition("}")[2]
    if "Exception" in root.tag or root.tag.lower() == "html":
        raise ValueError(f"the service reports: {reported(answer.body)}")
    return root


def reported(body: bytes) -> str:
    """Return the start of the text in the report of an error."""
    text = re.sub(r"<[^<>]*>", " ", body[: 1 << 16].decode("utf-8", "replace"))
    text = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    return text[:_LONGEST] or "an error without text"


def child(element: Element | None, *path: str) -> Element | None:
    """Return the first element at the end of a path of names; None without one."""
    for name in path:
        element = None if element is None else element.find(name)
    return element


def text_of(element: Element | None, *path: str) -> str:
    """Return the text of a descendant without white space around it; empty without one."""
    found = child(element, *path)
    return "" if found is None or found.text is None else found.text.strip()


def texts_of(element: Element, name: str) -> list[str]:
    """Return the texts of all children of a name."""
    return [one.text.strip() for one in element.findall(name) if one.text]


def numbers_of(text: str, count: int) -> list[float]:
    """Return numbers, which are separated by white space.

    Raises:
        PlanError: they are not so many finite numbers.
    """
    try:
        found = list(map(float, text.split()))
    except ValueError:
        found = []
    if len(found) != count or not all(abs(one) < float("inf") for one in found):
        raise PlanError(f"the capabilities contain {text[:40]!r} instead of {count} numbers")
    return found


def listed(names: Iterable[str]) -> str:
    """Return names for a message."""
    found = sorted(dict.fromkeys(names))
    more = len(found) - _MOST_LISTED
    return ", ".join(found[:_MOST_LISTED]) + (f" and {more} more" if more > 0 else "")


def code_of(name: str) -> str:
    """Return the code of a CRS in any notation of OGC, as ``EPSG:3857``."""
    match = _URN.fullmatch(name.strip()) or _URL.fullmatch(name.strip())
    code = f"{match[1]}:{match[2]}" if match else name.strip()
    code = code.upper()
    if code in ("OGC:CRS84", "OGC:84"):
        return "CRS:84"
    return "EPSG:3857" if code in _WEB_MERCATOR else code


def is_same_crs(code: str, other: str) -> bool:
    """Return whether two codes are of one CRS, except for the order of its axes."""
    if code == other:
        return True
    if {code, other} <= {"CRS:84", "EPSG:4326"}:
        return True
    try:
        return bool(proj_crs(code).equals(proj_crs(other), ignore_axis_order=True))
    except Exception:  # noqa: BLE001 - PROJ does not know one of them
        return False


def box_in(crs: CRS, degrees: BoundingBox) -> BoundingBox | None:
    """Return the box around an area in degrees in a CRS; None if there is none.

    It is cut to the area of use of the CRS, outside of which positions may be infinite.
    """
    box = degrees.intersection(crs.area_of_use)
    if box is None or crs.is_geographic:
        return box
    try:
        return CRS.from_code("CRS:84").transform_bbox(box, crs)
    except ValueError:
        return None


def media_type_of(address: Address, offered: Sequence[str]) -> str:
    """Return the media type of pictures, as the service names it.

    Raises:
        PlanError: it is not offered, or cannot be read.
    """
    wanted = address.options.get("format")
    by_name = {normal(one): one for one in reversed(offered)}
    for one in [wanted] if wanted else PICTURES:
        if normal(one) in by_name:
            if normal(one) not in PICTURES:
                raise PlanError(f"format={wanted}: is not read; use one of {listed(PICTURES)}")
            return by_name[normal(one)]
    raise PlanError(
        f"{address.host}: does not offer {wanted or ' or '.join(PICTURES)}; it offers "
        f"{listed(offered)}"
    )


def normal(media_type: str) -> str:
    """Return a media type in its usual form."""
    found = media_type.lower().replace(" ", "").replace("image/jpg", "image/jpeg")
    start = found.partition(";")[0]
    return start if start in ("image/png", "image/jpeg") else found
