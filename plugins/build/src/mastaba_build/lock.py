"""The lock of a pyramid: one builder at a time."""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from mastaba_build.errors import BuildError, LockedError


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock file while a build runs.

    The system releases the lock when the process exits, also after a kill, so no lock is left
    behind. The file names the host and the process.

    Raises:
        LockedError: another process holds it.
        BuildError: the file cannot be written.
    """
    with _opened(path) as file:
        file.seek(0)
        file.truncate()
        file.write(f"{socket.gethostname()} process {os.getpid()}")
        file.flush()
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def _opened(path: Path) -> TextIO:
    """Return the locked file."""
    while True:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise BuildError(f"{path}: cannot be written: {error.strerror}") from None
        file = os.fdopen(descriptor, "r+", encoding="utf-8")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = file.read().strip() or "another process"
            file.close()
            raise LockedError(
                f"{path}: {holder} builds this pyramid; wait until it exits"
            ) from None
        # The holder before may have removed the file between the two calls.
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                return file
        file.close()
