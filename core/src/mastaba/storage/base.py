"""What a storage driver is: keys and byte ranges, nothing of slabs (storage.md section 1)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple, Self

from mastaba.errors import ObjectNotFoundError

if TYPE_CHECKING:
    from mastaba.environment import Environment


MAX_WHOLE: Final = 128 * 1024 * 1024
"""Bytes of an object that may be read whole: more than any descriptor, less than the memory."""

# Named tuples, since every tile makes one of each: they take half the time of a dataclass.


class ByteRange(NamedTuple):
    """``length`` bytes from ``offset``; a range that runs past the end is cut at the end."""

    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class ObjectStat:
    """Facts about one object.

    Attributes:
        size: bytes.
        version: opaque text; equal texts mean equal bytes. None when the storage knows none.
        modified: Unix seconds, None when unknown.
    """

    size: int
    version: str | None = None
    modified: float | None = None


class ObjectRead(NamedTuple):
    """Bytes of one object, and which generation of it they belong to (see `ObjectStat`)."""

    data: bytes
    version: str | None = None
    modified: float | None = None


class Storage(ABC):
    """An open connection to one container (bucket, pool, directory tree).

    A driver subclasses this, sets `name`, and is announced by the hook ``register_storages``.
    All methods may be called from several threads at a time, and again in a child process
    after a fork.
    """

    name: ClassVar[str]
    """Prefix of paths (``s3`` in ``s3://…``) and, in upper case, ``storage.type`` of levels."""

    container_field: ClassVar[str | None]
    """Field of a level's ``storage`` object that names the container; None when there is none."""

    is_remote: ClassVar[bool] = True
    """Whether a read waits for a network: then reads of one request are merged and run in
    parallel, and failed ones may be repeated. False where a read is a mere system call."""

    def __init__(self, container: str) -> None:
        self.container = container

    @property
    def full_name(self) -> str:
        """Name for logs and cache keys, such as ``s3://bucket@cluster``."""
        return f"{self.name}://{self.container}"

    @property
    def is_suspended(self) -> bool:
        """Whether it is not asked at present, since it failed too often."""
        return False

    @classmethod
    @abstractmethod
    def open(cls, container: str, environment: Environment) -> Self:
        """Connect to a container.

        Raises:
            StorageUnavailableError: it does not answer.
            AccessDeniedError: credentials are refused, or not set; the message names the variable.
            StorageError: there is no such container, or a variable cannot be used.
        """

    @classmethod
    def resolve_container(cls, container: str, beside: str | None) -> str:
        """Return the full name of a container that a descriptor or a symbolic object mentions.

        Args:
            container: as written there.
            beside: container that the descriptor or symbolic object itself lies in; None when
                it lies in another kind of storage.

        Raises:
            ValueError: the container cannot be told.
        """
        return container

    @abstractmethod
    def read(
        self, key: str, byte_range: ByteRange | None = None, version: str | None = None
    ) -> ObjectRead:
        """Return one range of an object, or all of it.

        Args:
            key: name of the object.
            byte_range: cut at the end of the object when it runs past it.
            version: the generation wanted, from an earlier read; any when None.

        Raises:
            ObjectNotFoundError: there is no such object.
            ObjectChangedError: the object is not, or no longer, of the version wanted.
            AccessDeniedError: the storage refuses.
            StorageUnavailableError: no answer, or not a complete one.
            StorageError: it is asked for whole, and larger than `MAX_WHOLE`.
        """

    def read_ranges(
        self, key: str, byte_ranges: Sequence[ByteRange], version: str | None = None
    ) -> list[ObjectRead]:
        """Return several ranges of one object, in the order asked. Raises what `read` raises."""
        return [self.read(key, byte_range, version) for byte_range in byte_ranges]

    @abstractmethod
    def stat(self, key: str) -> ObjectStat:
        """Return facts about an object. Raises what `read` raises."""

    def exists(self, key: str) -> bool:
        """Tell whether an object is there.

        Raises:
            StorageUnavailableError, AccessDeniedError: the storage cannot tell.
        """
        try:
            self.stat(key)
        except ObjectNotFoundError:
            return False
        return True

    def close(self) -> None:  # noqa: B027 - most drivers have nothing to release
        """Release connections. May be called twice; nothing is read afterwards."""
