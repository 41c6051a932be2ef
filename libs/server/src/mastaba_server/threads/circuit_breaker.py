"""A circuit breaker, so that a machine that has failed does not block all threads."""

from __future__ import annotations

import logging
import threading
from time import monotonic

logger = logging.getLogger(__name__)


class CircuitBreaker:
    """Refuses calls to another machine after consecutive failures.

    After a pause, one trial call is allowed. If it gets a response, the circuit closes.

    Args:
        name: of the machine, for the log.
        failures: consecutive failures after which the circuit opens; 0 for never.
        pause: seconds until a trial call.
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
        """Whether all calls except trials are refused."""
        return 0 < self._limit <= self._failures

    def refusal(self) -> str | None:
        """Return why a call must not be made now; None if it is allowed.

        Report the result of an allowed call with `answered` or `failed`.
        """
        with self._lock:
            if not self.is_open:
                return None
            now = monotonic()
            if now < self._next_trial:
                return (
                    f"the circuit is open: {self._failures} consecutive failures, "
                    f"the last one: {self._last}"
                )
            # This call is the trial. The next trial is allowed after another pause.
            self._next_trial = now + self._pause
            return None

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
