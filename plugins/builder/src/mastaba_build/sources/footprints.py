"""Polygons inside sources: seam lines of images that are mosaics themselves."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyproj

from mastaba.api.catalogue import BoundingBox
from mastaba_build.config.dates import dates
from mastaba_build.errors import PlanError
from mastaba_build.sources.listing import parse_json
from mastaba_build.sources.references import check_start

_GEOJSON = (".geojson", ".json")
_TOLERANCE = 1 / 256
"""Largest distance of a straight side from its image in the CRS of the set, in pixels."""
_MOST_PIECES = 4096
_TEXTS = ("title", "licence", "href", "stac", "group")
_SIMPLE = 200
"""Points of an outline, at most."""
_FLAT = 1e-4
"""Distance from a line that an outline does not show, as a part of its size."""


@dataclass(frozen=True, slots=True, eq=False)
class Polygon:
    """A polygon inside files.

    Attributes:
        key: digest of its geometry and its name.
        geometry: GeoJSON geometry in the CRS of the set, x before y.
        box: around it.
        facts: fields of its row of the table.
    """

    key: str
    geometry: Mapping[str, Any]
    box: BoundingBox
    facts: Mapping[str, Any]


Floats = npt.NDArray[np.float64]
Polygons = list[list[Floats]]
"""Rings of each polygon, shape (points, 2), the outer one first."""


def read_footprints(options: Mapping[str, str], crs: pyproj.CRS, cell: float) -> list[Polygon]:
    """Return the polygons in a file, in its order.

    Args:
        options: ``path``, ``layer``, and the names of the fields of facts.
        crs: of the set.
        cell: size of a pixel of the finest level.

    Raises:
        PlanError: the file cannot be read, or contains no polygon.
    """
    path = options["path"]
    is_geojson = path.lower().endswith(_GEOJSON)
    found, own = _geojson(path) if is_geojson else _of_library(path, options.get("layer"))
    change = None if own.equals(crs, ignore_axis_order=True) else _transform(own, crs)
    display = _transform(own, pyproj.CRS.from_user_input("OGC:CRS84"))
    result = []
    for name, polygons, properties in found:
        placed = [[_placed(ring, change, cell) for ring in rings] for rings in polygons]
        points = np.concatenate([ring for rings in placed for ring in rings])
        if not np.isfinite(points).all():
            continue  # outside the area where the CRS of the set is defined
        text = json.dumps([name, [[ring.tolist() for ring in rings] for rings in polygons]])
        facts = _facts(properties, options)
        facts.setdefault("title", name)
        facts["footprint"] = outline(polygons, display)
        (left, bottom), (right, top) = points.min(axis=0), points.max(axis=0)
        result.append(
            Polygon(
                hashlib.sha256(text.encode()).hexdigest()[:32],
                _geometry(placed),
                BoundingBox(float(left), float(bottom), float(right), float(top)),
                {"id": name, **facts},
            )
        )
    if not result:
        raise PlanError(f"{path}: contains no polygon in the area of the tile matrix set")
    return result


def _transform(own: pyproj.CRS, other: pyproj.CRS) -> pyproj.Transformer:
    try:
        return pyproj.Transformer.from_crs(own, other, always_xy=True)
    except pyproj.exceptions.ProjError as error:
        raise PlanError(f"footprints: {error}") from None


def _placed(ring: Floats, change: pyproj.Transformer | None, cell: float) -> Floats:
    """Return a ring in the CRS of the set, with more points where its sides are curved there."""
    if change is None or len(ring) < 2:
        return ring
    ends = _moved(ring, change)
    middles = _moved((ring[1:] + ring[:-1]) / 2, change)
    errors = np.hypot(*(middles - (ends[1:] + ends[:-1]) / 2).T)
    # The error of a piece falls with the square of their number.
    finite = np.where(np.isfinite(errors), errors, 0)
    counts = np.ceil(np.sqrt(finite / (_TOLERANCE * cell))).clip(1, _MOST_PIECES).astype(int)
    if counts.max() == 1:
        return ends
    parts = [
        start + (stop - start) * (np.arange(count) / count)[:, np.newaxis]
        for start, stop, count in zip(ring[:-1], ring[1:], counts, strict=True)
    ]
    return _moved(np.concatenate([*parts, ring[-1:]]), change)


def _moved(points: Floats, change: pyproj.Transformer) -> Floats:
    return np.stack(change.transform(points[:, 0], points[:, 1]), axis=1)


def _geometry(polygons: Polygons) -> dict[str, Any]:
    return {
        "type": "MultiPolygon",
        "coordinates": [[ring.tolist() for ring in rings] for rings in polygons],
    }


def outline(polygons: Polygons, change: pyproj.Transformer | None) -> dict[str, Any] | None:
    """Return polygons for display: in CRS84, at most 200 points, without holes.

    Returns:
        None if they are outside the area where CRS84 is defined.
    """
    most = max(4, _SIMPLE // len(polygons) - 1)
    rings = []
    for outer, *_ in polygons[: _SIMPLE // 5]:
        some = outer[np.linspace(0, len(outer) - 1, min(len(outer), most)).round().astype(int)]
        moved = some if change is None else _moved(some, change)
        if not np.isfinite(moved).all():
            return None
        rings.append([_simple(moved).round(7).tolist()])
    if len(rings) == 1:
        return {"type": "Polygon", "coordinates": rings[0]}
    return {"type": "MultiPolygon", "coordinates": rings}


def _simple(ring: Floats) -> Floats:
    """Return a ring without the points that are on the line between their neighbours."""
    limit = _FLAT * float(np.ptp(ring, axis=0).max())
    kept = [0]
    for number in range(1, len(ring) - 1):
        start, stop = ring[kept[-1]], ring[number + 1]
        between = ring[kept[-1] + 1 : number + 1] - start
        along = stop - start
        length = float(np.hypot(*along)) or 1.0
        distances = np.abs(between[:, 0] * along[1] - between[:, 1] * along[0]) / length
        if distances.max() > limit or not along.any():
            kept.append(number)
    return ring[[*kept, len(ring) - 1]]


def _facts(properties: Mapping[str, Any], options: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of the table from the properties of a feature."""

    def text(key: str) -> str:
        value = properties.get(options.get(key, ""))
        return "" if value is None else str(value)

    facts: dict[str, Any] = {key: text(key) for key in _TEXTS if text(key)}
    written = f"{text('start')}/{text('end')}" if text("start") and text("end") else text("date")
    facts.update(dates(written))
    for key in ("gsd", "accuracy"):
        if text(key):
            try:
                facts[key] = float(text(key))
            except ValueError:
                facts[key] = text(key)
    if text("attribution"):
        facts["attribution"] = {"title": text("attribution")}
        if text("attribution_url"):
            facts["attribution"]["url"] = text("attribution_url")
    return facts


