"""A request means the same whatever arrived before it, and however it is cut into parts.

Most are HTTP; the last test is about FastCGI.
"""

from __future__ import annotations

import random
import socket
from contextlib import closing, nullcontext
from itertools import pairwise
from typing import Any

import pytest

from mastaba_server.transport.connection import (
    Connection,
    DisconnectedError,
    Limits,
    MalformedError,
)
from mastaba_server.transport.fastcgi.connection import FastCGIConnection
from mastaba_server.transport.http import HTTPConnection

TARGETS = [
    b"/a",
    b"/b?c",
    b"/%41/b",
    b"//x",
    b"/c#d",
    b"http://y/z?q",
    b"*",
    b"/e f",
    b"a",
    b"/\x80",
]
LINES = [
    *[b"GET %s HTTP/1.1", b"HEAD %s HTTP/1.1", b"POST %s HTTP/1.1", b"GET  %s HTTP/1.1"],
    *[b"GET %s HTTP/1.0", b" GET %s HTTP/1.1", b"GET %s HTTP/1.1 ", b"get %s HTTP/1.1"],
    *[b"GET\t%s HTTP/1.1", b"GET %s", b"GET %s HTTP/1.1\r\n", b"GET %s HTTP/2.0"],
]
FIELDS = [
    *[b"A: 1", b"A: 2", b"a: 3", b"B:", b"Host: y", b" folded", b"A : 1", b"A_B: 1", b"C: \xe9"],
    *[b"Content-Length: 0", b"Content-Length: 3", b"Content-Length: 5", b"Content-Length: 3, 3"],
    *[b"Content-Length: +3", b"Content-Length: 0x3", b"Content-Length: ", b"Content-Length: 3\t"],
    *[b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked, chunked"],
    *[b"Transfer-Encoding: identity", b"Transfer-Encoding:\tchunked", b"Transfer-Encoding: x"],
    *[b"Connection: close", b"Connection: keep-alive", b"Connection: upgrade\r\nUpgrade: h2c"],
    *[b"Expect: 100-continue", b"GET /hidden HTTP/1.1", b"Long: " + b"x" * 3000],
]
BETWEEN = [b"", b"", b"", b"", b"\r\n", b"\r\n\r\n", b"\n", b"\r", b" ", b"\0", b"abc"]
BODIES = [b"", b"", b"", b"abc", b"3\r\nabc\r\n0\r\n\r\n", b"0\r\n\r\n", b"3\nabc\n0\n\n"]


SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(1, 30))]


class Taken:
    """The owner of a connection, and the application that notes what it takes for a request."""

    retiring = False
    closing = False
    stored_tile = None

    def __init__(self) -> None:
        self.limits = Limits()
        self.environ: dict[str, Any] = {}
        self.reading: set[Any] = set()
        self.requests: list[dict[str, Any]] = []

    def application(self, environ: dict[str, Any], start_response: Any) -> list[bytes]:
        found = {key: value for key, value in environ.items() if isinstance(value, str)}
        self.requests.append({**found, "body": environ["wsgi.input"].read()})
        start_response("200 OK", [("Content-Length", "0")])
        return []

    def forget(self, _connection: Any) -> None:
        pass

    def delay(self, _connection: Any, _seconds: float) -> bool:
        return True

    def aside(self, _connection: Any) -> Any:
        return nullcontext()


class General(HTTPConnection):
    """Parses every request."""

    def _repeats(self, data: bytes) -> bool:
        return False


def taken(protocol: type[HTTPConnection], parts: list[bytes]) -> tuple[list[dict[str, Any]], bytes]:
    """Return the requests that a connection finds in what arrives, and its status lines."""
    requests, sent = answered(protocol, parts)
    lines = [line for line in sent.split(b"\r\n") if line.startswith(b"HTTP/1.1 ")]
    # Not sent to a client that has sent the body already.
    lines = [line for line in lines if b" 100 " not in line]
    return requests, b"\n".join(lines)


