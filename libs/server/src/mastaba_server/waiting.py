"""What a serving thread does while it waits for another machine: another thread serves."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext


class _Local(threading.local):
    replaced: Callable[[], AbstractContextManager[None]] = nullcontext


_local = _Local()


def serve(replaced: Callable[[], AbstractContextManager[None]]) -> None:
    """Declare the calling thread one that answers requests.

    Args:
        replaced: returns a context in which another thread answers requests instead.
    """
    _local.replaced = replaced


def waiting() -> AbstractContextManager[None]:
    """Return a context in which the calling thread waits for another machine.

    In a thread that answers requests, also by `stored_tile`, another thread answers meanwhile.
    """
    return _local.replaced()
