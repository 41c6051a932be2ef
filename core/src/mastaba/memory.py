"""How the C library of this process keeps the memory that was freed."""

from __future__ import annotations

import contextlib
import ctypes
from typing import Final

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8
_KEPT: Final = 8 * 1024**2


def keep_freed_memory() -> None:
    """Keep some freed memory at hand, in one arena for all threads.

    Every map allocates arrays of some megabytes. By default glibc gives them back to the system
    when they are freed: a quarter of the time of a map went into getting fresh pages. With an
    arena for each thread it keeps several times what it would need. Without glibc nothing
    happens. Has to be called before threads are started.
    """
    with contextlib.suppress(OSError, AttributeError):
        set_option = ctypes.CDLL(None).mallopt
        set_option(_M_MMAP_THRESHOLD, _KEPT)
        set_option(_M_TRIM_THRESHOLD, _KEPT)
        set_option(_M_ARENA_MAX, 1)
