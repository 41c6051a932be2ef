"""Parameters of a request, which may be repeated, and the operation that they name.

All bindings give the same parameters: XML documents are read as those of KVP (`mastaba_wcs.post`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Final

from mastaba.api.web import decode, printable
from mastaba.errors import (
    InvalidParameterError,
    MissingParameterError,
    UnsupportedOperationError,
)

_MAX_VALUES: Final = 16
"""Values of a repeated parameter."""
# Version 2.0.0 numbers repeated parameters.
_NUMBERED: Final = re.compile("(subset|rangesubset)[0-9]{1,3}")
_PREFIXES: Final = ("scal:", "rsub:", "int:", "crs:", "wcs:")


class Operation(StrEnum):
    """Operations of the standard, as in REQUEST."""

    GET_CAPABILITIES = "GetCapabilities"
    DESCRIBE_COVERAGE = "DescribeCoverage"
    GET_COVERAGE = "GetCoverage"


# Those of the extensions of the standard.
_NOT_OFFERED: Final = frozenset(("transaction", "processcoverages", "describeeocoverageset"))
_OPERATIONS: Final = {operation.lower(): operation for operation in Operation}


class Parameters(Mapping[str, str]):
    """Parameters by name in lower case; of repeated ones, the first as item.

    Args:
        pairs: names and values. Prefixes of extensions and numbers of repeated names do not count.
    """

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        found: dict[str, list[str]] = {}
        for name, value in pairs:
            found.setdefault(_plain(name.lower()), []).append(value)
        self._values = found

    def __getitem__(self, name: str) -> str:
        return self._values[name][0]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def values_of(self, name: str) -> list[str]:
        """Return all values of a parameter that may be repeated.

        Args:
            name: as the protocol spells it.

        Raises:
            InvalidParameterError: there are too many.
        """
        found = self._values.get(name.lower(), [])
        if len(found) > _MAX_VALUES:
            raise InvalidParameterError(f"{name} is repeated too often", name)
        return found

    def only(self, name: str) -> str | None:
        """Return the value of a parameter that must not be repeated; None if it is absent or empty.

        Args:
            name: as the protocol spells it.

        Raises:
            InvalidParameterError: it has several values.
        """
        found = self._values.get(name.lower(), [])
        if len(found) > 1:
            raise InvalidParameterError(f"{name} must not be repeated", name)
        return found[0] if found and found[0] else None

    def required(self, name: str) -> str:
        """Return a mandatory parameter.

        Args:
            name: as the protocol spells it.

        Raises:
            MissingParameterError: it is absent or empty.
            InvalidParameterError: it has several values.
        """
        value = self.only(name)
        if value is None:
            raise MissingParameterError(f"the parameter {name} is missing", name)
        return value

    def over(self, others: Parameters) -> Parameters:
        """Return these parameters, and those of others that are absent here."""
        found = Parameters(())
        found._values = {**others._values, **self._values}
        return found


def query_parameters(text: str) -> Parameters:
    """Return the parameters of a query string or a form, still percent-encoded."""
    pairs = (item.partition("=") for item in text.split("&"))
    return Parameters((decode(name), decode(value)) for name, equals, value in pairs if equals)


def operation(parameters: Mapping[str, str]) -> Operation:
    """Return the requested operation after checking SERVICE and REQUEST in this order.

    Raises:
        MissingParameterError: SERVICE or REQUEST is absent.
        InvalidParameterError: SERVICE is not WCS, or the operation does not exist.
        UnsupportedOperationError: the operation is not offered.
    """
    service = parameters.get("service")
    request = parameters.get("request")
    if not service:
        raise MissingParameterError("the parameter SERVICE is missing", "SERVICE")
    if service.upper() != "WCS":
        raise InvalidParameterError(f"SERVICE is not WCS but {printable(service)}", "SERVICE")
    if not request:
        raise MissingParameterError("the parameter REQUEST is missing", "REQUEST")
    found = _OPERATIONS.get(request.lower())
    if request.lower() in _NOT_OFFERED:
        raise UnsupportedOperationError(f"{request} is not offered", request)
    if found is None:
        raise InvalidParameterError(f"there is no operation {printable(request)}", "REQUEST")
    return found


def _plain(name: str) -> str:
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    numbered = _NUMBERED.fullmatch(name)
    return name if numbered is None else numbered[1]
