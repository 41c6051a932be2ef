"""Boxes around geometries: GeoJSON (RFC 7946) and WKB (OGC 06-103r4, 8.2)."""

from __future__ import annotations

import struct
from typing import Any, Final

import numpy as np

from mastaba_cog.errors import CogError
from mastaba_cog.mosaic.table import NOWHERE

Box = tuple[float, float, float, float]

_DEEPEST: Final = 8
_CORRUPT: Final = "a footprint is damaged"
_REMEDY: Final = "write the table again"


def box_of_geojson(geometry: object) -> Box:
    """Return the box around a geometry; `NOWHERE` if there is none (RFC 7946, 3.2).

    Raises:
        CogError: it has no coordinates.
    """
    if geometry is None:
        return NOWHERE
    if not isinstance(geometry, dict):
        raise CogError(_CORRUPT, _REMEDY)
    xs: list[float] = []
    ys: list[float] = []
    level: list[Any] = [geometry.get("coordinates")]
    for _ in range(_DEEPEST):
        following: list[Any] = []
        for item in level:
            if not isinstance(item, list) or not item:
                continue
            if isinstance(item[0], int | float) and len(item) >= 2:
                if not isinstance(item[1], int | float):
                    raise CogError(_CORRUPT, _REMEDY)
                xs.append(item[0])
                ys.append(item[1])
            else:
                following += item
        level = following
    if not xs or level:
        raise CogError(_CORRUPT, _REMEDY)
    try:
        return float(min(xs)), float(min(ys)), float(max(xs)), float(max(ys))
    except OverflowError:
        raise CogError(_CORRUPT, _REMEDY) from None


def box_of_wkb(data: bytes) -> Box:
    """Return the box around a geometry in WKB, with or without z and m.

    Raises:
        CogError: it is damaged, or empty.
    """
    found: list[Any] = []
    try:
        _collect(data, 0, found, 0)
    except (struct.error, ValueError):
        raise CogError(_CORRUPT, _REMEDY) from None
    if not found:
        raise CogError(_CORRUPT, _REMEDY)
    points = np.concatenate(found)
    (xmin, ymin), (xmax, ymax) = points.min(axis=0).tolist(), points.max(axis=0).tolist()
    return xmin, ymin, xmax, ymax


def _collect(data: bytes, start: int, found: list[Any], depth: int) -> int:
    """Add the points of a geometry, and return the place after it."""
    order = "<" if data[start : start + 1] == b"\x01" else ">"
    (kind,) = struct.unpack_from(f"{order}I", data, start + 1)
    start += 5
    if kind & 0x20000000:
        start += 4
    # ISO adds thousands, the extended form has bits.
    thousands, kind_of = divmod(kind & 0x1FFFFFFF, 1000)
    size = 2 + (thousands in (1, 3) or bool(kind & 0x80000000))
    size += thousands in (2, 3) or bool(kind & 0x40000000)

    def points(start: int, count: int) -> int:
        values = np.frombuffer(data, f"{order}f8", count * size, start).reshape(count, size)
        found.append(values[:, :2])
        return start + 8 * count * size

    if kind_of == 1:
        return points(start, 1)
    (count,) = struct.unpack_from(f"{order}I", data, start)
    start += 4
    if kind_of == 2:
        return points(start, count)
    if kind_of not in (3, 4, 5, 6, 7) or depth == _DEEPEST or count > len(data):
        raise ValueError
    for _ in range(count):
        if kind_of == 3:
            (inside,) = struct.unpack_from(f"{order}I", data, start)
            start = points(start + 4, inside)
        else:
            start = _collect(data, start, found, depth + 1)
    return start
