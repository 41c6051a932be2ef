"""Counters in memory shared by all worker processes.

Each worker has rows, of which a thread takes one while it writes, so nothing is locked. A worker
that is replaced leaves its rows to its successor, which counts on: counters never go back while
the server runs, also not by a reload.
"""

from __future__ import annotations

import mmap
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary, ref

from mastaba_metrics.operations import OPERATIONS, PAIR

if TYPE_CHECKING:
    from mastaba.services.scoreboard import Scoreboard

STATUSES: Final = (
    *("other", "200", "204", "206", "302", "304", "400", "401", "403", "404", "405", "406"),
    *("409", "413", "500", "501", "502", "503"),
)
STATUS_NUMBERS: Final = {status: number for number, status in enumerate(STATUSES)}

BOUNDS: Final = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
)
"""Upper bounds of the latency buckets in seconds; one more bucket has no bound."""

# Cells of one service and operation: statuses, buckets, seconds, bytes.
BUCKETS: Final = len(STATUSES)
SECONDS: Final = BUCKETS + len(BOUNDS) + 1
BYTES: Final = SECONDS + 1
assert BYTES + 1 == PAIR

_PROCESS: Final = ("index_hits", "index_misses", "decoded_hits", "decoded_misses", "decoded_bytes")
_CELL: Final = 8
_SAMPLING_PERIOD: Final = 1.0

Cells = tuple["memoryview[int]", "memoryview[float]"]
"""The cells of one row, viewed as integers and as floats."""


class Table:
    """All counters of one server.

    Args:
        scoreboard: assigns each worker its slot.
        services: names of the services; requests for none of them count as ``none``.
        drivers: names of the storage drivers.

    Attributes:
        free: rows that are not being written.
        sampled: brings the counters of this process into its cells; called once a second, since
            to do it with each request would cost more than all the rest.
    """

    def __init__(
        self, scoreboard: Scoreboard, services: Sequence[str], drivers: Sequence[str]
    ) -> None:
        self.services = ("none", *services)
        self.drivers = tuple(drivers)
        self.process_cells = (
            *_PROCESS,
            *(f"{kind}_{driver}" for driver in drivers for kind in ("reads", "errors")),
        )
        self._scoreboard = scoreboard
        # The last slot is for processes without a slot of their own.
        self._slots = scoreboard.workers + 1
        self._rows = self._slots * scoreboard.threads
        self._width = len(self.services) * len(OPERATIONS) * PAIR
        processes = self._slots * len(self.process_cells)
        memory = mmap.mmap(-1, (self._rows * self._width + processes) * _CELL)
        self._integers = memoryview(memory).cast("q")
        self._floats = memoryview(memory).cast("d")
        self.free: list[Cells] = []
        self.sampled: Callable[[], None] | None = None
        self._taken = 0
        self._lock = threading.Lock()

    def take_row(self) -> Cells:
        """Return a row for a while, when none is free: all pairs, one after the other.

        It belongs into ``free`` again as soon as it is written.
        """
        threads = self._scoreboard.threads
        with self._lock:
            # Threads beyond the announced number share the last row and may lose a count.
            number = min(self._taken, threads - 1)
            first = not self._taken
            self._taken += 1
        if first:
            threading.Thread(target=self._sample, name="metrics", daemon=True).start()
        start = (self._slot * threads + number) * self._width
        row = slice(start, start + self._width)
        return self._integers[row], self._floats[row]

    def process_row(self) -> memoryview[int]:
        """Return the cells of this process, in the order of ``process_cells``."""
        return self._process_row(self._slot)

    @property
    def live_slots(self) -> list[int]:
        """The slots of live processes."""
        return self._scoreboard.live_slots()

    def pairs(self) -> Iterator[tuple[str, str, list[int], float]]:
        """Yield service, operation, sums of its cells, and seconds, for each pair with requests."""
        import numpy as np

        count = len(self.services) * len(OPERATIONS)
        shape = (self._rows, count, PAIR)
        size = self._rows * self._width
        integers = np.frombuffer(self._integers[:size], np.int64).reshape(shape).sum(0)
        seconds = np.frombuffer(self._integers[:size], np.float64).reshape(shape)[:, :, SECONDS]
        for position, (sums, total) in enumerate(zip(integers, seconds.sum(0), strict=True)):
            if sums[:BUCKETS].any():
                service, operation = divmod(position, len(OPERATIONS))
                name = self.services[service]
                yield name, OPERATIONS[operation], sums.tolist(), float(total)

    def process_sum(self, name: str, slots: Sequence[int] | None = None) -> int:
        """Return the sum of a cell over all processes, or over those in the given slots."""
        position = self.process_cells.index(name)
        chosen = range(self._slots) if slots is None else slots
        return sum(self._process_row(slot)[position] for slot in chosen)

    @property
    def _slot(self) -> int:
        slot = self._scoreboard.slot
        return self._slots - 1 if slot is None else slot

    def _process_row(self, slot: int) -> memoryview[int]:
        start = self._rows * self._width + slot * len(self.process_cells)
        return self._integers[start : start + len(self.process_cells)]

    def _sample(self) -> None:
        while True:
            time.sleep(_SAMPLING_PERIOD)
            if self.sampled is not None:
                self.sampled()


class Source:
    """Two counters of an object in this process, and the cells that publish them.

    The counters may start at any value. The cells continue from the values that the previous
    process left.

    Args:
        counted: the object.
        names: names of its two attributes.
        at: index of the first of the two cells.
        baseline: values of the counters when this process began to count.
    """

    def __init__(
        self, counted: object, names: tuple[str, str], at: int, baseline: tuple[int, int] = (0, 0)
    ) -> None:
        self._read: Callable[[], tuple[int, int]] = _reader(counted, names)
        self._at = at
        self._baseline = baseline
        self._bases: tuple[int, int] | None = None

    def reset_baseline(self) -> None:
        """Start counting now: another process counted the current values."""
        self._baseline = self._read()
        self._bases = None

    def flush(self, cells: memoryview[int]) -> None:
        """Write the current values."""
        first, second = self._read()
        at = self._at
        bases = self._bases
        if bases is None:
            bases = (cells[at] - self._baseline[0], cells[at + 1] - self._baseline[1])
            self._bases = bases
        cells[at] = bases[0] + first
        cells[at + 1] = bases[1] + second


def _reader(counted: object, names: tuple[str, str]) -> Callable[[], tuple[int, int]]:
    # A weak reference, so that the counted object can be freed with its configuration.
    reference, get = ref(counted), attrgetter(*names)
    last = (0, 0)

    def read() -> tuple[int, int]:
        nonlocal last
        found = reference()
        if found is not None:
            last = get(found)
        return last

    return read


_tables: WeakKeyDictionary[Scoreboard, Table] = WeakKeyDictionary()
_sources: WeakKeyDictionary[object, Source] = WeakKeyDictionary()


def source_of(
    counted: object, names: tuple[str, str], at: int, baseline: tuple[int, int] = (0, 0)
) -> Source:
    """Return the single source of an object, so counts survive a change of the configuration."""
    source = _sources.get(counted)
    if source is None:
        source = _sources[counted] = Source(counted, names, at, baseline)
    return source


def table_of(scoreboard: Scoreboard, services: Sequence[str], drivers: Sequence[str]) -> Table:
    """Return the table of a scoreboard. Both survive a reload."""
    table = _tables.get(scoreboard)
    if table is None:
        table = _tables[scoreboard] = Table(scoreboard, services, drivers)
    return table


def _in_child() -> None:
    for source in list(_sources.values()):
        source.reset_baseline()


os.register_at_fork(after_in_child=_in_child)
