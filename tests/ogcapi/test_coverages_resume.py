"""Downloads that are interrupted: killed clients and servers, and data that is replaced."""

from __future__ import annotations

import hashlib
import http.client
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.coverages import write_heights
from tests.coverage.ground import Ground, made
from tests.live.processes import REPOSITORY
from tests.sizes import sized
from tests.support.ports import free_port

pytestmark = [pytest.mark.live, pytest.mark.thorough]

PATH = "/ogcapi/collections/ground/coverage"


class Server:
    """A server that can be killed and started again at the same address."""

    def __init__(self, server_json: Path, **environment: str) -> None:
        self._server_json = server_json
        self._environment = os.environ | environment
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        address = f"127.0.0.1:{self.port}"
        command = [sys.executable, "-m", "mastaba", "-f", str(self._server_json)]
        self.process = subprocess.Popen(
            [*command, "--http", address],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            process_group=0,
            cwd=REPOSITORY,
            env=self._environment,
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
        """Kill the supervisor and its workers, which would finish what they send."""
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGKILL)
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
def ground(tmp_path: Path) -> Iterator[Ground]:
    found = Ground(tmp_path, services={"ogcapi": {"coverages": True}}, coverages=True)
    yield found
    found.close()


@pytest.fixture
def server(ground: Ground) -> Iterator[Server]:
    found = Server(ground.server_json)
    found.start()
    yield found
    found.kill()


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


def test_download_continues_after_each_kill_without_a_byte_twice(
    ground: Ground, server: Server
) -> None:
    expected = whole(ground)
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


def test_files_are_never_a_mixture_of_two_versions(ground: Ground, server: Server) -> None:
    source = random.Random(9)
    old = whole(ground)
    for step in range(1, 5):
        client = Client()
        client.resume(server, source.randrange(1, len(old)))
        assert client.data == old[: len(client.data)]
        replaced(ground, step)
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


SIDE = sized(8000, 40_000)
"""Cells of a side of the large download."""
SECONDS = sized(15, 50)
"""Of the large download without interruptions; its rate is limited, so that it can be killed."""


def program(name: str, url: str, etag: str, path: Path, rate: int = 0) -> list[str]:
    """Return the command that continues a download."""
    limit = ["--limit-rate", str(rate)] if rate else []
    # wget leaves out as many bytes of another file as it has of the old one, and would mix them:
    # it has to ask for an error.
    condition = "If-Range" if name == "curl" else "If-Match"
    header = ["--header", f"{condition}: {etag}"] if path.exists() else []
    if name == "curl":
        return ["curl", "-s", "-g", "-f", "-C", "-", *limit, *header, "-o", str(path), url]
    return ["wget", "-q", "-c", "--tries=1", "--no-proxy", *limit, *header, "-O", str(path), url]


def digest_of(stream: Any) -> str:
    found = hashlib.sha256()
    while data := stream.read(1 << 20):
        found.update(data)
    return found.hexdigest()


def size_of(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def finished(command: list[str], server: Server) -> bool:
    """Run a program to its end; return whether it has the whole file.

    The place of a client that was killed is free as soon as the server has noticed: until then the
    server answers 503.
    """
    assert server.process is not None
    assert server.process.poll() is None
    return subprocess.run(command, check=False).returncode == 0


@pytest.mark.parametrize("name", ["curl", "wget"])
def test_programs_continue_after_kills(name: str, tmp_path: Path) -> None:
    """Kill the client at 20 places, and the server at four of them."""
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    server_json = write_heights(tmp_path, SIDE, formula=True)
    server = Server(server_json, MASTABA_PLUGINS_DIR=str(REPOSITORY / "benchmarks/plugins"))
    server.start()
    part = f"subset=E(38.5:{38.5 + SIDE / 2}),N({11_999_950 - SIDE / 2}:11999950)"
    url = (
        f"http://127.0.0.1:{server.port}/ogcapi/collections/heights/coverage?{part}"
        "&subset-crs=[EPSG:2154]&compression=none"
    )
    with urllib.request.urlopen(url) as response:
        etag, size = response.headers["ETag"], int(response.headers["Content-Length"])
        expected = digest_of(response)
    path = tmp_path / "window.tif"
    source = random.Random(10)
    kills = 0
    for number in range(20):
        gap = (size - size_of(path)) / (22 - number)
        point = size_of(path) + int(source.uniform(0, gap)) + 1
        while size_of(path) < point:
            before = size_of(path)
            client = subprocess.Popen(program(name, url, etag, path, size // SECONDS))
            while client.poll() is None and size_of(path) < point:
                time.sleep(0.01)
            if client.poll() is not None:  # refused: the other one's place is not free yet
                assert size_of(path) == before
                time.sleep(0.1)
                continue
            if number % 5 == 4:
                server.kill()
                client.wait()
                server.start()
            else:
                client.send_signal(signal.SIGKILL)
                client.wait()
            kills += 1
    assert kills == 20
    while not finished(program(name, url, etag, path), server):
        time.sleep(0.1)
    server.kill()
    assert size_of(path) == size
    with path.open("rb") as file:
        assert digest_of(file) == expected
    path.unlink()


@pytest.mark.parametrize("name", ["curl", "wget"])
def test_programs_begin_again_when_slabs_were_replaced(
    name: str, ground: Ground, server: Server, tmp_path: Path
) -> None:
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    url = f"http://127.0.0.1:{server.port}{PATH}"
    path = tmp_path / "whole.tif"
    old = whole(ground)
    restarts = 0
    for step, length in enumerate((1, len(old) // 2, len(old) - 1), 1):
        with server.get() as response:
            etag = response.headers["ETag"]
        path.write_bytes(old[:length])
        replaced(ground, step)
        # A new process knows what is stored now.
        server.kill()
        server.start()
        while True:
            done = subprocess.run(program(name, url, etag, path), check=False)
            if done.returncode == {"curl": 33, "wget": 8}[name]:
                # It does not begin again by itself, and has changed nothing.
                assert path.read_bytes() == old[:length]
                path.unlink()
                restarts += 1
                continue
            assert done.returncode == 0
            break
        with server.get() as response:
            new = response.read()
        assert new != old
        assert path.read_bytes() == new
        old = new
    assert restarts == 3
