"""Work that only one of several processes does."""

from __future__ import annotations

import fcntl
import os
import weakref


class Turn:
    """The right to do something, of one process at a time; made before they are forked.

    The kernel gives it back when the process that has it ends.
    """

    def __init__(self) -> None:
        self._file = os.memfd_create("turn")
        weakref.finalize(self, os.close, self._file)

    def take(self) -> bool:
        """Return whether this process has the turn, which it then keeps.

        It never waits: for the kernel, a process that waits for another one in one thread would be
        in a deadlock with it as soon as that one waits for any lock of the first.
        """
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            return False
        return True
