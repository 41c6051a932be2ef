"""A stop that loses no request: what has arrived is answered, what comes later is refused."""

from __future__ import annotations

import http.client
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.tiny import tiny_installation

from mastaba_server.transport.http import HTTPConnection
from mastaba_server.transport.listener import Listener, open_listener

# A server of two workers. It says what each request waits for: the file "open".
SERVER = """
import os, sys, time
from pathlib import Path
from mastaba_server.transport.fastcgi.connection import FastCGIConnection
from mastaba_server.processes.epoch import Epoch
from mastaba_server.processes.handover import Handover
from mastaba_server.transport.http import HTTPConnection
from mastaba_server.transport.listener import open_listener
from mastaba_server.transport.loop import Server
from mastaba_server.processes.supervisor import Supervisor
from mastaba_server.processes.scoreboard import Scoreboard

home, protocol, address = Path(sys.argv[1]), sys.argv[2], sys.argv[3]

def application(environ, start_response):
    if environ["PATH_INFO"] == "/wait":
        os.write(1, b"waiting\\n")
        while not (home / "open").exists():
            time.sleep(0.01)
    if environ["PATH_INFO"] == "/spent":
        # As after worker_requests requests.
        present.spent()
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]

class Served(Epoch):
    def serve(self, link):
        global present
        present = link
        (home / f"started-{os.getpid()}").touch()
        Server(
            application, listener.socket, globals()[protocol], threads=1, link=link,
            handover=handover, is_refusing=lambda: listener.is_refusing,
        ).run()

    def refuse(self):
        listener.refuse()

def reload(served):
    os.write(1, b"reloaded\\n")
    return Served()

handover = Handover()
with open_listener(address) as listener:
    print(*listener.socket.getsockname()[1:2], flush=True)
    board = Scoreboard(4, 1)
    Supervisor(Served(), workers=2, reload=reload, watch=board, worker_timeout=3600).run()
"""


class Running:
    """The server of this module in its own process."""

    def __init__(self, spawn: Any, home: Path, protocol: str, family: int) -> None:
        self.home = home
        is_local = family == socket.AF_UNIX
        path = str(home / "socket")
        address = path if is_local else "127.0.0.1:0"
        self.process = spawn(SERVER, str(home), f"{protocol}Connection", address)
        port = self.process.line()
        self.address: Any = path if is_local else ("127.0.0.1", int(port))
        self.family = family

    def connect(self, timeout: float = 120) -> socket.socket:
        sock = socket.socket(self.family)
        sock.settimeout(timeout)
        try:
            sock.connect(self.address)
        except OSError:
            sock.close()
            raise
        return sock


@pytest.fixture(params=[socket.AF_UNIX, socket.AF_INET], ids=["unix", "tcp"])
def family(request: pytest.FixtureRequest) -> int:
    found: int = request.param
    return found


@pytest.fixture(params=["HTTP", "FastCGI"])
def running(request: pytest.FixtureRequest, spawn: Any, tmp_path: Path, family: int) -> Running:
    return Running(spawn, tmp_path, request.param, family)


@pytest.fixture
def asked(protocol: Any, request: pytest.FixtureRequest) -> Callable[..., bool]:
    """Send a request and return whether the connection stays open: ``asked(socket, path)``."""
    name = request.node.callspec.params["running"]

    def ask_http(sock: socket.socket, path: str = "/", *, keep: bool = True) -> bool:
        closing = "" if keep else "Connection: close\r\n"
        sock.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n{closing}\r\n".encode())
        response = http.client.HTTPResponse(sock)
        response.begin()
        assert (response.status, response.read()) == (200, b"ok")
        return response.getheader("Connection") is None

    def ask_fastcgi(sock: socket.socket, path: str = "/", *, keep: bool = True) -> bool:
        answer = protocol.Client(sock).ask({"PATH_INFO": path}, keep=keep)
        assert (answer.status, answer.body) == ("200 OK", b"ok")
        # The front server cannot know.
        sock.settimeout(0 if keep else 120)
        try:
            return sock.recv(1) != b""
        except BlockingIOError:
            return True
        finally:
            sock.settimeout(120)

    return ask_http if name == "HTTP" else ask_fastcgi


