"""Signals handled for a while, in the main thread."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager


@contextmanager
def handled_by(handlers: Mapping[signal.Signals, Callable[[int, object], None]]) -> Iterator[None]:
    """Have these signals handled so, but for those that the process ignores.

    On leaving, all is as it was.
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
    """Have these signals do no more than write their number into a descriptor that does not block.

    The byte arrives at once, even while the main thread is deep in a C function, where a Python
    handler would have to wait.
    """
    wakeup = signal.set_wakeup_fd(descriptor, warn_on_full_buffer=False)
    try:
        with handled_by(dict.fromkeys(numbers, _no_operation)):
            yield
    finally:
        signal.set_wakeup_fd(wakeup)


def _no_operation(_number: int, _frame: object) -> None:
    pass
