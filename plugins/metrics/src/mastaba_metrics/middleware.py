"""Middleware that counts every request.

It runs for every tile, so everything that does not depend on the request is precomputed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from mastaba.api.web import OPERATION, SizedBody
from mastaba_metrics.operations import GET_TILE, PAIR
from mastaba_metrics.table import (
    BOUNDS,
    BUCKETS,
    BYTES,
    SECONDS,
    STATUS_NUMBERS,
    STREAMS,
    TRUNCATED,
    table_of,
)

if TYPE_CHECKING:
    from mastaba.api.services import Site
    from mastaba.api.web import Response
    from mastaba_metrics.table import Table

FindStored = Callable[[Mapping[str, Any], int, int], "Response | None"]
Answer = Callable[[Mapping[str, Any]], "Response"]
_Application = Callable[[dict[str, Any], Any], Iterable[bytes]]

_NO_SERVICE: Final = ("none", "")
_OK: Final = STATUS_NUMBERS["200"]
_NOT_MODIFIED: Final = STATUS_NUMBERS["304"]


def counting(site: Site) -> Callable[[_Application], _Counted]:
    """Return the middleware that counts the requests of a site."""
    table = table_of(site)
    table.serve(site)
    return partial(_Counted, table)


class _Counted:
    """An application whose requests are counted."""

    def __init__(self, table: Table, application: _Application) -> None:
        self._application = application
        self._table = table
        self._free, self._named = table.free, table.operation_cells
        width = len(table.operations) * PAIR
        self._starts = {name: number * width for number, name in enumerate(table.services)}

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        number = 0

        def start(status: str, headers: Any, exc_info: Any = None) -> Any:
            nonlocal number
            number = STATUS_NUMBERS.get(status[:3], 0)
            if exc_info is None:
                return start_response(status, headers)
            return start_response(status, headers, exc_info)

        begin = perf_counter()
        result = self._application(environ, start)
        seconds = perf_counter() - begin
        pair = self._pair(environ)
        size = 0
        if result.__class__ is list:
            size = sum(map(len, result))
        elif isinstance(result, SizedBody):
            size = len(result)
            if result.report(partial(self._sent, pair, size)):
                size = 0
        self._count(pair, number, seconds, size)
        return result

    def around_tiles(self, service: str, find: FindStored) -> FindStored:
        """Count the stored tiles of a service that are found without a WSGI call."""
        pair = self._starts[service] + GET_TILE
        ok, not_modified = pair + _OK, pair + _NOT_MODIFIED
        buckets, total, sizes = pair + BUCKETS, pair + SECONDS, pair + BYTES
        free, take_row = self._free, self._table.take_row

        # As `_count`: a call would cost a tenth of it.
        def counted(headers: Mapping[str, Any], tile_row: int, tile_col: int) -> Response | None:
            begin = perf_counter()
            response = find(headers, tile_row, tile_col)
            if response is not None:
                seconds = perf_counter() - begin
                try:
                    cells = free.pop()
                except IndexError:
                    cells = take_row()
                integers, floats = cells
                integers[ok if response.status == 200 else not_modified] += 1
                integers[bisect_left(BOUNDS, seconds) + buckets] += 1
                floats[total] += seconds
                integers[sizes] += len(response.body)
                free.append(cells)
            return response

        return counted

    def around_document(self, environ: Mapping[str, Any], answer: Answer) -> Answer:
        """Count the requests for a document that are answered without a WSGI call."""
        pair = self._pair(environ)
        count = self._count

        def counted(headers: Mapping[str, Any]) -> Response:
            begin = perf_counter()
            response = answer(headers)
            seconds = perf_counter() - begin
            count(pair, STATUS_NUMBERS[str(response.status)], seconds, len(response.body))
            return response

        return counted

    def _pair(self, environ: Mapping[str, Any]) -> int:
        """Return where service and operation of an answered request are counted."""
        service = environ.get("mastaba.service", _NO_SERVICE)[0]
        return self._starts[service] + self._named.get(environ.get(OPERATION, ""), 0)

    def _sent(self, pair: int, whole: int, size: int) -> None:
        """Count a long body, and the bytes that were sent of it, when it is closed."""
        try:
            cells = self._free.pop()
        except IndexError:
            cells = self._table.take_row()
        cells[0][pair + BYTES] += size
        cells[0][pair + STREAMS] += 1
        cells[0][pair + TRUNCATED] += size < whole
        self._free.append(cells)

    def _count(self, pair: int, number: int, seconds: float, size: int) -> None:
        try:
            cells = self._free.pop()
        except IndexError:
            cells = self._table.take_row()
        integers, floats = cells
        integers[pair + number] += 1
        integers[pair + bisect_left(BOUNDS, seconds) + BUCKETS] += 1
        floats[pair + SECONDS] += seconds
        if size:
            integers[pair + BYTES] += size
        self._free.append(cells)
