"""File descriptors of a process: how many it may have, and who gets them.

Connections come first. Files that stay open only to save time take what is left, and give it back
when there are more connections.
"""

from __future__ import annotations

import resource
import threading
from typing import Final, Protocol
from weakref import WeakSet

MOST_CONNECTIONS: Final = 10_000
MOST_FILES: Final = 32_768
_WANTED: Final = 65_536
_RESERVED: Final = 256
"""For other uses than connections and files that stay open."""
_FEW_FILES: Final = 512
"""Files that may stay open whatever the number of connections, in half of the limit at most."""
_FEW_CONNECTIONS: Final = 1024
"""Connections for which descriptors are left from the start."""


class Files(Protocol):
    """Files that stay open."""

    def close_surplus(self) -> None:
        """Close files until there are no more than `Descriptors.most_files`."""


class Descriptors:
    """The descriptors of this process.

    Attributes:
        room: connections for which descriptors are left.
    """

    def __init__(self) -> None:
        self.room = _FEW_CONNECTIONS
        self._files: WeakSet[Files] = WeakSet()
        self._lock = threading.Lock()

    def raise_limit(self) -> None:
        """Raise the soft limit of this process to 65,536, or to the hard limit if that is lower.

        A higher limit remains.
        """
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = _WANTED if hard == resource.RLIM_INFINITY else min(_WANTED, hard)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))

    @property
    def most_connections(self) -> int:
        """How many connections the process may have."""
        limit = _limit()
        return max(1, min(MOST_CONNECTIONS, limit - min(_RESERVED, limit // 2)))

    @property
    def most_files(self) -> int:
        """How many files each `Files` may keep open."""
        limit = _limit()
        left = min(MOST_FILES, limit - _RESERVED - self.room)
        # A process that serves several configurations has several.
        return max(1, min(_FEW_FILES, limit // 2), left // max(1, len(self._files)))

    def add_files(self, files: Files) -> None:
        """Share the descriptors with further files, as long as the object exists."""
        with self._lock:
            self._files.add(files)
        self.leave_room(0)

    def leave_room(self, connections: int) -> None:
        """Leave descriptors for this many connections and as many again."""
        with self._lock:
            self.room = max(self.room, 2 * connections)
            known = list(self._files)
        for files in known:
            files.close_surplus()


def _limit() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _WANTED if soft == resource.RLIM_INFINITY else soft


DESCRIPTORS: Final = Descriptors()
