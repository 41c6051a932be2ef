"""Errors of Mastaba. They are independent of HTTP status and protocol codes.

Each protocol service has its own table that maps them to responses::

    ServerError (mastaba_server)
    ├── ListenError                   the listening address cannot be used
    ├── ChangeRefusedError            reason: why an administrative change was refused
    └── MastabaError

    MastabaError
    ├── ConfigurationError            faults: all problems found, with file and path
    ├── PluginError
    │   ├── PluginLoadError           an entry point that cannot be imported or registered
    │   ├── PluginConflictError       two plugins provide the same name
    │   └── UnknownPluginError        no installed plugin provides this name
    ├── RequestError                  parameter: the invalid parameter, as named in the protocol
    │   ├── MissingParameterError
    │   ├── InvalidParameterError
    │   │   ├── UnknownNameError      a layer, style, tile matrix set or matrix that does not exist
    │   │   └── UnsupportedFormatError
    │   ├── UnsupportedOperationError
    │   │   └── RendererMissingError  the answer must be drawn, and nothing that draws is installed
    │   ├── TileOutOfRangeError       indices outside the limits of the layer
    │   ├── TileNotFoundError         inside the limits, but not stored
    │   ├── UnknownPathError          no resource at this path
    │   ├── RequestTooLargeError
    │   └── AccessError               status: 401, 403 or 429; challenges, retry_after
    │       ├── UnknownCredentialError     no one has it, it is damaged, expired or revoked
    │       └── RestrictedCredentialError  it may not be used from here
    ├── ClientGoneError               the client has hung up
    ├── NoResponseError               an HTTP server did not answer, or not completely
    ├── OverloadedError               retry_after: seconds; the same request may succeed later
    ├── StorageError                  storage, key
    │   ├── ObjectNotFoundError       absent, which is not a failure
    │   ├── ObjectChangedError        the object no longer has the requested version
    │   ├── AccessDeniedError
    │   └── StorageUnavailableError   unreachable, timed out or truncated: may be retried
    └── SlabFormatError               a stored slab is damaged
        └── ContainerFormatError      remedy: a container is damaged, or cannot be published
"""

from __future__ import annotations

from collections.abc import Sequence

from mastaba.model.fault import Fault
from mastaba_server.errors import (
    ChangeRefusedError,
    ListenError,
    ServerError,
    escaped,
    reason_of,
)

__all__ = [
    "AccessDeniedError",
    "AccessError",
    "ChangeRefusedError",
    "ClientGoneError",
    "ConfigurationError",
    "ContainerFormatError",
    "InvalidParameterError",
    "ListenError",
    "MastabaError",
    "MissingParameterError",
    "NoResponseError",
    "ObjectChangedError",
    "ObjectNotFoundError",
    "OverloadedError",
    "PluginConflictError",
    "PluginError",
    "PluginLoadError",
    "RequestError",
    "RequestTooLargeError",
    "RestrictedCredentialError",
    "SlabFormatError",
    "StorageError",
    "StorageUnavailableError",
    "TileNotFoundError",
    "TileOutOfRangeError",
    "UnknownCredentialError",
    "UnknownNameError",
    "UnknownPathError",
    "UnknownPluginError",
    "UnsupportedFormatError",
    "UnsupportedOperationError",
    "escaped",
    "public_message",
    "reason_of",
]


class MastabaError(ServerError):
    """Base class of all errors that Mastaba raises deliberately."""


class ConfigurationError(MastabaError):
    """The configuration cannot be used.

    Args:
        faults: all reasons.
    """

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__("; ".join(str(fault) for fault in faults))
        self.faults = tuple(faults)


class PluginError(MastabaError):
    """An installed plugin causes a problem."""


class PluginLoadError(PluginError):
    """A plugin cannot be imported, or implements a hook that does not exist."""


class PluginConflictError(PluginError):
    """Two plugins provide the same name."""


