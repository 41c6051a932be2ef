"""Errors of Mastaba. They are independent of HTTP status and protocol codes.

Each protocol service has its own table that maps them to responses. Those that any application may
raise are defined in `mastaba_server.errors`::

    ServerError
    ├── ListenError                   the listening address cannot be used
    ├── ChangeRefusedError            reason: why an administrative change was refused
    └── MastabaError                  `ApplicationError` in mastaba_server

    MastabaError
    ├── ConfigurationError            faults: all problems found, with file and path
    ├── PluginError
    │   ├── PluginLoadError           an entry point that cannot be imported or registered
    │   ├── PluginConflictError       two plugins provide the same name
    │   └── UnknownPluginError        no installed plugin provides this name
    ├── RequestError                  parameter: the invalid parameter, as named in the protocol
    │   ├── MissingParameterError
    │   │   └── MissingDimensionError     a layer without a default value
    │   ├── InvalidParameterError
    │   │   ├── InvalidDimensionError     not a value of the dimension
    │   │   │   └── NoSuchValueError      well-formed, but the layer has no such value
    │   │   ├── UnknownNameError      a layer, style, tile matrix set or matrix that does not exist
    │   │   └── UnsupportedFormatError
    │   ├── UnsupportedOperationError
    │   │   └── RendererMissingError  the answer must be drawn, and nothing that draws is installed
    │   ├── TileOutOfRangeError       indices outside the limits of the layer
    │   ├── TileNotFoundError         inside the limits, but not stored
    │   ├── UnknownPathError          no resource at this path
    │   ├── NotAcceptableError        the client accepts no form of the answer; headers
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

from mastaba_documents.faults import Fault
from mastaba_server.errors import (
    AccessError,
    ApplicationError,
    ChangeRefusedError,
    ClientGoneError,
    InvalidParameterError,
    ListenError,
    MissingParameterError,
    NoResponseError,
    NotAcceptableError,
    OverloadedError,
    RequestError,
    RequestTooLargeError,
    RestrictedCredentialError,
    ServerError,
    UnknownCredentialError,
    UnknownPathError,
    UnsupportedOperationError,
    escaped,
    reason_of,
)
from mastaba_storage.errors import (
    AccessDeniedError,
    ObjectChangedError,
    ObjectNotFoundError,
    StorageError,
    StorageUnavailableError,
)

__all__ = [
    "AccessDeniedError",
    "AccessError",
    "ChangeRefusedError",
    "ClientGoneError",
    "ConfigurationError",
    "ContainerFormatError",
    "InvalidDimensionError",
    "InvalidParameterError",
    "ListenError",
    "MastabaError",
    "MissingDimensionError",
    "MissingParameterError",
    "NoResponseError",
    "NoSuchValueError",
    "NotAcceptableError",
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


MastabaError = ApplicationError
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


class UnknownNameError(InvalidParameterError):
    """The value names a layer, style, tile matrix set or tile matrix that is not offered."""


class MissingDimensionError(MissingParameterError):
    """A layer has no default for a dimension, and the request has no value."""


class InvalidDimensionError(InvalidParameterError):
    """The value of a dimension cannot be used; ``parameter`` names the dimension."""


class NoSuchValueError(InvalidDimensionError):
    """The value of a dimension is well-formed, but the layer has none that it means."""


class UnsupportedFormatError(InvalidParameterError):
    """The format is not offered for this layer."""


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
    """The tile is inside the limits of the layer, but not stored.

    Attributes:
        headers: of its report, name and value each.
    """

    def __init__(self, message: str, headers: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__(message)
        self.headers = headers


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
