"""Processes that run beside the workers, and answer no requests."""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Callable, Sequence

logger = logging.getLogger(__name__)

# Seconds until a process that exited is replaced.
_DELAY = 1.0


class Companions:
    """Keeps one process running for each function, and replaces those that exit.

    Args:
        fork: runs a function in a child process, whose name is for the log.
    """

    def __init__(self, fork: Callable[[str, Callable[[], None]], int]) -> None:
        self._fork = fork
        self._runs: list[Callable[[], None]] = []
        # Process ids by position in the list; 0 for none.
        self._pids: list[int] = []
        self._not_before = 0.0

    def keep(self, runs: Sequence[Callable[[], None]]) -> None:
        """Run these functions from now on. Call it often.

        If they differ from the present ones, these get SIGTERM; the others start when they have
        exited.
        """
        self._reap()
        if self._runs != list(runs):
            if any(self._pids):
                self.stop()
                return
            self._runs, self._pids = list(runs), [0] * len(runs)
        if time.monotonic() < self._not_before:
            return
        for number, run in enumerate(self._runs):
            if not self._pids[number]:
                try:
                    self._pids[number] = self._fork(f"companion {number}", run)
                except OSError as error:
                    logger.error("a companion process cannot be started: %s", error.strerror)
                    self._not_before = time.monotonic() + _DELAY

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Send all processes a signal."""
        for pid in filter(None, self._pids):
            os.kill(pid, number)

    def is_any_left(self) -> bool:
        """Return whether a process still runs."""
        self._reap()
        return any(self._pids)

    def _reap(self) -> None:
        for number, pid in enumerate(self._pids):
            if not pid:
                continue
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                self._pids[number] = 0
                self._not_before = time.monotonic() + _DELAY
                if status:
                    code = os.waitstatus_to_exitcode(status)
                    reason = f"signal {-code}" if code < 0 else f"status {code}"
                    logger.error("companion %d, process %d, exited with %s", number, pid, reason)
