"""Tests that change the network interfaces of this machine run apart from those with a browser.

Chromium drops all requests when an address of the machine appears or goes (ERR_NETWORK_CHANGED),
and other processes may run other tests at the same time.
"""

from __future__ import annotations

import fcntl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_LOCK = Path(tempfile.gettempdir()) / "mastaba-network-interfaces.lock"
_TURN = _LOCK.with_suffix(".turn")


@contextmanager
def unchanged_network() -> Iterator[None]:
    """Keep the interfaces as they are; several processes may do so at a time."""
    with _locked(fcntl.LOCK_SH):
        yield


@contextmanager
def changing_network() -> Iterator[None]:
    """Wait until no other process depends on the interfaces, and let none begin."""
    with _locked(fcntl.LOCK_EX):
        yield


@contextmanager
def _locked(how: int) -> Iterator[None]:
    with _TURN.open("a") as turn, _LOCK.open("a") as file:
        # Who waits to change the network holds the turn, so no further test with a browser begins.
        fcntl.flock(turn, fcntl.LOCK_EX)
        fcntl.flock(file, how)
        if how == fcntl.LOCK_SH:
            fcntl.flock(turn, fcntl.LOCK_UN)
        yield
