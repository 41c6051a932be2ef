"""Calls that may never return, in threads of their own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeVar

from mastaba_server.threads.per_process import PerProcess

R = TypeVar("R")

_IDLE: Final = 10.0
"""Seconds after which a thread without work ends."""


class BoundedCalls:
    """Runs calls for which no one waits longer than some seconds.

    For libraries whose timeouts begin again with each byte, and for file systems that hang. A call
    that does not return keeps its thread.

    Args:
        seconds: limit of a call; None for no limit.
        most: number of calls at a time.
    """

    def __init__(self, seconds: float | None, most: int = 64) -> None:
        self._seconds = seconds
        self._threads = PerProcess(lambda: _Threads(most))

    def run(self, call: Callable[[], R]) -> R:
        """Return the result of a call. Raises its errors.

        Raises:
            TimeoutError: it has not returned in time, or too many others have not.
        """
        if self._seconds is None:
            return call()
        future: Future[R] = Future()
        self._threads.get().submit(future, call)
        try:
            return future.result(self._seconds)
        except TimeoutError:
            future.cancel()
            raise TimeoutError(f"no answer within {self._seconds:g} seconds") from None


class _Threads:
    """Daemon threads: the end of the process does not wait for a call that hangs."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._work: SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = SimpleQueue()
        self._lock = threading.Lock()
        self._count = 0
        # Threads that wait for work, without those for which there is some already.
        self._idle = 0

    def submit(self, future: Future[R], call: Callable[[], R]) -> None:
        with self._lock:
            if self._idle:
                self._idle -= 1
            elif self._count < self._most:
                threading.Thread(target=self._run, name="mastaba-bounded", daemon=True).start()
                self._count += 1
            else:
                raise TimeoutError(f"{self._most} calls before have no answer yet")
        self._work.put((future, call))

    def _run(self) -> None:
        while True:
            try:
                future, call = self._work.get(timeout=_IDLE)
            except Empty:
                with self._lock:
                    if not self._idle:
                        continue  # work is about to arrive
                    self._idle -= 1
                    self._count -= 1
                return
            try:
                if future.set_running_or_notify_cancel():
                    future.set_result(call())
            except BaseException as error:  # noqa: BLE001 - the caller gets every error
                future.set_exception(error)
            # Not kept while the thread waits.
            del future, call
            with self._lock:
                self._idle += 1
