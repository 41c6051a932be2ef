"""Settings of the C library's memory allocator."""

from __future__ import annotations

import contextlib
import ctypes
from typing import Final

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8
_KEPT: Final = 8 * 1024**2


def keep_freed_memory() -> None:
    """Keep some freed memory for reuse, in one arena for all threads.

    Every map allocates arrays of several megabytes. By default, glibc returns them to the system
    when they are freed, and a quarter of the time of a map is spent on new pages. With one arena
    per thread, glibc keeps several times the memory needed. Without glibc, this function does
    nothing. Call it before threads are started.
    """
    with contextlib.suppress(OSError, AttributeError):
        set_option = ctypes.CDLL(None).mallopt
        set_option(_M_MMAP_THRESHOLD, _KEPT)
        set_option(_M_TRIM_THRESHOLD, _KEPT)
        set_option(_M_ARENA_MAX, 1)


def return_freed_memory() -> None:
    """Return the freed memory of this process to the system, also from between blocks in use.

    By itself, glibc returns only what lies above the highest block in use, and a cached tile may
    be that block. Takes milliseconds, during which other threads cannot allocate. Without glibc,
    this function does nothing.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
