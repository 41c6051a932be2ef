"""Where the tiles of a block are in an object."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from sys import intern
from typing import ClassVar

from mastaba_storage.base import Storage


class TileIndex(ABC):
    """Places of the tiles of a block in one version of an object.

    A block is a slab, or in other containers tiles that are adjacent.

    Attributes:
        word: what messages call the object.
        storage: storage of the object.
        key: key of the object.
        version: version of the object, see `mastaba.api.storages.ObjectStat`.
        modified: time of the last change in Unix seconds, or None.
        expires: until when its cache uses it, in seconds of the clock of the cache. An index is
            under one key of one cache at most.
        identity: storage, key and version: equal only for equal bytes if the storage has versions.
    """

    word: ClassVar[str] = "file"
    __slots__ = ("expires", "identity", "key", "modified", "storage", "version")

    def __init__(
        self,
        storage: Storage,
        key: str,
        version: str | None = None,
        modified: float | None = None,
    ) -> None:
        self.storage = storage
        self.key = key
        self.version = version
        self.modified = modified
        self.expires = 0.0
        # Interned: there are many indices of one storage.
        self.identity = intern(storage.full_name), key, version

    @property
    def name(self) -> str:
        """Full name of the object, for messages."""
        return full_name(self.storage, self.key)

    @property
    def described(self) -> str:
        """What the object is, and its name, for messages."""
        return f"{self.word} {self.name}"

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes that the index takes in memory."""

    @abstractmethod
    def tile(self, number: int) -> tuple[int, int] | None:
        """Return the offset and size of a tile in the object, or None if it is not stored.

        Raises:
            SlabFormatError: the entry is invalid.
            StorageError: a part of the index that is read only now cannot be read.
        """

    def tiles(self, numbers: Iterable[int]) -> list[tuple[int, int] | None]:
        """Return offset and size of some tiles. Raises the errors of `tile`."""
        return [self.tile(number) for number in numbers]


def full_name(storage: Storage, key: str) -> str:
    """Return the full name of an object: its key, after the storage where that has containers."""
    return f"{storage.full_name}/{key}" if storage.container else key
