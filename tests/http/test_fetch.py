"""One HTTP GET: proxies, credentials, redirects."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import pytest

from mastaba_http.fetch import Fetcher, _same_host
from mastaba_server.errors import NoResponseError
from mastaba_storage.environment import Environment

PROXY_VARIABLES = ("http_proxy", "https_proxy", "no_proxy", "all_proxy")


@pytest.fixture
def requests() -> list[tuple[str, Message]]:
    return []


@pytest.fixture
def port(requests: list[tuple[str, Message]], monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Return the port of a server that notes what it is asked, and answers everything."""
    for name in PROXY_VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requests.append((self.path, self.headers))
            self.send_response(200)
            self.send_header("Content-Type", "text/plain")
            self.end_headers()
            self.wfile.write(b"here")

        def do_CONNECT(self) -> None:
            requests.append((self.path, self.headers))
            self.send_response(407 if self.path.startswith("locked.") else 403)
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def fetcher() -> Fetcher:
    return Fetcher(Environment({"MASTABA_NETWORK_TIMEOUT": "5"}), "Tester/1")


Requests = list[tuple[str, Message]]


def test_document_comes_with_status_and_type(
    fetcher: Fetcher, port: int, requests: Requests
) -> None:
    fetched = fetcher.get(f"http://127.0.0.1:{port}/a?b=c%20d#e")
    assert (fetched.status, fetched.body) == (200, b"here")
    assert fetched.headers["Content-Type"] == "text/plain"
    ((path, headers),) = requests
    assert path == "/a?b=c%20d"
    assert headers["User-Agent"] == "Tester/1"
    assert headers["Host"] == f"127.0.0.1:{port}"
    assert "Authorization" not in headers


def test_credentials_in_the_address_are_sent(
    fetcher: Fetcher, port: int, requests: Requests
) -> None:
    fetcher.get(f"http://me:p%40ss@127.0.0.1:{port}")
    ((path, headers),) = requests
    assert path == "/"
    assert base64.b64decode(headers["Authorization"].removeprefix("Basic ")) == b"me:p@ss"
    assert headers["Host"] == f"127.0.0.1:{port}"


def test_proxy_is_used_for_http(
    fetcher: Fetcher, port: int, requests: Requests, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", f"http://me:pw@127.0.0.1:{port}")
    assert fetcher.get("http://far.example/x?y=z").body == b"here"
    ((path, headers),) = requests
    assert path == "http://far.example/x?y=z"
    assert headers["Host"] == "far.example"
    assert base64.b64decode(headers["Proxy-Authorization"].removeprefix("Basic ")) == b"me:pw"


def test_https_requests_go_through_a_tunnel_of_the_proxy(
    fetcher: Fetcher, port: int, requests: Requests, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{port}")
    with pytest.raises(NoResponseError):
        fetcher.get("https://far.example/x")
    assert [path for path, _ in requests] == ["far.example:443"]


def test_proxy_that_wants_other_credentials_answers_for_https_too(
    fetcher: Fetcher, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{port}")
    assert fetcher.get("https://locked.example/x").status == 407


def test_requests_to_hosts_without_proxy_are_direct(
    fetcher: Fetcher, port: int, requests: Requests, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert fetcher.get(f"http://127.0.0.1:{port}/").body == b"here"
    assert [path for path, _ in requests] == ["/"]


@pytest.mark.parametrize(
    "url",
    [
        "",
        "/relative",
        "file:///etc/passwd",
        "ftp://127.0.0.1/",
        "http://",
        "http:///path",
        "http://127.0.0.1:0/",
        "http://127.0.0.1:99999/",
        "http://127.0.0.1/a b\r\nX: y",
        "http://[bad/",
        "http://exa mple/",
        "http://" + "a" * 300 + ".example/",
    ],
    ids=lambda url: url[:30],
)
def test_invalid_addresses_are_refused_without_a_request(
    fetcher: Fetcher, port: int, requests: Requests, url: str
) -> None:
    with pytest.raises(NoResponseError):
        fetcher.get(url)
    assert requests == []


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("http://a.example/x", "http://a.example/y", True),
        ("http://a.example/x", "http://A.example:80/y", True),
        ("http://a.example/x", "https://a.example/y", True),
        ("https://a.example/x", "http://a.example/y", False),
        ("http://a.example/x", "http://a.example:8080/y", False),
        ("http://a.example:8080/x", "https://a.example/y", False),
        ("http://a.example/x", "http://b.a.example/y", False),
        ("http://a.example/x", "http://a.example@b.example/y", False),
        ("http://a.example/x", "ftp://a.example/y", False),
    ],
)
def test_redirects_stay_on_their_host(one: str, other: str, same: Any) -> None:
    assert _same_host(urlsplit(one), urlsplit(other)) is same
