"""The contract of storage drivers, tested with a small web server."""

from __future__ import annotations

import functools
import hashlib
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from tests.conftest import OpenClient
from tests.tiny import tiny_installation

from mastaba.errors import AccessDeniedError, ObjectNotFoundError, StorageError
from mastaba_conformance.storage import ObjectWriter
from mastaba_conformance.storage.faults import FaultTests
from mastaba_conformance.storage.ranges import RangeTests
from mastaba_conformance.storage.reads import ReadTests
from mastaba_conformance.storage.versions import VersionTests
from mastaba_storage.base import ByteRange, Storage
from mastaba_storage.environment import Environment
from mastaba_storage_http.storage import WebStorage

Objects = dict[str, tuple[bytes, float]]


class _Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD with ranges and ETags, as a web server does for its files."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one packet
    disable_nagle_algorithm = True

    def __init__(self, objects: Objects, state: dict[str, Any], *arguments: Any) -> None:
        self.objects, self.state = objects, state
        super().__init__(*arguments)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Do not write to standard error."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        self.state["requests"].append(self.path)
        if self.state["status"]:
            return self._send(self.state["status"], b"", self.state["headers"])
        found = self.objects.get(unquote(urlsplit(self.path).path[1:]))
        if found is None:
            return self._send(404, b"", {})
        data, modified = found
        etag = f'"{hashlib.sha256(data).hexdigest()[:16]}-{modified}"'
        headers = {"ETag": etag, "Last-Modified": formatdate(modified, usegmt=True)}
        if self.headers.get("If-Match") not in (None, etag):
            return self._send(412, b"", {})
        match = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if match is None or self.state["ignores_ranges"]:
            return self._send(200, data, headers)
        first, stop = int(match[1]), min(int(match[2]) + 1, len(data))
        if first >= len(data):
            return self._send(416, b"", {"Content-Range": f"bytes */{len(data)}"})
        headers["Content-Range"] = f"bytes {first}-{stop - 1}/{len(data)}"
        return self._send(206, data[first:stop], headers)

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, text in headers.items():
            self.send_header(name, text)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


class Site:
    """A web server with objects in memory."""

    def __init__(self) -> None:
        self.objects: Objects = {}
        self.state: dict[str, Any] = {"requests": [], "status": 0, "headers": {}}
        self.state["ignores_ranges"] = False
        handler = functools.partial(_Handler, self.objects, self.state)
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.server.daemon_threads = True
        self.host = f"127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()
        self._last = time.time()

    def put(self, key: str, data: bytes) -> None:
        self._last += 0.001
        # The path of a URL: without query, decoded.
        self.objects[unquote(key.partition("?")[0])] = data, self._last

    def delete(self, key: str) -> None:
        del self.objects[unquote(key.partition("?")[0])]

    @contextmanager
    def answering(self, status: int, **headers: str) -> Iterator[None]:
        self.state |= {"status": status, "headers": headers}
        try:
            yield
        finally:
            self.state |= {"status": 0, "headers": {}}

    def open(self) -> WebStorage:
        return WebStorage.open(self.host, Environment({"MASTABA_HTTP_HOSTS": self.host}))

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture(scope="module")
def web() -> Iterator[Site]:
    site = Site()
    yield site
    site.close()


class TestWebStorage(ReadTests, RangeTests, VersionTests, FaultTests):
    # All levels are tested with an Apache (tests/live_storage/test_apache.py).
    keys_are_paths = True  # two spellings of a URL are one
    holds_large_objects = False
    examples = 10
    repeats = 4

    @pytest.fixture
    def writer(self, web: Site) -> ObjectWriter:
        return web

    @pytest.fixture
    def storage(self, web: Site) -> Storage:
        return web.open()

    @pytest.fixture
    def outage(self, web: Site) -> Callable[[], Any]:
        return lambda: web.answering(503)

    def test_similar_key_is_another_object(  # type: ignore[override]
        self, storage: Storage, writer: ObjectWriter, prefix: str
    ) -> None:
        """A URL may be written in several ways; case matters."""
        writer.put(f"{prefix}Exact.tif", b"exact")
        assert storage.read(f"{prefix}Ex%61ct.tif").data == b"exact"
        assert storage.read(f"{prefix}Exact.tif?version=2").data == b"exact"
        for similar in ("exact.tif", "Exact.tif/", "Exact.tif2", "Exact%", "Exact.tif "):
            assert not storage.exists(prefix + similar)


@pytest.fixture
def storage(web: Site) -> Iterator[WebStorage]:
    opened = web.open()
    yield opened
    opened.close()


def test_redirects_are_not_followed(web: Site, storage: WebStorage) -> None:
    web.state["requests"].clear()
    for status in (301, 302, 307, 308):
        with (
            web.answering(status, Location=f"http://{web.host}/secret"),
            pytest.raises(StorageError, match=str(status)),
        ):
            storage.read("moved", ByteRange(0, 10))
    assert set(web.state["requests"]) == {"/moved"}


def test_the_path_is_the_url(web: Site, storage: WebStorage) -> None:
    web.state["requests"].clear()
    for key in ("a%20b/é.tif", "100%", "a.tif?v=1&sig=a%2Bb", "x y#z"):
        with pytest.raises(ObjectNotFoundError):
            storage.read(key, ByteRange(0, 10))
    assert web.state["requests"] == [
        *("/a%20b/%C3%A9.tif", "/100%25", "/a.tif?v=1&sig=a%2Bb", "/x%20y%23z")
    ]


@pytest.mark.parametrize("status", [401, 403])
def test_refused_access(web: Site, storage: WebStorage, status: int) -> None:
    with web.answering(status), pytest.raises(AccessDeniedError):
        storage.read("private", ByteRange(0, 10))


def test_a_pyramid_on_a_web_server_is_served(
    web: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, open_client: OpenClient
) -> None:
    server = tiny_installation(tmp_path)
    path = "/tms/1.0.0/RGB_JPG/3/4/2.jpg"
    wanted = open_client(server).get(path)
    assert wanted.status_code == 200
    descriptor = tmp_path / "pyramids/RGB_JPG.json"
    document = json.loads(descriptor.read_bytes())
    for level in document["levels"]:
        storage = level["storage"]
        folder = (descriptor.parent / storage["image_directory"]).resolve()
        # Files are named by base-36 digits, objects by column and row; these have one digit.
        for file in folder.rglob("*.tif"):
            digits = "".join(file.relative_to(folder).with_suffix("").parts)
            col, row = int(digits[::2], 36), int(digits[1::2], 36)
            web.put(f"maps/{level['id']}_{col}_{row}", file.read_bytes())
        prefix = f"maps/{level['id']}"
        level["storage"] = {"type": "HTTP", "host": web.host, "image_prefix": prefix}
    web.put("maps/RGB_JPG.json", json.dumps(document).encode())
    layer = tmp_path / "layers/RGB_JPG.json"
    described = json.loads(layer.read_bytes())
    described["pyramids"][0]["path"] = f"http://{web.host}/maps/RGB_JPG.json"
    layer.write_text(json.dumps(described))
    monkeypatch.setenv("MASTABA_HTTP_HOSTS", web.host)
    found = open_client(server).get(path)
    assert found.data == wanted.data
    assert found.headers["ETag"] != wanted.headers["ETag"]
