"""Locations in requests to Google and Open Topo Data (elevation.md 3.3)."""

from __future__ import annotations

import numpy as np

from mastaba.errors import InvalidParameterError
from mastaba_elevation.errors import TooMuchError
from mastaba_elevation.facades.polyline import LONGEST, read_polyline
from mastaba_elevation.queries.ground import Floats
from mastaba_elevation.web.parameters import Parameters
from mastaba_ows.parameters import decimal


def locations_of(parameters: Parameters, name: str, most: int) -> tuple[Floats, Floats]:
    """Return latitudes and longitudes.

    Raises:
        MissingParameterError, InvalidParameterError, TooMuchError: they cannot be used.
    """
    value = parameters.values.get(name)
    if isinstance(value, list):
        value = "|".join(map(str, value[: most + 1]))
    text = value.strip() if isinstance(value, str) else parameters.text(name)
    if not text:
        text = parameters.text(name)
    is_polyline = "," not in text or text.startswith("enc:")
    # Before the text is read. Those that are close to the limit are counted below.
    # A polyline may contain "|".
    longest = most * LONGEST + len("enc:")
    if len(text) > longest if is_polyline else text.count("|") >= most:
        raise TooMuchError(f"{name} has more than {most} points")
    if not is_polyline:
        pairs = text.split("|")
        try:
            if any(pair.count(",") != 1 for pair in pairs):
                raise ValueError
            numbers = [decimal(item) for item in ",".join(pairs).split(",")]
            if None in numbers:
                raise ValueError
            points = np.array(numbers, float).reshape(-1, 2)
        except ValueError:
            raise InvalidParameterError(
                f"{name} is neither lat,lon|lat,lon nor a polyline", name
            ) from None
    else:
        points = read_polyline(text.removeprefix("enc:"), name)
    if len(points) > most:
        raise TooMuchError(f"{name} has more than {most} points")
    if not ((np.abs(points[:, 0]) <= 90) & (np.abs(points[:, 1]) <= 180)).all():
        raise InvalidParameterError(f"{name} has a latitude or longitude out of range", name)
    return points[:, 0].copy(), points[:, 1].copy()
