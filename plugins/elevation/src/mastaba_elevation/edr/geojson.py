"""GeoJSON as EDR defines it (elevation.md 2.5)."""

from __future__ import annotations

from typing import Any

import numpy as np

from mastaba_elevation.edr.answers import Cells, Found, Points
from mastaba_elevation.edr.collection import parameter_names
from mastaba_elevation.edr.names import ELEVATION
from mastaba_elevation.geometry import Geometry
from mastaba_elevation.numbers import rounded


def features(found: Points | Cells) -> dict[str, Any]:
    """Return a feature for each point; of a grid, for each centre with a height."""
    if isinstance(found, Cells):
        rows, columns = np.nonzero(~np.isnan(found.heights))
        x, y = found.grid.x.centres[columns], found.grid.y.centres[rows]
        heights = rounded(found.heights[rows, columns], found.decimals)
        more: list[dict[str, Any]] = [{} for _ in heights]
    else:
        x, y = found.x, found.y
        heights = rounded(found.heights, found.decimals)
        more = [
            dict(zip(found.columns, values, strict=True))
            for values in zip(*found.columns.values(), strict=True)
        ] or [{} for _ in heights]
    listed = [
        _feature(
            found,
            {
                "type": "Point",
                "coordinates": [px, py] if height is None else [px, py, height],
            },
            {ELEVATION: height, **extra},
        )
        for px, py, height, extra in zip(x.tolist(), y.tolist(), heights, more, strict=True)
    ]
    return _collection(found, listed)


def statistics_feature(
    found: Found, geometry: Geometry, statistics: dict[str, Any]
) -> dict[str, Any]:
    """Return one feature with the requested area and its statistics."""
    rings = [ring.tolist() for ring in geometry.parts]
    area = {"type": "MultiPolygon", "coordinates": [[ring] for ring in rings]}
    if geometry.kind == "Polygon":
        area = {"type": "Polygon", "coordinates": rings}
    return _collection(found, [_feature(found, area, {"statistics": statistics})])


def _feature(found: Found, geometry: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "Feature",
        "geometry": geometry,
        "properties": {
            "datetime": found.dataset.vertical.date,
            "parameter-name": list(found.names),
            "label": found.dataset.title,
            "edrqueryendpoint": found.uri,
            **values,
        },
    }


def _collection(found: Found, listed: list[dict[str, Any]]) -> dict[str, Any]:
    names = parameter_names(found.dataset)
    return {
        "type": "FeatureCollection",
        "features": listed,
        "parameters": [_with_labels(names[name]) for name in found.names],
        "numberReturned": len(listed),
    }


def _with_labels(parameter: dict[str, Any]) -> dict[str, Any]:
    """Return a parameter with texts by language, as EDR GeoJSON wants them."""
    observed = parameter["observedProperty"]
    content = {
        **parameter,
        "description": {"en": parameter["description"]},
        "observedProperty": {**observed, "label": {"en": observed["label"]}},
    }
    if "unit" in parameter:
        content["unit"] = {**parameter["unit"], "label": {"en": parameter["unit"]["label"]}}
    return content
