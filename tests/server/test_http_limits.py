"""HTTP: clients that do not send, do not read, or are too many."""

from __future__ import annotations

import http.client
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

SERVER = """
import os, resource, sys, threading
from mastaba_server.messages import CLIENT
from mastaba_server.transport.connection import Limits
from mastaba_server.transport.http import HTTPConnection
from mastaba_server.transport.listener import open_listener
from mastaba_server.transport.loop import Server

descriptors, patience = int(sys.argv[1]), float(sys.argv[2])
if descriptors:
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))
opened = threading.Event()

def application(environ, start_response):
    path, status, body = environ["PATH_INFO"], "200 OK", b"ok"
    if path == "/map":
        with environ[CLIENT].aside():
            os.write(1, b"entered\\n")  # in one piece
            opened.wait()
    elif path == "/open":
        opened.set()
    elif path == "/large":
        start_response(status, [("Content-Length", str(192 * 65536))])
        return (bytes([number]) * 65536 for number in range(192))
    elif environ["REQUEST_METHOD"] == "POST":
        stream = environ["wsgi.input"]
        body = stream.readline() + b"|" + stream.read()
    start_response(status, [("Content-Length", str(len(body)))])
    return [body]

with open_listener("127.0.0.1:0") as listener:
    print(listener.socket.getsockname()[1], flush=True)
    limits = Limits(head_time=patience, body_time=patience)
    Server(application, listener.socket, HTTPConnection, limits=limits).run()
"""
HOST = b"Host: x\r\n\r\n"


class Site:
    def __init__(self, spawn: Any, descriptors: int = 0, patience: float = 600.0) -> None:
        self.process = spawn(SERVER, str(descriptors), str(patience))
        self._address = "127.0.0.1", int(self.process.line())
        self._sockets: list[socket.socket] = []

    def send(self, data: bytes) -> socket.socket:
        sock = socket.create_connection(self._address, 120)
        self._sockets.append(sock)
        sock.sendall(data)
        return sock

    def get(self, path: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(*self._address, timeout=120)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def memory(self) -> int:
        """Bytes of memory that belong to no file."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("RssAnon:")[2].split()[0]) * 1024

    def tear_down(self) -> None:
        for sock in self._sockets:
            sock.close()


@pytest.fixture
def site(spawn: Any) -> Iterator[Site]:
    found = Site(spawn)
    yield found
    found.tear_down()


def everything(sock: socket.socket) -> bytes:
    """Read until the server closes."""
    received = []
    while piece := sock.recv(1 << 20):
        received.append(piece)
    return b"".join(received)


def test_a_body_is_read_by_lines_and_to_its_end(site: Site) -> None:
    sock = site.send(b"POST / HTTP/1.1\r\nContent-Length: 9\r\nConnection: close\r\n" + HOST)
    sock.sendall(b"a\n")
    time.sleep(0.1)
    sock.sendall(b"bcdefgh")
    assert everything(sock).endswith(b"\r\n\r\na\n|bcdefgh")


@pytest.mark.parametrize("begin", [b"", b"half of it"])
def test_missing_bodies_block_no_other_request_and_get_408(spawn: Any, begin: bytes) -> None:
    site = Site(spawn, patience=2.0)
    head = b"POST / HTTP/1.1\r\nContent-Length: 100\r\n"
    stuck = [site.send(head + HOST + begin) for _ in range(20)]
    for _ in range(20):
        assert site.get("/") == (200, b"ok")
    for sock in stuck:
        answer = http.client.HTTPResponse(sock)
        answer.begin()
        assert (answer.status, answer.getheader("Connection")) == (408, "close")
        answer.read()
        assert sock.recv(1) == b""
        answer.close()
    assert site.get("/") == (200, b"ok")
    for sock in stuck:
        sock.close()
    body = site.send(b"POST / HTTP/1.1\r\nContent-Length: 1\r\nConnection: close\r\n" + HOST + b"x")
    assert everything(body).endswith(b"x|")
    site.tear_down()


def test_requests_are_answered_beside_those_that_stepped_aside(site: Site) -> None:
    slow = [site.send(b"GET /map HTTP/1.1\r\nConnection: close\r\n" + HOST) for _ in range(24)]
    for _ in slow:
        assert site.process.line() == "entered"
    for _ in range(50):
        assert site.get("/") == (200, b"ok")
    site.get("/open")
    for sock in slow:
        assert everything(sock).endswith(b"\r\n\r\nok")


@pytest.mark.thorough
def test_unread_answers_cost_little_memory_and_block_no_other_request(site: Site) -> None:
    assert site.get("/") == (200, b"ok")
    before = site.memory()
    slow = [site.send(b"GET /large HTTP/1.1\r\n" + HOST) for _ in range(60)]
    for sock in slow:
        assert sock.recv(8, socket.MSG_PEEK)
    for _ in range(50):
        assert site.get("/") == (200, b"ok")
    assert site.memory() - before < 100 * 1024**2  # of 720 MiB
    whole = b"".join(bytes([number]) * 65536 for number in range(192))
    received = b""
    while not received.endswith(whole[-65536:]):
        received += slow[0].recv(1 << 20)
    assert received.endswith(b"\r\n\r\n" + whole)


@pytest.mark.thorough
def test_more_connections_than_descriptors_are_answered_in_turn(spawn: Any) -> None:
    site = Site(spawn, descriptors=120)
    crowd = [site.send(b"") for _ in range(200)]
    time.sleep(0.5)
    for sock in crowd:
        sock.close()
    assert site.get("/") == (200, b"ok")
    site.tear_down()
