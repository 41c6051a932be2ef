"""Child processes of the supervisor: signals as in a new process, and an end with the parent."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable

logger = logging.getLogger(__name__)

_IGNORED = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)
# SIGUSR1 is for the workers; one that reaches the parent must not kill it.
_USUAL = (signal.SIGTERM, signal.SIGUSR1, signal.SIGCHLD)
HANDLED = (*_IGNORED, *_USUAL)
"""Signals for which the parent has handlers; they must not run in a child."""


class Forks:
    """Forks child processes, which exit when their parent has exited, however it died.

    Args:
        stop_timeout: seconds that a child without a parent has from SIGTERM until it is killed.
    """

    def __init__(self, stop_timeout: float) -> None:
        self._stop_timeout = stop_timeout
        # Only the parent holds the writing end.
        self._lifeline = os.pipe()

    def fork(self, name: str, run: Callable[[], None]) -> int:
        """Run a function in a child process.

        The child exits with status 0 when the function returns, and 1 when it raises. It ignores
        SIGINT, SIGQUIT and SIGHUP.

        Returns:
            its process id.

        Raises:
            OSError: the system refuses another process.
        """
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        # A signal that reached the child too early would write to the parent's pipe.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
        try:
            pid = os.fork()
            if pid == 0:
                self._be_child(name, run)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        return pid

    def close(self) -> None:
        """Close the descriptors of the parent; children without a parent stop."""
        for descriptor in self._lifeline:
            os.close(descriptor)

    def _be_child(self, name: str, run: Callable[[], None]) -> None:
        """Run a child process. Does not return."""
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            for number in _IGNORED:
                signal.signal(number, signal.SIG_IGN)
            for number in _USUAL:
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)
            os.close(self._lifeline[1])
            threading.Thread(target=self._watch_parent, daemon=True).start()
            run()
            status = 0
        except BaseException:
            logger.exception("%s failed", name)
        finally:
            logging.shutdown()
            # Skip the parent's clean-up, and do not wait for threads that hang.
            os._exit(status)

    def _watch_parent(self) -> None:
        """Wait in a child until its parent exits, then stop the child as the parent would have."""
        os.read(self._lifeline[0], 1)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(self._stop_timeout)
        os._exit(1)
