"""The purge agent: an HTTP server that removes responses from the cache of an nginx.

It runs beside nginx and as its user, since nginx keeps the files of its cache to itself.
"""

from __future__ import annotations

import hmac
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from mastaba_edge.nginx import forget
from mastaba_edge.purging import KEYS, SECRET


class Agent(ThreadingHTTPServer):
    """Server for requests ``PURGE`` with the headers of `purging.purge`.

    Args:
        host: address to listen on; of IPv6, without square brackets.
        port: 0 for any.
        folder: of the cache.
        secret: that each request must contain.
    """

    daemon_threads = True

    def __init__(self, host: str, port: int, folder: str, secret: str) -> None:
        self.folder = folder
        self.secret = secret
        self.walking = threading.Lock()
        if ":" in host:
            self.address_family = socket.AF_INET6
        super().__init__((host, port), _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: Agent
    server_version = "mastaba-purge-agent"
    sys_version = ""
    timeout = 30.0

    def do_PURGE(self) -> None:
        shown = self.headers.get(SECRET, "")
        keys = self.headers.get(KEYS, "").split()
        if not hmac.compare_digest(shown.encode("latin-1", "replace"), self.server.secret.encode()):
            self._answer(403, "the secret is wrong")
        elif not keys:
            self._answer(400, f"the header {KEYS} is missing")
        else:
            try:
                with self.server.walking:
                    count = forget(self.server.folder, keys)
            except OSError as error:
                self.log_error("the cache cannot be purged: %s", error)
                self._answer(500, "the cache cannot be purged")
            else:
                self._answer(200, f"purged: {count}")

    def _answer(self, status: int, text: str) -> None:
        body = f"{text}\n".encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
