"""HTTP statuses of errors, and what protocols find for an error in tables of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

from mastaba.errors import (
    OverloadedError,
    RequestError,
    RequestTooLargeError,
    StorageError,
    TileNotFoundError,
    TileOutOfRangeError,
    UnknownNameError,
    UnknownPathError,
    UnsupportedOperationError,
)

_T = TypeVar("_T")


class GoneError(UnknownNameError):
    """What the value names has existed, and was removed."""


class MethodNotAllowedError(RequestError):
    """The resource does not support the method."""


class NotAcceptableError(RequestError):
    """The client accepts none of the resource's media types."""


class MediaTypeError(RequestError):
    """The body of the request has an unsupported media type."""


class UpstreamError(RequestError):
    """The upstream server gave no usable response."""


STATUSES: Final[Mapping[type[BaseException], int]] = {
    RequestError: 400,
    UnknownNameError: 404,
    UnknownPathError: 404,
    GoneError: 410,
    TileOutOfRangeError: 404,
    TileNotFoundError: 404,
    MethodNotAllowedError: 405,
    NotAcceptableError: 406,
    RequestTooLargeError: 413,
    MediaTypeError: 415,
    UnsupportedOperationError: 501,
    UpstreamError: 502,
    OverloadedError: 503,
    StorageError: 503,
    Exception: 500,
}
"""HTTP status by class of errors. A protocol whose standard says otherwise adds to a copy."""


def entry_of(error: Exception, table: Mapping[type[BaseException], _T]) -> _T:
    """Return the entry for the class of an error, or for the nearest of its base classes.

    Args:
        table: with an entry for ``Exception``, for all other errors.
    """
    return next(table[kind] for kind in type(error).__mro__ if kind in table)
