"""Files of keys: when they have changed, and how they are written."""

from __future__ import annotations

import os

from mastaba.api.storages import replaced_file
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
    try:
        # Stores that are directories do not read hidden files.
        with replaced_file(path) as stream:
            give_to_owner_of_folder(stream.fileno(), path)
            stream.write(f"{text}\n".encode())
    except OSError as error:
        raise KeyStoreError(f"{path} cannot be written: {reason_of(error)}") from error
