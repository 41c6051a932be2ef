"""The process that waits until the source of a configuration changes."""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Callable

logger = logging.getLogger(__name__)

# Seconds until a process that failed is replaced.
_DELAY = 1.0


class Follower:
    """Runs at most one process that waits, so that a slow storage delays nothing else.

    Args:
        fork: runs a function in a child process, whose name is for the log.
    """

    def __init__(self, fork: Callable[[str, Callable[[], None]], int]) -> None:
        self._fork = fork
        self._pid = 0
        self._not_before = 0.0

    def start(self, wait: Callable[[], None]) -> None:
        """Start the process, unless it runs, or has just failed.

        Args:
            wait: returns when the source has changed.
        """
        if not self._pid and time.monotonic() >= self._not_before:
            try:
                self._pid = self._fork("following", wait)
            except OSError as error:
                logger.error("cannot follow the configuration: %s", error.strerror)

    def has_seen_change(self) -> bool:
        """Return whether the source has changed; the process has then exited."""
        if not self._pid:
            return False
        ended, status = os.waitpid(self._pid, os.WNOHANG)
        if not ended:
            return False
        self._pid = 0
        if status:
            logger.error("the process that follows the configuration failed")
            self._not_before = time.monotonic() + _DELAY
        return not status

    def stop(self) -> None:
        """Kill the process, if it runs."""
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
            self._pid = 0
