"""Requests that take long: they step aside, and notice that their client has gone."""

from __future__ import annotations

import socket
import threading
from collections import defaultdict
from contextlib import nullcontext
from http.client import HTTPResponse
from typing import Any

import pytest
from tests.support.transport import Client, request

from mastaba_server.messages import CLIENT
from mastaba_server.transport.fastcgi.connection import FastCGIConnection
from mastaba_server.transport.http import HTTPConnection


class Maps:
    """An application of which requests to /map step aside until they are let go or cancelled."""

    def __init__(self) -> None:
        self.entered = threading.Semaphore(0)
        self.opened = threading.Event()
        self.cancelled = threading.Semaphore(0)
        self.most = 0
        self._running = 0

    def __call__(self, environ: dict[str, Any], start_response: Any) -> list[bytes]:
        status = "200 OK"
        if environ["PATH_INFO"] == "/map":
            client = environ[CLIENT]
            with client.aside():
                self.entered.release()
                while not self.opened.wait(0.01):
                    if client.is_gone():
                        self.cancelled.release()
                        status = "499 Client Closed Request"
                        break
        start_response(status, [("Content-Length", "2")])
        return [b"ok"]


@pytest.mark.parametrize("threads", [1, 2])
def test_requests_are_answered_beside_any_number_that_stepped_aside(
    serve: Any, protocol: Any, threads: int
) -> None:
    maps = Maps()
    served = serve(maps, threads=threads)
    for _ in range(2):
        maps.opened.clear()
        # All of them arrive at once, so that one thread may get several events together.
        slow = [served.connect() for _ in range(24)]
        for client in slow:
            client.send(protocol.request({"PATH_INFO": "/map"}))
        for _ in slow:
            assert maps.entered.acquire(timeout=120)
        other = served.connect()
        for _ in range(50):
            assert other.ask().body == b"ok"
        maps.opened.set()
        assert [client.answer().body for client in slow] == [b"ok"] * 24
    assert served.server._active <= threads + 24


def test_stop_with_threads_that_are_not_needed(serve: Any, protocol: Any) -> None:
    maps = Maps()
    served = serve(maps, threads=1)
    slow = [served.connect() for _ in range(8)]
    for client in slow:
        client.send(protocol.request({"PATH_INFO": "/map"}))
        assert maps.entered.acquire(timeout=120)
    maps.opened.set()
    for client in slow:
        assert client.answer().body == b"ok"
    served.stop()
    served.join()


def test_stop_while_requests_are_aside(serve: Any, protocol: Any) -> None:
    maps = Maps()
    served = serve(maps, threads=1, linger=30)
    slow, other = [served.connect() for _ in range(3)], served.connect()
    assert other.ask().body == b"ok"
    for client in slow:
        client.send(protocol.request({"PATH_INFO": "/map"}))
        assert maps.entered.acquire(timeout=120)
    served.stop()
    assert other.ask().body == b"ok"
    maps.opened.set()
    assert [client.answer().body for client in slow] == [b"ok"] * 3


@pytest.mark.parametrize("family", [socket.AF_UNIX, socket.AF_INET])
def test_a_client_that_hangs_up_is_noticed(serve: Any, protocol: Any, family: int) -> None:
    maps = Maps()
    served = serve(maps, threads=1, family=family)
    client = served.connect()
    client.send(protocol.request({"PATH_INFO": "/map"}))
    assert maps.entered.acquire(timeout=120)
    client.close()
    assert maps.cancelled.acquire(timeout=120)
    assert served.connect().ask().body == b"ok"


