"""One log line for each request."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from time import perf_counter
from typing import Any

from mastaba import trace
from mastaba.web.body import SpooledBody
from mastaba.web.masking import masked
from mastaba.web.request import utf8
from mastaba.web.response import Response

logger = logging.getLogger("mastaba.access")

_Application = Callable[[dict[str, Any], Any], Iterable[bytes]]
FindTile = Callable[[str, str, Mapping[str, Any]], Response | None]


class AccessLines:
    """Logs each request when it is answered.

    A line contains the client address, method, path and query, status, bytes of the body,
    seconds, and whether the slab indices came from the cache.

    Args:
        style: ``json`` or ``text``.
        steps: whether lines contain the time of each step.
    """

    def __init__(self, style: str, *, steps: bool) -> None:
        self._write = _write_json if style == "json" else _write_text
        self._steps = steps

    def around(self, application: _Application) -> _Application:
        """Wrap a WSGI application."""

        def wrapped(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
            status = ""

            def start(line: str, *rest: Any) -> Any:
                nonlocal status
                status = line
                return start_response(line, *rest)

            notes = trace.begin()
            begun = perf_counter()
            result: Iterable[bytes] | None = None
            try:
                result = application(environ, start)
                return result
            finally:
                trace.end()
                seconds = perf_counter() - begun
                path = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
                query = environ.get("QUERY_STRING", "")
                request = environ.get("REMOTE_ADDR"), environ.get("REQUEST_METHOD", ""), path, query
                self._log(*request, int(status[:3] or 500), _size(result), seconds, notes)

        return wrapped

    def around_tiles(self, find: FindTile) -> FindTile:
        """Wrap what `Application.stored_tile` calls; requests without a tile are not logged."""

        def wrapped(path: str, query: str, headers: Mapping[str, Any]) -> Response | None:
            notes = trace.begin()
            begun = perf_counter()
            try:
                response = find(path, query, headers)
            finally:
                trace.end()
            if response is not None:
                seconds = perf_counter() - begun
                request = headers.get("REMOTE_ADDR"), "GET", path, query
                self._log(*request, response.status, len(response.body), seconds, notes)
            return response

        return wrapped

    def _log(
        self,
        client: str | None,
        method: str,
        path: str,
        query: str,
        status: int,
        size: int | None,
        seconds: float,
        notes: trace.Trace,
    ) -> None:
        fields: dict[str, Any] = {
            "client": client or "-",
            "method": method,
            "path": utf8(path) or "/",
            "query": masked(query),
            "status": status,
            "bytes": size,
            "seconds": round(seconds, 6),
            "cache": notes.cache,
        }
        if self._steps:
            fields["steps"] = {name: round(taken, 6) for name, taken in notes.steps.items()}
        self._write(fields)


def _size(result: Iterable[bytes] | None) -> int | None:
    if isinstance(result, SpooledBody):
        return len(result)
    return sum(map(len, result)) if isinstance(result, list) else None


def _write_json(fields: dict[str, Any]) -> None:
    # A JSON formatter uses the fields, any other formatter the text.
    logger.info("%s", json.dumps(fields, ensure_ascii=False), extra={"fields": fields})


def _write_text(fields: dict[str, Any]) -> None:
    query = fields["query"]
    steps = "".join(f" {name}={taken:.6f}" for name, taken in fields.get("steps", {}).items())
    logger.info(
        "%s %s %s%s%s %d %s %.6f %s%s",
        fields["client"],
        fields["method"],
        fields["path"],
        "?" if query else "",
        query,
        fields["status"],
        "-" if fields["bytes"] is None else fields["bytes"],
        fields["seconds"],
        fields["cache"],
        steps,
    )
