"""WSGI middleware that counts every request.

It runs for every tile, so everything that does not depend on the request is precomputed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from time import perf_counter
from typing import TYPE_CHECKING, Any

from mastaba.web.body import SpooledBody
from mastaba_metrics.operations import OPERATIONS, PAIR, operation
from mastaba_metrics.table import (
    BOUNDS,
    BUCKETS,
    BYTES,
    SECONDS,
    STATUS_NUMBERS,
    Table,
    source_of,
    table_of,
)

if TYPE_CHECKING:
    from mastaba.render.tile_cache import TileCache
    from mastaba.services.base import Site

_Application = Callable[[dict[str, Any], Any], Iterable[bytes]]


def counting(site: Site) -> Callable[[_Application], _Application]:
    """Return the middleware that counts the requests of a site."""
    plugins = site.plugins
    table = table_of(site.scoreboard, sorted(plugins.services), sorted(plugins.storages))
    services = _Services(site, table)
    process = _ProcessCounters(site, table)

    table.sampled = process.flush

    def wrap(application: _Application) -> _Application:
        by_path, free = services.by_path, table.free

        def counted(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
            number = 0

            def start(status: str, headers: Any, exc_info: Any = None) -> Any:
                nonlocal number
                number = STATUS_NUMBERS.get(status[:3], 0)
                if exc_info is None:
                    return start_response(status, headers)
                return start_response(status, headers, exc_info)

            begin = perf_counter()
            result = application(environ, start)
            seconds = perf_counter() - begin
            path: str = environ["SCRIPT_NAME"] + environ["PATH_INFO"]
            end = path.find("/", 1)
            found = by_path.get(path if end < 0 else path[:end])
            if found is None:
                pair = services.other_pair(path, environ["QUERY_STRING"])
            else:
                below = "" if end < 0 else path[end:]
                pair = found[1] + operation(found[0], below, environ["QUERY_STRING"])
            try:
                cells = free.pop()
            except IndexError:
                cells = table.take_row()
            integers, floats = cells
            integers[pair + number] += 1
            integers[pair + bisect_left(BOUNDS, seconds) + BUCKETS] += 1
            floats[pair + SECONDS] += seconds
            if result.__class__ is list and result:
                integers[pair + BYTES] += len(result[0]) if len(result) == 1 else _size(result)
            elif isinstance(result, SpooledBody):
                integers[pair + BYTES] += len(result)
            free.append(cells)
            return result

        return counted

    return wrap


def _size(pieces: Iterable[bytes]) -> int:
    return sum(map(len, pieces))


class _Services:
    """Maps the path of a request to the cells of its service."""

    def __init__(self, site: Site, table: Table) -> None:
        numbers = {name: number for number, name in enumerate(table.services)}
        self._all = {
            service.settings.root_path: (name, numbers[name] * len(OPERATIONS) * PAIR)
            for name, service in site.services.items()
            if name in numbers
        }
        self._depths = sorted({path.count("/") for path in self._all}, reverse=True)
        # Nearly all root paths have one segment. If none has more, one lookup is enough.
        self.by_path = dict(self._all) if self._depths[0] <= 1 else {}
        self.by_path.pop("", None)

    def other_pair(self, path: str, query: str) -> int:
        """Return the first cell for a path that `by_path` does not contain."""
        for depth in self._depths:
            end = 0
            for _ in range(depth):
                end = path.find("/", end + 1)
                if end < 0:
                    end = len(path)
                    break
            found = self._all.get(path[:end])
            # The root service only counts requests for "/" itself.
            if found is not None and not (found[0] == "root" and len(path) > 1):
                return found[1] + operation(found[0], path[end:], query)
        return 0


class _ProcessCounters:
    """Copies the counters of this process, such as those of its caches, to shared memory."""

    def __init__(self, site: Site, table: Table) -> None:
        self._site = site
        self._table = table
        self._measured = site.catalogue.storages.measured
        self._cells: memoryview[int] | None = None
        indices = site.catalogue.indices
        self._sources = [source_of(indices, ("hits", "misses"), 0, (indices.hits, indices.misses))]
        self._drivers = 0
        self._tiles: TileCache | None = None
        self._find_drivers(is_new=True)

    def flush(self) -> None:
        """Write the current values."""
        cells = self._cells
        if cells is None:
            # Not in the constructor: the site is created before the worker process is forked.
            cells = self._cells = self._table.process_row()
        if self._measured is not None and len(self._measured.drivers) != self._drivers:
            self._find_drivers(is_new=False)
        if self._tiles is None and "renderer" in self._site.__dict__:
            self._tiles = self._site.renderer.tiles
            self._sources.append(source_of(self._tiles, ("hits", "misses"), 2))
        if self._tiles is not None:
            cells[4] = self._tiles.used
        for source in self._sources:
            source.flush(cells)

    def _find_drivers(self, *, is_new: bool) -> None:
        """Add the drivers that have been opened since the last call.

        Args:
            is_new: whether the site is new. If so, the reads counted so far loaded the site and
                are not reported.
        """
        if self._measured is None:
            return
        drivers = list(self._measured.drivers.items())
        for name, counts in drivers[self._drivers :]:
            at = self._table.process_cells.index(f"reads_{name}")
            baseline = (counts.reads, counts.errors) if is_new else (0, 0)
            self._sources.append(source_of(counts, ("reads", "errors"), at, baseline))
        self._drivers = len(drivers)
