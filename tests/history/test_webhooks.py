"""Publications are sent to webhooks, signed."""

from __future__ import annotations

import hashlib
import hmac
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.history.conftest import LAYER

from mastaba.api.services import LayerChange
from mastaba.api.tools import create_application
from mastaba_history import webhooks
from mastaba_history.webhooks import WebhookError, announce

CHANGES = [
    LayerChange(LAYER, "a", "b"),
    LayerChange("RGB_JPG", "a", "b"),
    LayerChange("x", "a", None),
]


class Receiver(ThreadingHTTPServer):
    """Answers POST with a status, and remembers bodies and signatures."""

    def __init__(self) -> None:
        self.status = 204
        self.received: list[tuple[bytes, str]] = []
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hook?from=mastaba"


class Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert self.path == "/hook?from=mastaba"
        self.server.received.append((body, self.headers["X-Mastaba-Signature"]))
        self.send_response(self.server.status)
        self.send_header("Location", "http://127.0.0.1:1/")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


class SlowHandler(BaseHTTPRequestHandler):
    """Sends the line of its status byte by byte."""

    def do_POST(self) -> None:
        line = b"HTTP/1.0" + b" " * 200 + b"204"
        with suppress(OSError):
            for byte in line:
                self.wfile.write(bytes([byte]))
                time.sleep(0.02)
            self.wfile.write(b"\r\n\r\n")

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_publications_are_signed_and_sent_again(
    receiver: Receiver, write: Callable[..., Path], tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("correct horse\n")
    hook = {"url": receiver.url, "secret_file": str(secret)}
    other = {**hook, "layers": ["RGB_JPG"]}
    gone = {**hook, "url": "http://127.0.0.1:1/"}
    site = create_application(str(write(plugins={"history": {"webhooks": [hook, other]}}))).site
    announce(site, CHANGES)
    ((body, signature),) = receiver.received
    expected = hmac.new(b"correct horse", body, hashlib.sha256).hexdigest()
    assert signature == f"sha256={expected}"
    item = json.loads(body)
    assert item["_mastaba"]["layer"] == LAYER
    assert item["content_text"] == "third"
    # A redirect is not followed. What fails is reported, so that the server calls again.
    for status in (301, 500):
        receiver.status = status
        with pytest.raises(WebhookError, match=str(status)):
            announce(site, CHANGES)
    receiver.status = 200
    site = create_application(str(write(plugins={"history": {"webhooks": [gone, hook]}}))).site
    with pytest.raises(WebhookError, match="http://127"):
        announce(site, CHANGES)
    assert len({(json.loads(body)["id"], sign) for body, sign in receiver.received}) == 1
    assert len(receiver.received) == 4
    secret.write_text("")
    with pytest.raises(WebhookError, match="must contain the secret"):
        announce(site, CHANGES)


def test_a_receiver_that_answers_byte_by_byte_is_not_waited_for(
    receiver: Receiver, write: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("correct horse\n")
    receiver.RequestHandlerClass = SlowHandler
    monkeypatch.setattr(webhooks, "_TIMEOUT", 0.5)
    hook = {"url": receiver.url, "secret_file": str(secret)}
    site = create_application(str(write(plugins={"history": {"webhooks": [hook]}}))).site
    with pytest.raises(WebhookError, match="http://127"):
        announce(site, CHANGES)


def test_a_connection_with_tls_that_is_cut_fails_as_others_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(webhooks, "_TIMEOUT", 0.05)
    near, far = socket.socketpair()
    context = ssl.create_default_context()
    with (
        far,
        context.wrap_socket(
            near, do_handshake_on_connect=False, server_hostname="example.org"
        ) as connection,
    ):
        with webhooks._ended(connection), pytest.raises(OSError, match="EOF"):
            connection.do_handshake()
        # What the thread reads next.
        assert connection.read(1) == b""
