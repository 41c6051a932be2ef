"""One log line for each request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from threading import get_ident
from time import perf_counter
from typing import Any

from mastaba_server import trace
from mastaba_server.access.gate import Meter
from mastaba_server.access.principal import GRANT
from mastaba_server.body import SizedBody
from mastaba_server.log.entries import EntryLines
from mastaba_server.web.response import Response

WSGICallable = Callable[[dict[str, Any], Any], Iterable[bytes]]
FindTile = Callable[[str, str, Mapping[str, Any]], Response | None]


class AccessLines:
    """Logs each request when it is answered.

    A line contains the client address, method, path and query, status, bytes of the body,
    seconds, and whether the cache had what was needed. A long body that was not sent to its
    end is marked as truncated.

    Args:
        lines: make the lines; None if requests are only counted.
        meters: count the requests that do not come from the table, with or without lines.
        address: returns the address of a client for the headers of a request to the table; None
            if it is the one in them.
    """

    def __init__(
        self,
        lines: EntryLines | None,
        *,
        meters: Sequence[Meter] = (),
        address: Callable[[Mapping[str, Any]], str] | None = None,
    ) -> None:
        self._lines = lines
        self._meters = meters
        self._address = address
        self._steps = lines is not None and lines.steps

    def around(self, application: WSGICallable) -> WSGICallable:
        """Wrap a WSGI application."""

        def wrapped(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
            status = ""

            def start(line: str, *rest: Any) -> Any:
                nonlocal status
                status = line
                return start_response(line, *rest)

            begun, notes = perf_counter(), trace.begin(is_timed=self._steps)
            result: Iterable[bytes] | None = None
            try:
                result = application(environ, start)
                return result
            finally:
                trace.end()
                path = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
                # What answered may change the environ.
                asked = path, environ.get("QUERY_STRING", ""), int(status[:3] or 500)
                log = partial(self._ended, begun, notes, environ, *asked)
                if not (
                    isinstance(result, SizedBody) and result.report(partial(log, whole=len(result)))
                ):
                    log(_size(result))

        return wrapped

    def _ended(
        self,
        begun: float,
        notes: trace.Trace,
        environ: Mapping[str, Any],
        path: str,
        query: str,
        status: int,
        size: int | None,
        whole: int = 0,
    ) -> None:
        for meter in self._meters:
            meter.request(environ, status, size)
        if self._lines is not None:
            client, grant = environ.get("REMOTE_ADDR"), environ.get(GRANT)
            method, times = environ["REQUEST_METHOD"], (begun, perf_counter())
            sent = client, grant, method, path, query
            self._lines.log(
                (self._lines.of, *times, get_ident(), notes, *sent, status, size, whole)
            )

    def around_tiles(self, find: Callable[..., Response | None]) -> Callable[..., Response | None]:
        """Wrap what `Application.stored_tile` calls; requests without a tile are not logged."""
        assert self._lines is not None
        find_address, is_timed = self._address, self._steps
        # One object: the lines of entries with the same are made together.
        log, make = self._lines.log, self._lines.of
        local = trace.local

        # This runs for each stored tile: each operation counts.
        def wrapped(
            path: str, query: str, headers: Mapping[str, Any], *visit: Any
        ) -> Response | None:
            begun = perf_counter()
            notes = local.trace = trace.Trace()
            if is_timed:
                notes.is_timed = True
            try:
                response = find(path, query, headers, *visit)
            finally:
                local.trace = None
            if response is not None:
                client = find_address(headers) if find_address else headers.get("REMOTE_ADDR")
                grant = visit[0].grant if visit and visit[0] else None
                log(
                    (
                        make,
                        begun,
                        perf_counter(),
                        get_ident(),
                        notes,
                        client,
                        grant,
                        # A transport may leave it out of the headers of a GET request.
                        headers.get("REQUEST_METHOD", "GET"),
                        path,
                        query,
                        response.status,
                        len(response.body),
                        0,
                    )
                )
            return response

        return wrapped


def _size(result: Iterable[bytes] | None) -> int | None:
    if isinstance(result, SizedBody):
        return len(result)
    return sum(map(len, result)) if isinstance(result, list) else None
