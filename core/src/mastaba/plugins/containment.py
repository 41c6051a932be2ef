"""Code of plugins that runs at start, where it must not harm the process."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
from typing import NoReturn

from mastaba.plugins.calls import BrokenPluginError
from mastaba_server.processes.signals import StopOrdered

FOR_THE_PROGRAM = (KeyboardInterrupt, StopOrdered)
"""Exceptions that stop the program, wherever they are raised. Plugins cause all others."""

_leave = os._exit
# Classes are also loaded on first use, by any thread.
_lock = threading.RLock()
_contained_in: int | None = None
"""Process in which such code runs now."""


def _refuse(status: int) -> NoReturn:
    # Plugins may keep this function, and a process that they have forked must exit.
    if os.getpid() != _contained_in:
        _leave(status)
    raise BrokenPluginError(f"calls os._exit({status}), which would end the program")


@contextlib.contextmanager
def contained() -> Iterator[None]:
    """Send what is printed to standard error, and turn ``os._exit`` into an error.

    Standard output belongs to the commands: programs read it.
    """
    global _contained_in
    with _lock, contextlib.redirect_stdout(sys.stderr):
        outer, _contained_in = _contained_in, os.getpid()
        os._exit = _refuse
        try:
            yield
        finally:
            _contained_in = outer
            if outer is None:
                os._exit = _leave


@contextlib.contextmanager
def threads_reported(warn: Callable[[str], None]) -> Iterator[None]:
    """Warn about threads that the code starts: no worker process has them after its fork."""
    before = set(threading.enumerate())
    yield
    if started := sorted(thread.name for thread in set(threading.enumerate()) - before):
        warn(
            f"starts threads at import ({', '.join(started)}), which worker processes do not "
            "have; start them in Service.after_fork, or on first use"
        )
