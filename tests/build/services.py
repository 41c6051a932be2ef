"""Services to harvest: real applications behind an HTTP server that may give bad answers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit

from werkzeug.test import Client

Spoil = Callable[["Handler", dict[str, str]], bool]
"""Gives a bad answer and returns True, or returns False."""


class Upstream:
    """An HTTP server on this machine.

    Args:
        application: WSGI, whose answers it gives.

    Attributes:
        asked: paths with queries of all requests.
        spoil: may give another answer to a request for a picture, from its parameters in small
            letters.
        most: requests at a time that were seen.
    """

    def __init__(self, application: Any) -> None:
        self.asked: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.spoil: Spoil = lambda handler, query: False
        self.most = 0
        self._running = 0
        self._lock = threading.Lock()
        self._client = Client(application)
        upstream = self

        class Bound(Handler):
            def do_GET(self) -> None:
                upstream.answer(self)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Bound)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def answer(self, handler: Handler) -> None:
        query = {
            key.lower(): value
            for key, value in parse_qsl(urlsplit(handler.path).query, keep_blank_values=True)
        }
        with self._lock:
            self.asked.append(handler.path)
            self.headers.append(dict(handler.headers))
            self._running += 1
            self.most = max(self.most, self._running)
        try:
            is_picture = query.get("request") != "GetCapabilities"
            if not (is_picture and self.spoil(handler, query)):
                with self._client.get(handler.path) as found:
                    data, media_type = found.get_data(), str(found.headers["Content-Type"])
                handler.give(found.status_code, data, media_type)
        except ConnectionError:
            handler.close_connection = True
        finally:
            with self._lock:
                self._running -= 1

    @property
    def pictures(self) -> list[str]:
        """The requests for pictures."""
        return [one for one in self.asked if "GetCapabilities" not in one]

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


class Handler(BaseHTTPRequestHandler):
    """A request, and ways to answer it."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def give(self, status: int, body: bytes, media_type: str, **headers: str) -> None:
        """Send a whole answer."""
        self.send_response(status)
        self.send_header("Content-Type", media_type)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass
