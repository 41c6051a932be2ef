"""Base class of storages that are also written, by tools that build pyramids.

A serving process imports a subclass only to list objects: a driver names its own in
`Storage.writer`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence

from mastaba_storage.base import Storage


class WritableStorage(Storage):
    """An open container whose objects can also be written, deleted and listed.

    All methods must be thread-safe and must still work in a child process after a fork. No method
    repeats a failed request: the caller does.
    """

    @property
    def largest_object(self) -> int | None:
        """Bytes of the largest object that can be written; None if there is no such limit."""
        return None

    @abstractmethod
    def write(self, key: str, data: bytes, *, only_if_absent: bool = False) -> str | None:
        """Write a whole object; readers see the old or the new one.

        Args:
            key: name of the object.
            data: its bytes.
            only_if_absent: do not replace an existing object, and decide this atomically.

        Returns:
            The version of the new object, as in `ObjectStat`.

        Raises:
            FileExistsError: the object exists, and ``only_if_absent`` is true.
            AccessDeniedError: the storage denies access.
            StorageUnavailableError: the response is missing, or the bytes did not arrive intact.
            StorageError: the object cannot be written.
        """

    @abstractmethod
    def delete(self, key: str) -> None:
        """Delete an object, if it exists. Raises the errors of `write`."""

    @abstractmethod
    def list(self, prefix: str) -> Iterator[str]:
        """Yield the keys of all objects that begin with a prefix. Raises the errors of `write`."""

    def list_versions(self, prefix: str) -> Iterator[tuple[str, str | None]]:
        """Yield keys as `list`, each with the version of its object; None where it is not listed.

        A version is that of `ObjectStat`; it may differ for objects that `write` does not make.
        """
        return ((key, None) for key in self.list(prefix))

    # Objects in parts, for drivers whose storage has them.

    @property
    def most_parts(self) -> int:
        """Number of parts that an object may have; 0 if it cannot be written in parts.

        All but the last one have at least 5 MiB. No reader sees the object before it is complete.
        """
        return 0

    def begin_parts(self, key: str) -> str:
        """Begin an object; return an identifier for the calls that follow, also after a restart.

        The four methods raise the errors of `write`; the next two also ObjectNotFoundError, if the
        storage no longer knows the upload.
        """
        raise NotImplementedError

    def write_part(self, key: str, upload: str, number: int, data: bytes) -> str:
        """Write or replace a part, counted from 1, in any order; return what identifies it."""
        raise NotImplementedError

    def complete_parts(self, key: str, upload: str, parts: Sequence[str]) -> str | None:
        """Make the object of the parts, by what `write_part` returned; return its version."""
        raise NotImplementedError

    def abandon_parts(self, key: str, upload: str) -> None:
        """Remove the parts of an object that was not completed, if they are still there."""
        raise NotImplementedError
