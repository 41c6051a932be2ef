"""HTTP: what the application sees of a request, what is refused, and how responses are framed."""

from __future__ import annotations

import http.client
import io
import json
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.server.quick_document import QuickDocument

from mastaba_server.messages import CLIENT
from mastaba_server.transport.connection import Limits
from mastaba_server.transport.http import HTTPConnection

HOST = b"Host: x\r\n"
Ask = Callable[..., "Answers"]


def echo(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    """Answer with the environ and the body, as JSON."""
    found = {key: value for key, value in environ.items() if isinstance(value, str)}
    found["body"] = environ["wsgi.input"].read().decode("latin-1")
    body = json.dumps(found).encode()
    start_response("200 OK", [("Content-Type", "a/b"), ("X-Some-Name", "c")])
    return [body]


class Answers:
    """The responses on a connection, and whether the server has closed it."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        self._stream = _Stream(_Received(sock))

    def next(self, method: str = "GET") -> tuple[int, dict[str, str], bytes]:
        response = http.client.HTTPResponse(self.socket, method=method)
        response.fp = self._stream
        response.begin()
        return response.status, dict(response.getheaders()), response.read()

    def environ(self) -> dict[str, str]:
        status, _, body = self.next()
        assert status == 200, body
        found: dict[str, str] = json.loads(body)
        return found

    def is_closed(self) -> bool:
        return self._stream.read(1) == b""


class _Received(io.RawIOBase):
    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._socket.recv_into(buffer)


class _Stream(io.BufferedReader):
    """Stays open, since an `HTTPResponse` closes its file after the body."""

    def close(self) -> None:
        pass


@pytest.fixture
def ask(serve: Any) -> Ask:
    """Send bytes to a server: ``ask(data, application, **options)``."""

    def send(data: bytes, application: Any = echo, **options: Any) -> Answers:
        served = serve(application, protocol=HTTPConnection, family=socket.AF_INET, **options)
        client = served.connect()
        client.send(data)
        return Answers(client.socket)

    return send


def get(target: bytes, *fields: bytes) -> bytes:
    return (
        b"GET " + target + b" HTTP/1.1\r\n" + HOST + b"".join(f + b"\r\n" for f in fields) + b"\r\n"
    )


# Requests


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        (b"/a%20b%2Fc%25/%E9+?x=%41", "/a b/c%/\xe9+", "x=%41"),
        (b"//a//b", "//a//b", ""),
        (b"/a?b?c", "/a", "b?c"),
        (b"/a#b?c", "/a", ""),
        (b"/%zz%4", "/%zz%4", ""),
        (b'/<">?a=<>"{}|\\^`[]', '/<">', 'a=<>"{}|\\^`[]'),
        (b"http://host:80/p?q=1", "/p", "q=1"),
        (b"http://host", "/", ""),
        (b"http://host?a=b", "/", "a=b"),
        (b"*", "*", ""),
        ("/é?ü".encode(), "/\xc3\xa9", "%C3%BC"),
    ],
)
def test_targets(ask: Ask, target: bytes, path: str, query: str) -> None:
    environ = ask(get(target)).environ()
    assert (environ["PATH_INFO"], environ["QUERY_STRING"]) == (path, query)


def test_header_fields(ask: Ask) -> None:
    environ = ask(
        get(b"/", b"X-A: 1", b"x-a: 2", b"Content-Type: a/b", b"B:", b"C:  c \t", b"D: \xe9")
    ).environ()
    assert environ["HTTP_X_A"] == "1,2"
    assert environ["CONTENT_TYPE"] == "a/b"
    assert [environ[f"HTTP_{name}"] for name in "BCD"] == ["", "c", "\xe9"]
    assert environ["REMOTE_ADDR"] == environ["SERVER_NAME"] == "127.0.0.1"
    assert environ["SERVER_PROTOCOL"] == "HTTP/1.1"


def test_names_with_underscores_do_not_pass_for_names_with_hyphens(ask: Ask) -> None:
    environ = ask(get(b"/", b"X_Secret: forged", b"Content_Length: 7", b"X-Other: 1")).environ()
    assert "HTTP_X_SECRET" not in environ
    assert "CONTENT_LENGTH" not in environ
    assert environ["HTTP_X_OTHER"] == "1"


def test_repeated_fields_are_those_of_each_request(ask: Ask) -> None:
    """Fields that are sent again are not parsed again."""
    answers = ask(get(b"/0", b"A: 1"))
    assert answers.environ()["HTTP_A"] == "1"
    cases: list[tuple[bytes, int, str]] = [
        (get(b"/1%20?x", b"A: 1"), 200, "1"),
        (get(b"/1", b"A: 2"), 200, "2"),
        (get(b"/2", b"A: 2") + get(b"/3", b"A: 3"), 200, "2"),
        (b"", 200, "3"),
        (b"POST" + get(b"/4", b"A: 2")[3:], 200, "2"),
        (get(b"/5", b"A: 2"), 200, "2"),
        (b"BREW" + get(b"/", b"A: 2")[3:], 501, ""),
    ]
    for data, expected, value in cases:
        answers.socket.send(data)
        status, _, body = answers.next()
        assert status == expected
        if value:
            assert json.loads(body)["HTTP_A"] == value


@pytest.mark.parametrize("line", [b"GET /\0 HTTP/1.1", b"GET / HTTP/1.2", b"GET / HTTP/1.1\0"])
def test_a_malformed_line_before_repeated_fields_is_refused(ask: Ask, line: bytes) -> None:
    answers = ask(get(b"/"))
    answers.environ()
    answers.socket.send(line + b"\r\n" + HOST + b"\r\n")
    assert answers.next()[0] == 400


def test_fields_after_a_chunked_body_are_ignored(ask: Ask) -> None:
    data = (
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" + HOST + b"\r\n"
        b"3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nX-Secret: forged\r\n\r\n"
    )
    environ = ask(data + get(b"/next")).environ()
    assert environ["body"] == "abcde"
    assert "HTTP_X_SECRET" not in environ


def test_pipelined_requests_are_answered_in_their_order(ask: Ask) -> None:
    paths = [f"/{number}" for number in range(30)]
    answers = ask(b"".join(get(path.encode()) for path in paths))
    assert [answers.environ()["PATH_INFO"] for _ in paths] == paths


def test_pipelined_requests_wait_for_a_slow_reader(ask: Ask) -> None:
    def large(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        start_response("200 OK", [])
        return [environ["PATH_INFO"].encode() * 2_000_000]

    answers = ask(get(b"/1") + get(b"/2") + get(b"/3"), large)
    for path in (b"/1", b"/2", b"/3"):
        assert answers.next()[2] == path * 2_000_000


def test_a_request_may_arrive_byte_by_byte(ask: Ask) -> None:
    data = b"POST /a%20b?c HTTP/1.1\r\n" + HOST + b"Content-Length: 4\r\nX-A: b\r\n\r\nbody"
    answers = ask(data[:1])
    for position in range(1, len(data)):
        answers.socket.send(data[position : position + 1])
    environ = answers.environ()
    assert (environ["PATH_INFO"], environ["HTTP_X_A"], environ["body"]) == ("/a b", "b", "body")


@pytest.mark.parametrize(
    ("first", "closes"),
    [
        (b"GET / HTTP/1.1\r\n" + HOST + b"\r\n", False),
        (b"GET / HTTP/1.1\r\nConnection: close\r\n" + HOST + b"\r\n", True),
        (b"GET / HTTP/1.0\r\n\r\n", True),
        (b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", False),
    ],
)
def test_keep_alive(ask: Ask, first: bytes, closes: bool) -> None:
    answers = ask(first)
    status, headers, _ = answers.next()
    assert status == 200
    assert (headers.get("Connection") == "close") is closes
    if closes:
        assert answers.is_closed()
    else:
        answers.socket.send(get(b"/next"))
        assert answers.environ()["PATH_INFO"] == "/next"


@pytest.mark.parametrize("body", [b"", b"Content-Length: 3\r\n", b"Transfer-Encoding: chunked\r\n"])
def test_offers_of_other_protocols_are_declined(ask: Ask, body: bytes) -> None:
    head = b"POST /1 HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n" + HOST + body + b"\r\n"
    content = {b"": b"", b"C": b"abc", b"T": b"3\r\nabc\r\n0\r\n\r\n"}[body[:1]]
    answers = ask(head + content + get(b"/2"))
    first = answers.environ()
    assert (first["PATH_INFO"], first["body"]) == ("/1", "abc" if body else "")
    assert answers.environ()["PATH_INFO"] == "/2"


def test_expect_continue(ask: Ask) -> None:
    answers = ask(
        b"POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 3\r\n" + HOST + b"\r\n"
    )
    assert answers.socket.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
    answers.socket.send(b"abc")
    assert answers.environ()["body"] == "abc"


def refuse_large(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    size = len(environ["wsgi.input"].read())
    start_response("413 Content Too Large", [("X-Received", str(size))])
    return [b"too large"]


def test_a_body_that_is_too_large_is_not_requested(ask: Ask) -> None:
    answers = ask(
        b"POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 5000000\r\n" + HOST + b"\r\n",
        refuse_large,
    )
    assert answers.next()[0] == 413
    assert answers.is_closed()


@pytest.mark.parametrize("size", [3_000_000, 60_000_000])
def test_a_body_that_is_too_large_is_dropped(ask: Ask, size: int) -> None:
    answers = ask(
        b"POST / HTTP/1.1\r\nContent-Length: %d\r\n" % size + HOST + b"\r\n",
        refuse_large,
        limits=Limits(body=100_000),
    )
    sender = threading.Thread(target=answers.socket.sendall, args=(bytes(size),))
    sender.start()
    status, headers, _ = answers.next()
    assert (status, headers["X-Received"]) == (413, "100000")
    assert (headers.get("Connection") == "close") is (size > 16 << 20)
    sender.join()


UPGRADE = get(b"/", b"Connection: upgrade", b"Upgrade: h2c")
CHUNKED = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" + HOST


@pytest.mark.parametrize(
    ("data", "status"),
    [
        pytest.param(b"\x16\x03\x01\x00\xa5\x01\x00\x00", 501, id="TLS"),
        pytest.param(b"BREW / HTTP/1.1\r\n" + HOST + b"\r\n", 501, id="unknown method"),
        pytest.param(b"CONNECT a:80 HTTP/1.1\r\n" + HOST + b"\r\n", 501, id="CONNECT"),
        pytest.param(b"GET / HTTP/2.0\r\n" + HOST + b"\r\n", 505, id="HTTP 2"),
        pytest.param(b"GET / HTTP/1.2\r\n" + HOST + b"\r\n", 400, id="HTTP 1.2"),
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", 400, id="no Host"),
        pytest.param(b"GET / HTTP/1.1\r\n" + HOST + HOST + b"\r\n", 400, id="Host twice"),
        pytest.param(b"GET / HTTP/1.1\nHost: x\n\n", 400, id="bare LF"),
        pytest.param(get(b"/", b"A: b", b" c"), 400, id="folded field"),
        pytest.param(get(b"/", b"A : b"), 400, id="space before colon"),
        pytest.param(get(b"/", b"A: \0"), 400, id="NUL"),
        pytest.param(CHUNKED + b"Content-Length: 3\r\n\r\n0\r\n\r\n", 400, id="two framings"),
        pytest.param(get(b"/", b"Content-Length: 3", b"Content-Length: 3"), 400, id="two lengths"),
        pytest.param(get(b"/", b"Content-Length: 3, 3"), 400, id="list of lengths"),
        pytest.param(get(b"/", b"Content-Length: +3"), 400, id="signed length"),
        pytest.param(get(b"/", b"Transfer-Encoding: xchunked"), 400, id="unknown encoding"),
        pytest.param(get(b"/", b"Transfer-Encoding: gzip"), 400, id="encoding without end"),
        pytest.param(
            get(b"/", b"Transfer-Encoding: gzip, chunked") + b"0\r\n\r\n", 400, id="two encodings"
        ),
        pytest.param(CHUNKED.replace(b"1.1", b"1.0") + b"\r\n0\r\n\r\n", 400, id="chunked in 1.0"),
        pytest.param(
            UPGRADE[:-2] + b"Transfer-Encoding: gzip\r\n\r\n", 400, id="upgrade with gzip"
        ),
        pytest.param(CHUNKED + b"\r\nzz\r\nab\r\n0\r\n\r\n", 400, id="chunk size"),
        pytest.param(CHUNKED + b"\r\n-1\r\nab\r\n0\r\n\r\n", 400, id="negative chunk size"),
        pytest.param(CHUNKED + b"\r\n2\nab\r\n0\r\n\r\n", 400, id="chunk with bare LF"),
        pytest.param(CHUNKED + b"\r\n2\r\nabc0\r\n\r\n", 400, id="chunk that is too long"),
        pytest.param(get(b"/" + b"a" * 70_000), 414, id="target"),
        pytest.param(get(b"/", b"A: " + b"a" * 1_000_000), 431, id="field"),
        pytest.param(get(b"/", *[b"A: b"] * 101), 431, id="fields"),
        pytest.param(CHUNKED + b"\r\n0\r\n" + b"A: b\r\n" * 101 + b"\r\n", 431, id="trailers"),
    ],
)
def test_malformed_requests_are_refused(ask: Ask, data: bytes, status: int) -> None:
    answers = ask(get(b"/before") + data + get(b"/after"))
    assert answers.environ()["PATH_INFO"] == "/before"
    refused, headers, body = answers.next()
    assert (refused, headers["Connection"]) == (status, "close")
    assert body
    assert answers.is_closed()


def test_a_request_after_the_offer_of_another_protocol_is_refused_for_its_reason(ask: Ask) -> None:
    answers = ask(UPGRADE + get(b"/", HOST[:-2]))
    assert answers.environ()["PATH_INFO"] == "/"
    assert answers.next()[0] == 400
    assert answers.is_closed()


def test_nothing_is_read_after_an_offer_on_a_connection_that_closes(ask: Ask) -> None:
    answers = ask(
        UPGRADE.replace(b"1.1", b"1.0").replace(b"upgrade", b"close, upgrade") + get(b"/")
    )
    assert answers.environ()["PATH_INFO"] == "/"
    assert answers.is_closed()


@pytest.mark.parametrize(
    "data",
    [
        b"G",
        b"GET / HTTP/1.1\r\nHo",
        get(b"/") + b"GET / HT",
        b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 9\r\n\r\nabc",
        CHUNKED + b"\r\n3\r\nab",
    ],
)
def test_slow_clients_get_408(ask: Ask, data: bytes) -> None:
    # Long enough for a busy machine to send what there is after it has connected.
    answers = ask(data, limits=Limits(head_time=1.0, body_time=1.0))
    if data.startswith(get(b"/")):
        answers.environ()
    status, headers, _ = answers.next()
    assert (status, headers["Connection"]) == (408, "close")
    assert answers.is_closed()


def test_idle_connections_have_no_time_limit(ask: Ask) -> None:
    answers = ask(get(b"/"), limits=Limits(head_time=1.0, body_time=1.0))
    answers.environ()
    time.sleep(2.2)
    answers.socket.send(get(b"/next"))
    assert answers.environ()["PATH_INFO"] == "/next"


# Responses


def test_fields_are_as_the_application_spells_them(ask: Ask) -> None:
    answers = ask(get(b"/"))
    response = answers.socket.recv(1 << 16)
    names = [line.partition(b":")[0] for line in response.partition(b"\r\n\r\n")[0].split(b"\r\n")]
    assert names == [
        b"HTTP/1.1 200 OK",
        b"Content-Type",
        b"X-Some-Name",
        b"Server",
        b"Date",
        b"Content-Length",
    ]


@pytest.mark.parametrize("status", ["200 OK", "204 No Content", "304 Not Modified"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_responses_without_a_body(ask: Ask, status: str, method: str) -> None:
    def application(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        start_response(status, [("ETag", '"a"')])
        return [b"body"]

    request = method.encode() + get(b"/")[3:]
    answers = ask(request * 2, application)
    for _ in range(2):
        found, headers, body = answers.next(method)
        assert found == int(status[:3])
        has_body = status == "200 OK" and method == "GET"
        assert body == (b"body" if has_body else b"")
        assert ("Content-Length" in headers) is has_body


def pieces(environ: dict[str, Any], start_response: Any) -> Any:
    start_response("200 OK", [])
    yield b"a"
    yield b""
    yield b"b" * 300_000


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
def test_bodies_of_unknown_length(ask: Ask, version: bytes) -> None:
    request = b"GET / HTTP/" + version + b"\r\nConnection: keep-alive\r\n" + HOST + b"\r\n"
    answers = ask(request, pieces)
    _, headers, body = answers.next()
    assert body == b"a" + b"b" * 300_000
    if version == b"1.1":
        assert headers["Transfer-Encoding"] == "chunked"
        answers.socket.send(request)
        assert answers.next()[2] == body
    else:
        assert headers["Connection"] == "close"
        assert answers.is_closed()


@pytest.mark.parametrize(("declared", "received"), [(2, b"bo"), (4, b"body"), (9, b"body")])
def test_a_body_of_another_length_than_declared_does_not_desynchronise(
    ask: Ask, declared: int, received: bytes
) -> None:
    def application(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        start_response("200 OK", [("Content-Length", str(declared))])
        return [b"bo", b"dy"]

    answers = ask(get(b"/") * 2, application)
    for _ in range(1 if declared > 4 else 2):
        response = http.client.HTTPResponse(answers.socket)
        response.fp = answers._stream
        response.begin()
        if declared > 4:
            with pytest.raises(http.client.IncompleteRead) as error:
                response.read()
            assert error.value.partial == received
        else:
            assert response.read() == received


def test_an_answer_that_fails_midway_is_cut_visibly(ask: Ask) -> None:
    def application(environ: dict[str, Any], start_response: Any) -> Any:
        start_response("200 OK", [])
        yield b"half"
        raise RuntimeError

    with pytest.raises(http.client.IncompleteRead):
        ask(get(b"/"), application).next()


@pytest.mark.parametrize("value", ["a\r\nSet-Cookie: b", "a\nb", "a\rb"])
def test_line_breaks_in_header_values_are_refused(ask: Ask, value: str) -> None:
    def application(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        start_response("200 OK", [("X", value)])
        return []

    answers = ask(get(b"/"), application)
    assert answers.next()[0] == 500


def test_large_bodies_of_both_kinds_at_once(serve: Any) -> None:
    def application(environ: dict[str, Any], start_response: Any) -> Any:
        start_response("200 OK", [("Content-Length", "20000000")])
        body = bytes(20_000_000)
        return [body] if environ["PATH_INFO"] == "/list" else iter([body[:7], body[7:]])

    served = serve(application, protocol=HTTPConnection, threads=1)
    clients = [served.connect() for _ in range(6)]
    for number, client in enumerate(clients):
        client.send(get(b"/list" if number % 2 else b"/iterator"))
    for client in clients:
        assert len(Answers(client.socket).next()[2]) == 20_000_000


@pytest.mark.parametrize("family", [socket.AF_UNIX, socket.AF_INET])
def test_quick_answers(serve: Any, family: int) -> None:
    document = bytes(range(251)) * 4000
    served = serve(QuickDocument(document), protocol=HTTPConnection, family=family)
    for _ in range(2):
        client = served.connect()
        client.send(get(b"/") * 2 + get(b"/", b"Connection: close"))
        answers = Answers(client.socket)
        assert [answers.next()[2] == document for _ in range(3)] == [True] * 3
        assert answers.is_closed()


# Maps


@pytest.mark.parametrize("family", [socket.AF_UNIX, socket.AF_INET])
def test_a_client_that_hangs_up_is_noticed(serve: Any, family: int) -> None:
    entered, cancelled = threading.Semaphore(0), threading.Semaphore(0)

    def application(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        if environ["PATH_INFO"] == "/map":
            client = environ[CLIENT]
            with client.aside():
                entered.release()
                while not client.is_gone():
                    time.sleep(0.01)
                cancelled.release()
        return echo(environ, start_response)

    served = serve(application, protocol=HTTPConnection, family=family, threads=1)
    for _ in range(3):
        client = served.connect()
        client.send(get(b"/map"))
        assert entered.acquire(timeout=120)
        other = served.connect()
        other.send(get(b"/"))
        assert Answers(other.socket).next()[0] == 200
        client.close()
        assert cancelled.acquire(timeout=120)


# The stop


def test_a_stop_announces_that_connections_close(serve: Any) -> None:
    served = serve(echo, protocol=HTTPConnection, linger=600)
    clients = [served.connect() for _ in range(3)]
    for client in clients:
        client.send(get(b"/"))
        assert "Connection" not in Answers(client.socket).next()[1]
    served.stop()
    while not served.server.draining:
        time.sleep(0.001)
    for client in clients:
        client.send(get(b"/"))
        answers = Answers(client.socket)
        assert answers.next()[1]["Connection"] == "close"
        assert answers.is_closed()
    served.join()


@pytest.mark.thorough
def test_random_bytes_never_disturb_other_connections(serve: Any) -> None:
    import random

    generator = random.Random(5)
    served = serve(echo, protocol=HTTPConnection, threads=2)
    other = served.connect()
    valid = CHUNKED + b"\r\n3\r\nabc\r\n0\r\n\r\n" + get(b"/a?b", b"C: d")
    for _ in range(300):
        data = bytearray(valid)
        for _ in range(generator.randrange(1, 4)):
            data[generator.randrange(len(data))] = generator.randrange(256)
        client = served.connect()
        client.send(bytes(data))
        client.close()
        other.send(get(b"/"))
        assert Answers(other.socket).next()[0] == 200


def test_the_input_is_that_of_pep_3333(ask: Ask) -> None:
    seen: dict[str, Any] = {}

    def application(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        seen.update(environ)
        return echo(environ, start_response)

    ask(get(b"/"), application).environ()
    assert isinstance(seen["wsgi.input"], io.BytesIO)
    assert seen["wsgi.input_terminated"] is True
    assert seen["wsgi.url_scheme"] == "http"
    assert seen["wsgi.version"] == (1, 0)
