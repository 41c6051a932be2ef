"""A limit in bytes per second for work that may take long."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

_LONGEST_WAIT: Final = 0.25
"""Seconds, until it is asked again whether the work should stop."""


class Pace:
    """Slows work down to a number of bytes per second. Thread-safe.

    Args:
        rate: bytes per second; None for no limit.
    """

    def __init__(self, rate: float | None) -> None:
        self._rate = rate
        self._lock = threading.Lock()
        self._free = time.monotonic()

    def spend(self, size: int, should_stop: Callable[[], bool] | None = None) -> None:
        """Wait until some more bytes are within the rate, or the work should stop."""
        if self._rate is None:
            return
        with self._lock:
            begin = max(time.monotonic(), self._free)
            self._free = begin + size / self._rate
        while (left := begin - time.monotonic()) > 0:
            if should_stop is not None and should_stop():
                return
            time.sleep(min(left, _LONGEST_WAIT))
