"""A slow and unreliable way to an HTTP server."""

from __future__ import annotations

import http.client
import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

_LATENCY = 0.02
_FIRST_FAILURE, _FAILS_EVERY = 20, 100


@dataclass(frozen=True, slots=True)
class Forwarded:
    """A request that was forwarded, and the time until its answer, monotonic, in seconds."""

    method: str
    path: str
    range: str | None
    start: float
    end: float


class BadNetwork:
    """Forwards requests after 20 ms. One of 100 fails: with 503, or without an answer.

    Args:
        url: of the server.
        is_reliable: whether no request fails.

    Attributes:
        port: on all addresses of this machine.
        failures: number of requests that have failed.
        forwarded: the other requests, in the order of their answers.
    """

    def __init__(self, url: str, *, is_reliable: bool = False) -> None:
        self.failures = 0
        self.forwarded: list[Forwarded] = []
        self._is_reliable = is_reliable
        self._upstream = str(urlsplit(url).netloc)
        self._requests = 0
        self._lock = threading.Lock()
        network = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _forward(self) -> None:
                network._forward(self)

            do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _forward  # noqa: N815

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("0.0.0.0", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _forward(self, handler: BaseHTTPRequestHandler) -> None:
        start = time.monotonic()
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        time.sleep(_LATENCY)
        with self._lock:
            self._requests += 1
            fails = not self._is_reliable and self._requests % _FAILS_EVERY == _FIRST_FAILURE
            self.failures += fails
            is_silent = self.failures % 2 == 0
        if fails:
            handler.close_connection = True
            if not is_silent:
                handler.send_response(503)
                handler.send_header("Content-Length", "0")
                handler.end_headers()
            return
        upstream = http.client.HTTPConnection(self._upstream)
        headers = {name: text for name, text in handler.headers.items() if name.lower() != "expect"}
        upstream.request(handler.command, handler.path, body, headers)
        answer = upstream.getresponse()
        data = answer.read()
        # Noted before the answer leaves: the client may ask for more as soon as it has it.
        self.forwarded.append(
            Forwarded(
                handler.command,
                handler.path,
                handler.headers.get("Range"),
                start,
                time.monotonic(),
            )
        )
        handler.send_response(answer.status)
        for name, text in answer.getheaders():
            if name.lower() not in ("connection", "transfer-encoding", "server", "date"):
                handler.send_header(name, text)
        if answer.getheader("Content-Length") is None:
            handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)
        upstream.close()