def test_an_abort_is_noticed_while_the_request_is_answered(serve: Any, protocol: Any) -> None:
    maps = Maps()
    served = serve(maps, threads=1)
    client = served.connect()
    client.send(protocol.request({"PATH_INFO": "/map"}))
    assert maps.entered.acquire(timeout=120)
    # What belongs to another request is no reason to stop.
    client.send(protocol.record(protocol.ABORT, request_id=7))
    assert not maps.cancelled.acquire(timeout=0.2)
    maps.opened.set()
    assert client.answer().status == "200 OK"
    maps.opened.clear()
    client.send(protocol.request({"PATH_INFO": "/map"}))
    assert maps.entered.acquire(timeout=120)
    client.send(protocol.record(protocol.ABORT))
    assert maps.cancelled.acquire(timeout=120)
    assert client.answer().status == "499 Client Closed Request"
    assert client.ask().body == b"ok"


class Steps:
    """An application whose requests wait until the test lets each of them go.

    /map steps aside first; it answers 499 if its client seems to have hung up.
    """

    def __init__(self) -> None:
        self.entered: dict[str, threading.Event] = defaultdict(threading.Event)
        self.opened: dict[str, threading.Event] = defaultdict(threading.Event)

    def __call__(self, environ: dict[str, Any], start_response: Any) -> list[bytes]:
        name, client = environ["QUERY_STRING"], environ[CLIENT]
        with client.aside() if environ["PATH_INFO"] == "/map" else nullcontext():
            self.entered[name].set()
            assert self.opened[name].wait(120)
            status = "499 Client Closed Request" if client.is_gone() else "200 OK"
        start_response(status, [("Content-Length", "0")])
        return []


class OverFastCGI:
    """How a client sends a request and reads its answer."""

    protocol = FastCGIConnection

    @staticmethod
    def begin(client: Client, path: str, name: str, *, keep: bool = True) -> None:
        client.send(request({"PATH_INFO": path, "QUERY_STRING": name}, keep=keep))

    @staticmethod
    def status(client: Client) -> str:
        return client.answer().status


class OverHTTP:
    """The same over HTTP."""

    protocol = HTTPConnection

    @staticmethod
    def begin(client: Client, path: str, name: str, *, keep: bool = True) -> None:
        close = "" if keep else "Connection: close\r\n"
        client.send(f"GET {path}?{name} HTTP/1.1\r\nHost: x\r\n{close}\r\n".encode())

    @staticmethod
    def status(client: Client) -> str:
        answer = HTTPResponse(client.socket)
        answer.begin()
        assert answer.read() == b""
        return f"{answer.status} {answer.reason}"


@pytest.mark.parametrize("family", [socket.AF_UNIX, socket.AF_INET])
@pytest.mark.parametrize("over", [OverFastCGI, OverHTTP])
def test_the_hangup_of_a_client_is_not_that_of_the_next_with_its_descriptor(
    serve: Any, over: type[OverFastCGI | OverHTTP], family: int
) -> None:
    steps = Steps()
    served = serve(steps, threads=1, family=family, protocol=over.protocol)
    begin, status = over.begin, over.status

    def begun(name: str) -> None:
        assert steps.entered[name].wait(120)

    first, second, gone = (served.connect() for _ in range(3))
    for client in (first, second):
        # Registered: their next requests are events, and hold the only thread that waits.
        steps.opened["known"].set()
        begin(client, "/", "known")
        assert status(client) == "200 OK"
    begin(gone, "/map", "gone", keep=False)
    begun("gone")
    begin(first, "/", "first")
    begun("first")
    # Taken together by the next wait, in this order.
    begin(second, "/", "second")
    staying = served.connect()
    begin(staying, "/map", "staying")
    gone.socket.shutdown(socket.SHUT_WR)
    steps.opened["first"].set()
    assert status(first) == "200 OK"
    begun("second")
    steps.opened["gone"].set()
    # Its event still waits behind that of the listening socket.
    assert status(gone) == "200 OK"
    begun("staying")
    steps.opened["second"].set()
    assert status(second) == "200 OK"
    # Answered after the event of the client that has gone.
    steps.opened["last"].set()
    begin(second, "/", "last")
    assert status(second) == "200 OK"
    steps.opened["staying"].set()
    assert status(staying) == "200 OK"
