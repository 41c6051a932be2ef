"""Memory that forked processes share, with a lock that the kernel frees if one of them dies."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from mastaba_server.threads.per_process import PerProcess


class SharedMemory:
    """Memory that is made before a fork and inherited by the processes.

    Args:
        size: bytes, all zero at first. Pages that are never written take no memory.

    Attributes:
        memory: the bytes, which may be read without the lock if a half-written value is harmless.
    """

    def __init__(self, size: int) -> None:
        self._file = os.memfd_create("mastaba", os.MFD_CLOEXEC)
        os.ftruncate(self._file, size)
        self.memory = mmap.mmap(self._file, size, mmap.MAP_SHARED)
        # Record locks exclude processes, not threads.
        self._lock = PerProcess(threading.Lock)

    def __del__(self) -> None:
        os.close(self._file)

    @contextmanager
    def locked(self) -> Iterator[mmap.mmap]:
        """Return the memory, which no other process or thread changes meanwhile."""
        with self._lock.get():
            self._take()
            try:
                yield self.memory
            finally:
                fcntl.lockf(self._file, fcntl.LOCK_UN)

    def _take(self) -> None:
        while True:
            try:
                fcntl.lockf(self._file, fcntl.LOCK_EX)
                return
            except OSError as error:
                # The kernel takes threads of a process for one: those of two processes that hold a
                # lock each, and wait for that of the other, look like a deadlock.
                if error.errno != errno.EDEADLK:
                    raise
            time.sleep(0.001)
