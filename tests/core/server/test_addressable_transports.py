"""Addressable bodies over FastCGI and HTTP: ranges, slow clients and bodies that end early."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from tests.support.transport import Served
from tests.support.transport import serve as serve  # a fixture

from mastaba.errors import ObjectChangedError
from mastaba_server.messages import STATUS_LINES
from mastaba_server.transport.http import HTTPConnection
from mastaba_server.web.addressable import AddressableBody, Streams, addressable_response
from mastaba_server.web.request import Request

PIECE = 1024 * 1024
Serve = Callable[..., Served]


class Counting(AddressableBody):
    """Numbered pieces of zeros, and how many of them were made."""

    def __init__(self, pieces: int, fails_at: int | None = None) -> None:
        super().__init__(pieces * PIECE, "v1")
        self.made = 0
        self._fails_at = fails_at

    def pieces(self, start: int, end: int) -> Iterator[bytes]:
        for first in range(start, end, PIECE):
            if self.made == self._fails_at:
                raise ObjectChangedError("the slab was replaced")
            self.made += 1
            number = first // PIECE
            yield bytes([number % 256]) * (min(first + PIECE, end) - first)


def application(body: AddressableBody, streams: Streams) -> Any:
    """Return a WSGI application that answers with a body, as that of a site does."""

    def answer(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        request = Request("GET", "", "", environ)
        response = addressable_response(request, [], body, streams)
        length = ("Content-Length", str(len(response.body)))
        start_response(STATUS_LINES[response.status], [*response.headers, length])
        return response.body if not isinstance(response.body, bytes) else [response.body]

    return answer


def test_ranges_over_fastcgi(serve: Serve) -> None:
    client = serve(application(Counting(3), Streams())).connect()
    part = client.ask({"HTTP_RANGE": f"bytes={PIECE}-{PIECE + 9}"})
    assert (part.status, part.body) == ("206 Partial Content", b"\1" * 10)
    assert part.headers["Content-Range"] == f"bytes {PIECE}-{PIECE + 9}/{3 * PIECE}"
    assert client.ask({"HTTP_RANGE": f"bytes={4 * PIECE}-"}).status[:3] == "416"


def test_ranges_over_http(serve: Serve) -> None:
    served = serve(
        application(Counting(3), Streams()), family=socket.AF_INET, protocol=HTTPConnection
    )
    connection = http.client.HTTPConnection(*served.address)
    connection.request("GET", "/", headers={"Range": f"bytes={PIECE}-{PIECE + 9}"})
    part = connection.getresponse()
    assert (part.status, part.read()) == (206, b"\1" * 10)
    # The connection serves further requests.
    connection.request("GET", "/", headers={"Range": "bytes=-5"})
    part = connection.getresponse()
    assert (part.status, part.read()) == (206, b"\2" * 5)
    connection.close()


@pytest.mark.parametrize("threads", [1, 4])
def test_slow_client_costs_neither_a_thread_nor_pieces(serve: Serve, threads: int) -> None:
    body = Counting(200)
    served = serve(
        application(body, Streams(most=2)),
        family=socket.AF_INET,
        protocol=HTTPConnection,
        threads=threads,
    )
    slow = served.connect().socket
    slow.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    slow.recv(1)
    # The kernel holds a few pieces; the answer to others does not wait for the slow client.
    connection = http.client.HTTPConnection(*served.address)
    connection.request("GET", "/", headers={"Range": "bytes=0-9"})
    assert connection.getresponse().read() == bytes(10)
    connection.close()
    assert body.made < 50


def test_body_of_a_client_that_hangs_up_is_not_counted_any_more(serve: Serve) -> None:
    streams, released = Streams(most=1), threading.Event()
    release = streams.release

    def note(client: str) -> None:
        release(client)
        released.set()

    streams.release = note  # type: ignore[method-assign]
    served = serve(
        application(Counting(200), streams), family=socket.AF_INET, protocol=HTTPConnection
    )
    gone = served.connect().socket
    gone.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    gone.recv(1)
    gone.close()
    assert released.wait(120)


def test_body_that_cannot_be_finished_ends_the_connection(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    served = serve(
        application(Counting(5, fails_at=2), Streams()),
        family=socket.AF_INET,
        protocol=HTTPConnection,
    )
    connection = http.client.HTTPConnection(*served.address)
    connection.request("GET", "/")
    with pytest.raises(http.client.IncompleteRead) as raised:
        connection.getresponse().read()
    assert len(raised.value.partial) == 2 * PIECE
    connection.close()
    (record,) = [one for one in caplog.records if one.name.endswith("exchange")]
    assert record.getMessage().startswith("a response was cut short: ")
    assert record.exc_info is None
