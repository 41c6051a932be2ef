"""HTTP: requests and responses, the graceful stop and the reload, in worker processes."""

from __future__ import annotations

import http.client
import signal
import socket
from collections.abc import Iterator
from typing import Any

import pytest

SERVER = """
import os, sys, time
from pathlib import Path
from mastaba_server.processes.epoch import Epoch
from mastaba_server.processes.handover import Handover
from mastaba_server.transport.http import HTTPConnection
from mastaba_server.transport.listener import open_listener
from mastaba_server.transport.loop import Server
from mastaba_server.processes.supervisor import Supervisor
from mastaba_server.processes.scoreboard import Scoreboard

home = Path(sys.argv[1])

def say(text):
    # In one piece, since several processes write here.
    os.write(1, f"{text}\\n".encode())

closed = home / "closed"

class Pieces:
    def __iter__(self):
        yield b"a"
        yield b"b" * 100_000

    def close(self):
        closed.touch()

def late(start_response):
    start_response("201 Created", [("X-Late", "yes")])
    yield b"a"
    yield b"b" * 100_000

def application(environ, start_response):
    path = environ["PATH_INFO"]
    if path == "/fail":
        raise RuntimeError("secret")
    if path == "/late":
        return late(start_response)
    if path == "/large":
        start_response("200 OK", [("Content-Length", "30000000")])
        return [bytes(30_000_000)]
    if path == "/wait":
        say("waiting")
        while not (home / "open").exists():
            time.sleep(0.01)
    write = start_response("200 OK", [("Content-Type", "text/plain")])
    if path == "/write":
        write(b"a")
        return [b"b" * 100_000]
    if path == "/pieces":
        return Pieces()
    if path == "/body":
        return [environ["wsgi.input"].read()]
    if path == "/pid":
        return [str(os.getpid()).encode()]
    names = ("REQUEST_METHOD", "SCRIPT_NAME", "PATH_INFO", "QUERY_STRING", "HTTP_X_A")
    return ["\\n".join(str(environ.get(name)) for name in names).encode("latin-1")]

class Served(Epoch):
    def serve(self, link):
        Server(
            application, listener.socket, HTTPConnection,
            threads=2, linger=0.2, link=link, handover=handover,
        ).run()

def reload(served):
    say("reloaded")
    return Served()

handover = Handover()
with open_listener("127.0.0.1:0") as listener:
    say(listener.socket.getsockname()[1])
    # The workers give no signs of life.
    board = Scoreboard(4, 1)
    Supervisor(Served(), workers=2, reload=reload, watch=board, worker_timeout=3600).run()
"""


class Site:
    def __init__(self, spawn: Any, home: Any) -> None:
        self.process = spawn(SERVER, str(home))
        self.home = home
        self._port = int(self.process.line())
        self._connections: list[http.client.HTTPConnection] = []

    def connect(self) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=120)
        self._connections.append(connection)
        return connection

    def ask(self, method: str, path: str, **options: Any) -> tuple[http.client.HTTPResponse, bytes]:
        connection = self.connect()
        connection.request(method, path, **options)
        response = connection.getresponse()
        return response, response.read()

    def tear_down(self) -> None:
        for connection in self._connections:
            connection.close()


@pytest.fixture
def site(spawn: Any, tmp_path: Any) -> Iterator[Site]:
    found = Site(spawn, tmp_path)
    yield found
    found.tear_down()


def test_the_request_of_pep_3333(site: Site) -> None:
    target = "/a%20b%2Fc%25/%C3%A9%E9+?x=%41&y=%C3%A9+"
    response, body = site.ask("GET", target, headers={"X-A": "b"})
    assert response.status == 200
    path = "/a b/c%/é".encode() + b"\xe9+"
    assert body.split(b"\n") == [b"GET", b"", path, b"x=%41&y=%C3%A9+", b"b"]


def test_the_environment_of_the_process_is_not_the_environ(site: Site) -> None:
    assert b"None" in site.ask("GET", "/")[1]


@pytest.mark.parametrize("path", ["/write", "/pieces"])
def test_answers_in_pieces(site: Site, path: str) -> None:
    assert site.ask("GET", path)[1] == b"a" + b"b" * 100_000
    if path == "/pieces":
        while not (site.home / "closed").exists():
            pass


def test_a_generator_that_starts_late(site: Site) -> None:
    response, body = site.ask("GET", "/late")
    assert (response.status, response.headers["X-Late"]) == (201, "yes")
    assert body == b"a" + b"b" * 100_000


def test_head_has_no_body(site: Site) -> None:
    connection = site.connect()
    for path in ("/large", "/"):
        connection.request("HEAD", path)
        response = connection.getresponse()
        assert response.status == 200
        assert response.read() == b""
    connection.request("GET", "/pid")
    assert connection.getresponse().read().isdigit()


def test_large_bodies_both_ways(site: Site) -> None:
    assert site.ask("GET", "/large")[1] == bytes(30_000_000)
    body = bytes(2_000_000)
    assert site.ask("POST", "/body", body=body)[1] == body
    assert site.ask("POST", "/body", body=iter([b"chunk", b"ed"]))[1] == b"chunked"


def test_errors_in_the_application_are_answered_with_500(site: Site) -> None:
    response, body = site.ask("GET", "/fail")
    assert response.status == 500
    assert b"secret" not in body


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGQUIT, signal.SIGINT])
def test_graceful_stop(site: Site, number: int) -> None:
    idle = site.connect()
    idle.request("GET", "/")
    idle.getresponse().read()
    running = site.connect()
    running.request("GET", "/wait")
    assert site.process.line() == "waiting"
    site.process.send(number)
    (site.home / "open").touch()
    assert running.getresponse().read()
    assert site.process.wait() == 0


def test_reload_serves_on(site: Site) -> None:
    kept = site.connect()
    kept.request("GET", "/pid")
    before = kept.getresponse().read()
    site.process.send(signal.SIGHUP)
    assert site.process.line() == "reloaded"
    # The connection passes to a new worker.
    sock = kept.sock
    while True:
        kept.request("GET", "/pid")
        response = kept.getresponse()
        assert response.getheader("Connection") is None
        if response.read() != before:
            break
    assert kept.sock is sock


def test_a_killed_worker_is_replaced(site: Site) -> None:
    import os

    pid = int(site.ask("GET", "/pid")[1])
    os.kill(pid, signal.SIGKILL)
    for _ in range(10):
        assert int(site.ask("GET", "/pid")[1]) != pid


STOPPING = """
from mastaba_server.transport.http import HTTPConnection
from mastaba_server.transport.listener import open_listener
from mastaba_server.transport.loop import Server

def application(environ, start_response):
    start_response("200 OK", [("Content-Length", "0")])
    return []

with open_listener("127.0.0.1:0") as listener:
    print(listener.socket.getsockname()[1], flush=True)
    Server(application, listener.socket, HTTPConnection, linger=3600).run()
"""


def test_a_stopping_process_leaves_new_connections_to_others(spawn: Any) -> None:
    process = spawn(STOPPING)
    port = int(process.line())
    # The process stays as long as it has a connection.
    idle = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    idle.request("GET", "/")
    idle.getresponse().read()
    kept = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    closing = None
    while closing != "close":
        kept.request("GET", "/")
        answer = kept.getresponse()
        answer.read()
        process.send(signal.SIGTERM)
        closing = answer.getheader("Connection")
    kept.close()
    with socket.create_connection(("127.0.0.1", port), 0.5) as late:
        late.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        with pytest.raises(TimeoutError):
            late.recv(1)
    idle.close()
