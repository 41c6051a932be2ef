"""The answers of the APIs of Google and Open Topo Data (elevation.md 3.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

Row: TypeAlias = tuple[float, float, float | None, str | None, float | None]
"""Longitude, latitude, height in metres, layer, and size of its cells in metres."""


def results(rows: Sequence[Row]) -> dict[str, Any]:
    """Return the answer in the form of Google, with the fields of Open Topo Data."""
    found = [
        {
            "elevation": height,
            "location": {"lat": y, "lng": x},
            "dataset": layer,
            "resolution": cell,
        }
        for x, y, height, layer, cell in rows
    ]
    return {"results": found, "status": "OK"}


def geojson(rows: Sequence[Row]) -> dict[str, Any]:
    """Return the answer as GeoJSON, a form of Open Topo Data."""
    features = [
        {
            "type": "Feature",
            "geometry": {
                "type": "Point",
                "coordinates": [x, y] if height is None else [x, y, height],
            },
            "properties": {"dataset": layer},
        }
        for x, y, height, layer, _ in rows
    ]
    return {"type": "FeatureCollection", "features": features}
