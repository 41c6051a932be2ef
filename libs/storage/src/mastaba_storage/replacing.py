"""Files that take the place of others when they are complete."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO, Final

_NOT_HERE: Final = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY)
"""Errors of folders in which no file can be replaced; a file that is mounted is busy."""


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
    """Write a file of a command: whole or not at all, with the usual or the former permissions.

    Links are followed, and the former owner and group are kept as far as the system allows it.
    Pipes and devices are written as they are; so is a file that exists in a folder that cannot be
    written.

    Raises:
        OSError: it cannot be written; the former file stays, unless it is written in place.
    """
    try:
        former = os.stat(path)
    except FileNotFoundError:
        former = None
    if former is not None and not stat.S_ISREG(former.st_mode):
        # A pipe has no path: that of the link /dev/stdout leads nowhere.
        _write(path, data)
        return
    path = os.path.realpath(path)
    try:
        with replaced_file(path) as stream:
            stream.write(data)
            _take_over(stream.fileno(), former)
    except OSError as error:
        if former is None or error.errno not in _NOT_HERE:
            raise
        _write(path, data)


def _take_over(descriptor: int, former: os.stat_result | None) -> None:
    if former is None:
        mask = os.umask(0)
        os.umask(mask)
        os.fchmod(descriptor, 0o666 & ~mask)
        return
    for owner in (former.st_uid, -1):
        # In user namespaces, the number of an owner outside is invalid.
        with suppress(OSError):
            os.fchown(descriptor, owner, former.st_gid)
            break
    # Last: a change of the owner removes bits.
    os.fchmod(descriptor, stat.S_IMODE(former.st_mode))


def _write(path: str, data: bytes) -> None:
    with open(path, "wb") as stream:
        stream.write(data)
