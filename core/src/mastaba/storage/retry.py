"""Settings of repeated reads, and a circuit breaker for failing stores (storage.md section 3)."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from time import monotonic
from typing import Final, Self

from mastaba.environment import Environment
from mastaba.errors import StorageUnavailableError

logger = logging.getLogger(__name__)


DEFAULT_READ_TIMEOUT: Final = 30
DEFAULT_TIMEOUT: Final = 30


def network_timeout(environment: Environment) -> int | None:
    """Return the timeout of connections and reads in seconds; None for no limit.

    NETWORK_TIMEOUT=0 means no limit. If the variable is unset, there is a default limit, because
    a store that hangs would otherwise block every thread that reads from it.
    """
    timeout = environment.integer("NETWORK_TIMEOUT", DEFAULT_TIMEOUT)
    return timeout if timeout > 0 else None


def read_timeout(environment: Environment) -> int | None:
    """Return the limit of a whole read in seconds, from OBJECT_READ_TIMEOUT; None for no limit.

    A store that sends a few bytes now and then never exceeds NETWORK_TIMEOUT.
    """
    timeout = environment.integer("OBJECT_READ_TIMEOUT", DEFAULT_READ_TIMEOUT)
    return timeout if timeout > 0 else None


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How reads from remote storages are repeated.

    Attributes:
        attempts: total number of attempts, at least 1.
        wait: seconds between two attempts.
        failures: consecutive failures after which the circuit opens; 0 for never.
        pause: seconds until a trial read is sent to a container with an open circuit.
        places: reads of a container that run at a time in a process; 0 for any number.
    """

    attempts: int = 1
    wait: float = 5.0
    failures: int = 5
    pause: float = 10.0
    places: int = 64

    @classmethod
    def from_environment(cls, environment: Environment) -> Self:
        """Read the variables OBJECT_*; a value that is not an integer means the default."""
        default = cls()
        return cls(
            attempts=max(1, environment.integer("OBJECT_READ_ATTEMPTS", default.attempts)),
            wait=max(0, environment.integer("OBJECT_ATTEMPTS_WAIT", int(default.wait))),
            failures=max(0, environment.integer("OBJECT_BREAKER_FAILURES", default.failures)),
            pause=max(0, environment.integer("OBJECT_BREAKER_PAUSE", int(default.pause))),
            places=max(0, environment.integer("OBJECT_READS", default.places)),
        )


class CircuitBreaker:
    """Refuses reads after consecutive failures, so that a failed store does not block all threads.

    After a pause, one trial read is allowed. If it gets a response, the circuit closes.
    """

    def __init__(self, name: str, failures: int, pause: float) -> None:
        self._name = name
        self._limit = failures
        self._pause = pause
        self._lock = threading.Lock()
        self._failures = 0
        self._next_trial = 0.0
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
        with self._lock:
            if not self.is_open:
                return
            now = monotonic()
            if now < self._next_trial:
                raise StorageUnavailableError(
                    f"{key} was not read from {self._name}, because the circuit is open: "
                    f"{self._failures} consecutive failures, the last one: {self._last}",
                    storage=self._name,
                    key=key,
                )
            # This read is the trial. The next trial is allowed after another pause.
            self._next_trial = now + self._pause

    def answered(self) -> None:
        with self._lock:
            was_open = self.is_open
            self._failures = 0
        if was_open:
            logger.warning("%s answers again", self._name)

    def failed(self, error: BaseException) -> None:
        with self._lock:
            self._failures += 1
            self._last = str(error)
            self._next_trial = monotonic() + self._pause
            opens = self._failures == self._limit
        if opens:
            text = "%s failed %d times in a row; circuit open, next attempt in %g s: %s"
            logger.error(text, self._name, self._limit, self._pause, error)
