"""Errors of storages. `mastaba_server.errors` defines their base class.

::

    ApplicationError
    └── StorageError                  storage, key
        ├── ObjectNotFoundError       absent, which is not a failure
        ├── ObjectChangedError        the object no longer has the requested version
        ├── AccessDeniedError
        └── StorageUnavailableError   unreachable, timed out or truncated: may be retried
"""

from __future__ import annotations

from mastaba_server.errors import ApplicationError


class StorageError(ApplicationError):
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
