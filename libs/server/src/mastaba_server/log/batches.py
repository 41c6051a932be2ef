"""Lines of the log, written in batches by a thread of their own.

Threads that serve only append an entry: whatever happens to the destination of the log, none of
them waits. The lines of entries are made together, because code that has just run is several times
faster than code that other work has displaced from the caches of the processor.
"""

from __future__ import annotations

import os
import select
import stat
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

# Seconds that a line waits at most for more of them.
_PERIOD: Final = 0.25
# Characters that wait for a destination that is slow. Lines beyond are lost.
_MOST_WAITING: Final = 4 << 20
_LARGEST: Final = 1 << 20
TOGETHER = 32
"""Entries whose lines are made at a time."""

MakeLines = Callable[[Sequence[Any]], list[str]]
"""Makes the lines of some entries that begin with it."""
Entry = tuple[Any, ...]
"""What lines are made of; its first item is a `MakeLines`."""


class Batches:
    """Entries and lines that wait to be written, in their order, and the thread that writes them.

    Args:
        write: writes lines without their ends; may wait.
        report: called after a success with the number of lines lost before.
        failed: called with what ``write`` raises; the lines are lost.
    """

    def __init__(
        self,
        write: Callable[[list[str]], None],
        report: Callable[[int], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._write, self._report, self._failed = write, report, failed
        self._entries: list[Entry] = []
        self._lines: list[str] = []
        self._waiting = self._lost = 0
        self._is_writing = False
        self._lock = threading.Lock()
        self._wanted = threading.Event()
        threading.Thread(target=self._run, name="log", daemon=True).start()

    def add(self, line: str) -> None:
        """Have a line written soon, or count it as lost if too many wait."""
        self.add_entry((_as_they_are, line))

    def add_entry(self, entry: Entry) -> None:
        """Have the line of an entry made and written soon; see `add`."""
        entries = self._entries
        entries.append(entry)
        # If another thread makes lines now, a later entry has those of this one made.
        if len(entries) >= TOGETHER and self._lock.acquire(blocking=False):
            try:
                self._make_lines()
            finally:
                self._lock.release()

    def hurry(self) -> None:
        """Have the lines that wait written now."""
        self._wanted.set()

    def flush(self, seconds: float) -> None:
        """Return when all lines are written, or the destination takes none for so long."""
        end = time.monotonic() + seconds
        while self._has_some() and time.monotonic() < end:
            self.hurry()
            time.sleep(0.002)

    def _has_some(self) -> bool:
        # Another thread may be making the lines of entries that it has taken.
        with self._lock:
            return bool(self._entries or self._lines or self._is_writing)

    def _make_lines(self) -> None:
        """Make the lines of all entries, with the lock held."""
        # Other threads append meanwhile. Each of these operations is done as a whole.
        entries = self._entries[:]
        del self._entries[: len(entries)]
        for make, group in groupby(entries, itemgetter(0)):
            several = list(group)
            lines = self._lines_of(make, several) if self._waiting <= _MOST_WAITING else []
            self._lost += len(several) - len(lines)
            self._lines += lines
            self._waiting += sum(map(len, lines))

    def _lines_of(self, make: MakeLines, entries: Sequence[Entry]) -> list[str]:
        try:
            return make(entries)
        except Exception as error:  # noqa: BLE001 - no request fails because of its line
            if len(entries) > 1:
                return [line for one in entries for line in self._lines_of(make, [one])]
            self._failed(error)
            return []

    def _run(self) -> None:
        while True:
            self._wanted.wait(_PERIOD)
            self._wanted.clear()
            if self._entries or self._lines:
                self._is_writing = True
                self._write_all()
                self._is_writing = False

    def _write_all(self) -> None:
        with self._lock:
            self._make_lines()
            lines, self._lines = self._lines, []
            self._waiting = 0
        if not lines:
            return
        try:
            self._write(lines)
        except Exception as error:  # noqa: BLE001 - the thread must survive
            with self._lock:
                self._lost += len(lines)
            self._failed(error)
            return
        with self._lock:
            lost, self._lost = self._lost, 0
        if lost:
            self._report(lost)


def _as_they_are(entries: Sequence[Entry]) -> list[str]:
    return [line for _, line in entries]


def write_lines(descriptor: int, lines: Sequence[str]) -> None:
    """Write lines to a file, pipe or socket, and wait until it takes them.

    A line is never mixed with those of other processes: the kernel appends what a call writes to a
    file as a whole, and to a pipe up to ``PIPE_BUF`` bytes.

    Raises:
        OSError: not all was written.
    """
    is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
    for data in _joined(lines, _LARGEST if is_file else select.PIPE_BUF):
        written = 0
        try:
            while written < len(data):
                try:
                    written += os.write(descriptor, data[written:])
                except BlockingIOError:
                    wait_for(descriptor)
        except OSError:
            if 0 < written < len(data):
                with suppress(OSError):
                    os.write(descriptor, b"\n")
            raise


def wait_for(descriptor: int, seconds: float | None = None) -> bool:
    """Wait until a write would not block; return whether that is so."""
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    return bool(poll.poll(None if seconds is None else seconds * 1000))


def _joined(lines: Sequence[str], most: int) -> Iterator[bytes]:
    """Yield lines together, up to a number of bytes, and longer ones alone."""
    # As many as fit if their characters are ASCII and they are of equal length.
    count = max(1, most * len(lines) // (sum(map(len, lines)) + len(lines)))
    for start in range(0, len(lines), count):
        part = lines[start : start + count]
        data = ("\n".join(part) + "\n").encode("utf-8", "backslashreplace")
        if len(data) <= most or len(part) == 1:
            yield data
        else:
            middle = len(part) // 2
            yield from _joined(part[:middle], most)
            yield from _joined(part[middle:], most)
