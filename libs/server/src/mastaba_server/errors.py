"""Errors whose messages are for operators."""

from __future__ import annotations


def reason_of(error: Exception) -> str:
    """Return the reason of an error, without the path and error number that Python adds."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def escaped(text: str) -> str:
    """Return a text on one line, with control characters escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class ServerError(Exception):
    """Base class of all errors that are raised deliberately; the message needs no traceback."""


class ListenError(ServerError):
    """The listening address is invalid or in use."""


class ChangeRefusedError(ServerError):
    """An administrative change was refused and not applied in any process.

    Args:
        reason: ``exists`` or ``unknown`` (what to create, change or delete), ``faulty`` (the
            submitted data cannot be used), ``failed`` or ``unavailable`` (a server error).
        message: what is wrong, for the operator.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
