"""Requests to the services of swisstopo: parameters, geometry and CRS (elevation.md 3.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import orjson

from mastaba.api.catalogue import CRS, bbox_in
from mastaba.errors import InvalidParameterError, MissingParameterError
from mastaba_elevation.queries.ground import Floats
from mastaba_elevation.web.geometry import Geometry, read_geojson
from mastaba_elevation.web.parameters import Parameters

if TYPE_CHECKING:
    from mastaba_elevation.queries.datasets import Dataset

_BOXES: Final = {
    2056: (2385000.0, 974000.0, 2935000.0, 1404000.0),
    21781: (385000.0, -26000.0, 940000.0, 456000.0),
}
"""Boxes by which the CRS of a geometry is guessed, in addition to areas of use."""


def geometry_of(parameters: Parameters, body: Any) -> Geometry:
    """Return the geometry of a profile.

    Args:
        body: parsed GeoJSON; None for the parameter ``geom``.

    Raises:
        MissingParameterError, InvalidParameterError: it is missing or invalid.
    """
    if body is None:
        body = parameters.values.get("geom")
        if not body:
            raise MissingParameterError(
                "No 'geom' given, cannot create a profile without coordinates", "geom"
            )
    if isinstance(body, str):
        try:
            body = orjson.loads(body)
        except orjson.JSONDecodeError:
            raise _invalid_geometry() from None
    if not isinstance(body, dict) or "type" not in body:
        raise _invalid_geometry()
    if body["type"] not in ("LineString", "Point"):
        raise InvalidParameterError("geom parameter must be a LineString/Point GEOJSON", "geom")
    try:
        return read_geojson(body, "geom")
    except InvalidParameterError:
        raise _invalid_geometry() from None


def _invalid_geometry() -> InvalidParameterError:
    return InvalidParameterError("Invalid geom parameter, must be a GEOJSON", "geom")


def coordinate_of(parameters: Parameters, name: str, other: str) -> Floats:
    """Return the coordinate that one of two parameters gives, shape (1,).

    Raises:
        MissingParameterError, InvalidParameterError: it is missing or invalid.
    """
    found = next((key for key in (name, other) if parameters.text(key, "")), None)
    if found is None:
        raise MissingParameterError(f"Missing parameter '{name}'/'{other}'", name)
    return np.array([parameters.number(found, None, -1e10, 1e10)])


def crs_of(
    parameters: Parameters, x: Floats, y: Floats, codes: Sequence[int], dataset: Dataset
) -> CRS:
    """Return the CRS that ``sr`` or ``projection`` names, or the first that contains the points.

    Args:
        codes: accepted EPSG numbers, in the order of guessing.

    Raises:
        InvalidParameterError: it is not accepted, or cannot be guessed.
    """
    name = next((key for key in ("sr", "projection") if parameters.text(key, "")), None)
    if name is not None:
        code = parameters.integer(name, None, 0)
        if code not in codes:
            listed = " or ".join(map(str, codes))
            text = f"Please provide a valid number for the spatial reference system: {listed}"
            raise InvalidParameterError(text, name)
        return CRS.from_code(f"EPSG:{code}")
    for code in codes:
        crs = CRS.from_code(f"EPSG:{code}")
        west, south, east, north = _box(code, crs, dataset)
        if ((x >= west) & (x <= east) & (y >= south) & (y <= north)).all():
            return crs
    raise InvalidParameterError("No 'sr' given and cannot be guessed from 'geom'", "sr")


def _box(code: int, crs: CRS, dataset: Dataset) -> tuple[float, float, float, float]:
    if code in _BOXES:
        return _BOXES[code]
    if crs.is_geographic:
        area = crs.area_of_use
        return area.xmin, area.ymin, area.xmax, area.ymax
    box = bbox_in(dataset.layers[0].layer, crs)
    if box is None:
        return (np.inf, np.inf, -np.inf, -np.inf)
    return box.xmin, box.ymin, box.xmax, box.ymax
