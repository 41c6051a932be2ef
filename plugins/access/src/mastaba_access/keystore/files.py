"""Files of keys: when they have changed, and how they are written."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from mastaba.api.storages import replaced_file
from mastaba.errors import reason_of
from mastaba_access.keystore.errors import KeyStoreError

_BUSY: Final = 5.0
"""Seconds to wait for another process that changes keys."""
_LOOK: Final = 0.02
"""Seconds between two attempts."""


def state_of(path: str) -> tuple[int, int, int] | None:
    """Return what differs after each change of a file; None if it does not exist."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def give_to_owner_of_folder(handle: int, path: str) -> None:
    """Let the server read what the superuser creates: it owns the folder, not the command."""
    if os.geteuid() == 0 and os.fstat(handle).st_uid == 0:
        folder = os.stat(os.path.dirname(path) or ".")
        os.fchown(handle, folder.st_uid, folder.st_gid)


@contextmanager
def alone(path: str) -> Iterator[None]:
    """Hold the folder of a store: nobody else who calls this changes its keys meanwhile.

    The folder is locked, because files are replaced. Without a folder, or on a file system without
    locks, nothing is held.

    Raises:
        KeyStoreError: others hold it for 5 s.
    """
    try:
        folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        yield
        return
    try:
        _lock(folder, path)
        yield
    finally:
        os.close(folder)


def _lock(folder: int, path: str) -> None:
    end = time.monotonic() + _BUSY
    # Without locks, another error is raised.
    with suppress(OSError):
        while True:
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() >= end:
                    break
            time.sleep(_LOOK)
        raise KeyStoreError(f"another process changes the keys {path}; try again")


def write_whole(path: str, text: str) -> None:
    """Write a file that only its owner reads; readers see it before or after, never half.

    Raises:
        KeyStoreError: it cannot be written.
    """
    try:
        # Stores that are directories do not read hidden files.
        with replaced_file(path) as stream:
            give_to_owner_of_folder(stream.fileno(), path)
            stream.write(f"{text}\n".encode())
    except OSError as error:
        raise KeyStoreError(f"{path} cannot be written: {reason_of(error)}") from error
