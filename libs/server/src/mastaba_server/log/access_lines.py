"""One log line for each request."""

from __future__ import annotations

import ipaddress
import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import Any
from urllib.parse import quote

from mastaba_server import trace
from mastaba_server.access.gate import Meter
from mastaba_server.access.principal import GRANT, Grant
from mastaba_server.body import SizedBody
from mastaba_server.log.destination import destination
from mastaba_server.web.masking import masked, masked_path
from mastaba_server.web.response import Response
from mastaba_server.web.text import utf8

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
        self._virtual_of = virtual_of
        self._is_json = style == "json"
        self._steps = steps
        self._addresses = addresses

    def around(self, application: WSGICallable) -> WSGICallable:
        """Wrap a WSGI application."""

        def wrapped(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
            status = ""

            def start(line: str, *rest: Any) -> Any:
                nonlocal status
                status = line
                return start_response(line, *rest)

            notes = trace.begin(is_timed=self._steps)
            result: Iterable[bytes] | None = None
            try:
                result = application(environ, start)
                return result
            finally:
                trace.end()
                path = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
                query = environ.get("QUERY_STRING", "")
                log = partial(self._ended, notes, environ, path, query, int(status[:3] or 500))
                if not (
                    isinstance(result, SizedBody) and result.report(partial(log, whole=len(result)))
                ):
                    log(_size(result))

        return wrapped

    def _ended(
        self,
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
            self._log(notes, client, grant, environ, path, query, status, size, whole)

    def around_tiles(self, find: Callable[..., Response | None]) -> Callable[..., Response | None]:
        """Wrap what `Application.stored_tile` calls; requests without a tile are not logged."""

        def wrapped(
            path: str, query: str, headers: Mapping[str, Any], *visit: Any
        ) -> Response | None:
            notes = trace.begin(is_timed=self._steps)
            try:
                response = find(path, query, headers, *visit)
            finally:
                trace.end()
            if response is not None:
                find_address = self._address
                client = find_address(headers) if find_address else headers.get("REMOTE_ADDR")
                grant = visit[0].grant if visit and visit[0] else None
                status, size = response.status, len(response.body)
                self._log(notes, client, grant, headers, path, query, status, size)
            return response

        return wrapped

    def _log(
        self,
        notes: trace.Trace,
        client: str | None,
        grant: object,
        sent: Mapping[str, Any],
        path: str,
        query: str,
        status: int,
        size: int | None,
        whole: int = 0,
    ) -> None:
        seconds = perf_counter() - notes.begun
        client = client or "-"
        if self._addresses != "full":
            client = _network(client) if self._addresses == "network" else "-"
        # A transport may leave it out of the headers of a GET request.
        method = sent.get("REQUEST_METHOD", "GET")
        path = (path if path.isascii() else utf8(path)) or "/"
        if "/~" in path:
            path = masked_path(path)
        identity = {} if self._virtual_of is None else _identity(grant, self._virtual_of(path))
        if query:
            query = masked(query)
        is_truncated = (size or 0) < whole
        text, fields = "", None
        if self._is_json:
            fields = {
                "client": client,
                "method": method,
                "path": path,
                "query": query,
                "status": status,
                "bytes": size,
                "seconds": round(seconds, 6),
                "cache": notes.cache,
                **identity,
            }
            if is_truncated:
                fields["truncated"] = True
            if self._steps:
                fields["steps"] = {name: round(taken, 6) for name, taken in notes.steps.items()}
        else:
            target = f"{path}?{query}" if query else path
            shown = "-" if size is None else size
            text = f"{client} {method} {target} {status} {shown} {seconds:.6f} {notes.cache}"
            for name, item in identity.items():
                text += f" {name}={quote(item)}"
            if is_truncated:
                text += " truncated"
            if self._steps:
                text += "".join(f" {name}={taken:.6f}" for name, taken in notes.steps.items())
        log = destination()
        if log is not None and log.batches is not None:
            log.batches.add(log.info_line(text, fields))
        elif fields is None:
            logger.info("%s", text)
        else:
            # A JSON formatter uses the fields, any other formatter the text.
            logger.info("%s", json.dumps(fields, ensure_ascii=False), extra={"fields": fields})


def _identity(grant: object, virtual: str) -> dict[str, str]:
    """Return the fields of a line that say who asked, without a credential."""
    key = tag = ""
    if isinstance(grant, Grant):
        key, tag = "" if grant.principal.is_anonymous else grant.principal.account, grant.tag
    return {"key": key or "-", "class": tag or "-", "virtual": virtual or "-"}


def _network(address: str) -> str:
    """Return the network of an address, /24 or /48: it does not identify a client."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return "-"
    if isinstance(found, ipaddress.IPv6Address):
        mapped = found.ipv4_mapped
        if mapped is None:
            return str(ipaddress.ip_network((int(found) >> 80 << 80, 48)))
        found = mapped
    return str(ipaddress.ip_network((int(found) >> 8 << 8, 24)))


def _size(result: Iterable[bytes] | None) -> int | None:
    if isinstance(result, SizedBody):
        return len(result)
    return sum(map(len, result)) if isinstance(result, list) else None
