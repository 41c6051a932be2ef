"""Errors of Mastaba. None of them knows an HTTP status or a code of a protocol.

Each protocol service maps them to the wire in one table of its own::

    MastabaError
    ├── ConfigurationError            faults: every fault found, with file and path
    ├── ListenError                   the listening address cannot be used
    ├── ChangeRefusedError            reason: why an administrative change was not made
    ├── PluginError
    │   ├── PluginLoadError           an entry point that cannot be imported or registered
    │   ├── PluginConflictError       two plugins provide one name
    │   └── UnknownPluginError        nothing installed provides this name
    ├── RequestError                  parameter: the parameter at fault, as the client names it
    │   ├── MissingParameterError
    │   ├── InvalidParameterError
    │   │   ├── UnknownNameError      a layer, style, tile matrix set or matrix that does not exist
    │   │   └── UnsupportedFormatError
    │   ├── UnsupportedOperationError
    │   ├── TileOutOfRangeError       indices outside the limits of the layer
    │   ├── TileNotFoundError         inside the limits, but nothing is stored
    │   ├── UnknownPathError          no resource at this path
    │   └── RequestTooLargeError
    ├── ClientGoneError               nobody waits for the answer any more
    ├── OverloadedError               retry_after: seconds; the same request may succeed later
    ├── StorageError                  storage, key
    │   ├── ObjectNotFoundError       absent, which is not a failure
    │   ├── ObjectChangedError        another generation of the object than the one asked for
    │   ├── AccessDeniedError
    │   └── StorageUnavailableError   unreachable, timed out, cut short: may be retried
    └── SlabFormatError               a stored slab is damaged
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mastaba.model.fault import Fault


def reason_of(error: Exception) -> str:
    """Return what went wrong, without the path and the number that Python adds."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


class MastabaError(Exception):
    """Base of every error that Mastaba raises on purpose."""


class ConfigurationError(MastabaError):
    """The configuration cannot be used; ``faults`` holds every reason, not only the first."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__("; ".join(str(fault) for fault in faults))
        self.faults = tuple(faults)


class ListenError(MastabaError):
    """The listening address is unusable or taken."""


class ChangeRefusedError(MastabaError):
    """An administrative change was not made, in no process.

    Args:
        reason: ``exists``, ``unknown`` (the layer to be created, changed or deleted), ``faulty``
            (what was sent cannot be used), ``failed`` or ``unavailable`` (the server's fault).
        message: what is wrong, fit to be shown to an operator.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class PluginError(MastabaError):
    """Something is wrong with an installed plugin."""


class PluginLoadError(PluginError):
    """A plugin cannot be imported, or implements a hook that does not exist."""


class PluginConflictError(PluginError):
    """Two plugins provide the same name."""


class UnknownPluginError(PluginError):
    """No installed plugin provides this name."""


class RequestError(MastabaError):
    """The request cannot be answered as it is.

    Args:
        message: what is wrong, fit to be shown to the client.
        parameter: the parameter at fault, spelt as in the protocol; None when there is none.
    """

    def __init__(self, message: str, parameter: str | None = None) -> None:
        super().__init__(message)
        self.parameter = parameter


class MissingParameterError(RequestError):
    """A mandatory parameter is absent or empty."""


class InvalidParameterError(RequestError):
    """A parameter has a value that is not allowed."""


class UnknownNameError(InvalidParameterError):
    """The value names a layer, style, tile matrix set or tile matrix that is not offered."""


class UnsupportedFormatError(InvalidParameterError):
    """The format is not offered for this layer."""


class UnsupportedOperationError(RequestError):
    """The operation exists in the standard, but is not offered (here)."""


class TileOutOfRangeError(RequestError):
    """Tile indices outside the limits of the layer.

    Args:
        message: what is wrong.
        parameters: the indices at fault, spelt as in the protocol.
    """

    def __init__(self, message: str, parameters: Sequence[str]) -> None:
        super().__init__(message, parameters[0] if parameters else None)
        self.parameters = tuple(parameters)


class TileNotFoundError(RequestError):
    """No tile is stored at this place, though the limits allow one."""


class UnknownPathError(RequestError):
    """Nothing is served at this path."""


class RequestTooLargeError(RequestError):
    """The body of the request is larger than the server takes."""


class ClientGoneError(MastabaError):
    """The client has hung up: there is nobody to be answered."""


class OverloadedError(MastabaError):
    """The server cannot answer this request now.

    Args:
        message: why, fit to be shown to the client.
        retry_after: seconds after which another attempt makes sense.
    """

    def __init__(self, message: str, retry_after: int = 10) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class StorageError(MastabaError):
    """A storage cannot give what was asked.

    Args:
        message: what happened, for the log: it is never shown to a client.
        storage: full name of the container, such as ``s3://bucket@cluster``.
        key: name of the object in it.
    """

    def __init__(self, message: str, *, storage: str = "", key: str = "") -> None:
        super().__init__(message)
        self.storage = storage
        self.key = key


class ObjectNotFoundError(StorageError):
    """There is no such object, or it is empty."""


class ObjectChangedError(StorageError):
    """The object is not, or no longer, of the version asked for."""


class AccessDeniedError(StorageError):
    """The storage refuses our credentials, or they are not set."""


class StorageUnavailableError(StorageError):
    """The storage did not answer, or not completely. A later attempt may succeed.

    Args:
        answered: whether it did answer, only not with what was asked for: it is alive.
    """

    def __init__(
        self, message: str, *, storage: str = "", key: str = "", answered: bool = False
    ) -> None:
        super().__init__(message, storage=storage, key=key)
        self.answered = answered


class SlabFormatError(MastabaError):
    """The bytes of a slab are not those of a slab; the message names it."""


def public_message(error: Exception) -> str:
    """Return what a client may know of an error: nothing of paths, storages or the code."""
    if isinstance(error, RequestError | OverloadedError):
        return str(error)
    if isinstance(error, StorageError):
        return "the data cannot be read at the moment"
    if isinstance(error, SlabFormatError):
        return "the stored data is damaged"
    if isinstance(error, MastabaError):
        return "the request cannot be answered"
    return "internal error"
