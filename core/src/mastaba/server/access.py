"""One log line for each request."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable
from time import perf_counter
from typing import Any

from mastaba import trace
from mastaba.web.body import SpooledBody
from mastaba.web.masking import masked
from mastaba.web.request import utf8

logger = logging.getLogger("mastaba.access")

_Application = Callable[[dict[str, Any], Any], Iterable[bytes]]


def with_access_lines(application: _Application, style: str, *, steps: bool) -> _Application:
    """Wrap a WSGI application so that each request is logged when it is answered.

    A line contains the client address, method, path and query, status, bytes of the body,
    seconds, and whether the slab indices came from the cache.
    """
    write = _write_json if style == "json" else _write_text

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
            write(_fields(environ, status, result, seconds, notes, steps))

    return wrapped


def _fields(
    environ: dict[str, Any],
    status: str,
    result: Iterable[bytes] | None,
    seconds: float,
    notes: trace.Trace,
    steps: bool,
) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "client": environ.get("REMOTE_ADDR") or "-",
        "method": environ.get("REQUEST_METHOD", ""),
        "path": utf8(environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")) or "/",
        "query": masked(environ.get("QUERY_STRING", "")),
        "status": int(status[:3] or 500),
        "bytes": _size(result),
        "seconds": round(seconds, 6),
        "cache": notes.cache,
    }
    if steps:
        fields["steps"] = {name: round(taken, 6) for name, taken in notes.steps.items()}
    return fields


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
