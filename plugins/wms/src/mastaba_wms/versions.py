"""WMS versions and how their requests differ."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from typing import Final

from mastaba.api.web import printable
from mastaba.errors import InvalidParameterError, MissingParameterError


class Version(Enum):
    """A version of the protocol; the value is its number.

    Attributes:
        crs_parameter: name of the CRS parameter.
        point_parameters: names of the parameters for a pixel's column and row.
    """

    V1_3_0 = "1.3.0", "CRS", ("I", "J")
    V1_1_1 = "1.1.1", "SRS", ("X", "Y")

    crs_parameter: str
    point_parameters: tuple[str, str]

    def __new__(cls, number: str, crs_parameter: str, point_parameters: tuple[str, str]) -> Version:
        version = object.__new__(cls)
        version._value_ = number
        version.crs_parameter = crs_parameter
        version.point_parameters = point_parameters
        return version


# 1.1.0 has the same requests as 1.1.1 and is answered as 1.1.1.
_OF_REQUESTS: Final = {
    "1.3.0": Version.V1_3_0,
    "1.1.1": Version.V1_1_1,
    "1.1.0": Version.V1_1_1,
}

_PARTS: Final = 3
_NUMBER: Final = re.compile("[0-9]{1,9}")


def named(parameters: Mapping[str, str]) -> str:
    """Return the version named in a request, or an empty string without one.

    Before 1.1.0 the parameter is WMTVER (OGC 01-068r3 clause 6.2.4 and annex A).
    """
    return parameters.get("version") or parameters.get("wmtver") or ""


def required_version(parameters: Mapping[str, str]) -> Version:
    """Return the version of a GetMap or GetFeatureInfo request.

    Raises:
        MissingParameterError: it is absent or empty.
        InvalidParameterError: it is not supported.
    """
    value = named(parameters)
    if not value:
        raise MissingParameterError("the parameter VERSION is missing", "VERSION")
    found = _OF_REQUESTS.get(value)
    if found is None:
        raise InvalidParameterError(f"there is no version {printable(value)}", "VERSION")
    return found


def negotiated(parameters: Mapping[str, str]) -> Version:
    """Return the version for capabilities and error reports (OGC 06-042 clause 6.2.4).

    This is the version named in the request. For an unknown number it is the next lower version,
    or the lowest one. Without a valid number it is the highest one.
    """
    parts = named(parameters).split(".")
    if len(parts) > _PARTS or not all(_NUMBER.fullmatch(part) for part in parts):
        return Version.V1_3_0
    wanted = [*map(int, parts), 0, 0]
    return Version.V1_3_0 if wanted[:_PARTS] >= [1, 3, 0] else Version.V1_1_1
