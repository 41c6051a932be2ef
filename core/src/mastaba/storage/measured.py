"""A storage that counts its reads and records their duration in the trace of the request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, NoReturn, TypeVar

from mastaba import trace
from mastaba.errors import ObjectNotFoundError, StorageError
from mastaba.storage.base import ByteRange, ObjectRead, ObjectStat, Storage

if TYPE_CHECKING:
    from mastaba.environment import Environment

R = TypeVar("R")


class DriverCounts:
    """Counts for all containers of one driver since the start of this process.

    Attributes:
        reads: number of reads, including failed ones.
        errors: number of failed reads; an absent object is not a failure.
    """

    def __init__(self) -> None:
        self.reads = 0
        self.errors = 0

    def failed(self, error: StorageError) -> None:
        """Count an error, unless it means an absent object."""
        if not isinstance(error, ObjectNotFoundError):
            self.errors += 1


class StorageCounts:
    """Counts of each driver by its name."""

    def __init__(self) -> None:
        self.drivers: dict[str, DriverCounts] = {}

    def of(self, driver: str) -> DriverCounts:
        """Return the counts of a driver, which start at 0."""
        return self.drivers.setdefault(driver, DriverCounts())


class MeasuredStorage(Storage):
    """Wrapper of a storage that counts and times its reads.

    Args:
        storage: the wrapped storage.
        counts: where reads are counted.
    """

    def __init__(self, storage: Storage, counts: StorageCounts) -> None:
        super().__init__(storage.container)
        # Drivers define these as class attributes.
        vars(self).update(
            name=storage.name,
            container_field=storage.container_field,
            is_remote=storage.is_remote,
        )
        self._storage = storage
        self._counts = counts.of(storage.name)
        self._read = storage.read

    @property
    def full_name(self) -> str:
        return self._storage.full_name

    @property
    def is_suspended(self) -> bool:
        return self._storage.is_suspended

    @classmethod
    def open(cls, container: str, environment: Environment) -> NoReturn:
        raise TypeError("a MeasuredStorage wraps an open storage")

    def read(
        self, key: str, byte_range: ByteRange | None = None, version: str | None = None
    ) -> ObjectRead:
        # This runs for every tile, so it avoids unnecessary calls.
        self._counts.reads += 1
        notes = trace.current()
        if notes is not None:
            return self._timed(notes, lambda: self._read(key, byte_range, version))
        try:
            return self._read(key, byte_range, version)
        except StorageError as error:
            self._counts.failed(error)
            raise

    def read_ranges(
        self, key: str, byte_ranges: Sequence[ByteRange], version: str | None = None
    ) -> list[ObjectRead]:
        self._counts.reads += 1
        notes = trace.current() or trace.Trace()
        return self._timed(notes, lambda: self._storage.read_ranges(key, byte_ranges, version))

    def stat(self, key: str) -> ObjectStat:
        return self._storage.stat(key)

    def exists(self, key: str) -> bool:
        return self._storage.exists(key)

    def close(self) -> None:
        self._storage.close()

    def _timed(self, notes: trace.Trace, read: Callable[[], R]) -> R:
        begin = perf_counter()
        try:
            return read()
        except StorageError as error:
            self._counts.failed(error)
            raise
        finally:
            notes.add("read", perf_counter() - begin)