class Load:
    """Clients that ask until they are refused or done, and count the answers that did not come."""

    def __init__(self, running: Running, asked: Callable[..., bool], *, keep: bool) -> None:
        self.answered = 0
        self.lost: list[BaseException] = []
        self.done = threading.Event()
        self._running, self._asked, self._keep = running, asked, keep
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(8)]
        for thread in self._threads:
            thread.start()

    def _work(self) -> None:
        while not self.done.is_set():
            try:
                sock = self._running.connect()
            except OSError:
                return  # refused
            with sock:
                try:
                    stays = True
                    while stays and not self.done.is_set():
                        stays = self._asked(sock, keep=self._keep)
                        self.answered += 1
                except Exception as error:
                    self.lost.append(error)
                    return

    def join(self) -> None:
        for thread in self._threads:
            thread.join(60)


def check_that_a_stop_loses_nothing(running: Running, load: Load) -> None:
    """Stop a server under load, and check that each request was answered or refused."""
    while load.answered < 200:
        assert not load.lost
    running.process.send(signal.SIGTERM)
    assert running.process.wait() == 0
    load.join()
    assert load.lost == []


@pytest.mark.sampled(one_in=4)
def test_a_stop_loses_no_request_of_a_connection_for_each(
    running: Running, asked: Callable[..., bool]
) -> None:
    check_that_a_stop_loses_nothing(running, Load(running, asked, keep=False))


@pytest.mark.sampled(one_in=2)
@pytest.mark.parametrize("running", ["HTTP"], indirect=True)
def test_a_stop_loses_no_request_on_keep_alive_connections(
    running: Running, asked: Callable[..., bool]
) -> None:
    check_that_a_stop_loses_nothing(running, Load(running, asked, keep=True))


@pytest.mark.parametrize("running", ["FastCGI"], indirect=True)
@pytest.mark.parametrize("family", [socket.AF_INET], indirect=True, ids=["tcp"])
def test_a_stop_loses_no_request_of_front_servers(
    running: Running, asked: Callable[..., bool]
) -> None:
    """A front server sees the end of a connection together with the last response."""
    check_that_a_stop_loses_nothing(running, Load(running, asked, keep=True))


@pytest.mark.sampled(one_in=4)
def test_a_stop_answers_connections_that_wait_to_be_accepted(
    running: Running, asked: Callable[..., bool]
) -> None:
    """The only thread of each worker is busy: more than a process takes at once wait."""
    busy = [threading.Thread(target=lambda: _wait(running, asked)) for _ in range(2)]
    for thread in busy:
        thread.start()
    for _ in busy:
        assert running.process.line() == "waiting"
    waiting = [running.connect() for _ in range(200)]
    answers: list[bool] = []
    threads = [
        threading.Thread(target=lambda sock=sock: answers.append(asked(sock, keep=False)))
        for sock in waiting
    ]
    for thread in threads:
        thread.start()
    running.process.send(signal.SIGTERM)
    _await_refusal(running)
    (running.home / "open").touch()
    for thread in (*busy, *threads):
        thread.join(60)
    assert len(answers) == 200
    for sock in waiting:
        sock.close()
    assert running.process.wait() == 0


def _await_refusal(running: Running) -> None:
    """Wait until a connection is refused, or its handshake has no answer."""
    while True:
        try:
            running.connect(0.3).close()
        except OSError:
            return


def _wait(running: Running, asked: Callable[..., bool]) -> None:
    with running.connect() as sock:
        asked(sock, "/wait", keep=False)


@pytest.mark.thorough
@pytest.mark.parametrize("keep", [False, True])
def test_no_request_is_lost_while_workers_are_replaced(
    running: Running, asked: Callable[..., bool], keep: bool
) -> None:
    load = Load(running, asked, keep=keep)
    while len(list(running.home.glob("started-*"))) < 8:
        assert not load.lost
        with running.connect() as sock:
            asked(sock, "/spent", keep=False)
    load.done.set()
    load.join()
    assert load.lost == []
    running.process.send(signal.SIGTERM)
    assert running.process.wait() == 0


