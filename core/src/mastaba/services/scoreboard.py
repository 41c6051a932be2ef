"""State of every worker process, in memory shared by all processes."""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass
from enum import StrEnum
from time import monotonic, time

_PID, _STATE, _COUNT = range(3)
_START, _DURATION, _CLOCK, _SIGN = range(3, 7)
_COLUMNS = 7
_CELL = 8
_PENDING, _RUNNING, _AVAILABLE = range(3)


class WorkerStatus(StrEnum):
    """State of a row.

    Attributes:
        PENDING: it has not recorded a request yet.
        RUNNING: its request is being answered.
        AVAILABLE: its last request has been answered.
        UNKNOWN: its content is invalid.
    """

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    AVAILABLE = "AVAILABLE"
    UNKNOWN = "UNKNOWN"


_STATUS = {
    _PENDING: WorkerStatus.PENDING,
    _RUNNING: WorkerStatus.RUNNING,
    _AVAILABLE: WorkerStatus.AVAILABLE,
}


@dataclass(frozen=True, slots=True)
class ThreadStatus:
    """Contents of one row. Existing monitoring calls it a thread.

    Attributes:
        identifier: number of the row, unique among all workers.
        pid: process identifier of the worker.
        status: state of its request.
        count: requests served, without the one in progress.
        time: start of the last request in Unix seconds, 0 if there was none.
        duration: duration of the last finished request in seconds.
    """

    identifier: int
    pid: int
    status: WorkerStatus
    count: int
    time: int
    duration: float


class Row:
    """The cells that one request writes; obtained from `Scoreboard.begin`."""

    __slots__ = ("integers", "seconds")

    def __init__(self, integers: memoryview[int], seconds: memoryview[float]) -> None:
        self.integers = integers
        self.seconds = seconds

    def sign(self) -> None:
        """Record that the request makes progress."""
        self.seconds[_SIGN] = monotonic()


class Scoreboard:
    """A table with one row for each request that a worker process may answer at a time.

    Create it before the workers are forked. Each row is written by one thread at a time, and
    read without a lock: a reader may see a half-recorded request, but does not crash. Unbound
    processes, and requests beyond the number of rows, are not shown.

    Args:
        workers: number of slots: twice that of worker processes, for reloads with two generations.
        threads: requests that a worker answers at a time, without maps.
        maps: maps that a worker draws at a time, or that wait; shown once used.

    Attributes:
        slot: slot of this process; None if it is not bound.
    """

    def __init__(self, workers: int, threads: int, maps: int = 0) -> None:
        self.workers = workers
        self.threads = threads
        self.slot: int | None = None
        self._count = threads + maps
        rows = workers * self._count
        # The rows are followed by the ticks of each worker.
        self._memory = mmap.mmap(-1, max(1, rows * _COLUMNS + workers) * _CELL)
        # Two views of the same cells: a column contains either integers or seconds.
        self._integers = memoryview(self._memory).cast("q")
        self._seconds = memoryview(self._memory).cast("d")
        self._ticks = self._integers[rows * _COLUMNS :]
        self._free: list[Row] = []

    def bind_worker(self, index: int) -> None:
        """Take and clear the rows of a worker slot for this process.

        Called once in each worker process before it serves. An index beyond the number of
        slots is accepted; the worker is then not shown.
        """
        self._free = []
        if not 0 <= index < self.workers:
            return
        self.slot = index
        integers = self._integers
        for base in self._bases(index):
            cells = slice(base, base + _COLUMNS)
            integers[cells] = memoryview(bytes(_COLUMNS * _CELL)).cast("q")
            integers[base + _PID] = os.getpid()
            self._free.append(Row(integers[cells], self._seconds[cells]))
        self._free.reverse()

    def begin(self) -> Row:
        """Record that a request begins; return its row, for `end`."""
        try:
            row = self._free.pop()
        except IndexError:
            nowhere = memoryview(bytearray(_COLUMNS * _CELL))
            return Row(nowhere.cast("q"), nowhere.cast("d"))
        seconds = row.seconds
        seconds[_START] = time()
        seconds[_CLOCK] = seconds[_SIGN] = monotonic()
        row.integers[_STATE] = _RUNNING
        return row

    def end(self, row: Row) -> None:
        """Record that a request is answered, and release its row."""
        integers = row.integers
        if integers[_STATE] == _RUNNING:
            row.seconds[_DURATION] = monotonic() - row.seconds[_CLOCK]
            integers[_COUNT] += 1
            integers[_STATE] = _AVAILABLE
            self._free.append(row)

    def tick(self) -> None:
        """Record that the interpreter of this process is running."""
        if self.slot is not None:
            self._ticks[self.slot] += 1

    def ticks(self, index: int) -> int:
        """Return the number of ticks of the worker in a slot."""
        return self._ticks[index] if 0 <= index < self.workers else 0

    def silence(self, index: int) -> float:
        """Return the seconds since the most stalled request of a worker made progress."""
        if not 0 <= index < self.workers:
            return 0.0
        signs = [
            self._seconds[base + _SIGN]
            for base in self._bases(index)
            if self._integers[base + _STATE] == _RUNNING
        ]
        return monotonic() - min(signs) if signs else 0.0

    def _bases(self, index: int) -> range:
        size = self._count * _COLUMNS
        return range(index * size, (index + 1) * size, _COLUMNS)

    def rows(self) -> list[ThreadStatus]:
        """Return the rows of all live workers, in the order of their identifiers."""
        found = []
        for slot in self.live_slots():
            for number, base in enumerate(self._bases(slot)):
                if number < self.threads or self._integers[base + _STATE] != _PENDING:
                    found.append(self._status(base))
        return found

    def live_slots(self) -> list[int]:
        """Return the slots to which live processes are bound, in order."""
        pids = [self._integers[self._bases(slot)[0] + _PID] for slot in range(self.workers)]
        return [slot for slot, pid in enumerate(pids) if pid and _is_alive(pid)]

    def _status(self, base: int) -> ThreadStatus:
        return ThreadStatus(
            identifier=base // _COLUMNS + 1,
            pid=self._integers[base + _PID],
            status=_STATUS.get(self._integers[base + _STATE], WorkerStatus.UNKNOWN),
            count=self._integers[base + _COUNT],
            time=int(self._seconds[base + _START]),
            duration=self._seconds[base + _DURATION],
        )


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
