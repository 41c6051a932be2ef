"""Installations with an administration, in this process and in one with four workers."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.forked import Mastaba
from tests.support.ports import free_port
from tests.tiny import tiny_installation
from werkzeug.test import Client

SECRET = "swordfish"
HEADERS = {"X-Mastaba-Secret": SECRET}

# Nothing here is slow: a test that waits this long would wait for ever.
PATIENCE = 120


@pytest.fixture
def headers() -> dict[str, str]:
    """Return the headers that an administrative request needs."""
    return dict(HEADERS)


@pytest.fixture
def installation(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes an installation; it takes the settings of the service."""

    def write(
        admin: Mapping[str, Any] | None = None,
        *,
        services: tuple[str, ...] = ("health", "tms", "wmts"),
        server: Mapping[str, Any] | None = None,
    ) -> Path:
        settings = {"enabled": True, "secret": SECRET, **(admin or {})}
        return tiny_installation(
            tmp_path / "installation",
            services=services,
            services_overrides={"admin": settings},
            server_overrides=server,
        )

    return write


@pytest.fixture
def admin(installation: Callable[..., Path], open_client: Callable[[Path], Client]) -> Client:
    """Return a client of the tiny installation with a secret, and nothing kept."""
    return open_client(installation())


@pytest.fixture
def descriptor(installation: Callable[..., Path], tmp_path: Path) -> dict[str, Any]:
    """Return the descriptor of a layer of the tiny installation."""
    path = tmp_path / "installation" / "layers" / "RGB_JPG.json"
    if not path.exists():
        installation()
    document: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return document


class Server:
    """A server with several workers, and a keep-alive connection to each of them."""

    def __init__(self, server_json: Path, workers: int) -> None:
        self.port = free_port()
        document = json.loads(server_json.read_text("utf-8"))
        document.update(workers=workers, debug=True)
        server_json.write_text(json.dumps(document), "utf-8")
        self.workers = workers
        self.folder = server_json.parent
        self._connections: list[http.client.HTTPConnection] = []
        self.process = Mastaba("-f", str(server_json), "--http", f"127.0.0.1:{self.port}")
        deadline = time.monotonic() + PATIENCE
        # The socket listens before there is a worker.
        while not self._accepts() or len(self.children()) < workers:
            assert self.process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def connect(self) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        self._connections.append(connection)
        return connection

    def connect_to_all(self) -> dict[int, http.client.HTTPConnection]:
        """Return a keep-alive connection to each worker, by process."""
        found: dict[int, http.client.HTTPConnection] = {}
        deadline = time.monotonic() + PATIENCE
        while len(found) < self.workers:
            assert time.monotonic() < deadline, f"only {sorted(found)} answer"
            connection = self.connect()
            pid = int(ask(connection, "GET", "/healthcheck").getheader("X-Mastaba-Worker") or 0)
            if pid in found:
                connection.close()
            else:
                found[pid] = connection
        return found

    def children(self) -> set[int]:
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return {int(pid) for pid in path.read_text("ascii").split()}

    def reload(self) -> None:
        """Reload, and wait until no worker of the present generation is left."""
        before = self.children()
        os.kill(self.process.pid, signal.SIGHUP)
        self.wait_until(lambda: not before & self.children())

    def wait_until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, "it did not come true"
            time.sleep(0.02)

    def stop(self) -> None:
        for connection in self._connections:
            connection.close()
        if self.process.poll() is None:
            self.process.terminate()
        assert self.process.wait(PATIENCE) == 0

    def _accepts(self) -> bool:
        with socket.socket() as sock:
            return sock.connect_ex(("127.0.0.1", self.port)) == 0


def ask(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
) -> http.client.HTTPResponse:
    """Make a request on a keep-alive connection and return its response, read as text."""
    connection.request(method, path, body=body, headers={**HEADERS, **(headers or {})})
    response = connection.getresponse()
    response.text = response.read().decode(errors="replace")  # type: ignore[attr-defined]
    return response


@pytest.fixture
def start(installation: Callable[..., Path]) -> Iterator[Callable[..., Server]]:
    """Return a function that starts a server: ``start(settings of the service, workers=4)``."""
    started: list[Server] = []

    def start_it(admin: Mapping[str, Any] | None = None, *, workers: int = 4) -> Server:
        server = Server(installation(admin), workers)
        started.append(server)
        return server

    yield start_it
    for server in started:
        server.stop()


@pytest.fixture(name="ask")
def ask_fixture() -> Callable[..., http.client.HTTPResponse]:
    return ask
