"""A storage that counts what is asked of it, and notes the time in the trace of a request."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, NoReturn, TypeVar

from mastaba import trace
from mastaba.errors import ObjectNotFoundError, StorageError
from mastaba.storage.base import ByteRange, ObjectRead, ObjectStat, Storage

if TYPE_CHECKING:
    from mastaba.environment import Environment

R = TypeVar("R")


class StorageCounts:
    """Reads and failures by driver, since the start of this process.

    Attributes:
        reads: round trips, the failed ones included.
        errors: of them, failures; an absent object is none.
    """

    def __init__(self) -> None:
        self.reads: dict[str, int] = {}
        self.errors: dict[str, int] = {}
        self._lock = threading.Lock()

    def count(self, driver: str, *, failed: bool) -> None:
        """Count one read."""
        with self._lock:
            self.reads[driver] = self.reads.get(driver, 0) + 1
            if failed:
                self.errors[driver] = self.errors.get(driver, 0) + 1


class MeasuredStorage(Storage):
    """Another storage, whose reads are counted and timed.

    Args:
        storage: what is asked.
        counts: where it is counted.
    """

    def __init__(self, storage: Storage, counts: StorageCounts) -> None:
        super().__init__(storage.container)
        # Those of the driver, which every driver has as attributes of its class.
        vars(self).update(
            name=storage.name,
            container_field=storage.container_field,
            is_remote=storage.is_remote,
        )
        self._storage = storage
        self._counts = counts

    @property
    def full_name(self) -> str:
        return self._storage.full_name

    @property
    def is_suspended(self) -> bool:
        return self._storage.is_suspended

    @classmethod
    def open(cls, container: str, environment: Environment) -> NoReturn:
        raise TypeError("a MeasuredStorage is made of an open storage")

    def read(
        self, key: str, byte_range: ByteRange | None = None, version: str | None = None
    ) -> ObjectRead:
        return self._measure(lambda: self._storage.read(key, byte_range, version))

    def read_ranges(
        self, key: str, byte_ranges: Sequence[ByteRange], version: str | None = None
    ) -> list[ObjectRead]:
        return self._measure(lambda: self._storage.read_ranges(key, byte_ranges, version))

    def stat(self, key: str) -> ObjectStat:
        return self._storage.stat(key)

    def exists(self, key: str) -> bool:
        return self._storage.exists(key)

    def close(self) -> None:
        self._storage.close()

    def _measure(self, read: Callable[[], R]) -> R:
        begun = perf_counter()
        failed = False
        try:
            return read()
        except StorageError as error:
            failed = not isinstance(error, ObjectNotFoundError)
            raise
        finally:
            self._counts.count(self.name, failed=failed)
            notes = trace.current()
            if notes is not None:
                notes.add("read", perf_counter() - begun)
