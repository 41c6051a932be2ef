"""An even share of the connections for each process that accepts on the same socket."""

from __future__ import annotations

import mmap
import os
from contextlib import suppress
from typing import Final

_ABSENT: Final = -1


class Balance:
    """Numbers of open connections of all worker processes, in memory that they share.

    The kernel gives a new connection to any process that waits. So a front server that opens its
    connections at once may get all of them from one process. Here, a process that has more
    connections than another one wakes that one instead of accepting.

    Create it before the workers are forked.

    Args:
        workers: number of worker slots; workers in other slots are not balanced.
    """

    def __init__(self, workers: int) -> None:
        memory = mmap.mmap(-1, 8 * max(1, workers))
        self._counts = memoryview(memory)[: 8 * workers].cast("q")
        self._bells = [os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC) for _ in range(workers)]
        self._slot: int | None = None
        for slot in range(workers):
            self._counts[slot] = _ABSENT

    def join(self, slot: int) -> None:
        """Take a worker slot for this process; it accepts connections from the first `count` on."""
        if slot < len(self._bells):
            self._slot = slot
            self._counts[slot] = _ABSENT

    def leave(self) -> None:
        """Accept no more connections in this process."""
        if self._slot is not None:
            self._counts[self._slot] = _ABSENT
            self._slot = None

    def fileno(self) -> int:
        """Return a descriptor that is readable when another process leaves a connection to this."""
        slot = self._slot
        return -1 if slot is None else self._bells[slot]

    def answer(self) -> None:
        """Make the descriptor unreadable again."""
        bell = self.fileno()
        if bell >= 0:  # another thread may leave at the same time
            with suppress(BlockingIOError):
                os.eventfd_read(bell)

    def count(self, connections: int) -> None:
        """Record the number of connections of this process."""
        slot = self._slot
        if slot is not None:
            self._counts[slot] = connections

    def wake_emptier(self) -> bool:
        """Wake the process with the fewest connections; return False if it is this one."""
        own = self._slot
        if own is None:
            return False
        counts = [*self._counts]
        present = [slot for slot, count in enumerate(counts) if count != _ABSENT]
        emptiest = min(present, key=counts.__getitem__, default=own)
        if counts[emptiest] >= counts[own]:
            return False
        os.eventfd_write(self._bells[emptiest], 1)
        return True
