"""GeoJSON as EDR defines it (elevation.md 2.5)."""

from __future__ import annotations

from typing import Any

from mastaba_elevation.edr.answers import Found, Points
from mastaba_elevation.edr.collection import parameter_names
from mastaba_elevation.edr.names import ELEVATION
from mastaba_elevation.web.geometry import Geometry
from mastaba_elevation.web.numbers import rounded


def features(found: Points) -> dict[str, Any]:
    """Return a feature for each point."""
    heights = rounded(found.heights, found.decimals)
    more: list[dict[str, Any]] = [
        dict(zip(found.columns, values, strict=True))
        for values in zip(*found.columns.values(), strict=True)
    ] or [{} for _ in heights]
    for extra, instant in zip(more, found.instants, strict=False):
        extra["datetime"] = instant
    listed = [
        _feature(
            found,
            {
                "type": "Point",
                "coordinates": [px, py] if height is None else [px, py, height],
            },
            {ELEVATION: height, **extra},
        )
        for px, py, height, extra in zip(
            found.x.tolist(), found.y.tolist(), heights, more, strict=True
        )
    ]
    return collection_of(found, listed, len(listed))


def statistics_feature(
    found: Found, geometry: Geometry, statistics: dict[str, Any]
) -> dict[str, Any]:
    """Return one feature with the requested area and its statistics."""
    rings = [ring.tolist() for ring in geometry.parts]
    area = {"type": "MultiPolygon", "coordinates": [[ring] for ring in rings]}
    if geometry.kind == "Polygon":
        area = {"type": "Polygon", "coordinates": rings}
    return collection_of(found, [_feature(found, area, {"statistics": statistics})], 1)


def _feature(found: Found, geometry: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "Feature",
        "geometry": geometry,
        "properties": properties_of(found) | values,
    }


def properties_of(found: Found) -> dict[str, Any]:
    """Return the properties that all features of an answer have."""
    return {
        "datetime": found.dataset.date,
        "parameter-name": list(found.names),
        "label": found.dataset.title,
        "edrqueryendpoint": found.uri,
    }


def collection_of(found: Found, listed: list[dict[str, Any]], count: int) -> dict[str, Any]:
    """Return a collection of features.

    Args:
        count: number of features.
    """
    names = parameter_names(found.dataset)
    return {
        "type": "FeatureCollection",
        "features": listed,
        "parameters": [names[name] for name in found.names],
        "numberReturned": count,
    }
