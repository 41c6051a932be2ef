"""Requests that take long: they step aside, and notice that their client has gone."""

from __future__ import annotations

import socket
import threading
from typing import Any

import pytest

from mastaba.cancellation import CLIENT


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
            assert maps.entered.acquire(timeout=30)
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
        assert maps.entered.acquire(timeout=30)
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
        assert maps.entered.acquire(timeout=30)
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
    assert maps.entered.acquire(timeout=30)
    client.close()
    assert maps.cancelled.acquire(timeout=30)
    assert served.connect().ask().body == b"ok"


def test_an_abort_is_noticed_while_the_request_is_answered(serve: Any, protocol: Any) -> None:
    maps = Maps()
    served = serve(maps, threads=1)
    client = served.connect()
    client.send(protocol.request({"PATH_INFO": "/map"}))
    assert maps.entered.acquire(timeout=30)
    # What belongs to another request is no reason to stop.
    client.send(protocol.record(protocol.ABORT, request_id=7))
    assert not maps.cancelled.acquire(timeout=0.2)
    maps.opened.set()
    assert client.answer().status == "200 OK"
    maps.opened.clear()
    client.send(protocol.request({"PATH_INFO": "/map"}))
    assert maps.entered.acquire(timeout=30)
    client.send(protocol.record(protocol.ABORT))
    assert maps.cancelled.acquire(timeout=30)
    assert client.answer().status == "499 Client Closed Request"
    assert client.ask().body == b"ok"
