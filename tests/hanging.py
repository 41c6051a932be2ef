"""A server whose storages hang, as a service manager runs it, and stores that trickle."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.forked import Mastaba

from mastaba_doctor.answer import Answer
from mastaba_doctor.fastcgi import connect, get

# Nothing here is slow: a test that waits this long would wait for ever.
_PATIENCE = 120.0


class Served:
    """A server with one worker that has one thread.

    Args:
        server_json: of an installation; changed.
        variables: of the environment.
        line: of the log when it is ready.
    """

    def __init__(
        self, server_json: Path, variables: Mapping[str, str], line: str = "serves"
    ) -> None:
        document = json.loads(server_json.read_text("utf-8"))
        document.pop("logger", None)
        self._port = str(server_json.parent / "s")
        document.update(port=self._port, workers=1, threads=1)
        server_json.write_text(json.dumps(document), "utf-8")
        self.log = server_json.parent / "stderr"
        self._requests = ThreadPoolExecutor(32)
        with self.log.open("wb") as stream:
            self.process = Mastaba("-f", str(server_json), stderr=stream, variables=variables)
        self.wait_until(lambda: line in self.log.read_text("utf-8"))

    def wait_until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _PATIENCE
        while not condition():
            assert time.monotonic() < deadline, self.log.read_text("utf-8")
            assert self.process.poll() is None, self.log.read_text("utf-8")
            time.sleep(0.02)

    def ask(self, address: str) -> Answer:
        path, _, query = address.partition("?")
        with connect(self._port, _PATIENCE) as sock:
            return get(sock, path, query)

    def start(self, address: str) -> Future[Answer]:
        """Send a request without waiting for the answer."""
        return self._requests.submit(self.ask, address)

    def report(self, path: str) -> Any:
        return json.loads(self.ask(f"/healthcheck{path}").body)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait(_PATIENCE)
        self._requests.shutdown()


class Gate(threading.Event):
    """A gate that knows who waits at it.

    Attributes:
        arrived: number of those who have come so far.
    """

    def __init__(self) -> None:
        super().__init__()
        self.arrived = 0

    def wait(self, timeout: float | None = None) -> bool:
        self.arrived += 1
        return super().wait(timeout)


class Trickle:
    """A server that answers with some bytes at once, and then with others one by one.

    Attributes:
        port: where it listens.
        connections: number of connections so far.
    """

    def __init__(self, at_once: bytes, then: bytes = b"x" * 200, pause: float = 0.05) -> None:
        self.at_once = at_once
        self.then = then
        self.connections = 0
        self._pause = pause
        self._stopping = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._answer, args=(sock,), daemon=True).start()

    def _answer(self, sock: socket.socket) -> None:
        with sock:
            try:
                while sock.recv(65536):
                    sock.sendall(self.at_once)
                    for byte in self.then:
                        if self._stopping.wait(self._pause):
                            return
                        sock.sendall(bytes([byte]))
            except OSError:
                return

    def close(self) -> None:
        self._stopping.set()
        self._listener.close()
