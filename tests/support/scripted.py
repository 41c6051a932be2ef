"""An HTTP server whose answers a test writes, as of object stores that misbehave."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple


class Asked(NamedTuple):
    """A request: method in upper case, and target as sent."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


class Reply(NamedTuple):
    """A response."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = {}


Answer = Callable[[Asked], Reply | None]
"""Returns the response; None to close the connection without one."""


@contextmanager
def scripted(answer: Answer) -> Iterator[str]:
    """Serve answers on a free port, and yield the address without a slash at its end."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            asked = Asked(self.command, self.path, dict(self.headers.items()), body)
            reply = answer(asked)
            if reply is None:
                self.close_connection = True
                return
            self.send_response(reply.status)
            for name, value in {"Content-Length": str(len(reply.body)), **reply.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(reply.body)

        do_HEAD = do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815 - required by the base class

        def log_message(self, format: str, *args: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
