"""A FUSE file system that shows a directory, read-only, and can be made to hang.

It speaks the protocol of the kernel, so it needs no library: only /dev/fuse and the right to mount.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import stat
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_LOOKUP, _FORGET, _GETATTR, _OPEN, _READ, _STATFS, _RELEASE, _FLUSH = 1, 2, 3, 14, 15, 17, 18, 25
_INIT, _OPENDIR, _RELEASEDIR, _INTERRUPT, _BATCH_FORGET = 26, 27, 29, 36, 42
_DIRECT_IO = 1
_DETACH = 2


class HangingMount:
    """A mounted directory.

    Attributes:
        path: the mount point.
    """

    def __init__(self, path: Path, process: subprocess.Popen[bytes]) -> None:
        self.path = path
        self._process = process

    def hang(self) -> None:
        """Answer no more."""
        os.kill(self._process.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """Answer again, also what came meanwhile."""
        os.kill(self._process.pid, signal.SIGCONT)


@contextmanager
def mounted(directory: Path, path: Path) -> Iterator[HangingMount]:
    """Mount a directory at another path. Skip the test where that is not allowed."""
    path.mkdir()
    command = [sys.executable, __file__, str(directory), str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        assert process.stdout is not None
        line = process.stdout.readline().decode()
        if line != "mounted\n":
            process.wait()
            pytest.skip(f"no FUSE file system can be mounted here: {line.strip()}")
        try:
            yield HangingMount(path, process)
        finally:
            # Whoever waits for the file system gets an error when the process is gone.
            process.kill()
            process.wait()
            ctypes.CDLL(None).umount2(str(path).encode(), _DETACH)


def _mount(path: str) -> int:
    descriptor = os.open("/dev/fuse", os.O_RDWR)
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"fd={descriptor},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()}"
    flags = 1 | 2 | 4  # read-only, no set-user-ids, no devices
    if libc.mount(b"mastaba-test", path.encode(), b"fuse", flags, options.encode()):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return descriptor


class _FileSystem:
    def __init__(self, directory: str) -> None:
        self._paths = {1: directory}
        self._nodes = {directory: 1}

    def answer(self, operation: int, node: int, body: bytes) -> bytes:
        """Return the answer to a request. Raises `OSError` if it is an error."""
        if operation == _INIT:
            major, minor = struct.unpack_from("=II", body)
            return struct.pack(
                "=IIIIHHIIHHI28x", major, min(minor, 31), 0, 0, 8, 6, 4096, 1, 1, 0, 0
            )
        path = self._paths[node]
        if operation == _LOOKUP:
            found = f"{path}/{body.rstrip(bytes(1)).decode()}"
            attributes = self._attributes(found)
            new = self._nodes.setdefault(found, len(self._nodes) + 1)
            self._paths[new] = found
            return struct.pack("=QQQQII", new, 0, 0, 0, 0, 0) + attributes
        if operation == _GETATTR:
            return struct.pack("=QII", 0, 0, 0) + self._attributes(path)
        if operation in (_OPEN, _OPENDIR):
            return struct.pack("=QII", 0, _DIRECT_IO, 0)
        if operation == _READ:
            _, offset, size = struct.unpack_from("=QQI", body)
            with open(path, "rb") as file:
                file.seek(offset)
                return file.read(size)
        if operation == _STATFS:
            return bytes(80)
        if operation in (_RELEASE, _RELEASEDIR, _FLUSH):
            return b""
        raise OSError(errno.ENOSYS, "not implemented")

    def _attributes(self, path: str) -> bytes:
        facts = os.stat(path)
        kind = stat.S_IFDIR | 0o555 if stat.S_ISDIR(facts.st_mode) else stat.S_IFREG | 0o444
        seconds, rest = divmod(facts.st_mtime_ns, 10**9)
        return struct.pack(
            "=QQQQQQIIIIIIIIII",
            facts.st_ino,
            facts.st_size,
            (facts.st_size + 511) // 512,
            seconds,
            seconds,
            seconds,
            rest,
            rest,
            rest,
            kind,
            1,
            0,
            0,
            0,
            4096,
            0,
        )


def _serve(directory: str, path: str) -> None:
    try:
        descriptor = _mount(path)
    except OSError as error:
        print(error, flush=True)
        return
    print("mounted", flush=True)
    files = _FileSystem(directory)
    while True:
        try:
            request = os.read(descriptor, 1 << 20)
        except OSError as error:
            if error.errno == errno.ENODEV:
                return  # unmounted
            if error.errno in (errno.EINTR, errno.EAGAIN, errno.ENOENT):
                continue
            raise
        _, operation, unique, node = struct.unpack_from("=IIQQ", request)
        if operation in (_FORGET, _BATCH_FORGET, _INTERRUPT):
            continue
        try:
            number, answer = 0, files.answer(operation, node, request[40:])
        except OSError as error:
            number, answer = -(error.errno or errno.EIO), b""
        try:
            os.write(descriptor, struct.pack("=IiQ", 16 + len(answer), number, unique) + answer)
        except OSError:
            time.sleep(0)  # the caller was interrupted


if __name__ == "__main__":
    # Not from the modules of the tests: a program of its own.
    _serve(*sys.argv[1:])
