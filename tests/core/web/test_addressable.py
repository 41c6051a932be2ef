"""Parts of addressable bodies: ranges, conditions, and the number of bodies that are sent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest

from mastaba.errors import OverloadedError
from mastaba_server.access.principal import GRANT, Grant, Principal
from mastaba_server.body import SizedBody
from mastaba_server.web.addressable import (
    LARGEST_PIECE,
    AddressableBody,
    Streams,
    addressable_response,
)
from mastaba_server.web.request import Request
from mastaba_server.web.response import Response

ETAG = '"v1"'
WHOLE = bytes(range(256)) * 4


class Stored(AddressableBody):
    """Bytes, in pieces of 100."""

    def __init__(self, data: bytes = WHOLE, version: str | None = "v1") -> None:
        super().__init__(len(data), version)
        self._data = data

    def pieces(self, start: int, end: int) -> Iterator[bytes]:
        for first in range(start, end, 100):
            yield self._data[first : min(first + 100, end)]


def answer(
    body: AddressableBody | None = None,
    method: str = "GET",
    streams: Streams | None = None,
    **sent: Any,
) -> Response:
    environ = {"REQUEST_METHOD": method, **{name: value for name, value in sent.items() if value}}
    request = Request("GET", "", "", environ)
    headers = [("Content-Type", "image/tiff")]
    return addressable_response(request, headers, body or Stored(), streams or Streams())


def content(response: Response) -> bytes:
    assert isinstance(response.body, SizedBody)
    data = b"".join(response.body)
    assert len(data) == len(response.body)
    return data


def test_whole_body_says_that_ranges_are_served() -> None:
    response = answer()
    headers = dict(response.headers)
    assert (response.status, content(response)) == (200, WHOLE)
    assert headers == {"Content-Type": "image/tiff", "ETag": ETAG, "Accept-Ranges": "bytes"}


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("bytes=0-0", 0, 0),
        ("bytes=10-19", 10, 19),
        ("bytes= 10-19 ", 10, 19),
        ("Bytes=1000-", 1000, 1023),
        ("bytes=1000-99999", 1000, 1023),
        ("bytes=-24", 1000, 1023),
        ("bytes=-99999", 0, 1023),
    ],
)
def test_range_is_a_part(text: str, first: int, last: int) -> None:
    response = answer(HTTP_RANGE=text)
    assert response.status == 206
    assert dict(response.headers)["Content-Range"] == f"bytes {first}-{last}/1024"
    assert content(response) == WHOLE[first : last + 1]


@pytest.mark.parametrize("text", ["bytes=1024-", "bytes=2000-3000", "bytes=-0"])
def test_range_without_bytes_is_416(text: str) -> None:
    response = answer(HTTP_RANGE=text)
    assert response.status == 416
    assert dict(response.headers)["Content-Range"] == "bytes */1024"
    assert "Content-Type" not in dict(response.headers)


@pytest.mark.parametrize(
    "text",
    ["bytes=0-1,5-6", "bytes=-", "bytes=5-4", "bytes=a-b", "items=0-1", "bytes=1", "bytes=+1-2"],
)
def test_several_and_invalid_ranges_get_the_whole(text: str) -> None:
    response = answer(HTTP_RANGE=text)
    assert response.status == 200
    assert "Content-Range" not in dict(response.headers)
    assert content(response) == WHOLE


@pytest.mark.parametrize(
    ("if_range", "status"),
    [(ETAG, 206), ('W/"v1"', 200), ('"v0"', 200), ("Tue, 24 Nov 2026 03:00:00 GMT", 200)],
)
def test_if_range_gives_the_whole_of_another_version(if_range: str, status: int) -> None:
    response = answer(HTTP_RANGE="bytes=1-2", HTTP_IF_RANGE=if_range)
    assert response.status == status
    assert content(response) == (WHOLE[1:3] if status == 206 else WHOLE)


@pytest.mark.parametrize(
    ("if_match", "status"), [(ETAG, 200), ('"x", "v1"', 200), ("*", 200), ('W/"v1"', 412)]
)
def test_if_match_compares_strongly(if_match: str, status: int) -> None:
    assert answer(HTTP_IF_MATCH=if_match).status == status


def test_if_match_comes_before_if_none_match() -> None:
    assert answer(HTTP_IF_MATCH='"v0"', HTTP_IF_NONE_MATCH=ETAG).status == 412


@pytest.mark.parametrize("range_", [None, "bytes=1-2", "bytes=5000-"])
def test_client_that_has_it_gets_304(range_: str | None) -> None:
    response = answer(HTTP_IF_NONE_MATCH=ETAG, HTTP_RANGE=range_)
    assert (response.status, response.body) == (304, b"")
    assert dict(response.headers)["ETag"] == ETAG


def test_head_has_the_length_of_the_whole() -> None:
    response = answer(method="HEAD", HTTP_RANGE="bytes=1-2")
    assert response.status == 200
    assert len(response.body) == len(WHOLE)


def test_without_a_version_there_are_no_ranges() -> None:
    response = answer(Stored(version=None), HTTP_RANGE="bytes=1-2", HTTP_IF_NONE_MATCH="*")
    assert response.status == 200
    assert dict(response.headers)["Accept-Ranges"] == "none"
    assert "ETag" not in dict(response.headers)
    assert answer(Stored(version=None), HTTP_IF_MATCH=ETAG).status == 412


LARGE = bytes(LARGEST_PIECE + 1)


def test_long_bodies_are_counted_until_they_are_closed() -> None:
    streams = Streams(most=2)
    first = answer(Stored(LARGE), streams=streams, REMOTE_ADDR="192.0.2.1")
    with pytest.raises(OverloadedError) as raised:
        answer(Stored(LARGE), streams=streams, REMOTE_ADDR="192.0.2.1")
    assert raised.value.retry_after == 30
    second = answer(Stored(LARGE), streams=streams, REMOTE_ADDR="192.0.2.2")
    with pytest.raises(OverloadedError):
        answer(Stored(LARGE), streams=streams, REMOTE_ADDR="192.0.2.3")
    for response in (first, second):
        assert isinstance(response.body, SizedBody)
        response.body.close()
        response.body.close()
    assert answer(Stored(LARGE), streams=streams, REMOTE_ADDR="192.0.2.1").status == 200


@pytest.mark.parametrize(
    ("first", "second", "is_one"),
    [
        ("2001:db8::1", "2001:db8::2:3", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("::1", "::1", False),
        ("", "", False),
        # A principal is one client wherever it is, and two behind one address are two.
        ("192.0.2.1 k1", "192.0.2.2 k1", True),
        ("192.0.2.1 k1", "192.0.2.1 k2", False),
        ("127.0.0.1 k1", "127.0.0.1 k1", True),
        ("192.0.2.1 anonymous", "192.0.2.1 anonymous", True),
        ("192.0.2.1 anonymous", "192.0.2.2 anonymous", False),
        ("192.0.2.1 k1", "192.0.2.1 anonymous", False),
    ],
)
def test_long_bodies_are_counted_for_each_client(first: str, second: str, is_one: bool) -> None:
    def sent(text: str) -> dict[str, Any]:
        address, _, name = text.partition(" ")
        kind = "anonymous" if name == "anonymous" else "key"
        given: dict[str, Any] = {"REMOTE_ADDR": address}
        return {**given, GRANT: Grant(Principal(name, kind))} if name else given

    streams = Streams(most=5)
    kept = answer(Stored(LARGE), streams=streams, **sent(first))
    with pytest.raises(OverloadedError) if is_one else nullcontext():
        answer(Stored(LARGE), streams=streams, **sent(second))
    assert kept.status == 200


def test_addresses_signed_for_a_key_are_those_of_the_key() -> None:
    key = Principal("k1", "key")
    signed = Principal("new", "signed", issuer=key)
    streams = Streams(most=5)
    kept = answer(Stored(LARGE), streams=streams, REMOTE_ADDR="192.0.2.1", **{GRANT: Grant(key)})
    with pytest.raises(OverloadedError):
        answer(Stored(LARGE), streams=streams, REMOTE_ADDR="192.0.2.2", **{GRANT: Grant(signed)})
    assert kept.status == 200


def test_a_body_that_is_sent_or_dropped_is_not_counted_any_more() -> None:
    streams = Streams(most=1)
    assert content(answer(Stored(LARGE), streams=streams)) == LARGE
    answer(Stored(LARGE), streams=streams)
    assert answer(Stored(LARGE), streams=streams).status == 200


def test_short_parts_heads_and_clients_behind_a_silent_front_server_are_not_limited() -> None:
    streams = Streams(most=2)
    kept = [answer(Stored(LARGE), streams=streams, REMOTE_ADDR="127.0.0.1") for _ in range(2)]
    part = {"streams": streams, "REMOTE_ADDR": "127.0.0.1"}
    assert answer(Stored(LARGE), HTTP_RANGE="bytes=1-", **part).status == 206
    assert answer(Stored(LARGE), method="HEAD", **part).status == 200
    assert len(kept) == 2


@pytest.mark.parametrize("sent", [0, 3, 11])
def test_bytes_sent_are_reported_when_the_body_is_closed(sent: int) -> None:
    body = answer().body
    assert isinstance(body, SizedBody)
    reported: list[int] = []
    assert body.report(reported.append)
    pieces = iter(body)
    for _ in range(sent):
        next(pieces, None)
    assert reported == ([len(WHOLE)] if sent == 12 else [])
    pieces.close() if sent else body.close()  # type: ignore[attr-defined]
    body.close()
    # The last piece has been handed out, and perhaps not sent.
    assert reported == [100 * max(0, sent - 1)]
