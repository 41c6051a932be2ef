"""Versions of WCS, and which one answers a request."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from mastaba.api.web import printable
from mastaba.errors import InvalidParameterError, MissingParameterError, RequestError
from mastaba_ows.parameters import items


class Version(StrEnum):
    """A version of the protocol."""

    V2_0_1 = "2.0.1"
    V1_0_0 = "1.0.0"


class VersionNegotiationError(RequestError):
    """The client accepts no version that the service supports."""


# 2.0.0 has the same requests as 2.0.1.
_OF_REQUESTS: Final = {
    "2.0.1": Version.V2_0_1,
    "2.0.0": Version.V2_0_1,
    "1.0.0": Version.V1_0_0,
}
_BEFORE_2: Final = re.compile(r"[01](?:\.[0-9]{1,9}){0,2}")


def required_version(parameters: Mapping[str, str]) -> Version:
    """Return the version of a DescribeCoverage or GetCoverage request.

    Raises:
        MissingParameterError: it is absent or empty.
        InvalidParameterError: it is not supported.
    """
    value = parameters.get("version")
    if not value:
        raise MissingParameterError("the parameter VERSION is missing", "VERSION")
    found = _OF_REQUESTS.get(value)
    if found is None:
        raise InvalidParameterError(
            f"there is no version {printable(value)}; use 2.0.1 or 1.0.0", "VERSION"
        )
    return found


def capabilities_version(parameters: Mapping[str, str]) -> Version:
    """Return the version of the capabilities: the first of AcceptVersions that is supported.

    Without that parameter, VERSION decides: 1.0.0 for all numbers below 2, otherwise 2.0.1.

    Raises:
        VersionNegotiationError: no version in AcceptVersions is supported.
    """
    accepted = items(parameters.get("acceptversions", "")[:1000])
    if not accepted:
        return named_version(parameters)
    for value in accepted:
        found = _OF_REQUESTS.get(value)
        if found is not None:
            return found
    raise VersionNegotiationError("versions are 2.0.1 and 1.0.0", "AcceptVersions")


def named_version(parameters: Mapping[str, str]) -> Version:
    """Return the version in whose form errors are reported.

    It is 1.0.0 for all numbers below 2, and for requests without a supported version that name a
    coverage as 1.0.0 does.
    """
    text = parameters.get("version", "")
    if _BEFORE_2.fullmatch(text):
        return Version.V1_0_0
    is_old = text not in _OF_REQUESTS and "coverage" in parameters
    return Version.V1_0_0 if is_old else Version.V2_0_1
