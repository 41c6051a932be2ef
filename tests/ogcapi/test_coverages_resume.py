"""Downloads that are interrupted: killed clients and servers, and data that is replaced."""

from __future__ import annotations

import http.client
import random
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.coverage.ground import Ground, made
from tests.support.ports import free_port

pytestmark = [pytest.mark.live, pytest.mark.thorough]

PATH = "/ogcapi/collections/ground/coverage"


class Server:
    """A server that can be killed and started again at the same address."""

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        address = f"127.0.0.1:{self.port}"
        command = [sys.executable, "-m", "mastaba", "-f", str(self.ground.server_json)]
        self.process = subprocess.Popen(
            [*command, "--http", address],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            process_group=0,
        )
        while True:
            assert self.process.poll() is None
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                time.sleep(0.05)
            else:
                return

    def kill(self) -> None:
        """Kill the supervisor; its workers end with it."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                return
            time.sleep(0.02)

    @contextmanager
    def get(self, **headers: str) -> Iterator[http.client.HTTPResponse]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("GET", PATH, headers=headers)
            yield connection.getresponse()
        finally:
            connection.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    ground = Ground(tmp_path, services={"ogcapi": {"coverages": True}}, coverages=True)
    found = Server(ground)
    found.start()
    yield found
    found.kill()
    ground.close()


def whole(ground: Ground) -> bytes:
    answer = ground.extract(ground.whole())
    return b"".join(answer.pieces(0, answer.size))


class Client:
    """A file that is downloaded in parts, as curl does it with the ETag of the first part."""

    def __init__(self) -> None:
        self.data = b""
        self.etag = ""
        self.restarts = 0
        self.received = 0

    def resume(self, server: Server, most: int) -> bool:
        """Read some more bytes; return whether the file is complete."""
        try:
            return self._resume(server, most)
        except http.client.RemoteDisconnected:
            # The first piece could not be made.
            return False

    def _resume(self, server: Server, most: int) -> bool:
        headers = {"Range": f"bytes={len(self.data)}-", "If-Range": self.etag} if self.data else {}
        with server.get(**headers) as response:
            if response.status == 416:
                return True
            assert response.status in (200, 206)
            if response.status == 200:
                self.restarts += bool(self.data)
                self.data = b""
            self.etag = response.headers["ETag"]
            left = int(response.headers["Content-Length"])
            wanted = min(most, left)
            try:
                found = response.read(wanted)
            except http.client.IncompleteRead as error:
                found = error.partial
            self.data += found
            self.received += len(found)
            return len(found) == left


def test_download_continues_after_each_kill_without_a_byte_twice(server: Server) -> None:
    expected = whole(server.ground)
    client, source = Client(), random.Random(8)
    points = sorted(source.sample(range(1, len(expected)), 20))
    # Every fifth time, the server is killed too.
    for number, point in enumerate(points):
        client.resume(server, point - len(client.data))
        assert client.data == expected[:point]
        if number % 5 == 4:
            server.kill()
            server.start()
    assert client.resume(server, len(expected))
    assert client.data == expected
    assert (client.restarts, client.received) == (0, len(expected))


def replaced(ground: Ground, step: int) -> None:
    def other(level: str, row: int, col: int) -> Any:
        tile = made(ground.name, 1, level, row, col)
        return None if tile is None else tile + np.float32(step)

    ground.write(tile=other)


def test_files_are_never_a_mixture_of_two_versions(server: Server) -> None:
    source = random.Random(9)
    old = whole(server.ground)
    for step in range(1, 5):
        client = Client()
        client.resume(server, source.randrange(1, len(old)))
        assert client.data == old[: len(client.data)]
        replaced(server.ground, step)
        tries = 0
        while not client.resume(server, 10**9):
            tries += 1
            assert tries < 10
        # A new process knows what is stored now.
        server.kill()
        server.start()
        again = Client()
        assert again.resume(server, 10**9)
        assert client.data == again.data or client.data == old
        assert again.data != old
        old = again.data
