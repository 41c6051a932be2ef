"""Repeating failed reads, and leaving a dead store in peace (storage.md section 3)."""

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
    """How reads of remote storages are repeated.

    Attributes:
        attempts: reads in total, at least 1.
        wait: seconds between two of them.
        failures: consecutive failures after which a container is no longer asked; 0 for never.
        pause: seconds after which one read is let through again, to see whether it is back.
        hedge_delay: seconds after which a read without answer is asked for a second time, the
            first answer counting; 0 for never.
    """

    attempts: int = 1
    wait: float = 5.0
    failures: int = 5
    pause: float = 10.0
    hedge_delay: float = 0.0

    @classmethod
    def from_environment(cls, environment: Environment) -> Self:
        """Read the variables OBJECT_*; a value that is no number means the default."""
        default = cls()
        return cls(
            attempts=max(1, environment.integer("OBJECT_READ_ATTEMPTS", default.attempts)),
            wait=max(0, environment.integer("OBJECT_ATTEMPTS_WAIT", int(default.wait))),
            failures=max(0, environment.integer("OBJECT_BREAKER_FAILURES", default.failures)),
            pause=max(0, environment.integer("OBJECT_BREAKER_PAUSE", int(default.pause))),
            hedge_delay=max(0, environment.integer("OBJECT_HEDGE_DELAY_MS", 0)) / 1000,
        )


class CircuitBreaker:
    """Refuses reads after consecutive failures, so that a dead store does not hold every thread.

    After a pause one read is let through; when it gets an answer, all are.

    Args:
        name: what it protects, for messages.
        clock: monotonic seconds; another one in tests.
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
        """Whether reads are refused but for a trial."""
        return 0 < self._limit <= self._failures

    def check(self, key: str) -> None:
        """Return when a read may be made; it must be told of by `answered` or `failed`.

        Raises:
            StorageUnavailableError: the store is not asked at present.
        """
        if self._limit == 0 or self._failures < self._limit:
            return
        with self._lock:
            now = self._clock()
            if self._failures < self._limit:
                return
            if now < self._closed_until:
                raise StorageUnavailableError(
                    f"{self._name} is not asked for {key}, since it failed "
                    f"{self._failures} times in a row, the last time with: {self._last}",
                    storage=self._name,
                    key=key,
                )
            # This one is the trial; the others wait for its outcome, but not for ever.
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
    """Another storage, whose failed reads are repeated. Absence and refusal are answers.

    Args:
        storage: what is asked.
        policy: how often, and after what time.
    """

    def __init__(self, storage: Storage, policy: RetryPolicy) -> None:
        super().__init__(storage.container)
        # Those of the driver, which every driver has as attributes of its class.
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
        raise TypeError("a RetryingStorage is made of an open storage")

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
                # One object that cannot be read must not take all others with it.
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
                # One failure is no answer as long as the other request may still bring one.
                if not futures or not isinstance(future.exception(), StorageUnavailableError):
                    return future.result()
