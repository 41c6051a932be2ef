"""CoverageJSON 1.0 (elevation.md 2.5)."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from mastaba.api.catalogue import CRS
from mastaba_elevation.edr.answers import Cells, Points
from mastaba_elevation.edr.collection import parameter_names
from mastaba_elevation.edr.names import ELEVATION, LAYER, SOURCES
from mastaba_elevation.edr.sources import coded
from mastaba_elevation.queries.datasets import Dataset
from mastaba_elevation.queries.grids import Axis
from mastaba_elevation.web.numbers import rounded
from mastaba_ows.crs import crs_uri

_XY: Final = ["x", "y"]
_TYPES: Final = {LAYER: "string"} | dict.fromkeys(SOURCES, "integer")
_TIMES: Final[dict[str, Any]] = {
    "coordinates": ["t"],
    "system": {"type": "TemporalRS", "calendar": "Gregorian"},
}


def coverage(found: Points | Cells) -> dict[str, Any]:
    """Return a coverage; of a grid, without its values."""
    domain, ranges = _cells(found) if isinstance(found, Cells) else _points(found)
    parameters = {name: _parameter(found.dataset, name) for name in found.names}
    if isinstance(found, Points):
        for name in found.columns.keys() & set(SOURCES):
            ranges[name]["values"], meaning = coded(name, ranges[name]["values"])
            parameters[name]["observedProperty"] |= meaning["observedProperty"]
            parameters[name]["categoryEncoding"] = meaning["categoryEncoding"]
    return {
        "type": "Coverage",
        "domain": domain,
        "parameters": parameters,
        "ranges": {name: ranges[name] for name in found.names},
    }


def _points(found: Points) -> tuple[dict[str, Any], dict[str, Any]]:
    referencing = [_spatial(found.crs)]
    tuples: list[Any] = np.column_stack([found.x, found.y]).tolist()
    shape: dict[str, Any] = {"shape": [len(tuples)], "axisNames": ["composite"]}
    coordinates = _XY
    if found.domain == "Point":
        axes: dict[str, Any] = {
            "x": {"values": found.x.tolist()},
            "y": {"values": found.y.tolist()},
        }
        shape = {}
    elif found.domain == "PointSeries":
        axes = {
            "x": {"values": found.x[:1].tolist()},
            "y": {"values": found.y[:1].tolist()},
            "t": {"values": found.instants},
        }
        shape = {"shape": [len(tuples)], "axisNames": ["t"]}
        referencing.append(_TIMES)
    else:
        if instants := found.instants:
            coordinates = ["t", *_XY]
            tuples = [[time, *pair] for time, pair in zip(instants, tuples, strict=True)]
            referencing.append(_TIMES)
        axes = {"composite": {"dataType": "tuple", "coordinates": coordinates, "values": tuples}}
    columns: dict[str, list[Any]] = {
        ELEVATION: list(rounded(found.heights, found.decimals)),
        **{name: list(values) for name, values in found.columns.items()},
    }
    ranges = {
        name: {
            "type": "NdArray",
            "dataType": _TYPES.get(name, "float"),
            **shape,
            "values": values,
        }
        for name, values in columns.items()
    }
    domain = {
        "type": "Domain",
        "domainType": found.domain,
        "axes": axes,
        "referencing": referencing,
    }
    return domain, ranges


def _cells(found: Cells) -> tuple[dict[str, Any], dict[str, Any]]:
    domain = {
        "type": "Domain",
        "domainType": "Grid",
        "axes": {"x": _axis(found.grid.x), "y": _axis(found.grid.y)},
        "referencing": [_spatial(found.crs)],
    }
    values = {
        "type": "NdArray",
        "dataType": "float",
        "axisNames": ["y", "x"],
        "shape": list(found.heights.shape),
        "values": [],
    }
    return domain, {ELEVATION: values}


def _axis(axis: Axis) -> dict[str, Any]:
    stop = axis.start if axis.count == 1 else axis.stop
    return {"start": axis.start, "stop": stop, "num": axis.count}


def _spatial(crs: CRS) -> dict[str, Any]:
    kind = "GeographicCRS" if crs.is_geographic else "ProjectedCRS"
    # Axes are named as in the domain, in the order of the CRS.
    order = _XY[::-1] if crs.northing_first else _XY
    return {"coordinates": order, "system": {"type": kind, "id": crs_uri(crs.code)}}


def _parameter(dataset: Dataset, name: str) -> dict[str, Any]:
    plain = parameter_names(dataset)[name]
    observed = dict(plain["observedProperty"])
    observed["label"] = {"en": observed["label"]}
    content: dict[str, Any] = {
        "type": "Parameter",
        "description": {"en": plain["description"]},
        "observedProperty": observed,
    }
    if "unit" in plain:
        unit = plain["unit"]
        content["unit"] = {"label": {"en": unit["label"]}, "symbol": unit["symbol"]}
    if name == ELEVATION and dataset.vertical.crs:
        content["mastaba:verticalCrs"] = crs_uri(dataset.vertical.crs.upper())
    return content
