"""The parent process: forks workers, replaces them, reloads and stops them in order."""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

logger = logging.getLogger(__name__)

Worker = Callable[[int], None]
"""Serves requests until SIGTERM or SIGUSR1 arrives, finishes what is running, and returns.

SIGUSR1 means that other workers go on serving, so kept connections may be given to them.
"""

_STOP_SIGNALS = (signal.SIGQUIT, signal.SIGTERM, signal.SIGINT)
# SIGUSR1 is for the workers; the parent must not die of one that was meant for them.
_SIGNALS = (*_STOP_SIGNALS, signal.SIGHUP, signal.SIGCHLD, signal.SIGUSR1)
# A worker that lived for this long was healthy: its successor starts at once.
_HEALTHY_AGE = 5.0
_FIRST_DELAY = 0.1
_LONGEST_DELAY = 10.0


@dataclass(slots=True)
class _Child:
    index: int
    started: float
    retired: bool = False
    """Told to stop because of a reload; nobody waits for it but the end of the supervisor."""


class _StopOrdered(BaseException):
    """Leaves a reload in progress, which is of no use any more."""


class Supervisor:
    """Keeps a number of worker processes running.

    SIGQUIT, SIGTERM and SIGINT stop in order: workers get SIGTERM, may finish their requests,
    and are killed after ``stop_timeout`` seconds. SIGHUP reloads: ``reload`` is called in the
    parent and returns the worker function of the next generation, or raises, in which case the
    error is logged and the present generation stays. The next generation is started first, on
    the same listening socket; then the present one gets SIGUSR1. While a reload runs, one
    further SIGHUP is kept, never more. SIGPIPE is ignored. A worker that ends otherwise is
    replaced, with growing delays if it ends soon after its start.

    :param worker: called in each child process with an index that no other live worker has (the
        lowest free number, so that it stays below twice ``workers`` during a reload). The child
        ends with status 0 when it returns, 1 when it raises. It has to stop in order on
        SIGTERM and SIGUSR1, as ``FastCGIServer.run`` and ``HTTPServer.run`` do; SIGINT,
        SIGQUIT, SIGHUP and SIGPIPE are ignored in it, since they are for the parent. A worker
        whose parent is gone gets SIGTERM, and is ended ``stop_timeout`` seconds later.
    :param workers: number of processes. 0 runs the worker in the calling process, for front
        servers that manage the processes themselves (mod_fcgid); SIGHUP is then ignored.
    :param reload: see above. Without it SIGHUP is ignored.
    :param stop_timeout: bound of an ordered stop in seconds.
    """

    def __init__(
        self,
        worker: Worker,
        *,
        workers: int,
        reload: Callable[[], Worker] | None = None,
        stop_timeout: float = 30.0,
    ) -> None:
        self._worker = worker
        self._workers = workers
        self._reload = reload
        self._stop_timeout = stop_timeout
        self._children: dict[int, _Child] = {}
        self._failures = 0
        self._not_before = 0.0
        self._reloading = False
        self._lifeline = -1, -1
        self._wakeup = -1, -1

    def run(self) -> int:
        """Run until an ordered stop; returns the exit status of the process, 0.

        Has to be called in the main thread.
        """
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        if self._workers == 0:
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            self._worker(0)
            return 0
        # Only the parent holds the writing end, so its end tells the workers that it is gone,
        # whatever it died of.
        self._lifeline = os.pipe()
        # A signal leaves its number in this pipe, whichever thread it was delivered to, and
        # whatever the main thread is doing.
        self._wakeup = os.pipe()
        for descriptor in self._wakeup:
            os.set_blocking(descriptor, False)
        wakeup = signal.set_wakeup_fd(self._wakeup[1], warn_on_full_buffer=False)
        handlers = {number: signal.signal(number, self._handle) for number in _SIGNALS}
        try:
            with contextlib.suppress(_StopOrdered):
                self._loop()
            self._stop()
        finally:
            signal.set_wakeup_fd(wakeup)
            for number, handler in handlers.items():
                signal.signal(number, handler)
            for descriptor in (*self._lifeline, *self._wakeup):
                os.close(descriptor)
        return 0

    def _handle(self, number: int, _frame: object) -> None:
        # The pipe does the work. Only a reload must not hold up a stop: its storage may hang.
        if self._reloading and number in _STOP_SIGNALS:
            self._reloading = False
            raise _StopOrdered

    def _loop(self) -> None:
        while True:
            numbers = self._wait(self._fill())
            if not numbers.isdisjoint(_STOP_SIGNALS):
                return
            self._reap()
            if signal.SIGHUP in numbers:
                self._renew()

    def _wait(self, timeout: float | None) -> set[int]:
        """Wait for signals; returns the numbers of all that arrived, each of them once."""
        poll = select.poll()
        poll.register(self._wakeup[0], select.POLLIN)
        poll.poll(None if timeout is None else timeout * 1000)
        try:
            return set(os.read(self._wakeup[0], 4096))
        except BlockingIOError:
            return set()

    def _fill(self) -> float | None:
        """Start the missing workers; returns the seconds to wait if it is too early for that."""
        missing = self._workers - sum(not child.retired for child in self._children.values())
        if missing <= 0:
            return None
        delay = self._not_before - time.monotonic()
        if delay > 0:
            return delay
        try:
            for _ in range(missing):
                self._fork()
        except OSError as error:
            logger.error("cannot start a worker: %s", error.strerror)
            return self._postpone()
        return None

    def _postpone(self) -> float:
        """Wait longer after each failure in a row; returns the seconds."""
        delay: float = min(_FIRST_DELAY * 2**self._failures, _LONGEST_DELAY)
        self._failures += 1
        self._not_before = time.monotonic() + delay
        return delay

    def _fork(self) -> None:
        used = {child.index for child in self._children.values()}
        index = next(number for number in range(len(used) + 1) if number not in used)
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        # A signal that reached the child too early would be reported to the parent's pipe.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            pid = os.fork()
            if pid == 0:
                self._be_child(index)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        self._children[pid] = _Child(index, time.monotonic())
        logger.debug("worker %d started, process %d", index, pid)

    def _be_child(self, index: int) -> None:
        """The life of a worker process. Does not return."""
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            reading, writing = self._lifeline
            for descriptor in (writing, *self._wakeup):
                os.close(descriptor)
            threading.Thread(
                target=_watch_parent, args=(reading, self._stop_timeout), daemon=True
            ).start()
            self._worker(index)
            status = 0
        except BaseException:
            logger.exception("worker %d failed", index)
        finally:
            logging.shutdown()
            # Neither the parent's clean-up nor threads that hang are this process's business.
            os._exit(status)

    def _reap(self) -> None:
        for pid in list(self._children):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if not ended:
                continue
            child = self._children.pop(pid)
            if child.retired:
                continue
            if time.monotonic() - child.started >= _HEALTHY_AGE:
                self._failures = 0
            else:
                self._postpone()
            code = os.waitstatus_to_exitcode(status)
            reason = f"signal {-code}" if code < 0 else f"status {code}"
            logger.error("worker %d, process %d, ended with %s", child.index, pid, reason)

    def _renew(self) -> None:
        """Reload, and replace the present generation if that succeeds."""
        if self._reload is None:
            logger.warning("SIGHUP ignored: there is nothing to reload")
            return
        self._reloading = True
        try:
            worker = self._reload()
        except Exception:
            logger.exception("reload failed, the present configuration stays in use")
            return
        finally:
            self._reloading = False
        self._worker = worker
        self._failures = 0
        self._not_before = 0.0
        retiring = [pid for pid, child in self._children.items() if not child.retired]
        for pid in retiring:
            self._children[pid].retired = True
        self._fill()
        for pid in retiring:
            _kill(pid, signal.SIGUSR1)

    def _stop(self) -> None:
        # Service managers may send SIGTERM right after the SIGQUIT of an ordered stop, so a
        # second signal does not make it less orderly.
        for pid in self._children:
            _kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + self._stop_timeout
        for child in self._children.values():
            child.retired = True
        while self._children and (rest := deadline - time.monotonic()) > 0:
            self._wait(rest)
            self._reap()
        for pid in self._children:
            logger.warning("process %d abandons its requests", pid)
            _kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        self._children.clear()


def _watch_parent(lifeline: int, stop_timeout: float) -> None:
    """Wait in a worker for the end of its parent, then stop it as the parent would have."""
    os.read(lifeline, 1)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(stop_timeout)
    os._exit(1)


def _kill(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
