"""Errors of servers and of their applications, which may define further ones.

They are independent of HTTP status: applications map them to responses.
"""

from __future__ import annotations

from collections.abc import Sequence


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


class ApplicationError(ServerError):
    """Base class of the errors of applications."""


class RequestError(ApplicationError):
    """The request is invalid.

    Args:
        message: what is wrong, for the client.
        parameter: the invalid parameter, spelt as in the protocol, or None.
    """

    def __init__(self, message: str, parameter: str | None = None) -> None:
        super().__init__(message)
        self.parameter = parameter


class MovedError(RequestError):
    """A name in the request means another name at the moment, under which it must be sent again.

    Args:
        before, after: the name as in the request, and the other one, decoded.
    """

    def __init__(self, before: str, after: str) -> None:
        super().__init__(f"{before} is {after} at the moment: request that one")
        self.before = before
        self.after = after


class MissingParameterError(RequestError):
    """A mandatory parameter is missing or empty."""


class InvalidParameterError(RequestError):
    """A parameter has a value that is not allowed."""


class UnsupportedOperationError(RequestError):
    """The operation exists in the standard, but is not offered (by this resource)."""


class UnknownPathError(RequestError):
    """Nothing is served at this path."""

    def __init__(
        self, message: str = "there is nothing at this path", parameter: str | None = None
    ) -> None:
        super().__init__(message, parameter)


class NotAcceptableError(RequestError):
    """The client accepts no form in which the resource can be sent.

    Args:
        message: what it would have to accept.
        parameter: the parameter that says what it accepts, or None.
        headers: of the report, name and value each.
    """

    def __init__(
        self,
        message: str,
        parameter: str | None = None,
        headers: Sequence[tuple[str, str]] = (),
    ) -> None:
        super().__init__(message, parameter)
        self.headers = headers


class RequestTooLargeError(RequestError):
    """The request body is larger than the server accepts."""


class AccessError(RequestError):
    """The client may not have this, or not now; every protocol answers with this status.

    Args:
        message: why, for the client; names no rule, group or layer.
        status: 401 (a credential is missing or invalid), 403 or 429.
        challenges: values of WWW-Authenticate; those of the gate if empty.
        retry_after: seconds after which another attempt makes sense, or None.
        headers: further headers of the response.

    Attributes:
        delay: seconds for which the answer should wait, so that trying takes long.
    """

    delay: float = 0.0

    def __init__(
        self,
        message: str,
        status: int = 401,
        challenges: Sequence[str] = (),
        retry_after: int | None = None,
        headers: Sequence[tuple[str, str]] = (),
    ) -> None:
        super().__init__(message)
        self.status = status
        self.challenges = tuple(challenges)
        self.retry_after = retry_after
        self.headers = tuple(headers)


class UnknownCredentialError(AccessError):
    """The credential is unknown, damaged, expired or revoked."""


class RestrictedCredentialError(AccessError):
    """The credential is valid, but not from this address or page.

    Args:
        message: why, for the client.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message, 403)


class ClientGoneError(ApplicationError):
    """The client has hung up: no one waits for the response."""


class NoResponseError(ApplicationError):
    """An HTTP server did not answer, or not completely; the message is for the log."""


class OverloadedError(ApplicationError):
    """The server cannot answer this request now.

    Args:
        message: why, for the client.
        retry_after: seconds after which another attempt makes sense.
    """

    def __init__(self, message: str, retry_after: int = 10) -> None:
        super().__init__(message)
        self.retry_after = retry_after
