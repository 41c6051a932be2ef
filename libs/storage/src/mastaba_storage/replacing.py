"""Files that take the place of others when they are complete."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO


@contextmanager
def replaced_file(path: str) -> Iterator[BinaryIO]:
    """Open a new file that only its owner reads; at the end, it takes the place of another one.

    Readers see the former file or the whole new one, also after the machine has failed. Until
    then, its name begins with a dot. After an error, the former file stays.

    Raises:
        OSError: it cannot be written.
    """
    descriptor, temporary = tempfile.mkstemp(prefix=".", dir=os.path.dirname(path) or ".")
    try:
        with open(descriptor, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(descriptor)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def write_whole(path: str, data: bytes) -> None:
    """Write a file of a command: with the usual permissions, whole or not at all.

    Links are followed. Pipes and devices are written as they are.

    Raises:
        OSError: it cannot be written; the former file stays.
    """
    path = os.path.realpath(path)
    if os.path.exists(path) and not os.path.isfile(path):
        with open(path, "wb") as stream:
            stream.write(data)
        return
    try:
        mode = stat.S_IMODE(os.stat(path).st_mode)
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        mode = 0o666 & ~mask
    with replaced_file(path) as stream:
        stream.write(data)
        os.fchmod(stream.fileno(), mode)