Found = tuple[str, Polygons, Mapping[str, Any]]


def _geojson(path: str) -> tuple[list[Found], pyproj.CRS]:
    """Return the features of a GeoJSON file (RFC 7946), and its CRS."""
    try:
        document = parse_json(Path(path).read_bytes(), path)
    except OSError as error:
        raise PlanError(f"{path}: cannot be read: {error.strerror}") from None
    try:
        if "crs" in document:
            crs = pyproj.CRS.from_user_input(document["crs"]["properties"]["name"])
        else:
            crs = pyproj.CRS.from_user_input("OGC:CRS84")
        kind = document["type"]
        features = document["features"] if kind == "FeatureCollection" else [document]
        found = list(_features(features))
    except (ValueError, KeyError, TypeError, IndexError, pyproj.exceptions.CRSError) as error:
        raise PlanError(f"{path}: is not GeoJSON of polygons: {error}") from None
    return found, crs


def _features(features: Iterable[Mapping[str, Any]]) -> Iterator[Found]:
    for number, feature in enumerate(features, 1):
        geometry = feature["geometry"]
        if geometry is None or geometry["type"] not in ("Polygon", "MultiPolygon"):
            continue
        coordinates = geometry["coordinates"]
        polygons = [coordinates] if geometry["type"] == "Polygon" else coordinates
        rings = [
            [np.array([point[:2] for point in ring], np.float64) for ring in one]
            for one in polygons
            if one
        ]
        if rings and all(ring.shape[1:] == (2,) for one in rings for ring in one):
            yield str(feature.get("id", number)), rings, feature.get("properties") or {}


def _of_library(path: str, layer: str | None) -> tuple[list[Found], pyproj.CRS]:
    """Return the features of a file that GDAL reads, and its CRS."""
    try:
        import pyogrio.raw
    except ModuleNotFoundError:
        raise PlanError(
            f"{path}: pyogrio, which reads such files, is not installed; install "
            "mastaba-build[vector], or convert it to GeoJSON"
        ) from None
    if not Path(path).is_file():
        raise PlanError(f"{path}: does not exist")
    check_start(Path(path))
    try:
        meta, fids, geometries, fields = pyogrio.raw.read(
            path, layer=layer, force_2d=True, return_fids=True
        )
        if not meta["crs"]:
            raise PlanError(f"{path}: has no CRS")
        crs = pyproj.CRS.from_user_input(meta["crs"])
        found: list[Found] = [
            (str(fid), polygons, dict(zip(meta["fields"], values, strict=True)))
            for fid, shape, *values in zip(fids, geometries, *fields, strict=True)
            if shape is not None and (polygons := _of_wkb(shape))
        ]
    except (RuntimeError, ValueError, OSError, struct.error) as error:
        raise PlanError(f"{path}: cannot be read: {str(error).splitlines()[0]}") from None
    return found, crs


def _of_wkb(data: bytes) -> Polygons:
    """Return the polygons of a geometry in WKB with two dimensions; none for other geometries."""

    def polygon(position: int) -> tuple[Polygons, int]:
        order = "<" if data[position] else ">"
        kind, count = struct.unpack_from(f"{order}2I", data, position + 1)
        position += 9
        found: Polygons = []
        if kind == 6:
            for _ in range(count):
                more, position = polygon(position)
                found += more
            return found, position
        if kind != 3:
            return [], position
        rings = []
        for _ in range(count):
            (points,) = struct.unpack_from(f"{order}I", data, position)
            ring = np.frombuffer(data, f"{order}f8", 2 * points, position + 4)
            rings.append(ring.reshape(-1, 2).astype(np.float64))
            position += 4 + 16 * points
        return ([rings] if rings else []), position

    return polygon(0)[0]
