"""Errors of protocols over HTTP, with their statuses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mastaba.api import web
from mastaba.api.web import entry_of as entry_of
from mastaba.errors import NotAcceptableError as NotAcceptableError
from mastaba.errors import RequestError, UnknownNameError


class GoneError(UnknownNameError):
    """What the value names has existed, and was removed."""


class MethodNotAllowedError(RequestError):
    """The resource does not support the method."""


class MediaTypeError(RequestError):
    """The body of the request has an unsupported media type."""


class UpstreamError(RequestError):
    """The upstream server gave no usable response."""


STATUSES: Final[Mapping[type[BaseException], int]] = {
    **web.STATUSES,
    GoneError: 410,
    MethodNotAllowedError: 405,
    MediaTypeError: 415,
    UpstreamError: 502,
}
"""HTTP status by class of errors. A protocol whose standard says otherwise adds to a copy."""


REFUSALS: Final[Mapping[int, tuple[str, str]]] = {
    401: ("Unauthorized", "A credential is missing or invalid"),
    403: ("Forbidden", "The credential does not allow this"),
    429: ("TooManyRequests", "A rate or quota is used up"),
}
"""Type and title of the problems that `AccessError` reports, by HTTP status."""


def status_of(error: Exception, table: Mapping[type[BaseException], int] | None = None) -> int:
    """Return the HTTP status of an error; that of an `AccessError` is its own.

    Args:
        table: as for `entry_of`; `STATUSES` if it is None.
    """
    return web.status_of(error, table or STATUSES)
