"""Time limits on calls of plugins: one that hangs fails its test, and the run goes on."""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import pytest

CALLS = "mastaba-conformance"
"""Name of the threads in which plugins are called."""

R = TypeVar("R")


class _Call(Generic[R]):
    """A call in a thread of its own, which does not keep the process alive."""

    def __init__(self, function: Callable[[], R]) -> None:
        self._function = function
        self._error: BaseException | None = None
        self._result: list[R] = []
        self._thread = threading.Thread(target=self._run, name=CALLS, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._result.append(self._function())
        except BaseException as error:  # noqa: BLE001 - raised again in the waiting thread
            self._error = error

    def wait(self, seconds: float) -> bool:
        """Return whether the call has finished within some seconds."""
        self._thread.join(max(0.0, seconds))
        return not self._thread.is_alive()

    @property
    def stack(self) -> str:
        """The innermost calls of the thread."""
        frame = sys._current_frames().get(self._thread.ident or 0)
        return "".join(traceback.format_stack(frame)[-6:]) if frame else ""

    def result(self) -> R:
        __tracebackhide__ = True
        if self._error is not None:
            raise self._error
        return self._result[0]


def within(seconds: float, what: str, call: Callable[[], R]) -> R:
    """Return the result of a call, or fail if it takes too long.

    Args:
        seconds: time limit. The call goes on in its thread after that.
        what: what is called, for the message.
        call: made in another thread; its exceptions are raised here.
    """
    __tracebackhide__ = True
    return together(seconds, what, [call])[0]


def together(seconds: float, what: str, calls: Sequence[Callable[[], R]]) -> list[R]:
    """Return the results of calls that run at the same time, each in its thread.

    Arguments are those of `within`. The first exception, in the order of the calls, is raised.
    """
    __tracebackhide__ = True
    end = time.monotonic() + seconds
    running = [_Call(call) for call in calls]
    for call in running:
        if not call.wait(end - time.monotonic()):
            message = f"{what} hangs: it has not finished after {seconds:g} s. It is here:\n"
            pytest.fail(message + call.stack, pytrace=False)
    return [call.result() for call in running]


def eventually(seconds: float, condition: Callable[[], Any]) -> bool:
    """Wait until a condition is true; return whether it has become true in time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True
