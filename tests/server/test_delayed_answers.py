"""Answers that wait: they take no thread, block no other connection, and leave early at the end."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Protocol

import pytest
from tests.support import transport

from mastaba_server.messages import CLIENT
from mastaba_server.processes.handover import Handover
from mastaba_server.transport import delays, loop
from mastaba_server.transport.connection import NEVER, Connection
from mastaba_server.transport.fastcgi.connection import FastCGIConnection
from mastaba_server.transport.http import HTTPConnection

LONG = 600.0
"""Seconds: an answer that leaves earlier has not waited so long."""


class Speech(Protocol):
    """How a client asks, and what it reads."""

    kind: type[Connection]
    closes: bool
    """Whether an HTTP answer must announce the end of the connection."""

    def request(self, path: str) -> bytes: ...
    def status(self, client: Any) -> str: ...


class FastCGI:
    kind = FastCGIConnection
    closes = False

    def request(self, path: str) -> bytes:
        return transport.request({"PATH_INFO": path})

    def status(self, client: Any) -> str:
        status: str = client.answer().status
        return status


class HTTP:
    kind = HTTPConnection
    closes = False

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
        assert (b"Connection: close" in head) == self.closes
        return head.split(b"\r\n")[0].removeprefix(b"HTTP/1.1 ").decode()


@pytest.fixture(params=[FastCGI, HTTP])
def speech(request: pytest.FixtureRequest) -> Any:
    return request.param()


@pytest.fixture
def long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delays, "_LONGEST", LONG)


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + transport.PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


class Application:
    """Lets the answers to /late wait, those to /soon a moment; counts its requests.

    Those to /slow take a thread until ``finish`` is set.
    """

    def __init__(self, *, in_pieces: bool = False) -> None:
        self.asked: list[str] = []
        self.arrived = threading.Semaphore(0)
        self.finish = threading.Event()
        self._in_pieces = in_pieces

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        path = environ["PATH_INFO"]
        self.asked.append(path)
        if path in ("/late", "/soon"):
            environ[CLIENT].delay(LONG if path == "/late" else 0.1)
        start_response("401 Unauthorized", [("Content-Length", "2")])
        self.arrived.release()
        if path == "/slow":
            assert self.finish.wait(transport.PATIENCE)
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
        assert application.arrived.acquire(timeout=transport.PATIENCE)
    other = served.connect()
    for _ in range(20):
        other.send(speech.request("/"))
        assert speech.status(other) == "401 Unauthorized"
    for client in late:
        client.socket.setblocking(False)
        with pytest.raises(BlockingIOError):
            client.socket.recv(1)
        client.socket.settimeout(transport.PATIENCE)
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
    assert application.arrived.acquire(timeout=transport.PATIENCE)
    client.send(http.request("/further"))
    other.send(http.request("/"))
    assert http.status(other) == "401 Unauthorized"
    assert application.asked == ["/late", "/"]
    assert served.server._delays.due(at_once=True)
    client.socket.shutdown(socket.SHUT_WR)
    assert [http.status(client) for _ in range(3)] == ["401 Unauthorized"] * 3
    assert application.asked == ["/late", "/", "/behind", "/further"]


@pytest.mark.parametrize("family", [socket.AF_UNIX, socket.AF_INET])
def test_a_client_that_has_sent_its_end_waits_as_well(serve: Any, speech: Any, family: int) -> None:
    application = Application()
    served = serve(application, protocol=speech.kind, family=family)
    client = served.connect()
    begun = time.monotonic()
    client.send(speech.request("/soon"))
    client.socket.shutdown(socket.SHUT_WR)
    assert speech.status(client) == "401 Unauthorized"
    assert time.monotonic() - begun >= 0.1
    assert client.is_closed()


@pytest.mark.usefixtures("long")
def test_a_client_that_is_lost_leaves_its_place(serve: Any, speech: Any) -> None:
    application = Application()
    served = serve(application, protocol=speech.kind, family=socket.AF_INET)
    client = served.connect()
    client.send(speech.request("/late"))
    wait_until(lambda: len(served.server._delays.waiting) == 1)
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    wait_until(lambda: not served.server._delays.waiting)


def test_answers_do_not_wait_for_what_is_behind_another_one(serve: Any, speech: Any) -> None:
    application = Application()
    served = serve(application, protocol=speech.kind, threads=4)
    first, others = served.connect(), [served.connect() for _ in range(5)]
    first.send(speech.request("/soon") + speech.request("/slow"))
    assert application.arrived.acquire(timeout=transport.PATIENCE)
    for client in others:
        client.send(speech.request("/soon"))
    assert speech.status(first) == "401 Unauthorized"
    assert [speech.status(client) for client in others] == ["401 Unauthorized"] * 5
    assert "/slow" in application.asked
    application.finish.set()
    assert speech.status(first) == "401 Unauthorized"


@pytest.mark.usefixtures("long")
def test_at_a_stop_answers_do_not_wait_for_what_is_behind_another_one(
    serve: Any, speech: Any
) -> None:
    application = Application()
    served = serve(application, protocol=speech.kind, threads=2)
    first, others = served.connect(), [served.connect() for _ in range(20)]
    first.send(speech.request("/late") + speech.request("/slow"))
    assert application.arrived.acquire(timeout=transport.PATIENCE)
    for client in others:
        client.send(speech.request("/late"))
    wait_until(lambda: len(served.server._delays.waiting) == 21)
    served.stop()
    assert speech.status(first) == "401 Unauthorized"
    assert [speech.status(client) for client in others] == ["401 Unauthorized"] * 20
    application.finish.set()
    speech.closes = True
    assert speech.status(first) == "401 Unauthorized"


def test_an_answer_leaves_whichever_thread_is_busy(
    serve: Any, speech: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the only other one has waited for events since before it was held back."""
    monkeypatch.setattr(loop, "_GLANCE", LONG)
    application = Application()
    served = serve(application, protocol=speech.kind, threads=2)
    client, busy = served.connect(), served.connect()
    for _ in range(8):
        application.finish.clear()
        client.send(speech.request("/soon"))
        wait_until(lambda: len(served.server._delays.waiting) == 1)
        busy.send(speech.request("/slow"))
        assert speech.status(client) == "401 Unauthorized"
        application.finish.set()
        assert speech.status(busy) == "401 Unauthorized"


