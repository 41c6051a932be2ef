"""State of every worker process, in memory shared by all processes."""

from __future__ import annotations

import ctypes
import mmap
import os
from dataclasses import dataclass
from enum import StrEnum
from time import monotonic, time
from typing import ClassVar

_PENDING, _RUNNING, _AVAILABLE = range(3)


class WorkerStatus(StrEnum):
    """State of a row, in the order of its numbers.

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


class Obstacle(StrEnum):
    """Why the whole server is not ready, or not as configured; the value is for people.

    Attributes:
        DRAINING: it will stop soon.
        OUTDATED: the newest configuration is not in use.
        UNREADABLE: whether there is a newer configuration is unknown.
        KEPT: a reload by an operator has failed; the server is ready nevertheless.
        RULES: the same after a change of the rules of access.
        CELLS: usage is counted, but not for each layer.
        TABLES: the table of a mosaic has errors; the one before is served.
        VARIANTS: the same for the list of the variants of a layer that is watched.
    """

    DRAINING = "the server is about to stop"
    OUTDATED = "the newest configuration cannot be loaded"
    UNREADABLE = "the configuration cannot be read"
    KEPT = "the last reload has failed: the configuration before it stays in use"
    RULES = "the file of access rules has errors: the rules before them stay in use"
    CELLS = "the cells of usage have run out: layers are counted together"
    TABLES = "the table of a mosaic cannot be used: the one before it stays in use"
    VARIANTS = "the list of the values of a layer cannot be used: the one before it stays in use"


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


_STATUS = tuple(WorkerStatus)


class Row(ctypes.Structure):
    """What one request writes; obtained from `Scoreboard.begin`."""

    _fields_: ClassVar = [
        *((name, ctypes.c_int64) for name in ("pid", "state", "count")),
        *((name, ctypes.c_double) for name in ("start", "duration", "clock", "latest")),
    ]
    pid: int
    state: int
    count: int
    start: float
    duration: float
    clock: float
    latest: float


class Scoreboard:
    """A table with one row for each request that a worker process may answer at a time.

    Create it before the workers are forked. Each row is written by one thread at a time, and
    read without a lock: a reader may see a half-recorded request, but does not crash. Unbound
    processes, and requests beyond the number of rows, are not shown.

    Args:
        workers: number of slots: twice that of worker processes, for reloads with two epochs.
        threads: requests that a worker answers at a time, without maps.
        maps: maps that a worker draws at a time, or that wait; shown once used.

    Attributes:
        slot: slot of this process; None if it is not bound.
    """

    def __init__(self, workers: int, threads: int, maps: int = 0) -> None:
        self.workers = workers
        self.threads = threads
        self.slot: int | None = None
        rows = Row * (threads + maps)
        # The rows are followed by the ticks of each worker, and the obstacles.
        size = workers * ctypes.sizeof(rows)
        memory = mmap.mmap(-1, size + 8 * workers + len(Obstacle))
        self._rows = [rows.from_buffer(memory, i * ctypes.sizeof(rows)) for i in range(workers)]
        self._ticks = (ctypes.c_int64 * workers).from_buffer(memory, size)
        self._obstacles = (ctypes.c_bool * len(Obstacle)).from_buffer(memory, size + 8 * workers)
        self._free: list[Row] = []

    @property
    def obstacles(self) -> list[Obstacle]:
        """Why the whole server is not as it should be, in the order of `Obstacle`."""
        return [one for one, is_there in zip(Obstacle, self._obstacles, strict=True) if is_there]

    def report(self, obstacle: Obstacle, is_there: bool = True) -> None:
        """Record in all processes that there is an obstacle, or no longer."""
        self._obstacles[list(Obstacle).index(obstacle)] = is_there

    def bind_worker(self, index: int) -> None:
        """Take and clear the rows of a worker slot for this process.

        Called once in each worker process before it serves. An index beyond the number of
        slots is accepted; the worker is then not shown.
        """
        if not 0 <= index < self.workers:
            return
        self.slot = index
        rows = self._rows[index]
        ctypes.memset(rows, 0, ctypes.sizeof(rows))
        self._free = [*rows][::-1]
        for row in self._free:
            row.pid = os.getpid()

    def begin(self) -> Row:
        """Record that a request begins; return its row, for `end`."""
        try:
            row = self._free.pop()
        except IndexError:
            return Row()
        row.start = time()
        row.clock = row.latest = monotonic()
        row.state = _RUNNING
        return row

    def end(self, row: Row, *, answered: bool = True) -> None:
        """Record that a request is answered, or will begin again, and release its row."""
        if row.state == _RUNNING:
            row.duration = monotonic() - row.clock
            row.count += answered
            row.state = _AVAILABLE
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
        signs = [row.latest for row in self._rows[index] if row.state == _RUNNING]
        return monotonic() - min(signs) if signs else 0.0

    def rows(self) -> list[ThreadStatus]:
        """Return the rows of all live workers, in the order of their identifiers."""
        return [
            ThreadStatus(
                identifier=slot * len(self._rows[slot]) + number + 1,
                pid=row.pid,
                status=_STATUS[min(row.state, len(_STATUS) - 1)],
                count=row.count,
                time=int(row.start),
                duration=row.duration,
            )
            for slot in self.live_slots()
            for number, row in enumerate(self._rows[slot])
            if number < self.threads or row.state != _PENDING
        ]

    def live_slots(self) -> list[int]:
        """Return the slots to which live processes are bound, in order."""
        pids = [rows[0].pid for rows in self._rows]
        return [slot for slot, pid in enumerate(pids) if pid and _is_alive(pid)]


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:  # it is gone, or now the process of another user
        return False
    return True
