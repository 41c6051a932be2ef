"""Signals that wake a process instead of ending it."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager


@contextmanager
def woken_by(numbers: Sequence[signal.Signals], descriptor: int) -> Iterator[None]:
    """Have these signals do no more than write their number into a descriptor that does not block.

    The byte arrives at once, even while the main thread is deep in a C function, where a Python
    handler would have to wait. Signals that the process ignores stay ignored. Only for the main
    thread; on leaving, all is as it was.
    """
    wakeup = signal.set_wakeup_fd(descriptor, warn_on_full_buffer=False)
    handlers = {
        number: signal.signal(number, _no_operation)
        for number in numbers
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(wakeup)


def _no_operation(*_: object) -> None:
    pass