@pytest.mark.usefixtures("long")
def test_a_client_whose_answer_has_waited_may_ask_again_at_a_stop(serve: Any, speech: Any) -> None:
    """The answer was written before, and has not said that the connection ends."""
    served = serve(application := Application(), protocol=speech.kind, linger=transport.PATIENCE)
    client = served.connect()
    client.send(speech.request("/late"))
    assert application.arrived.acquire(timeout=transport.PATIENCE)
    wait_until(lambda: len(served.server._delays.waiting) == 1)
    served.stop()
    assert speech.status(client) == "401 Unauthorized"
    client.send(speech.request("/"))
    speech.closes = True
    assert speech.status(client) == "401 Unauthorized"
    assert client.is_closed()
    served.join()


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
        assert application.arrived.acquire(timeout=transport.PATIENCE)
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
    wait_until(lambda: len(served.server._delays.waiting) == 1)
    next_one = served.connect()
    next_one.send(speech.request("/late"))
    wait_until(lambda: len(served.server._delays.waiting) == 2)
    served.stop()
    assert {speech.status(client) for client in (late[1], next_one)} == {"401 Unauthorized"}


@pytest.mark.usefixtures("long")
def test_answers_leave_when_the_process_retires(serve: Any, speech: Any) -> None:
    application, handover = Application(), Handover()
    served = serve(application, protocol=speech.kind, handover=handover)
    client = served.connect()
    client.send(speech.request("/late"))
    assert application.arrived.acquire(timeout=transport.PATIENCE)
    served.server.retire()
    assert speech.status(client) == "401 Unauthorized"
    served.join()
    # It is with those that others take over, not closed.
    sock = handover.take()
    assert sock is not None
    sock.close()
    handover.close()


def test_a_client_whose_answer_has_waited_must_receive_it(serve: Any, speech: Any) -> None:
    """Also if nothing of it fits into the socket, because those before have not been read."""
    owner: Any = serve(Application()).server
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    # Nothing more fits after the connection has asked for more room.
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    for size in (1 << 16, 1):
        with suppress(BlockingIOError):
            while True:
                theirs.send(bytes(size))
    connection = speech.kind(theirs, owner)
    connection.is_delayed = True
    connection.send_last([b"late"])
    connection.run()
    assert connection.deadline == NEVER
    connection.is_delayed = False
    before = time.monotonic()
    connection.run()
    deadline = connection.deadline
    assert before <= deadline - owner.limits.send_time <= time.monotonic()
    # A round without progress does not put it off.
    connection.run()
    assert connection.output
    assert connection.deadline == deadline
    ours.close()
    theirs.close()


def test_without_a_further_thread_an_answer_does_not_wait(
    serve: Any, speech: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At a limit of processes or memory. The next one tries again."""
    served = serve(Application(), protocol=speech.kind)

    def fail(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    client = served.connect()
    client.send(speech.request("/"))
    assert speech.status(client) == "401 Unauthorized"
    with monkeypatch.context() as limited:
        limited.setattr(threading.Thread, "start", fail)
        client.send(speech.request("/late"))
        speech.closes = True
        assert speech.status(client) == "401 Unauthorized"
    speech.closes = False
    client = served.connect()
    begun = time.monotonic()
    client.send(speech.request("/soon"))
    assert speech.status(client) == "401 Unauthorized"
    assert time.monotonic() - begun >= 0.1


def test_answers_leave_in_the_order_in_which_they_came(serve: Any) -> None:
    """So that the first one is always due first, however long the others should wait."""
    found = delays.DelayedAnswers(lambda: None, 1000)
    pairs = [socket.socketpair() for _ in range(3)]
    owner: Any = serve(Application()).server
    connections = [FastCGIConnection(theirs, owner) for _, theirs in pairs]
    for connection, seconds in zip(connections, (0.05, 0.0, 0.02), strict=True):
        assert found.add(connection, seconds)
        assert connection.is_delayed
    assert found.due(at_once=False) is None
    leaving: list[Connection] = []
    end = time.monotonic() + transport.PATIENCE
    while len(leaving) < 3:
        assert time.monotonic() < end
        if (due := found.due(at_once=False)) is not None:
            leaving.append(due)
    found.close()
    assert leaving == connections
    assert not any(one.is_delayed for one in connections)
    for ours, theirs in pairs:
        ours.close()
        theirs.close()


def test_most_connections_do_not_wait(serve: Any) -> None:
    """With a low limit of file descriptors: others must find a connection that can be closed."""
    owner: Any = serve(Application()).server
    found = delays.DelayedAnswers(lambda: None, 8)
    pairs = [socket.socketpair() for _ in range(3)]
    connections = [FastCGIConnection(theirs, owner) for _, theirs in pairs]
    assert [found.add(connection, 1.0) for connection in connections] == [True, True, False]
    found.close()
    for ours, theirs in pairs:
        ours.close()
        theirs.close()
