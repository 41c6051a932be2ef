"""A storage that limits and repeats reads, counts them and records their duration."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import NoReturn, TypeVar

from mastaba_server import cancellation, trace
from mastaba_server.threads.circuit_breaker import CircuitBreaker
from mastaba_server.threads.limited_reads import LimitedReads
from mastaba_storage.base import ByteRange, ObjectRead, ObjectStat, Storage
from mastaba_storage.environment import Environment
from mastaba_storage.errors import ObjectNotFoundError, StorageError, StorageUnavailableError
from mastaba_storage.retry import RetryPolicy

logger = logging.getLogger("mastaba.storage")

R = TypeVar("R")


class DriverCounts:
    """Counts for all containers of one driver since the start of this process.

    Attributes:
        reads: number of reads, including failed ones; repeated attempts are one read.
        errors: number of failed reads; an absent object is not a failure.
    """

    def __init__(self) -> None:
        self.reads = 0
        self.errors = 0


class WaitingRoom(LimitedReads):
    """The reads of one storage that run at a time. `read` raises `StorageUnavailableError`."""

    def refusal(self, key: str, reason: str) -> StorageUnavailableError:
        text = f"{key} was not read from {self.name}, because {reason}"
        return StorageUnavailableError(text, storage=self.name, key=key)


class ManagedStorage(Storage):
    """Wrapper of an open storage. Only reads from remote storages are limited and repeated.

    An absent object or denied access is a response, not a failure.

    Attributes:
        room: of the reads that run; others may enter it who wait for such a read.
    """

    def __init__(
        self, storage: Storage, policy: RetryPolicy, counts: DriverCounts | None = None
    ) -> None:
        super().__init__(storage.container)
        # Drivers define these as class attributes.
        vars(self).update(
            name=storage.name,
            container_field=storage.container_field,
            is_remote=storage.is_remote,
        )
        self._storage = storage
        self._policy = policy
        self._breaker = CircuitBreaker(storage.full_name, policy.failures, policy.pause)
        self.room = WaitingRoom(storage.full_name, policy.places)
        self._counts = counts or DriverCounts()

    @property
    def full_name(self) -> str:
        return self._storage.full_name

    @property
    def is_suspended(self) -> bool:
        return self._breaker.is_open

    @classmethod
    def open(cls, container: str, environment: Environment) -> NoReturn:
        raise TypeError("a ManagedStorage wraps an open storage")

    def read(
        self, key: str, byte_range: ByteRange | None = None, version: str | None = None
    ) -> ObjectRead:
        notes = trace.local.trace
        if self.is_remote or (notes is not None and notes.is_timed):
            return self._read(key, lambda: self._storage.read(key, byte_range, version))
        # Nothing to repeat or to time: a stored tile is read without further calls.
        self._counts.reads += 1
        try:
            return self._storage.read(key, byte_range, version)
        except StorageError as error:
            self._counts.errors += not isinstance(error, ObjectNotFoundError)
            raise

    def read_ranges(
        self, key: str, byte_ranges: Sequence[ByteRange], version: str | None = None
    ) -> list[ObjectRead]:
        return self._read(key, lambda: self._storage.read_ranges(key, byte_ranges, version))

    def stat(self, key: str) -> ObjectStat:
        return self._attempt(key, lambda: self._storage.stat(key))

    def exists(self, key: str) -> bool:
        return self._attempt(key, lambda: self._storage.exists(key))

    def close(self) -> None:
        self._storage.close()

    def _read(self, key: str, call: Callable[[], R]) -> R:
        self._counts.reads += 1
        notes = trace.local.trace
        begin = time.perf_counter()
        try:
            return self._attempt(key, call)
        except StorageError as error:
            self._counts.errors += not isinstance(error, ObjectNotFoundError)
            raise
        finally:
            if notes is not None:
                notes.add("read", time.perf_counter() - begin)

    def _attempt(self, key: str, call: Callable[[], R]) -> R:
        if not self.is_remote:
            return call()
        self._require_closed_circuit(key)
        with self.room.read(key):
            return self._repeated(key, call)

    def _require_closed_circuit(self, key: str) -> None:
        if reason := self._breaker.refusal():
            raise self.room.refusal(key, reason)

    def _repeated(self, key: str, call: Callable[[], R]) -> R:
        attempts = self._policy.attempts
        for attempt in range(1, attempts + 1):
            if attempt > 1:
                self._require_closed_circuit(key)
            try:
                result = call()
            except StorageUnavailableError as error:
                # One unreadable object must not open the circuit for all others.
                if error.answered:
                    self._breaker.answered()
                else:
                    self._breaker.failed(error)
                if attempt == attempts:
                    raise
                logger.warning("attempt %d of %d failed: %s", attempt, attempts, error)
                time.sleep(self._policy.wait)
                cancellation.check()
            except StorageError:
                self._breaker.answered()
                raise
            else:
                self._breaker.answered()
                return result
        raise AssertionError("unreachable: the last attempt returns or raises")
