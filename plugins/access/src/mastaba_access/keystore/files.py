"""Files of keys: when they have changed, and how they are written."""

from __future__ import annotations

import os
import tempfile

from mastaba.errors import reason_of
from mastaba_access.keystore.errors import KeyStoreError


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


def write_whole(path: str, text: str) -> None:
    """Write a file that only its owner reads; readers see it before or after, never half.

    Raises:
        KeyStoreError: it cannot be written.
    """
    folder = os.path.dirname(path) or "."
    temporary = ""
    try:
        # A hidden name: stores that are directories do not read it.
        handle, temporary = tempfile.mkstemp(prefix=".", dir=folder)
        give_to_owner_of_folder(handle, path)
        with open(handle, "w", encoding="utf-8") as stream:
            stream.write(text + "\n")
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except OSError as error:
        if temporary and os.path.exists(temporary):
            os.unlink(temporary)
        raise KeyStoreError(f"{path} cannot be written: {reason_of(error)}") from error
