"""Results of jobs in an object store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from mastaba.api.storages import ByteRange
from mastaba.api.web import LARGEST_PIECE, AddressableBody
from mastaba.errors import MastabaError
from mastaba_export.object_store import ObjectTarget
from mastaba_export.output import discard

if TYPE_CHECKING:
    from mastaba.api.storages import Storage

_ENDING = ".journal"


class RemoteResults:
    """The objects of jobs: ``PREFIX/JOB/NAME``.

    Args:
        address: ``s3://bucket/prefix`` and the like.
        driver: returns a storage driver by its name.

    Raises:
        DestinationError: the driver is not installed or cannot write, or the address is invalid.
    """

    def __init__(self, address: str, driver: Callable[[str], type[Storage]]) -> None:
        self._base = ObjectTarget.parse(f"{address.rstrip('/')}/{_ENDING}", driver)

    @property
    def container(self) -> tuple[str, str]:
        """Name of the storage driver, and container."""
        return self._base.storage, self._base.container

    def target(self, identifier: str, name: str) -> ObjectTarget:
        """Return the object of a file of a job."""
        return self._base.beside(f"{self._base.key.removesuffix(_ENDING)}{identifier}/{name}")

    def size(self, identifier: str, name: str) -> int | None:
        """Return the bytes of a file of a job, or None if there is none.

        Raises:
            MastabaError: the storage cannot be used.
        """
        target = self.target(identifier, name)
        with closing(target.open()) as storage:
            return storage.stat(target.key).size if storage.exists(target.key) else None

    def remove(self, identifier: str, folder: str) -> None:
        """Remove the files of a job, and what it has uploaded of others.

        Args:
            folder: directory of the job on this machine.

        Raises:
            MastabaError: the storage cannot be used.
        """
        for path in Path(folder).glob(f"*{_ENDING}"):
            name = path.name.removesuffix(_ENDING)
            discard(path.with_name(name), self.target(identifier, name))
        first = self.target(identifier, "")
        with closing(first.open()) as storage:
            for key in list(storage.list(first.key)):
                storage.delete(key)


class ObjectBody(AddressableBody):
    """An object.

    Args:
        storage: open container.
        key: of the object.

    Raises:
        ObjectNotFoundError: it does not exist.
        StorageError: it cannot be read.
    """

    def __init__(self, storage: Storage, key: str) -> None:
        self._storage, self._key = storage, key
        found = storage.stat(key)
        super().__init__(found.size, found.version)

    def pieces(self, start: int, end: int) -> Iterator[bytes]:
        while start < end:
            part = ByteRange(start, min(LARGEST_PIECE, end - start))
            piece = self._storage.read(self._key, part, self.version).data
            if not piece:
                raise MastabaError("a result is shorter than it was")
            start += len(piece)
            yield piece
