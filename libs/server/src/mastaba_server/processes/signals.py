"""Signals that stop a server, and temporary signal handlers in the main thread."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

STOP_SIGNALS = (signal.SIGQUIT, signal.SIGTERM, signal.SIGINT)


class StopOrdered(BaseException):
    """Interrupts work that a stop signal makes superfluous; handlers of errors do not catch it."""


@contextmanager
def handled_by(handlers: Mapping[signal.Signals, Callable[[int, object], None]]) -> Iterator[None]:
    """Install these signal handlers, except for signals that the process ignores.

    On exit, the previous handlers are restored.
    """
    before = {
        number: signal.signal(number, handler)
        for number, handler in handlers.items()
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def woken_by(numbers: Sequence[signal.Signals], descriptor: int) -> Iterator[None]:
    """Make these signals only write their number to a non-blocking descriptor.

    The byte arrives immediately, even while the main thread runs a C function, where a Python
    handler would have to wait.
    """
    wakeup = signal.set_wakeup_fd(descriptor, warn_on_full_buffer=False)
    try:
        with handled_by(dict.fromkeys(numbers, lambda *_: None)):
            yield
    finally:
        signal.set_wakeup_fd(wakeup)
