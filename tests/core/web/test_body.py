"""Bodies of requests, and their limit (server-config.md section 9)."""

from __future__ import annotations

import io
from typing import Any

import pytest

from mastaba.errors import ClientGoneError, RequestTooLargeError
from mastaba_server.web.request import MAX_BODY, Request


class Drip(io.BytesIO):
    """A stream that gives a few bytes at a time, as sockets may."""

    def read(self, size: int | None = -1) -> bytes:
        return super().read(min(7, size) if size and size > 0 else 7)


def make_request(body: bytes, stream: type[io.BytesIO] = io.BytesIO, **environ: Any) -> Request:
    return Request("POST", "", "", {"wsgi.input": stream(body), **environ})


@pytest.mark.parametrize("stream", [io.BytesIO, Drip])
def test_body_of_declared_length_is_read(stream: type[io.BytesIO]) -> None:
    assert make_request(b"0123456789", stream, CONTENT_LENGTH="10").body() == b"0123456789"


def test_bytes_after_the_declared_length_are_not_read() -> None:
    request = make_request(b"0123456789", CONTENT_LENGTH="4")
    stream = request.environ["wsgi.input"]
    assert request.body() == request.body() == b"0123"
    assert stream.read() == b"456789"


def test_body_shorter_than_declared_is_what_came() -> None:
    assert make_request(b"0123", CONTENT_LENGTH="1000").body() == b"0123"


@pytest.mark.parametrize("declared", [None, "", "abc", "-5", "1e3", "٣", "+4", "0x10"])
def test_body_without_a_usable_length_is_empty(declared: str | None) -> None:
    # Reading on could wait for ever: the stream of a keep-alive connection does not end.
    environ = {} if declared is None else {"CONTENT_LENGTH": declared}
    assert make_request(b"0123", **environ).body() == b""


def test_a_client_that_has_gone() -> None:
    class Broken(io.BytesIO):
        def readinto(self, _: Any) -> int:
            raise OSError("the connection is broken")

    with pytest.raises(ClientGoneError):
        make_request(b"0123", Broken, CONTENT_LENGTH="10").body()


def test_chunked_body_is_read_to_its_end() -> None:
    request = make_request(b"0123456789", Drip, **{"wsgi.input_terminated": True})
    assert request.body() == b"0123456789"


def test_body_of_exactly_the_limit_is_taken() -> None:
    data = bytes(MAX_BODY)
    assert make_request(data, CONTENT_LENGTH=str(MAX_BODY)).body() == data
    assert make_request(data, **{"wsgi.input_terminated": True}).body() == data


def test_body_declared_too_large_is_refused_unread() -> None:
    request = make_request(bytes(MAX_BODY + 1), CONTENT_LENGTH=str(MAX_BODY + 1))
    with pytest.raises(RequestTooLargeError):
        request.body()
    assert request.environ["wsgi.input"].tell() == 0


@pytest.mark.parametrize("declared", ["9" * 30, "9" * 5000])
def test_absurd_length_is_refused(declared: str) -> None:
    with pytest.raises(RequestTooLargeError):
        make_request(b"x", CONTENT_LENGTH=declared).body()


def test_chunked_body_beyond_the_limit_is_refused_without_being_read_on() -> None:
    request = make_request(bytes(3 * MAX_BODY), **{"wsgi.input_terminated": True})
    with pytest.raises(RequestTooLargeError):
        request.body()
    assert request.environ["wsgi.input"].tell() <= MAX_BODY + 1
