"""Bodies of GetFeatureInfo responses (wms.md section 4)."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from xml.parsers import expat

import numpy as np
import numpy.typing as npt

from mastaba.model.bbox import BoundingBox
from mastaba.model.crs import CRS, WGS84, transform_points
from mastaba.services.featureinfo.external import ExternalAnswer, UpstreamError
from mastaba.web.markup import DECLARATION, element, leaf, text

PLAIN, XML, HTML, JSON = "text/plain", "text/xml", "text/html", "application/json"
INFO_FORMATS: Final = (PLAIN, XML, HTML, JSON)
"""Media types that every queryable layer supports, in the order of capabilities."""

_BODY: Final = re.compile(r"<body", re.IGNORECASE)
_BODY_END: Final = re.compile(r"</body", re.IGNORECASE)
_HALVES: Final = re.compile("[\ud800-\udfff]")
_REPLACEMENT: Final = "\ufffd"


@dataclass(frozen=True, slots=True)
class PixelAnswer:
    """The values of one pixel of a layer.

    Attributes:
        values: one string per channel.
        position: longitude and latitude of the pixel centre in degrees, or None.
    """

    layer: str
    values: tuple[str, ...]
    position: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """A response body.

    Attributes:
        foreign: whether part of it is from another server.
    """

    body: bytes
    media_type: str
    foreign: bool = False


def value_texts(values: npt.NDArray[Any]) -> tuple[str, ...]:
    """Return one string per channel: uint8 as integers, float32 with two decimals."""
    if values.dtype == np.uint8:
        return tuple(str(int(value)) for value in values)
    return tuple(f"{float(value):.2f}" for value in values)


def position_of(
    bbox: BoundingBox, crs: CRS, width: int, height: int, i: int, j: int
) -> tuple[float, float] | None:
    """Return longitude and latitude of a pixel centre in degrees (RFC 7946 clause 4).

    Args:
        bbox: of the image, x before y, in units of ``crs``.
        width, height: of the image, in pixels.
        i, j: column and row of the pixel.

    Returns:
        None if the pixel has no position on the globe.
    """
    x = bbox.xmin + (i + 0.5) * (bbox.xmax - bbox.xmin) / width
    y = bbox.ymax - (j + 0.5) * (bbox.ymax - bbox.ymin) / height
    longitude, latitude = (
        float(values[0])
        for values in transform_points(crs, WGS84, np.array([x], float), np.array([y], float))
    )
    if abs(longitude) <= 180 and abs(latitude) <= 90:
        # About 0.01 mm; more digits would be noise from the transformation.
        return round(longitude, 10), round(latitude, 10)
    return None


def written(parts: Sequence[PixelAnswer | ExternalAnswer], info_format: str) -> Answer:
    """Return the answers of one or more layers as one body.

    Args:
        parts: in the order of QUERY_LAYERS, at least one.
        info_format: one of `INFO_FORMATS`.

    Raises:
        UpstreamError: answers cannot be joined, because one is not in the format it claims.
    """
    if len(parts) == 1 and isinstance(parts[0], ExternalAnswer):
        return Answer(parts[0].body, parts[0].media_type, foreign=True)
    write = {PLAIN: _plain, XML: _xml, HTML: _html, JSON: _json}[info_format]
    foreign = any(isinstance(part, ExternalAnswer) for part in parts)
    return Answer(write(parts).encode(), info_format, foreign)


def _plain(parts: Sequence[PixelAnswer | ExternalAnswer]) -> str:
    return "\n".join(
        ",".join(part.values) if isinstance(part, PixelAnswer) else _text(part).rstrip("\r\n")
        for part in parts
    )


def _json(parts: Sequence[PixelAnswer | ExternalAnswer]) -> str:
    features: list[Any] = []
    for part in parts:
        if isinstance(part, PixelAnswer):
            properties: dict[str, Any] = {"pixel": [_number(value) for value in part.values]}
            if len(parts) > 1:
                properties["layer"] = part.layer
            geometry = None
            if part.position is not None:
                geometry = {"type": "Point", "coordinates": list(part.position)}
            features.append({"type": "Feature", "geometry": geometry, "properties": properties})
        else:
            features.extend(_features(part))
    collection = {"type": "FeatureCollection", "features": features}
    try:
        written = json.dumps(collection, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    except (ValueError, RecursionError):
        raise _not_geojson() from None
    # JSON can contain half of a surrogate pair, UTF-8 cannot (RFC 8259 clause 8.2).
    return _HALVES.sub(_REPLACEMENT, written)


def _number(text: str) -> int | float | None:
    """Return a value for JSON; None if it is not finite."""
    number = float(text)
    if not math.isfinite(number):
        return None
    return int(number) if number.is_integer() else number


def _features(part: ExternalAnswer) -> list[Any]:
    try:
        document = json.loads(part.body)
    except (ValueError, RecursionError):
        document = None
    features = document.get("features") if isinstance(document, dict) else None
    if not isinstance(features, list):
        raise _not_geojson()
    return features


def _not_geojson() -> UpstreamError:
    return UpstreamError("the server that knows the features did not answer in GeoJSON")


def _xml(parts: Sequence[PixelAnswer | ExternalAnswer]) -> str:
    if len(parts) == 1 and isinstance(parts[0], PixelAnswer):
        return DECLARATION + element("Pixel", *_bands(parts[0]))
    children = [
        element("Pixel", *_bands(part), attributes={"layer": part.layer})
        if isinstance(part, PixelAnswer)
        else _root_element(part)
        for part in parts
    ]
    foreign = any(isinstance(part, ExternalAnswer) for part in parts)
    return DECLARATION + element("FeatureInfo" if foreign else "Pixels", *children)


def _bands(part: PixelAnswer) -> list[str]:
    return [leaf("Band", value) for value in part.values]


def _root_element(part: ExternalAnswer) -> str:
    """Return the root element of an XML document, to be embedded in another one."""
    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = _refuse
    root = _text(part).lstrip()
    if root.startswith("<?xml"):
        # Already decoded, so the encoding in its declaration no longer applies.
        root = root.partition("?>")[2].lstrip()
    try:
        parser.Parse(root, True)
    except (expat.ExpatError, ValueError):
        raise UpstreamError("the server that knows the features did not answer in XML") from None
    return root


def _refuse(*declared: object) -> None:
    raise ValueError("a DOCTYPE is not allowed")


def _html(parts: Sequence[PixelAnswer | ExternalAnswer]) -> str:
    blocks = []
    for part in parts:
        if isinstance(part, ExternalAnswer):
            blocks.append(_inside_body(_text(part)))
            continue
        heading = f"<h2>{text(part.layer)}</h2>\n" if len(parts) > 1 else ""
        items = "".join(f"<li>{text(value)}</li>" for value in part.values)
        blocks.append(f"{heading}<b>Pixel value :</b>\n<ul>{items}</ul>")
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head><meta charset="UTF-8">'
        "<title>Feature info</title></head>\n<body>\n" + "\n".join(blocks) + "\n</body>\n</html>\n"
    )


def _inside_body(document: str) -> str:
    """Return the content of the ``body`` element of a page; the whole page if it has none."""
    opened = _BODY.search(document)
    start = document.find(">", opened.end()) + 1 if opened else 0
    closed = [found.start() for found in _BODY_END.finditer(document, start)] if start else []
    return document[start : closed[-1]] if closed else document


def _text(part: ExternalAnswer) -> str:
    return part.body.decode("utf-8-sig", "replace")
