"""Requests to IGN's altimetry service, and the forms of its answers (elevation.md 3.1)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from mastaba.errors import InvalidParameterError, MissingParameterError
from mastaba_elevation.facades.ign_resources import accuracy_of
from mastaba_elevation.facades.ign_xml import XML, elevations_xml
from mastaba_elevation.queries.ground import Floats
from mastaba_elevation.web.numbers import json_response, rounded
from mastaba_ows.parameters import decimal
from mastaba_server.web.large import large_response
from mastaba_server.web.pieces import in_pieces

if TYPE_CHECKING:
    from mastaba.api.web import Request, Response
    from mastaba_elevation.queries.datasets import Dataset
    from mastaba_elevation.queries.sampling import Samples
    from mastaba_elevation.web.parameters import Parameters

MOST: Final = 5000
"""Points of a request."""

DECIMALS: Final = 2
"""Of heights."""

_NO_DATA: Final = -99999.0
_CSV: Final = "text/csv; charset=utf-8"
_DELIMITERS: Final = "|;,"


def positions_of(parameters: Parameters) -> tuple[Floats, Floats]:
    """Return longitudes and latitudes.

    Raises:
        MissingParameterError, InvalidParameterError: they are missing or invalid.
    """
    delimiter = parameters.text("delimiter", "|")
    if delimiter not in _DELIMITERS:
        raise InvalidParameterError("The delimiter is not one of | ; ,", "delimiter")
    lon = _numbers(parameters, "lon", delimiter, 180.0)
    lat = _numbers(parameters, "lat", delimiter, 90.0)
    if len(lon) != len(lat):
        raise InvalidParameterError("lon and lat have different numbers of values", "lon")
    return lon, lat


def _numbers(parameters: Parameters, name: str, delimiter: str, most: float) -> Floats:
    value = parameters.values.get(name)
    items = value if isinstance(value, list) else parameters.text(name).split(delimiter)
    if not items:
        raise MissingParameterError(f"The parameter {name} is missing", name)
    if len(items) > MOST:
        raise InvalidParameterError(f"{name} has more than {MOST} values", name)
    try:
        numbers = [_number(item) for item in items]
    except (TypeError, ValueError, OverflowError):
        raise InvalidParameterError(f"{name} contains a value that is not a number", name) from None
    found = np.array(numbers)
    if not (np.abs(found) <= most).all():
        raise InvalidParameterError(f"{name} is not from -{most:g} to {most:g}", name)
    return found


def _number(item: object) -> float:
    if isinstance(item, str):
        found = decimal(item)
        if found is None:
            raise ValueError
        return found
    # Of JSON; an object or a list has no number.
    return math.nan if isinstance(item, bool) else float(item)  # type: ignore[arg-type]


def elevations_of(
    dataset: Dataset, lon: Floats, lat: Floats, samples: Samples
) -> list[dict[str, Any]]:
    """Return the points of an answer, with -99999 where there is no height."""
    accuracies = [accuracy_of(vertical) for vertical in dataset.verticals]
    heights = rounded(samples.heights, DECIMALS)
    found = zip(lon.tolist(), lat.tolist(), heights, samples.layers.tolist(), strict=True)
    return [
        {
            "lon": x,
            "lat": y,
            "z": _NO_DATA if z is None else z,
            "acc": accuracies[max(layer, 0)],
        }
        for x, y, z, layer in found
    ]


def answered(
    content: dict[str, Any], form: str, parameters: Parameters, request: Request
) -> Response:
    """Return an answer as JSON, XML or CSV.

    Args:
        content: JSON of the answer.
        form: ``json``, ``xml`` or ``csv``.

    Raises:
        InvalidParameterError: ``zonly`` or ``indent`` is neither true nor false.
    """
    elevations = content["elevations"]
    if form == "csv":
        rows = [f"{e['lon']};{e['lat']};{e['z']};{e['acc']}\r\n" for e in elevations]
        text = "lon;lat;z;acc\r\n" + "".join(rows)
        return large_response(request, in_pieces(text.encode()), _CSV)
    if parameters.flag("zonly"):
        content = content | {"elevations": [entry["z"] for entry in elevations]}
    # Blanks are free; only the value is checked.
    parameters.flag("indent")
    if form == "json":
        return json_response(request, content)
    return large_response(request, in_pieces(elevations_xml(content)), XML)
