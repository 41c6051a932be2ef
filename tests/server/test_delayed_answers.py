"""Answers that wait: they take no thread, block no other connection, and leave early at the end."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from typing import Any, Protocol

import pytest
from tests.support import transport

from mastaba_server.messages import CLIENT
from mastaba_server.processes.handover import Handover
from mastaba_server.transport import delays
from mastaba_server.transport.connection import Connection
from mastaba_server.transport.fastcgi.connection import FastCGIConnection
from mastaba_server.transport.http import HTTPConnection

LONG = 600.0
"""Seconds: an answer that leaves earlier has not waited so long."""


class Speech(Protocol):
    """How a client asks, and what it reads."""

    kind: type[Connection]

    def request(self, path: str) -> bytes: ...
    def status(self, client: Any) -> str: ...


class FastCGI:
    kind = FastCGIConnection

    def request(self, path: str) -> bytes:
        return transport.request({"PATH_INFO": path})

    def status(self, client: Any) -> str:
        status: str = client.answer().status
        return status


class HTTP:
    kind = HTTPConnection

    def request(self, path: str) -> bytes:
        return b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n" % path.encode()

    def status(self, client: Any) -> str:
        """Read one response of which the body has two bytes."""
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            data = client.socket.recv(1)
            assert data, head
            head += data
        assert [client.socket.recv(1) for _ in range(2)] == [b"o", b"k"]
        assert (b"Connection: close" in head) == (self.closes)
        return head.split(b"\r\n")[0].removeprefix(b"HTTP/1.1 ").decode()

    closes = False


@pytest.fixture(params=[FastCGI, HTTP])
def speech(request: pytest.FixtureRequest) -> Any:
    return request.param()


@pytest.fixture
def long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delays, "_LONGEST", LONG)


class Application:
    """Lets the answers to /late wait, those to /soon a moment; counts its requests."""

    def __init__(self, *, in_pieces: bool = False) -> None:
        self.asked: list[str] = []
        self.arrived = threading.Semaphore(0)
        self._in_pieces = in_pieces

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        path = environ["PATH_INFO"]
        self.asked.append(path)
        if path in ("/late", "/soon"):
            environ[CLIENT].delay(LONG if path == "/late" else 0.1)
        start_response("401 Unauthorized", [("Content-Length", "2")])
        self.arrived.release()
        return self._pieces() if self._in_pieces else [b"ok"]

    @staticmethod
    def _pieces() -> Iterator[bytes]:
        yield b"o"
        yield b"k"


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("in_pieces", [False, True])
def test_an_answer_waits(serve: Any, speech: Any, threads: int, in_pieces: bool) -> None:
    served = serve(Application(in_pieces=in_pieces), protocol=speech.kind, threads=threads)
    client = served.connect()
    for _ in range(3):
        begun = time.monotonic()
        client.send(speech.request("/soon"))
        assert speech.status(client) == "401 Unauthorized"
        assert time.monotonic() - begun >= 0.1
    assert not served.server._delays.waiting


@pytest.mark.usefixtures("long")
@pytest.mark.parametrize("threads", [1, 3])
def test_answers_that_wait_take_no_thread_and_leave_at_a_stop(
    serve: Any, speech: Any, threads: int
) -> None:
    application = Application()
    served = serve(application, protocol=speech.kind, threads=threads)
    late = [served.connect() for _ in range(20)]
    for client in late:
        client.send(speech.request("/late"))
        assert application.arrived.acquire(timeout=120)
    other = served.connect()
    for _ in range(20):
        other.send(speech.request("/"))
        assert speech.status(other) == "401 Unauthorized"
    for client in late:
        client.socket.setblocking(False)
        with pytest.raises(BlockingIOError):
            client.socket.recv(1)
        client.socket.settimeout(120)
    served.stop()
    assert {speech.status(client) for client in late} == {"401 Unauthorized"}
    served.join()


@pytest.mark.usefixtures("long")
def test_nothing_is_read_behind_an_answer_that_waits(serve: Any) -> None:
    """Also what has arrived together with the request."""
    http, application = HTTP(), Application()
    served = serve(application, protocol=HTTPConnection)
    client, other = served.connect(), served.connect()
    client.send(http.request("/late") + http.request("/behind"))
    assert application.arrived.acquire(timeout=120)
    client.send(http.request("/further"))
    other.send(http.request("/"))
    assert http.status(other) == "401 Unauthorized"
    assert application.asked == ["/late", "/"]
    client.socket.shutdown(socket.SHUT_WR)
    # Whoever can send no more waits no longer: a client that has gone must not keep a place.
    assert [http.status(client) for _ in range(3)] == ["401 Unauthorized"] * 3
    assert application.asked == ["/late", "/", "/behind", "/further"]


@pytest.mark.usefixtures("long")
def test_no_more_than_a_number_wait(
    serve: Any, speech: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delays, "_MOST", 2)
    application = Application()
    served = serve(application, protocol=speech.kind)
    late = [served.connect() for _ in range(2)]
    for client in late:
        client.send(speech.request("/late"))
        assert application.arrived.acquire(timeout=120)
    further = served.connect()
    further.send(speech.request("/late"))
    if speech.kind is HTTPConnection:
        speech.closes = True
        assert speech.status(further) == "401 Unauthorized"
        assert further.is_closed()
        speech.closes = False
    else:
        # It belongs to a front server.
        assert speech.status(further) == "401 Unauthorized"
        further.send(speech.request("/"))
        assert speech.status(further) == "401 Unauthorized"
    # A client that hangs up leaves its place.
    late[0].close()
    while len(served.server._delays.waiting) == 2:
        time.sleep(0.001)
    next_one = served.connect()
    next_one.send(speech.request("/late"))
    while len(served.server._delays.waiting) < 2:
        time.sleep(0.001)
    served.stop()
    assert {speech.status(client) for client in (late[1], next_one)} == {"401 Unauthorized"}


@pytest.mark.usefixtures("long")
def test_answers_leave_when_the_process_retires(serve: Any, speech: Any) -> None:
    application, handover = Application(), Handover()
    served = serve(application, protocol=speech.kind, handover=handover)
    client = served.connect()
    client.send(speech.request("/late"))
    assert application.arrived.acquire(timeout=120)
    served.server.retire()
    assert speech.status(client) == "401 Unauthorized"
    served.join()
    # It is with those that others take over, not closed.
    sock = handover.take()
    assert sock is not None
    sock.close()
    handover.close()


def test_answers_leave_in_the_order_in_which_they_came(serve: Any) -> None:
    """So that the first one is always due first, however long the others should wait."""
    found = delays.DelayedAnswers()
    pairs = [socket.socketpair() for _ in range(3)]
    owner: Any = serve(Application()).server
    connections = [FastCGIConnection(theirs, owner) for _, theirs in pairs]
    for connection, seconds in zip(connections, (0.05, 0.0, 0.02), strict=True):
        assert found.add(connection, seconds)
        assert connection.is_delayed
    assert found.due(all_of_them=False) == []
    leaving: list[Connection] = []
    while len(leaving) < 3:
        leaving += found.due(all_of_them=False)
    assert leaving == connections
    assert not any(one.is_delayed for one in connections)
    for ours, theirs in pairs:
        ours.close()
        theirs.close()
