"""Files of keys: when they have changed, and how they are written."""

from __future__ import annotations

import fcntl
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TypeAlias

from mastaba.api.storages import replaced_file
from mastaba.errors import reason_of
from mastaba_access.keystore.errors import KeyStoreError

logger = logging.getLogger("mastaba.access")

State: TypeAlias = tuple[int, int, int]
"""Inode, size and time of a file."""

_BUSY: Final = 5.0
"""Seconds to wait for another process that changes keys."""
_LOOK: Final = 0.02
"""Seconds between two attempts."""


def state_of(path: str) -> State | None:
    """Return what differs after each change of a file; None if it cannot be found."""
    try:
        return _state(os.stat(path))
    except OSError:
        return None


def _state(found: os.stat_result) -> State:
    return found.st_ino, found.st_size, found.st_mtime_ns


def give_to_owner_of_folder(handle: int, path: str) -> None:
    """Let the server read what the superuser creates: it owns the folder, not the command."""
    found = os.fstat(handle)
    # Only what was made just now, and not a link to a file of the system.
    is_new = not found.st_size and found.st_nlink == 1
    if os.geteuid() == 0 and found.st_uid == 0 and is_new:
        folder = os.stat(os.path.dirname(path) or ".")
        os.fchown(handle, folder.st_uid, folder.st_gid)


@contextmanager
def alone(lock: str) -> Iterator[None]:
    """Hold a lock: nobody else who calls this with the same file changes keys meanwhile.

    The file has its own name, because files of keys are replaced, and only its owner opens it. If
    it cannot be made, or on a file system without locks, nothing is held, and a warning is logged.

    Args:
        lock: path of an empty hidden file, which is made and stays.

    Raises:
        KeyStoreError: others hold it for 5 s.
    """
    handle = None
    try:
        try:
            # Over NFS, only what is open for writing can be held alone.
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            handle = os.open(lock, flags, 0o600)
            give_to_owner_of_folder(handle, lock)
            _hold(handle, lock)
        except OSError as error:
            reason = reason_of(error)
            logger.warning("others can change keys at the same time: %s: %s", lock, reason)
        yield
    finally:
        if handle is not None:
            os.close(handle)


def _hold(handle: int, lock: str) -> None:
    end = time.monotonic() + _BUSY
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= end:
                break
        time.sleep(_LOOK)
    raise KeyStoreError(f"another process holds {lock} and changes keys; try again")


def write_private(path: str, text: str) -> State:
    """Write a file that only its owner reads; readers see it before or after, never half.

    Returns:
        Its state, whoever replaces it afterwards.

    Raises:
        KeyStoreError: it cannot be written.
    """
    try:
        # Stores that are directories do not read hidden files.
        with replaced_file(path) as stream:
            give_to_owner_of_folder(stream.fileno(), path)
            stream.write(f"{text}\n".encode())
            stream.flush()
            return _state(os.fstat(stream.fileno()))
    except OSError as error:
        raise KeyStoreError(f"{path} cannot be written: {reason_of(error)}") from error
