"""One log line for each request."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from threading import get_ident
from time import perf_counter
from typing import Any

from mastaba_server import trace
from mastaba_server.access.gate import Meter
from mastaba_server.access.principal import GRANT
from mastaba_server.body import SizedBody
from mastaba_server.log import destination
from mastaba_server.log.entries import Entry, EntryLines
from mastaba_server.web.response import Response

logger = logging.getLogger("mastaba.access")

WSGICallable = Callable[[dict[str, Any], Any], Iterable[bytes]]
FindTile = Callable[[str, str, Mapping[str, Any]], Response | None]


class AccessLines:
    """Logs each request when it is answered.

    A line contains the client address, method, path and query, status, bytes of the body,
    seconds, and whether the cache had what was needed. A long body that was not sent to its
    end is marked as truncated.

    Args:
        style: ``json`` or ``text``.
        steps: whether lines contain the time of each step.
        meters: count the requests that do not come from the table, with or without lines.
        address: returns the address of a client for the headers of a request to the table; None
            if it is the one in them.
        virtual_of: returns the virtual service for a path; None on a server without views, whose
            lines do not say who a client is.
        addresses: what lines say of the address: ``full``, ``network`` or ``none``.
    """

    def __init__(
        self,
        style: str,
        *,
        steps: bool,
        meters: Sequence[Meter] = (),
        address: Callable[[Mapping[str, Any]], str] | None = None,
        virtual_of: Callable[[str], str] | None = None,
        addresses: str = "full",
    ) -> None:
        self._is_off = style == "off"
        self._meters = meters
        self._address = address
        self._steps = steps
        lines = EntryLines(style, steps=steps, virtual_of=virtual_of, addresses=addresses)
        self._content = lines.content
        # One object: the lines of entries with the same are made together.
        self._make = lines.of

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
        if not self._is_off:
            client, grant = environ.get("REMOTE_ADDR"), environ.get(GRANT)
            method, times = environ["REQUEST_METHOD"], (begun, perf_counter())
            sent = client, grant, method, path, query
            self._log((self._make, *times, get_ident(), notes, *sent, status, size, whole))

    def around_tiles(self, find: Callable[..., Response | None]) -> Callable[..., Response | None]:
        """Wrap what `Application.stored_tile` calls; requests without a tile are not logged."""
        log, make, find_address, is_timed = self._log, self._make, self._address, self._steps
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

    def _log(self, entry: Entry) -> None:
        batches = destination.batches
        if batches is not None:
            batches.add_entry(entry)
            return
        text, fields = self._content(entry)
        if fields is None:
            logger.info("%s", text)
        else:
            # A JSON formatter uses the fields, any other formatter the text.
            logger.info("%s", json.dumps(fields, ensure_ascii=False), extra={"fields": fields})


def _size(result: Iterable[bytes] | None) -> int | None:
    if isinstance(result, SizedBody):
        return len(result)
    return sum(map(len, result)) if isinstance(result, list) else None
