"""Counters in memory shared by all worker processes.

Each worker has rows, of which a thread takes one while it writes, so nothing is locked. A worker
that is replaced leaves its rows to its successor, which continues from them: counters never
decrease while the server runs, even after a reload.
"""

from __future__ import annotations

import mmap
import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from mastaba_metrics.operations import OPERATIONS, PAIR

if TYPE_CHECKING:
    from mastaba.api.services import Scoreboard, Service, Site

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

# Cells of one service and operation: statuses, buckets, seconds, bytes, long bodies that have
# ended, and how many of these were not sent to their end.
BUCKETS: Final = len(STATUSES)
SECONDS: Final = BUCKETS + len(BOUNDS) + 1
BYTES: Final = SECONDS + 1
STREAMS: Final = BYTES + 1
TRUNCATED: Final = STREAMS + 1
assert TRUNCATED + 1 == PAIR

_DECODED: Final = "decoded_bytes"
_OPEN: Final = "variants_open"
_PROCESS: Final = (
    *("index_hits", "index_misses", "decoded_hits", "decoded_misses", _DECODED),
    *("variant_opens", _OPEN),
)
_CELL: Final = 8
_SAMPLING_PERIOD: Final = 1.0

Cells = tuple["memoryview[int]", "memoryview[float]"]
"""The cells of one row, viewed as integers and as floats."""


class Table:
    """All counters of one server.

    Args:
        scoreboard: assigns each worker its slot.
        services: installed ones by name; requests for none of them count as ``none``.
        drivers: names of the storage drivers.

    Attributes:
        operations: names of the operations: the usual ones, and those that services declare.
        operation_cells: offset of an operation within the cells of a service.
        free: rows that are not being written.
    """

    def __init__(
        self,
        scoreboard: Scoreboard,
        services: Mapping[str, type[Service]],
        drivers: Iterable[str],
    ) -> None:
        self.services = ("none", *sorted(services))
        declared = {name for service in services.values() for name in service.operations}
        self.operations = (*OPERATIONS, *sorted(declared.difference(OPERATIONS)))
        self.operation_cells = {name: at * PAIR for at, name in enumerate(self.operations)}
        self.drivers = tuple(sorted(drivers))
        self.process_cells = (
            *_PROCESS,
            *(f"{kind}_{driver}" for driver in self.drivers for kind in ("reads", "errors")),
        )
        self._scoreboard = scoreboard
        # The last slot is for processes without a slot of their own.
        self._slots = scoreboard.workers + 1
        self._rows = self._slots * scoreboard.threads
        self._width = len(self.services) * len(self.operations) * PAIR
        processes = self._slots * len(self.process_cells)
        memory = mmap.mmap(-1, (self._rows * self._width + processes) * _CELL)
        self._integers = memoryview(memory).cast("q")
        self._floats = memoryview(memory).cast("d")
        self.free: list[Cells] = []
        self._site: Site | None = None
        self._counted: dict[str, int] = {}
        self._taken = 0
        self._lock = threading.Lock()

    def take_row(self) -> Cells:
        """Return a row if none is free. Append it to ``free`` as soon as it is written."""
        threads = self._scoreboard.threads
        with self._lock:
            # Threads beyond the announced number share the last row and may lose a count.
            number = min(self._taken, threads - 1)
            is_first = not self._taken
            self._taken += 1
        if is_first:
            threading.Thread(target=self._sample_always, name="metrics", daemon=True).start()
        start = (self._slot * threads + number) * self._width
        row = slice(start, start + self._width)
        return self._integers[row], self._floats[row]

    def serve(self, site: Site) -> None:
        """Count the caches and storages of a site from now on."""
        # A changed site shares them with the previous one.
        is_new = self._site is None or site.catalogue.indices is not self._site.catalogue.indices
        self._site = site
        if is_new:
            self.restart()

    def restart(self) -> None:
        """Leave out what has been counted so far: it loaded the site, or another process did it."""
        self._lock = threading.Lock()
        self._counted = self._process_counts()

    def sample(self) -> None:
        """Add what the caches and storages of this process counted since the last call.

        Called once a second: with each request, it would cost more than all the rest.
        """
        cells = self._process_row(self._slot)
        with self._lock:
            for name, value in self._process_counts().items():
                position = self.process_cells.index(name)
                if name in (_DECODED, _OPEN):
                    cells[position] = value
                else:
                    cells[position] += value - self._counted.get(name, 0)
                    self._counted[name] = value

    def live_slots(self) -> list[int]:
        """Return the slots of live processes."""
        return self._scoreboard.live_slots()

    def pairs(self) -> Iterator[tuple[str, str, list[int], float]]:
        """Yield service, operation, sums of its cells, and seconds, for each pair with requests."""
        import numpy as np

        count = len(self.services) * len(self.operations)
        shape = (self._rows, count, PAIR)
        size = self._rows * self._width
        integers = np.frombuffer(self._integers[:size], np.int64).reshape(shape).sum(0)
        seconds = np.frombuffer(self._integers[:size], np.float64).reshape(shape)[:, :, SECONDS]
        for position, (sums, total) in enumerate(zip(integers, seconds.sum(0), strict=True)):
            if sums[:BUCKETS].any():
                service, operation = divmod(position, len(self.operations))
                name = self.services[service]
                yield name, self.operations[operation], sums.tolist(), float(total)

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

    def _process_counts(self) -> dict[str, int]:
        """Return what this process has counted, by the names of the cells."""
        site = self._site
        if site is None:
            return {}
        indices, measured = site.catalogue.indices, site.catalogue.storages.measured
        opened = site.catalogue.opened
        counts = {"index_hits": indices.hits, "index_misses": indices.misses}
        counts |= {"variant_opens": opened.added, _OPEN: len(opened.values())}
        for name, driver in list(measured.items()) if measured is not None else ():
            counts |= {f"reads_{name}": driver.reads, f"errors_{name}": driver.errors}
        # The renderer is loaded with the first map.
        if "renderer" in vars(site):
            tiles = site.renderer.tiles
            counts |= {"decoded_hits": tiles.hits, "decoded_misses": tiles.misses}
            counts[_DECODED] = tiles.used
        return counts

    def _sample_always(self) -> None:
        while True:
            time.sleep(_SAMPLING_PERIOD)
            self.sample()


_tables: WeakKeyDictionary[Scoreboard, Table] = WeakKeyDictionary()


def table_of(site: Site) -> Table:
    """Return the table of a site's scoreboard. Both survive a reload."""
    table = _tables.get(site.scoreboard)
    if table is None:
        plugins = site.plugins
        table = Table(site.scoreboard, plugins.services, plugins.storages)
        _tables[site.scoreboard] = table
    return table


def _in_child() -> None:
    for table in list(_tables.values()):
        table.restart()


os.register_at_fork(after_in_child=_in_child)