class UnknownPluginError(PluginError):
    """No installed plugin provides this name."""


class RequestError(MastabaError):
    """The request is invalid.

    Args:
        message: what is wrong, for the client.
        parameter: the invalid parameter, spelt as in the protocol, or None.
    """

    def __init__(self, message: str, parameter: str | None = None) -> None:
        super().__init__(message)
        self.parameter = parameter


class MissingParameterError(RequestError):
    """A mandatory parameter is missing or empty."""


class InvalidParameterError(RequestError):
    """A parameter has a value that is not allowed."""


class UnknownNameError(InvalidParameterError):
    """The value names a layer, style, tile matrix set or tile matrix that is not offered."""


class UnsupportedFormatError(InvalidParameterError):
    """The format is not offered for this layer."""


class UnsupportedOperationError(RequestError):
    """The operation exists in the standard, but is not offered (by this resource)."""


class RendererMissingError(UnsupportedOperationError):
    """The answer must be drawn, and the distribution that draws is not installed."""

    def __init__(self) -> None:
        super().__init__("this must be drawn, and the server draws nothing: install mastaba-render")


class TileOutOfRangeError(RequestError):
    """The tile indices are outside the limits of the layer.

    Args:
        message: what is wrong.
        parameters: the invalid indices, spelt as in the protocol.
    """

    def __init__(self, message: str, parameters: Sequence[str]) -> None:
        super().__init__(message, parameters[0] if parameters else None)
        self.parameters = tuple(parameters)


class TileNotFoundError(RequestError):
    """The tile is inside the limits of the layer, but not stored."""


class UnknownPathError(RequestError):
    """Nothing is served at this path."""


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
    """

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


class ClientGoneError(MastabaError):
    """The client has hung up: no one waits for the response."""


class NoResponseError(MastabaError):
    """An HTTP server did not answer, or not completely; the message is for the log."""


class OverloadedError(MastabaError):
    """The server cannot answer this request now.

    Args:
        message: why, for the client.
        retry_after: seconds after which another attempt makes sense.
    """

    def __init__(self, message: str, retry_after: int = 10) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class StorageError(MastabaError):
    """A read from a storage failed.

    Args:
        message: what happened, for the log; never shown to clients.
        storage: full name of the container, such as ``s3://bucket@cluster``.
        key: name of the object in the container.
    """

    def __init__(self, message: str, *, storage: str = "", key: str = "") -> None:
        super().__init__(message)
        self.storage = storage
        self.key = key


class ObjectNotFoundError(StorageError):
    """The object does not exist, or is empty."""


class ObjectChangedError(StorageError):
    """The object does not have the requested version, or no longer has it."""


class AccessDeniedError(StorageError):
    """The storage refuses the credentials, or they are not set."""


class StorageUnavailableError(StorageError):
    """The storage did not answer, or not completely. A later attempt may succeed.

    Args:
        message: what happened, for the log.
        storage: full name of the container.
        key: name of the object in the container.
        answered: whether the storage answered with an error, which means that it is reachable.
    """

    def __init__(
        self, message: str, *, storage: str = "", key: str = "", answered: bool = False
    ) -> None:
        super().__init__(message, storage=storage, key=key)
        self.answered = answered


class SlabFormatError(MastabaError):
    """A slab is damaged; the message names it."""


class ContainerFormatError(SlabFormatError):
    """A container is damaged, or cannot be published; the message says why.

    Args:
        message: what is wrong.
        remedy: what the operator can do.
    """

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy


def public_message(error: Exception) -> str:
    """Return the message for a client, without paths, storages or internals."""
    if isinstance(error, RequestError | OverloadedError):
        return str(error)
    if isinstance(error, StorageError):
        return "the data cannot be read at the moment"
    if isinstance(error, SlabFormatError):
        return "the stored data is damaged"
    if isinstance(error, ServerError):
        return "the request cannot be answered"
    return "internal error"
