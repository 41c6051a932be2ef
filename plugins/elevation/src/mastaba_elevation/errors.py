"""Errors of queries that the core does not have."""

from __future__ import annotations

from mastaba.errors import RequestError


class TooMuchError(RequestError):
    """The query needs more points, tiles or pixels than the limits allow."""


class MediaTypeError(RequestError):
    """The body of the request is neither JSON nor a form."""


class NotAcceptableError(RequestError):
    """The client accepts none of the offered media types."""