def answered(protocol: type[Connection], parts: list[bytes]) -> tuple[list[dict[str, Any]], bytes]:
    """Return the requests that a connection finds in what arrives, and all that it sends."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        owner = Taken()
        connection = protocol(theirs, owner)  # type: ignore[arg-type]
        sent = b""
        with closing(connection):
            for part in parts:
                if not connection.open or connection.ending:
                    break
                try:
                    connection.receive(part)
                except (DisconnectedError, MalformedError):
                    break
        ours.setblocking(False)
        try:
            while data := ours.recv(1 << 16):
                sent += data
        except BlockingIOError:
            pass
    return owner.requests, sent


def request(random_: random.Random, fields: list[bytes]) -> bytes:
    (line,) = random_.choices(LINES, [30] + [2] * (len(LINES) - 1))
    (target,) = random_.choices(TARGETS, [10] * 4 + [1] * (len(TARGETS) - 4))
    line %= target
    end = random_.choices([b"\r\n", b"\n", b"\r"], [40, 1, 1])[0]
    return line + end + end.join([*fields, b"", b""])


def some_fields(random_: random.Random) -> list[bytes]:
    return [b"Host: x", *random_.choices(FIELDS, k=random_.choice([0, 0, 1, 1, 2, 3]))]


def messages(random_: random.Random) -> list[bytes]:
    """Return what clients send one after the other; most repeat the fields of the one before."""
    fields = some_fields(random_)
    found = []
    for _ in range(random_.randrange(2, 7)):
        if random_.random() < 0.3:
            fields = some_fields(random_)
        found.append(
            random_.choice(BETWEEN)
            + request(random_, fields)
            + random_.choice(BODIES)
            + random_.choice([b"", b"", b"", b"\r\n"])
        )
    return found


def cut(random_: random.Random, data: bytes) -> list[bytes]:
    places = sorted(random_.randrange(len(data) + 1) for _ in range(random_.choice([1, 3, 20])))
    ends = [0, *places, len(data)]
    return [part for begin, end in pairwise(ends) if (part := data[begin:end])]


@pytest.mark.parametrize("seed", SEEDS)
def test_repeated_fields_change_no_request(seed: int) -> None:
    random_ = random.Random(seed)
    for _ in range(200):
        parts = messages(random_)
        assert taken(HTTPConnection, parts) == taken(General, parts), parts


@pytest.mark.parametrize("seed", SEEDS)
def test_the_parts_in_which_requests_arrive_change_none(seed: int) -> None:
    random_ = random.Random(seed)
    for _ in range(200):
        parts = messages(random_)
        # A line that is not ASCII is only accepted if it arrives as a whole.
        data = b"".join(parts).replace(b"/\x80", b"/g")
        expected = taken(General, [data])
        assert taken(HTTPConnection, cut(random_, data)) == expected, parts


@pytest.mark.parametrize("before", [b"\r\n", b"\r\n\r\n"])
def test_an_empty_line_before_a_request_hides_none(before: bytes) -> None:
    first = before + b"GET /1 HTTP/1.1\r\nHost: x\r\n\r\n"
    # With the first request as a field, this is malformed.
    requests, lines = taken(HTTPConnection, [first, b"GET /2 HTTP/1.1" + first])
    assert [found["PATH_INFO"] for found in requests] in (["/1"], ["/1", "/2", "/1"])
    assert lines.count(b"HTTP/1.1") == (2 if len(requests) == 1 else 3)


@pytest.mark.parametrize("target", [b"http:///1", b"http://[/", b"://"])
def test_targets_that_are_not_valid_are_refused(target: bytes) -> None:
    requests, lines = taken(HTTPConnection, [b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n" % target])
    assert requests == []
    assert lines == b"HTTP/1.1 400 Bad Request"


def records(random_: random.Random, protocol: Any) -> bytes:
    """Return the records of a FastCGI request, often in the usual form, and sometimes odd ones."""
    params = {
        "PATH_INFO": random_.choice(["/a", "/b", "/\xe9"]),
        "QUERY_STRING": "q" * random_.choice([0, 5, 130, 300]),
        random_.choice(["HTTP_A", "HTTP_B", "mastaba.tile", ""]): random_.choice(
            ["1", "", "x" * 200]
        ),
    }
    number = random_.choice([1, 1, 1, 2, 0])
    body = random_.choice([b"", b"", b"abc"])
    data: bytes = protocol.request(
        params, body, request_id=number, role=random_.choice([1] * 9 + [2])
    )
    if random_.random() < 0.2:
        pairs = protocol.pairs(params)
        place = random_.randrange(len(pairs))
        data = protocol.begin(request_id=number)
        for part in (pairs[:place], pairs[place:], b""):
            data += protocol.record(protocol.PARAMS, part, request_id=number, padding=place % 8)
        data += protocol.record(protocol.STDIN, request_id=number)
    if random_.random() < 0.15:
        kind = random_.choice(
            [protocol.ABORT, protocol.GET_VALUES, protocol.DATA, protocol.STDIN, 77]
        )
        odd = protocol.record(kind, request_id=random_.choice([0, number]))
        place = random_.choice([0, 16, len(data)])
        data = data[:place] + odd + data[place:]
    return data


@pytest.mark.parametrize("seed", SEEDS)
def test_the_parts_in_which_records_arrive_change_no_request(protocol: Any, seed: int) -> None:
    random_ = random.Random(seed)
    for _ in range(200):
        parts = [records(random_, protocol) for _ in range(random_.randrange(1, 5))]
        expected = answered(FastCGIConnection, parts)
        data = b"".join(parts)
        assert answered(FastCGIConnection, cut(random_, data)) == expected, parts
        assert answered(FastCGIConnection, [data]) == expected, parts
