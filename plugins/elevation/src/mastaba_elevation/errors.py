"""Errors of queries that other services do not have."""

from __future__ import annotations

from mastaba.errors import RequestError


class TooMuchError(RequestError):
    """The query needs more points, tiles or pixels than the limits allow."""
