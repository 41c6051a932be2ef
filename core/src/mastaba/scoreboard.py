"""What every worker thread is doing, in memory shared by all processes."""

from __future__ import annotations

import contextlib
import mmap
import os
import threading
from dataclasses import dataclass
from enum import StrEnum
from time import perf_counter, time

_PID, _STATE, _COUNT = range(3)
_START, _DURATION, _CLOCK = range(3, 6)
_COLUMNS = 6
_CELL = 8
_PENDING, _RUNNING, _AVAILABLE = range(3)

_Cells = tuple["memoryview[int]", "memoryview[float]"]
"""The cells of one row, seen as whole numbers and as seconds."""


class WorkerStatus(StrEnum):
    """State of a worker thread."""

    PENDING = "PENDING"
    """It never served a request."""
    RUNNING = "RUNNING"
    """It serves a request."""
    AVAILABLE = "AVAILABLE"
    """It waits for the next request."""
    UNKNOWN = "UNKNOWN"
    """Its row makes no sense."""


_STATUS = {
    _PENDING: WorkerStatus.PENDING,
    _RUNNING: WorkerStatus.RUNNING,
    _AVAILABLE: WorkerStatus.AVAILABLE,
}


@dataclass(frozen=True, slots=True)
class ThreadStatus:
    """One worker thread: what it does and what it has done."""

    identifier: int
    """Number of the thread, unique among all workers."""
    pid: int
    """Process identifier of its worker."""
    status: WorkerStatus
    count: int
    """Requests served, the one in progress not included."""
    time: int
    """Start of the last request in Unix seconds, 0 if there was none."""
    duration: float
    """Duration of the last finished request in seconds."""


class Scoreboard:
    """A table with one row for each thread of each worker process.

    It has to be created before the workers are forked. Each row is written by one thread only,
    and read by anyone without a lock: a reader may see a request half begun, never a crash.
    A process that was not bound, and threads beyond the number of rows, are simply not shown.

    :param workers: number of worker slots. During a reload two generations of workers live side
        by side, so this should be twice the number of worker processes.
    :param threads: number of threads of each worker.

    ``slot`` is that of this process, None when it is bound to none.
    """

    def __init__(self, workers: int, threads: int) -> None:
        self.workers = workers
        self.threads = threads
        self.slot: int | None = None
        self._memory = mmap.mmap(-1, max(1, workers * threads) * _COLUMNS * _CELL)
        # Two views of the same cells: a column is either of whole numbers or of seconds.
        self._integers = memoryview(self._memory).cast("q")
        self._seconds = memoryview(self._memory).cast("d")
        self._local = threading.local()
        self._lock = threading.Lock()
        self._free: list[int] = []

    def bind_worker(self, index: int) -> None:
        """Take the rows of a worker slot for this process, clearing those of a predecessor.

        Called once in each worker process before it serves. An index beyond the number of
        slots is accepted; the worker is then not shown.
        """
        self._lock = threading.Lock()
        self._local = threading.local()
        self._free = []
        if not 0 <= index < self.workers:
            return
        self.slot = index
        integers = self._integers
        for row in range(index * self.threads, (index + 1) * self.threads):
            base = row * _COLUMNS
            integers[base : base + _COLUMNS] = memoryview(bytes(_COLUMNS * _CELL)).cast("q")
            integers[base + _PID] = os.getpid()
            self._free.append(base)
        self._free.reverse()

    def begin(self) -> None:
        """The calling thread begins to serve a request."""
        try:
            cells = self._local.cells
        except AttributeError:
            cells = self._take_row()
        if cells is None:
            return
        integers, seconds = cells
        seconds[_START] = time()
        seconds[_CLOCK] = perf_counter()
        integers[_STATE] = _RUNNING

    def end(self) -> None:
        """The calling thread has served the request that it began."""
        cells = getattr(self._local, "cells", None)
        if cells is None:
            return
        integers, seconds = cells
        seconds[_DURATION] = perf_counter() - seconds[_CLOCK]
        integers[_COUNT] += 1
        integers[_STATE] = _AVAILABLE

    def rows(self) -> list[ThreadStatus]:
        """The threads of all live workers, in the order of their identifiers."""
        alive: dict[int, bool] = {0: False}
        found = []
        for row in range(self.workers * self.threads):
            base = row * _COLUMNS
            pid = self._integers[base + _PID]
            if pid not in alive:
                alive[pid] = _is_alive(pid)
            if alive[pid]:
                found.append(self._status(row, base, pid))
        return found

    def live_slots(self) -> list[int]:
        """The slots to which live processes are bound, in order."""
        rows = range(0, self.workers * self.threads, self.threads)
        pids = [self._integers[row * _COLUMNS + _PID] for row in rows]
        return [slot for slot, pid in enumerate(pids) if pid and _is_alive(pid)]

    def _status(self, row: int, base: int, pid: int) -> ThreadStatus:
        return ThreadStatus(
            identifier=row + 1,
            pid=pid,
            status=_STATUS.get(self._integers[base + _STATE], WorkerStatus.UNKNOWN),
            count=self._integers[base + _COUNT],
            time=int(self._seconds[base + _START]),
            duration=self._seconds[base + _DURATION],
        )

    def _take_row(self) -> _Cells | None:
        cells = None
        with self._lock, contextlib.suppress(IndexError):
            base = self._free.pop()
            row = slice(base, base + _COLUMNS)
            cells = self._integers[row], self._seconds[row]
        self._local.cells = cells
        return cells


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
