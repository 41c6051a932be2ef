"""Base class of storage drivers, which read byte ranges of keys (storage.md section 1)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple, Self

from mastaba_storage.environment import Environment
from mastaba_storage.errors import ObjectNotFoundError

MAX_WHOLE: Final = 128 * 1024 * 1024
"""Maximum bytes of an object read as a whole: larger than any descriptor, but fits in memory."""

# Named tuples, because every tile request creates one of each: they are twice as fast as
# dataclasses.


class ByteRange(NamedTuple):
    """Some bytes of an object.

    A range past the end of the object is truncated; it may start there or be empty.

    Attributes:
        offset: first byte, at least 0.
        length: bytes, at least 0.
    """

    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class ObjectStat:
    """Facts about one object.

    Attributes:
        size: bytes.
        version: opaque text, not empty; equal texts mean equal bytes of the same object, for
            `Storage.read` and `Storage.stat` alike. None if the storage has no versions.
        modified: Unix seconds, int or float; None if unknown.
    """

    size: int
    version: str | None = None
    modified: float | None = None


class ObjectRead(NamedTuple):
    """Bytes of an object, with its version and time of change.

    Attributes:
        data: of the type bytes, and no other.
        version: as in `ObjectStat`, of these bytes; may be None if the range is empty.
        modified: as in `ObjectStat`, of these bytes; may be None if the range is empty.
    """

    data: bytes
    version: str | None = None
    modified: float | None = None


class Storage(ABC):
    """An open connection to one container (bucket, pool, directory tree).

    A driver is a subclass that sets `name` and is registered by the hook ``register_storages``.
    All methods must be thread-safe, and must still work in a child process after a fork; the
    server does not fork while a thread reads. Keys are opaque: they are compared character by
    character. That an object is absent, or exists, is not remembered.

    Args:
        container: full name of the container.

    Attributes:
        name: prefix of paths (``s3`` in ``s3://…``) and, in upper case, ``storage.type`` of
            levels.
        container_field: field of a level's ``storage`` object that names the container; None if
            there is none.
        is_remote: whether reads wait for a network. If so, reads of one request are merged and run
            in parallel, and failed reads may be repeated. False if a read is only a system call.
        writer: subclass that also writes, as ``package.module:Class``
            (`mastaba.api.writable_storages`); None if there is none. Only tools that build pyramids
            import it.
        container: as given.
    """

    name: ClassVar[str]
    container_field: ClassVar[str | None]
    is_remote: ClassVar[bool] = True
    writer: ClassVar[str | None] = None

    def __init__(self, container: str) -> None:
        self.container = container

    @property
    def full_name(self) -> str:
        """Name for logs and cache keys, such as ``s3://bucket@cluster``."""
        return f"{self.name}://{self.container}"

    @property
    def is_suspended(self) -> bool:
        """Whether the circuit is open: no reads are sent, because too many have failed."""
        return False

    @classmethod
    @abstractmethod
    def open(cls, container: str, environment: Environment) -> Self:
        """Connect to a container.

        Raises:
            StorageUnavailableError: the storage does not answer.
            AccessDeniedError: credentials are refused or not set; the message names the variable.
            StorageError: the container does not exist, or a variable is invalid.
        """

    @classmethod
    def resolve_container(cls, container: str, beside: str | None) -> str:
        """Return the full name of a container named in a descriptor or symbolic object.

        Args:
            container: name as written there.
            beside: container of the descriptor or symbolic object itself; None if that is in
                another kind of storage.

        Raises:
            ValueError: the container cannot be determined.
        """
        return container

    @abstractmethod
    def read(
        self, key: str, byte_range: ByteRange | None = None, version: str | None = None
    ) -> ObjectRead:
        """Return one range of an object, or the whole object.

        Args:
            key: name of the object.
            byte_range: range to read, truncated at the end of the object; None for the whole.
            version: required version, from an earlier read; None for any version.

        Raises:
            ObjectNotFoundError: the object does not exist.
            ObjectChangedError: the object does not have the required version.
            AccessDeniedError: the storage denies access.
            StorageUnavailableError: the response is missing or incomplete.
            StorageError: the whole object is requested, but it is larger than `MAX_WHOLE`.
        """

    def read_ranges(
        self, key: str, byte_ranges: Sequence[ByteRange], version: str | None = None
    ) -> list[ObjectRead]:
        """Return several ranges of one object in the given order. Raises the errors of `read`.

        Without a required version, the results may have different versions.
        """
        return [self.read(key, byte_range, version) for byte_range in byte_ranges]

    @abstractmethod
    def stat(self, key: str) -> ObjectStat:
        """Return facts about an object. Raises the errors of `read`."""

    def exists(self, key: str) -> bool:
        """Return whether an object exists.

        Raises:
            StorageUnavailableError, AccessDeniedError: this cannot be determined.
        """
        try:
            self.stat(key)
        except ObjectNotFoundError:
            return False
        return True

    def close(self) -> None:  # noqa: B027 - most drivers have nothing to release
        """Release connections and descriptors.

        May be called repeatedly; nothing is read afterwards. In a child process, it leaves the
        connections of the parent alone.
        """
