"""Every response of a WSGI application reaches the front server; its errors are contained."""

from __future__ import annotations

import logging
import socket
import sys
from typing import Any

import pytest
from tests.server.quick_document import QuickDocument


def application_of(body: bytes) -> Any:
    def application(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        start_response("200 OK", [("Content-Length", str(len(body)))])
        return [body]

    return application


@pytest.mark.sampled(one_in=2)
@pytest.mark.parametrize("size", [0, 1, 9000, 65480, 65535, 65536, 131056, 300_001, 40_000_000])
def test_bodies_of_all_sizes(serve: Any, size: int) -> None:
    body = (bytes(range(256)) * (size // 256 + 1))[:size]
    client = serve(application_of(body)).connect()
    for _ in range(2):
        answer = client.ask()
        assert answer.body == body
        assert answer.protocol_status == 0


@pytest.mark.parametrize("size", [0, 131_071, 300_001, 3_000_001])
@pytest.mark.parametrize("family", [socket.AF_UNIX, socket.AF_INET])
def test_quick_answers_of_all_sizes(serve: Any, protocol: Any, family: int, size: int) -> None:
    document = QuickDocument((bytes(range(251)) * (size // 251 + 1))[:size])
    client = serve(document, family=family).connect()
    for request_id in (1, 1, 2, 1):
        client.send(protocol.request(request_id=request_id))
        answer = client.answer(request_id)
        assert answer.body == document.body
        assert answer.protocol_status == 0


def test_clients_get_quick_answers_at_their_own_pace(serve: Any, protocol: Any) -> None:
    document = QuickDocument(bytes(range(250)) * 20_000)
    served = serve(document)
    clients = [served.connect() for _ in range(4)]
    for client in clients:
        client.send(protocol.request())
    hasty, *patient = clients
    hasty.close()
    assert all(client.answer().body == document.body for client in patient)


def test_records_are_padded(serve: Any, protocol: Any) -> None:
    client = serve(application_of(b"abc")).connect()
    client.send(protocol.request())
    kinds = []
    while (found := client.read_record()) is not None:
        kinds.append(found.kind)
        assert (len(found.content) + found.padding) % 8 == 0
        if found.kind == protocol.END:
            break
    assert kinds == [protocol.STDOUT, protocol.STDOUT, protocol.END]


def test_a_small_answer_is_sent_at_once(serve: Any, protocol: Any) -> None:
    client = serve(application_of(bytes(9000))).connect()
    client.send(protocol.request())
    # The bytes that arrived with the first one were sent together with it.
    first = client.socket.recv(1)
    rest = client.socket.recv(1 << 20)
    assert len(first + rest) > 9000
    assert rest.endswith(protocol.record(protocol.END, bytes(8)))


def test_lists_generators_and_write(serve: Any) -> None:
    closed: list[str] = []

    class Pieces:
        def __iter__(self) -> Any:
            yield b"a"
            yield b""
            yield b"b" * 100_000

        def close(self) -> None:
            closed.append("closed")

    def application(environ: dict[str, Any], start_response: Any) -> Any:
        path = environ["PATH_INFO"]
        if path == "/late":
            return late(start_response)
        write = start_response("200 OK", [("X-Path", path)])
        if path == "/list":
            return [b"a", b"b" * 100_000]
        if path == "/empty":
            return iter(())
        if path == "/write":
            write(b"a")
            return [b"b" * 100_000]
        return Pieces()

    def late(start_response: Any) -> Any:
        start_response("200 OK", [("X-Path", "/late")])
        yield b"a"
        yield b"b" * 100_000

    client = serve(application).connect()
    for path in ("/list", "/write", "/pieces", "/late", "/empty"):
        answer = client.ask({"PATH_INFO": path})
        assert answer.headers == {"X-Path": path}
        assert answer.body == (b"" if path == "/empty" else b"a" + b"b" * 100_000)
    assert closed == ["closed"]


def test_start_response_may_be_replaced_before_data(serve: Any) -> None:
    def application(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        start_response("200 OK", [])
        try:
            raise ValueError
        except ValueError:
            start_response("503 Service Unavailable", [("X", "y")], sys.exc_info())
        return [b"sorry"]

    answer = serve(application).connect().ask()
    assert (answer.status, answer.headers) == ("503 Service Unavailable", {"X": "y"})


def raises(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    raise RuntimeError("secret")


def raises_later(environ: dict[str, Any], start_response: Any) -> Any:
    start_response("200 OK", [])
    raise RuntimeError("secret")
    yield b""  # type: ignore[unreachable]


def starts_twice(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    start_response("200 OK", [])
    start_response("200 OK", [])
    return []


def never_starts(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    return [b"x"]


def injects(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    start_response("200 OK", [("X", "a\r\nSet-Cookie: b")])
    return [b"x"]


def returns_none(environ: dict[str, Any], start_response: Any) -> Any:
    start_response("200 OK", [])


def breaks_a_pipe(environ: dict[str, Any], start_response: Any) -> Any:
    raise BrokenPipeError("of a storage")


@pytest.mark.parametrize(
    "application",
    [raises, raises_later, starts_twice, never_starts, injects, returns_none, breaks_a_pipe],
)
def test_errors_in_the_application_are_answered_with_500(
    serve: Any, application: Any, caplog: pytest.LogCaptureFixture
) -> None:
    client = serve(application).connect()
    for _ in range(2):
        answer = client.ask()
        assert answer.status == "500 Internal Server Error"
        assert b"secret" not in answer.body + answer.stderr
    assert [r.levelno for r in caplog.records] == [logging.ERROR] * 2


def test_an_answer_that_fails_midway_is_cut_visibly(serve: Any) -> None:
    def application(environ: dict[str, Any], start_response: Any) -> Any:
        start_response("200 OK", [])
        yield b"half"
        raise RuntimeError

    client = serve(application).connect()
    answer = client.ask()
    assert answer.body == b"half"
    assert answer.protocol_status == -1
