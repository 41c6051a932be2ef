"""WSGI middleware that counts every request.

It runs for every tile, so everything that does not depend on the request is precomputed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from mastaba.api.web import OPERATION, SpooledBody
from mastaba_metrics.operations import PAIR, operation
from mastaba_metrics.table import BOUNDS, BUCKETS, BYTES, SECONDS, STATUS_NUMBERS, table_of

if TYPE_CHECKING:
    from mastaba.api.services import Site

_Application = Callable[[dict[str, Any], Any], Iterable[bytes]]

_NO_SERVICE: Final = ("none", "")


def counting(site: Site) -> Callable[[_Application], _Application]:
    """Return the middleware that counts the requests of a site."""
    table = table_of(site)
    table.serve(site)
    free, named = table.free, table.operation_cells
    width = len(table.operations) * PAIR
    starts = {name: number * width for number, name in enumerate(table.services)}

    def wrap(application: _Application) -> _Application:
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
            service, below = environ.get("mastaba.service", _NO_SERVICE)
            pair = starts[service]
            if OPERATION in environ:
                pair += named.get(environ[OPERATION], 0)
            else:
                pair += operation(service, below, environ["QUERY_STRING"])
            try:
                cells = free.pop()
            except IndexError:
                cells = table.take_row()
            integers, floats = cells
            integers[pair + number] += 1
            integers[pair + bisect_left(BOUNDS, seconds) + BUCKETS] += 1
            floats[pair + SECONDS] += seconds
            if result.__class__ is list and result:
                integers[pair + BYTES] += sum(map(len, result))
            elif isinstance(result, SpooledBody):
                integers[pair + BYTES] += len(result)
            free.append(cells)
            return result

        return counted

    return wrap