@pytest.mark.thorough
def test_a_stop_during_a_reload_loses_no_request(
    running: Running, asked: Callable[..., bool]
) -> None:
    load = Load(running, asked, keep=False)
    while load.answered < 50:
        assert not load.lost
    running.process.send(signal.SIGHUP)
    assert running.process.line() == "reloaded"
    running.process.send(signal.SIGTERM)
    assert running.process.wait() == 0
    load.join()
    assert load.lost == []


def answer(_environ: Any, start_response: Any) -> list[bytes]:
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]


def test_requests_that_follow_each_other_are_all_answered_by_a_stop(serve: Any) -> None:
    begun, opened = threading.Event(), threading.Event()

    def application(environ: Any, start_response: Any) -> list[bytes]:
        begun.set()
        assert opened.wait(120)
        return answer(environ, start_response)

    served = serve(application, protocol=HTTPConnection, family=socket.AF_INET, linger=30)
    client = served.connect()
    client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 3)
    assert begun.wait(120)
    served.stop()
    opened.set()
    with client.socket.makefile("rb") as stream:
        data = stream.read()
    assert data.count(b"HTTP/1.1 200 OK") == 3
    assert data.count(b"Connection: close") == 1
    assert data.rindex(b"HTTP/1.1") < data.index(b"Connection: close")
    served.join()


PROGRAM = """
import sys
from mastaba.commands.main import main
print("starting", flush=True)
sys.exit(main(["-f", sys.argv[1], "--http", sys.argv[2]]))
"""


@pytest.mark.thorough
def test_the_program_loses_no_request_when_it_stops(spawn: Any, tmp_path: Path) -> None:
    server_json = tiny_installation(
        tmp_path,
        services=["health"],
        server_overrides={"workers": 2, "logger": {"level": "warn"}},
    )
    path = str(tmp_path / "socket")
    process = spawn(PROGRAM, str(server_json), path)
    assert process.line() == "starting"
    statuses: list[int] = []
    lost: list[BaseException] = []

    def ask() -> None:
        while True:
            with socket.socket(socket.AF_UNIX) as sock:
                try:
                    sock.connect(path)
                except OSError:
                    if statuses:
                        return
                    time.sleep(0.05)
                    continue
                try:
                    sock.sendall(
                        b"GET /healthcheck HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
                    )
                    response = http.client.HTTPResponse(sock)
                    response.begin()
                    response.read()
                    statuses.append(response.status)
                except Exception as error:
                    lost.append(error)
                    return

    threads = [threading.Thread(target=ask, daemon=True) for _ in range(8)]
    for thread in threads:
        thread.start()
    while len(statuses) < 100:
        time.sleep(0.01)
    process.send(signal.SIGTERM)
    assert process.wait() == 0
    for thread in threads:
        thread.join(60)
    assert lost == []
    assert set(statuses) == {200}


# The listening socket


@pytest.fixture
def listener(family: int, tmp_path: Path) -> Iterator[Listener]:
    port = str(tmp_path / "socket") if family == socket.AF_UNIX else "127.0.0.1:0"
    with open_listener(port) as found:
        yield found


def test_connections_before_a_refusal_are_accepted_and_none_after(listener: Listener) -> None:
    address, family = listener.socket.getsockname(), listener.socket.family
    with socket.socket(family) as before, socket.socket(family) as after:
        before.connect(address)
        before.sendall(b"x")
        assert not listener.is_refusing
        listener.refuse()
        assert listener.is_refusing
        after.settimeout(0.2)
        with pytest.raises((ConnectionRefusedError, TimeoutError)):
            after.connect(address)
        accepted, _ = listener.socket.accept()
        with accepted:
            assert accepted.recv(1) == b"x"
        with pytest.raises(BlockingIOError):
            listener.socket.accept()


def test_a_socket_of_another_program_is_not_refused(listener: Listener) -> None:
    other = Listener(listener.socket, "handed over")
    other.refuse()
    assert not other.is_refusing
    with socket.socket(listener.socket.family) as sock:
        sock.connect(listener.socket.getsockname())
