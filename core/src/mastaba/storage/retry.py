"""Retries of failed reads, and a circuit breaker for failing stores (storage.md section 3)."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NoReturn, Self, TypeVar

from mastaba.errors import StorageError, StorageUnavailableError
from mastaba.storage.base import ByteRange, ObjectRead, ObjectStat, Storage
from mastaba.storage.threads import ThreadPool

if TYPE_CHECKING:
    from mastaba.environment import Environment

logger = logging.getLogger(__name__)

R = TypeVar("R")

_HEDGED: Final = ThreadPool(64, "mastaba-hedge")


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How reads from remote storages are repeated.

    Attributes:
        attempts: total number of attempts, at least 1.
        wait: seconds between two attempts.
        failures: consecutive failures after which the circuit opens; 0 for never.
        pause: seconds until a trial read is sent to a container with an open circuit.
        hedge_delay: seconds after which an unanswered read is sent a second time; the first
            response counts. 0 for never.
    """

    attempts: int = 1
    wait: float = 5.0
    failures: int = 5
    pause: float = 10.0
    hedge_delay: float = 0.0

    @classmethod
    def from_environment(cls, environment: Environment) -> Self:
        """Read the variables OBJECT_*; a value that is not an integer means the default."""
        default = cls()
        return cls(
            attempts=max(1, environment.integer("OBJECT_READ_ATTEMPTS", default.attempts)),
            wait=max(0, environment.integer("OBJECT_ATTEMPTS_WAIT", int(default.wait))),
            failures=max(0, environment.integer("OBJECT_BREAKER_FAILURES", default.failures)),
            pause=max(0, environment.integer("OBJECT_BREAKER_PAUSE", int(default.pause))),
            hedge_delay=max(0, environment.integer("OBJECT_HEDGE_DELAY_MS", 0)) / 1000,
        )


class CircuitBreaker:
    """Refuses reads after consecutive failures, so that a failed store does not block all threads.

    After a pause, one trial read is allowed. If it gets a response, the circuit closes.

    Args:
        name: full name of the storage, for messages.
        failures: consecutive failures after which the circuit opens; 0 for never.
        pause: seconds until a trial read.
        clock: returns monotonic seconds; replaced in tests.
    """

    def __init__(
        self,
        name: str,
        failures: int,
        pause: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._limit = failures
        self._pause = pause
        self._clock = clock
        self._lock = threading.Lock()
        self._failures = 0
        self._closed_until = 0.0
        self._last = ""

    @property
    def is_open(self) -> bool:
        """Whether all reads except trials are refused."""
        return 0 < self._limit <= self._failures

    def check(self, key: str) -> None:
        """Check that a read is allowed; report its result with `answered` or `failed`.

        Raises:
            StorageUnavailableError: the circuit is open.
        """
        if self._limit == 0 or self._failures < self._limit:
            return
        with self._lock:
            now = self._clock()
            if self._failures < self._limit:
                return
            if now < self._closed_until:
                raise StorageUnavailableError(
                    f"{key} was not read from {self._name}, because the circuit is open: "
                    f"{self._failures} failures in a row, the last one: {self._last}",
                    storage=self._name,
                    key=key,
                )
            # This read is the trial. The next trial is allowed after another pause.
            self._closed_until = now + self._pause

    def answered(self) -> None:
        if self._failures == 0:
            return
        with self._lock:
            was_open = 0 < self._limit <= self._failures
            self._failures = 0
        if was_open:
            logger.warning("%s answers again", self._name)

    def failed(self, error: BaseException) -> None:
        with self._lock:
            self._failures += 1
            self._last = str(error)
            self._closed_until = self._clock() + self._pause
            opens = self._failures == self._limit
        if opens:
            logger.error(
                "%s failed %d times in a row, it is asked again in %g s: %s",
                self._name,
                self._limit,
                self._pause,
                error,
            )


class RetryingStorage(Storage):
    """Wrapper of a storage that repeats failed reads.

    An absent object or denied access is a response, not a failure.

    Args:
        storage: the wrapped storage.
        policy: number and timing of attempts.
    """

    def __init__(self, storage: Storage, policy: RetryPolicy) -> None:
        super().__init__(storage.container)
        # Drivers define these as class attributes.
        vars(self).update(name=storage.name, container_field=storage.container_field)
        self._storage = storage
        self._policy = policy
        self._breaker = CircuitBreaker(storage.full_name, policy.failures, policy.pause)

    @property
    def full_name(self) -> str:
        return self._storage.full_name

    @property
    def is_suspended(self) -> bool:
        return self._breaker.is_open

    @classmethod
    def open(cls, container: str, environment: Environment) -> NoReturn:
        raise TypeError("a RetryingStorage wraps an open storage")

    def read(
        self, key: str, byte_range: ByteRange | None = None, version: str | None = None
    ) -> ObjectRead:
        return self._attempt(key, lambda: self._storage.read(key, byte_range, version))

    def read_ranges(
        self, key: str, byte_ranges: Sequence[ByteRange], version: str | None = None
    ) -> list[ObjectRead]:
        return self._attempt(key, lambda: self._storage.read_ranges(key, byte_ranges, version))

    def stat(self, key: str) -> ObjectStat:
        return self._attempt(key, lambda: self._storage.stat(key))

    def exists(self, key: str) -> bool:
        return self._attempt(key, lambda: self._storage.exists(key))

    def close(self) -> None:
        self._storage.close()

    def _attempt(self, key: str, call: Callable[[], R]) -> R:
        attempts = self._policy.attempts
        for attempt in range(1, attempts + 1):
            self._breaker.check(key)
            try:
                result = self._hedged(call)
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
            except StorageError:
                self._breaker.answered()
                raise
            else:
                self._breaker.answered()
                return result
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _hedged(self, call: Callable[[], R]) -> R:
        if not self._policy.hedge_delay:
            return call()
        futures = {_HEDGED.submit(call)}
        done, _ = wait(futures, self._policy.hedge_delay)
        if not done:
            futures.add(_HEDGED.submit(call))
        while True:
            done, futures = wait(futures, return_when=FIRST_COMPLETED)
            for future in done:
                # A failure does not count while the other request may still succeed.
                if not futures or not isinstance(future.exception(), StorageUnavailableError):
                    return future.result()
