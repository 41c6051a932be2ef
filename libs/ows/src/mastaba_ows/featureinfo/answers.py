"""GetFeatureInfo responses (wms.md section 4)."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from mastaba.api.catalogue import CRS, WGS84, BoundingBox, transform_points
from mastaba.api.web import Response, content_disposition, escaped, legal
from mastaba_ows.errors import UpstreamError
from mastaba_ows.featureinfo.external import ExternalAnswer
from mastaba_ows.offers import source_at

if TYPE_CHECKING:
    from mastaba.api.catalogue import Layer
    from mastaba.api.services import Site

_BODY: Final = re.compile(r"<body", re.IGNORECASE)
_BODY_END: Final = re.compile(r"</body", re.IGNORECASE)
_HALVES: Final = re.compile("[\ud800-\udfff]")
_MAX_TAGS: Final = 200_000
"""Tags in the XML of an upstream server; they need about 25 MB while it is embedded."""
_NAME: Final = re.compile(r"[A-Za-z_][\w-]*", re.ASCII)
_REPLACEMENT: Final = "\ufffd"


@dataclass(frozen=True, slots=True)
class PixelAnswer:
    """The values of one pixel of a layer.

    Attributes:
        layer: identifier of the layer.
        values: one string per channel.
        position: longitude and latitude of the pixel centre in degrees, or None.
        source: where the pixel comes from (`mastaba_ows.offers.source_at`), or None.
    """

    layer: str
    values: tuple[str, ...]
    position: tuple[float, float] | None = None
    source: Mapping[str, Any] | None = None


LayerAnswer = PixelAnswer | ExternalAnswer
"""The answer for one layer of a request."""


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
    import numpy as np  # only this needs it; capabilities import this module too

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


def source_of(
    site: Site, layer: Layer, bbox: BoundingBox, crs: CRS, size: tuple[int, int], i: int, j: int
) -> Mapping[str, Any] | None:
    """Return the source of the pixel of a layer at the centre of a pixel of an image.

    Args:
        bbox, crs, i, j: as in `position_of`.
        size: width and height of the image, in pixels.
    """
    x = bbox.xmin + (i + 0.5) * (bbox.xmax - bbox.xmin) / size[0]
    y = bbox.ymax - (j + 0.5) * (bbox.ymax - bbox.ymin) / size[1]
    return source_at(site, layer, x, y, crs)


def feature_info_response(
    parts: Sequence[LayerAnswer], info_format: str, *, with_sources: bool = False
) -> Response:
    """Return the answers for one or more layers as one response.

    Args:
        parts: in the order of the request, at least one.
        info_format: one of `INFO_FORMATS`.
        with_sources: whether ``text/plain`` contains sources; clients split it at commas. Other
            formats always do.

    Raises:
        UpstreamError: answers cannot be joined, because one is not in the format it claims.
    """
    headers = [
        ("Content-Disposition", content_disposition(info_format)),
        ("X-Content-Type-Options", "nosniff"),
    ]
    if any(isinstance(part, ExternalAnswer) for part in parts):
        # Scripts and forms from another server must not run in the origin of this one.
        headers.append(("Content-Security-Policy", "sandbox"))
    if len(parts) == 1 and isinstance(parts[0], ExternalAnswer):
        return Response(200, [("Content-Type", parts[0].media_type), *headers], parts[0].body)
    write = {
        "text/plain": _plain_with_sources if with_sources else _plain,
        "text/xml": _xml,
        "text/html": _html,
        "application/json": _json,
    }[info_format]
    return Response(200, [("Content-Type", info_format), *headers], write(parts))


def _plain(parts: Sequence[LayerAnswer]) -> bytes:
    return "\n".join(
        ",".join(part.values) if isinstance(part, PixelAnswer) else _text(part).rstrip("\r\n")
        for part in parts
    ).encode()


def _plain_with_sources(parts: Sequence[LayerAnswer]) -> bytes:
    lines = [_plain(parts).decode()]
    lines += [
        f"{name}: {value}"
        for part in parts
        if isinstance(part, PixelAnswer)
        for name, value in _items(part.source)
    ]
    return "\n".join(lines).encode()


def _items(source: Mapping[str, Any] | None) -> Iterator[tuple[str, str]]:
    """Yield names and values of a source as texts; those of objects as ``name.member``."""
    for name, value in (source or {}).items():
        if isinstance(value, Mapping):
            yield from ((f"{name}.{key}", str(one)) for key, one in value.items())
        elif isinstance(value, list):
            yield name, ",".join(map(str, value))
        else:
            yield name, str(value)


def _json(parts: Sequence[LayerAnswer]) -> bytes:
    features: list[Any] = []
    for part in parts:
        if isinstance(part, PixelAnswer):
            properties: dict[str, Any] = {"pixel": [_number(value) for value in part.values]}
            if len(parts) > 1:
                properties["layer"] = part.layer
            if part.source is not None:
                properties["source"] = part.source
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
    return _HALVES.sub(_REPLACEMENT, written).encode()


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
    return UpstreamError("the upstream server did not answer in GeoJSON")


def _xml(parts: Sequence[LayerAnswer]) -> bytes:
    # Loaded on first use: the other formats do not need it.
    from mastaba_ows.xml import NotXMLError, add, read, root_element, serialized

    foreign = any(isinstance(part, ExternalAnswer) for part in parts)
    root = root_element("FeatureInfo" if foreign else "Pixels")
    for part in parts:
        if isinstance(part, PixelAnswer):
            pixel = add(root, "Pixel", attributes={"layer": part.layer})
            for value in part.values:
                add(pixel, "Band", value)
            if part.source is not None:
                add(pixel, "Source", attributes=_attributes(part.source))
            continue
        try:
            root.append(read(part.body, most_tags=_MAX_TAGS))
        except NotXMLError:
            raise UpstreamError("the upstream server did not answer in XML") from None
    if len(parts) == 1:
        (root,) = root
        del root.attrib["layer"]
    return serialized(root)


def _attributes(source: Mapping[str, Any]) -> dict[str, str]:
    # Names of further fields are those of a file, and may be no names of XML.
    found = ((name.replace(".", "_"), value) for name, value in _items(source))
    return {name: legal(value) for name, value in found if _NAME.fullmatch(name)}


def _html(parts: Sequence[LayerAnswer]) -> bytes:
    blocks = []
    for part in parts:
        if isinstance(part, ExternalAnswer):
            blocks.append(_inside_body(_text(part)))
            continue
        heading = f"<h2>{escaped(part.layer)}</h2>\n" if len(parts) > 1 else ""
        items = "".join(f"<li>{escaped(value)}</li>" for value in part.values)
        rows = "".join(
            f"<tr><th>{escaped(name)}</th><td>{escaped(value)}</td></tr>"
            for name, value in _items(part.source)
        )
        table = f"\n<table>{rows}</table>" if rows else ""
        blocks.append(f"{heading}<b>Pixel value :</b>\n<ul>{items}</ul>{table}")
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head><meta charset="UTF-8">'
        "<title>Feature info</title></head>\n<body>\n" + "\n".join(blocks) + "\n</body>\n</html>\n"
    ).encode()


def _inside_body(document: str) -> str:
    """Return the content of the ``body`` element of a page; the whole page if it has none."""
    opened = _BODY.search(document)
    start = document.find(">", opened.end()) + 1 if opened else 0
    closed = [found.start() for found in _BODY_END.finditer(document, start)] if start else []
    return document[start : closed[-1]] if closed else document


def _text(part: ExternalAnswer) -> str:
    return part.body.decode("utf-8-sig", "replace")
