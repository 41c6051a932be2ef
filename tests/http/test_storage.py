"""HTTP responses that do not match the request."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Self

import pytest

from mastaba_http.client import (
    HTTPAnswer,
    HTTPClient,
    certificate_authorities,
    network_timeout,
)
from mastaba_http.storage import HTTPStorage, quoted_key
from mastaba_server.errors import NoResponseError
from mastaba_storage.base import MAX_WHOLE, ByteRange
from mastaba_storage.environment import Environment
from mastaba_storage.errors import ObjectChangedError, StorageError, StorageUnavailableError

LONG = "9" * 5000


class OneAnswer(HTTPStorage):
    """A storage that gets the same response to every request."""

    name = "one"
    container_field = None

    def __init__(self, answer: HTTPAnswer) -> None:
        super().__init__("box", HTTPClient("http://127.0.0.1:1", 1))
        self._answer = answer

    @classmethod
    def open(cls, container: str, environment: Environment) -> Self:
        raise NotImplementedError

    def send(
        self, method: str, key: str, headers: dict[str, str], limit: int | None = None
    ) -> HTTPAnswer:
        answer = self._answer
        return HTTPAnswer(answer.status, answer.headers, answer.body[:limit])


@pytest.mark.parametrize(
    "header",
    [f"bytes 0-3/{LONG}", f"bytes 0-{LONG}/4", f"bytes {LONG}-3/4", "bytes 3-0/4", "bytes", ""],
)
def test_invalid_content_range_is_an_error(header: str) -> None:
    storage = OneAnswer(HTTPAnswer(206, {"Content-Range": header}, b"1234"))
    with pytest.raises(StorageUnavailableError):
        storage.read("key", ByteRange(0, 4))


@pytest.mark.parametrize("size", [LONG, "-1", "1_0", "²", ""])
def test_invalid_content_length_is_an_error(size: str) -> None:
    with pytest.raises(StorageUnavailableError):
        OneAnswer(HTTPAnswer(200, {"Content-Length": size}, b"1")).stat("key")


@pytest.mark.parametrize(
    "date", ["", "yesterday", "Wed, 21 Oct 99999999999 07:28:00 GMT", "\udcff"]
)
def test_invalid_last_modified_is_ignored(date: str) -> None:
    answer = HTTPAnswer(200, {"Last-Modified": date}, b"1234")
    assert OneAnswer(answer).read("key").modified is None


def test_body_that_is_too_large_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mastaba_http.storage.MAX_WHOLE", 3)
    with pytest.raises(StorageError, match="too large"):
        OneAnswer(HTTPAnswer(200, {}, b"1234")).read("key")


def test_weak_etag_is_a_version() -> None:
    storage = OneAnswer(HTTPAnswer(200, {"ETag": 'W/"a-b"'}, b"1234"))
    assert storage.read("key").version == "a-b"
    assert storage.read("key", version="a-b").data == b"1234"
    with pytest.raises(ObjectChangedError):
        storage.read("key", version="a-c")


@pytest.mark.parametrize(
    "etag", ['"a"b"', '"a\tb"', '"a\0b"', '"a\r\n b"', '"é"', '""', "", f'"{"a" * 257}"']
)
def test_invalid_etag_is_no_version(etag: str) -> None:
    answer = HTTPAnswer(200, {"ETag": etag}, b"1234")
    assert OneAnswer(answer).read("key").version is None


@pytest.mark.parametrize("etag", ["abc", "a b", "5f-1:2,3", "a" * 256, "*"])
def test_valid_etag_is_a_version(etag: str) -> None:
    assert OneAnswer(HTTPAnswer(200, {"ETag": f'"{etag}"'}, b"1234")).read("key").version == etag


class WithoutSize(OneAnswer):
    """Answers HEAD without a size."""

    def send(
        self, method: str, key: str, headers: dict[str, str], limit: int | None = None
    ) -> HTTPAnswer:
        if method == "HEAD":
            return HTTPAnswer(200, {}, b"")
        assert headers["Range"] == "bytes=0-0"
        return super().send(method, key, headers, limit)


@pytest.mark.parametrize(
    ("answer", "size"),
    [
        (HTTPAnswer(206, {"Content-Range": "bytes 0-0/12345"}, b"1"), 12345),
        (HTTPAnswer(416, {"Content-Range": "bytes */0"}, b""), 0),
        (HTTPAnswer(200, {"Content-Length": "0"}, b""), 0),
        (HTTPAnswer(200, {"Content-Length": "1"}, b"1"), 1),
        (HTTPAnswer(200, {"Content-Length": "99"}, b""), 99),
    ],
)
def test_size_that_head_does_not_tell(answer: HTTPAnswer, size: int) -> None:
    assert WithoutSize(answer).stat("key").size == size


@pytest.mark.parametrize(
    "answer",
    [
        HTTPAnswer(206, {"Content-Range": "bytes 0-0/*"}, b"1"),
        HTTPAnswer(206, {}, b"1"),
        HTTPAnswer(200, {}, b"1"),
    ],
)
def test_size_that_no_response_tells(answer: HTTPAnswer) -> None:
    with pytest.raises(StorageUnavailableError, match="does not report the size"):
        WithoutSize(answer).stat("key")


def test_truncated_object_is_an_error() -> None:
    with pytest.raises(StorageUnavailableError, match="truncated"):
        OneAnswer(HTTPAnswer(200, {"Content-Length": "5"}, b"1234")).read("key")


SIZE = 400_000_000
# What the two ends of a connection on this machine hold before the server notices anything.
IN_FLIGHT = 32_000_000


class Server(ThreadingHTTPServer):
    """Answers each request as `answer` says, and counts the bytes of bodies that it got rid of.

    Attributes:
        answer: status, Content-Range or "", size of the body; a negative size is chunked, so the
            client does not know it before.
    """

    daemon_threads = True
    answer = (200, "", SIZE)
    sent = 0


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[::-1])

    def do_GET(self) -> None:
        status, content_range, size = self.server.answer
        self.send_response(status)
        if content_range:
            self.send_header("Content-Range", content_range)
        if size < 0:
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.send_header("Content-Length", str(size))
        self.end_headers()
        left, piece = abs(size), b"x" * 65536
        try:
            while left:
                part = piece[:left]
                self.wfile.write(part if size > 0 else b"%x\r\n%s\r\n" % (len(part), part))
                left -= len(part)
                self.server.sent += len(part)
            if size < 0:
                self.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        pass


class OverHTTP(OneAnswer):
    """Sends its requests to a server."""

    def __init__(self, url: str) -> None:
        super().__init__(HTTPAnswer(200, {}, b""))
        self.client = HTTPClient(url, 30)

    send = HTTPStorage.send


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def storage(server: Server) -> Iterator[OverHTTP]:
    storage = OverHTTP(f"http://127.0.0.1:{server.server_port}")
    yield storage
    storage.close()


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ((200, "", SIZE), "ignores ranges"),
        ((200, "", -SIZE), "ignores ranges"),
        ((200, "", 5000), "ignores ranges"),
        ((206, f"bytes 0-{SIZE - 1}/{SIZE}", SIZE), "bytes 0-399999999/400000000"),
        ((206, f"bytes 0-{SIZE - 1}/{SIZE}", -SIZE), "bytes 0-399999999/400000000"),
        ((206, "bytes 300000000-300000999/400000000", SIZE), "400000000 bytes"),
        ((206, "bytes 1000-1999/400000000", 1000), "bytes 1000-1999/400000000"),
        ((206, "", 1000), "1000 bytes"),
    ],
)
def test_bytes_that_were_not_requested_are_refused_unread(
    server: Server, storage: OverHTTP, answer: tuple[int, str, int], reason: str
) -> None:
    server.answer = answer
    with pytest.raises(StorageError, match=reason) as caught:
        storage.read("large", ByteRange(300_000_000, 1000))
    assert "bytes=300000000-300000999" in str(caught.value)
    # One that ignores ranges does so each time: asking it again is of no use.
    assert isinstance(caught.value, StorageUnavailableError) == (answer[0] == 206)
    storage.close()
    assert server.sent < IN_FLIGHT


def test_whole_object_is_taken_where_it_is_the_range(server: Server, storage: OverHTTP) -> None:
    for size in (5000, -5000):
        server.answer = (200, "", size)
        assert storage.read("small", ByteRange(0, 5000)).data == b"x" * 5000
        with pytest.raises(StorageError, match="ignores ranges"):
            storage.read("small", ByteRange(0, 4999))


def test_object_too_large_to_be_read_whole_is_refused_unread(
    server: Server, storage: OverHTTP
) -> None:
    assert SIZE > MAX_WHOLE + IN_FLIGHT
    with pytest.raises(StorageError, match="too large"):
        storage.read("large")
    storage.close()
    assert server.sent < IN_FLIGHT


def test_reason_of_a_refusal_is_read_up_to_a_limit(server: Server, storage: OverHTTP) -> None:
    for size, read in ((100_000, 100_000), (SIZE, 256 * 1024)):
        server.answer = (403, "", size)
        assert storage.client.request("GET", "/object", {}, limit=10).body == b"x" * read
    storage.close()
    assert server.sent < IN_FLIGHT


def test_a_request_may_have_a_body(server: Server, storage: OverHTTP) -> None:
    for body in (b"abc", b""):
        answer = storage.client.request("POST", "/search", {"X-A": "b"}, body=body)
        assert (answer.status, answer.body) == (200, body[::-1])


def test_names_of_dots_are_not_normalised() -> None:
    assert quoted_key("a/../b/./c.d/.e") == "/a/%2E%2E/b/%2E/c.d/.e"


@pytest.mark.parametrize(
    "url", ["ftp://host/a", "host/a", "http:///a", "http://host:port/a", "http://[host/a"]
)
def test_what_is_not_an_http_url_is_refused(url: str) -> None:
    with pytest.raises(NoResponseError, match="is not a"):
        HTTPClient(url, 1)


@pytest.mark.parametrize(("value", "seconds"), [(None, 30), ("7", 7), ("0", None), ("-1", None)])
def test_network_timeout(value: str | None, seconds: int | None) -> None:
    variables = {} if value is None else {"MASTABA_NETWORK_TIMEOUT": value}
    assert network_timeout(Environment(variables)) == seconds


def test_certificate_authorities_of_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def paths(cafile: str | None) -> None:
        found = SimpleNamespace(cafile=cafile, capath=str(tmp_path))
        monkeypatch.setattr(ssl, "get_default_verify_paths", lambda: found)

    paths(None)
    assert certificate_authorities() is None
    debian = tmp_path / "ca-certificates.crt"
    debian.touch()
    assert certificate_authorities() == str(debian)
    paths("/etc/authorities.pem")
    assert certificate_authorities() == "/etc/authorities.pem"


@pytest.mark.parametrize("status", [206, 416])
def test_a_part_is_not_the_whole_object(status: int) -> None:
    answer = HTTPAnswer(status, {"Content-Range": "bytes 0-3/9", "Content-Length": "4"}, b"1234")
    storage = OneAnswer(answer)
    with pytest.raises(StorageError, match=f"the response is {status}"):
        storage.read("key")
    with pytest.raises(StorageError, match=f"the response is {status}"):
        storage.stat("key")


def test_a_range_that_is_there_is_not_empty() -> None:
    storage = OneAnswer(HTTPAnswer(416, {"Content-Range": "bytes */9"}, b""))
    assert storage.read("key", ByteRange(9, 4)).data == b""
    with pytest.raises(StorageUnavailableError, match="refuses bytes=8-11 of 9 bytes"):
        storage.read("key", ByteRange(8, 4))
    assert OneAnswer(HTTPAnswer(416, {}, b"")).read("key", ByteRange(0, 4)).data == b""
