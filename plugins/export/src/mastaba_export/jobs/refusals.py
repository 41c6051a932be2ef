"""Why a job is not accepted, or given up."""

from __future__ import annotations

from collections.abc import Mapping

from mastaba.errors import MastabaError, RequestError

Details = Mapping[str, float]
"""The numbers of a refusal, by name."""


class TooLargeError(RequestError):
    """The result would exceed a limit.

    Args:
        message: why, for the client.
        details: the numbers.
    """

    def __init__(self, message: str, details: Details) -> None:
        super().__init__(message)
        self.details = details


class _LaterError(MastabaError):
    """A job that may be accepted later.

    Args:
        message: why, for the client.
        details: the numbers.
        retry_after: seconds after which another attempt makes sense.
    """

    def __init__(self, message: str, details: Details, retry_after: int) -> None:
        super().__init__(message)
        self.details = details
        self.retry_after = retry_after


class TooManyError(_LaterError, RequestError):
    """Too many jobs are waiting, or their owner asks too often."""


class FullError(_LaterError):
    """There is no room for the result."""


class QueueError(MastabaError):
    """The queue cannot be read or written; the message is for the log."""


class DiskFullError(MastabaError):
    """The disk is nearly full, so a running job is given up."""
