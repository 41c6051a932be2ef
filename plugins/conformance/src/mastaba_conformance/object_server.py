"""A small object store over real HTTP that supports S3 and Swift and can simulate failures.

It keeps its objects in memory and checks signatures and tokens like a real store, so drivers can
be tested without installing one. It is read-only over HTTP: the test itself stores the objects.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
import secrets
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from http.client import responses
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import Any, Final, Self
from urllib.parse import unquote, urlsplit

from mastaba_conformance.object_signature import SignatureError, check_signature

__all__ = [
    "APPLICATION_ID",
    "DOMAIN_ID",
    "PROJECT_ID",
    "S3_KEYS",
    "SWIFT_PASSWORD",
    "SWIFT_USER",
    "Faults",
    "ObjectServer",
    "RecordedRequest",
    "StoredObject",
]

S3_KEYS: Final[Mapping[str, str]] = MappingProxyType({"key": "secret"})
"""Secrets by access key."""
SWIFT_USER: Final = "account:user"
"""Account and user of Swift."""
SWIFT_PASSWORD: Final = "password"  # noqa: S105 - of a test server
"""Password of the user, and secret of the application credential."""
PROJECT_ID: Final = "project"
"""Identifier of the Keystone project."""
DOMAIN_ID: Final = "domain"
"""Identifier of the user's Keystone domain."""
APPLICATION_ID: Final = "application"
"""Identifier of the Keystone application credential."""

_RANGE: Final = re.compile(r"bytes=(\d+)-(\d*)")


@dataclass(frozen=True, slots=True)
class StoredObject:
    """One object.

    Attributes:
        data: its bytes.
        etag: its ETag, without quotes.
        modified: time of the last change in Unix seconds.
    """

    data: bytes
    etag: str
    modified: float


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """One answered request.

    Attributes:
        method: in upper case.
        path: percent-decoded, without the query.
        range: value of the header Range; None if there was none.
        status: HTTP status of the response.
        host: value of the header Host.
        headers: all headers of the request.
    """

    method: str
    path: str
    range: str | None
    status: int
    host: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Faults:
    """Simulated failures of requests for objects. Shares are from 0 to 1.

    Attributes:
        latency: seconds before each response.
        errors: share of responses with status 503.
        resets: share of requests whose connection is reset.
        stalls: share of bodies that stop in the middle for `stall_time` seconds.
        truncations: share of bodies that end in the middle, despite their Content-Length.
        trickles: share of responses whose head and body come byte by byte, `trickle_time` seconds
            apart.
        stall_time: seconds.
        trickle_time: seconds.
        seed: seed of the random choice.
    """

    latency: float = 0.0
    errors: float = 0.0
    resets: float = 0.0
    stalls: float = 0.0
    truncations: float = 0.0
    trickles: float = 0.0
    stall_time: float = 60.0
    trickle_time: float = 0.5
    seed: int = 1


@dataclass(slots=True)
class _Answer:
    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    is_data: bool = False


class ObjectServer:
    """Serves objects on a free port of the loopback interface until it is closed.

    The S3 URL is `url`. The Swift URL is ``<url>/v1/<account>``, with tokens from ``/auth/v1.0``
    and ``/v3/auth/tokens``. If the server is used as a proxy, requests for ``<bucket>.<host>``
    are virtual host requests.

    Args:
        s3_keys: access keys and their secrets.
        tls: server context for HTTPS, or None for HTTP.

    Attributes:
        url: address, without a slash at its end.
        faults: simulated failures; may be replaced at any time.
        requests: all requests so far, in the order of their responses.
        ignores_ranges: whether responses always contain the whole object, as with some servers.
        ignores_conditions: whether ``If-Match`` is ignored.
        gate: barrier at which requests for objects wait for each other, or None.
        forced_status: status of all responses to requests for objects, or None.
        connections: number of connections so far.
        stopping: set when the server is closed.
    """

    def __init__(
        self, s3_keys: Mapping[str, str] = S3_KEYS, tls: ssl.SSLContext | None = None
    ) -> None:
        self.s3_keys = dict(s3_keys)
        self.faults = Faults()
        self.requests: list[RecordedRequest] = []
        self.ignores_ranges = False
        self.ignores_conditions = False
        self.forced_status: int | None = None
        self.gate: threading.Barrier | None = None
        self.connections = 0
        self.stopping = threading.Event()
        self._objects: dict[tuple[str, str], StoredObject] = {}
        self._containers: set[str] = set()
        self._tokens: set[str] = set()
        self._random = random.Random()  # noqa: S311 - chooses faults
        self._seed: int | None = None
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.objects = self
        if tls is not None:
            self._server.socket = tls.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        scheme = "http" if tls is None else "https"
        self.url = f"{scheme}://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), name="object-server", daemon=True
        )
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the server, and end stalled responses."""
        self.stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def make_container(self, container: str) -> None:
        """Create an empty container."""
        self._containers.add(container)

    def put(self, container: str, key: str, data: bytes) -> None:
        """Store an object, replacing any existing object with the same key."""
        self._containers.add(container)
        etag = hashlib.md5(data, usedforsecurity=False).hexdigest()
        self._objects[container, key] = StoredObject(data, etag, time.time())

    def delete(self, container: str, key: str) -> None:
        """Remove an object, if it exists."""
        self._objects.pop((container, key), None)

    def forget_tokens(self) -> None:
        """Let all Swift tokens expire."""
        self._tokens.clear()

    @contextmanager
    def outage(self) -> Iterator[None]:
        """Answer all requests for objects with status 503 for a time."""
        self.forced_status = 503
        try:
            yield
        finally:
            self.forced_status = None

    def count(self, method: str, path: str) -> int:
        """Return the number of requests so far with this method and path prefix."""
        return sum(
            request.method == method and request.path.startswith(path)
            for request in list(self.requests)
        )

    def answer(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> _Answer:
        """Return the response to one request; ``target`` is the request target as sent."""
        parts = urlsplit(target)
        path = unquote(parts.path)
        if path == "/auth/v1.0" and method == "GET":
            return self._authenticate_v1(headers)
        if path == "/v3/auth/tokens" and method == "POST":
            return self._authenticate_v3(body)
        if path.startswith("/v1/"):
            if headers.get("X-Auth-Token") not in self._tokens:
                return _Answer(401, body=b"Unauthorized")
            _, _, _, container, key = (*path.split("/", 4), "", "")[:5]
            return self._object(method, container, key, headers, _swift_error)
        bucket = headers.get("Host", "").partition(".")[0]
        virtual = bucket in self._containers
        try:
            check_signature(
                method,
                parts.path,
                parts.query,
                headers,
                self.s3_keys,
                bucket=bucket if virtual else None,
            )
        except SignatureError as error:
            return _s3_error(403, error.code)
        if not virtual:
            bucket, _, path = path.removeprefix("/").partition("/")
        return self._object(method, bucket, path.removeprefix("/"), headers, _s3_error)

    def _object(
        self,
        method: str,
        container: str,
        key: str,
        headers: Mapping[str, str],
        error: Callable[[int, str], _Answer],
    ) -> _Answer:
        if method not in ("GET", "HEAD"):
            return _Answer(405)
        if self.forced_status is not None:
            return error(self.forced_status, "")
        if container not in self._containers:
            return error(404, "NoSuchBucket")
        stored = self._objects.get((container, key))
        if stored is None:
            return error(404, "NoSuchKey")
        wanted = headers.get("If-Match")
        if wanted and wanted.strip('"') != stored.etag and not self.ignores_conditions:
            return error(412, "PreconditionFailed")
        data = stored.data
        answer_headers = {
            "ETag": f'"{stored.etag}"',
            "Last-Modified": formatdate(stored.modified, usegmt=True),
            "Accept-Ranges": "bytes",
            "Content-Type": "application/octet-stream",
        }
        match = _RANGE.fullmatch(headers.get("Range", ""))
        if match is None or self.ignores_ranges:
            return _Answer(200, answer_headers, data, is_data=True)
        first = int(match[1])
        last = min(int(match[2] or len(data)), len(data) - 1)
        if first >= len(data):
            return error(416, "InvalidRange")
        answer_headers["Content-Range"] = f"bytes {first}-{last}/{len(data)}"
        return _Answer(206, answer_headers, data[first : last + 1], is_data=True)

    def _authenticate_v1(self, headers: Mapping[str, str]) -> _Answer:
        user = headers.get("X-Auth-User") or headers.get("X-Storage-User")
        password = headers.get("X-Auth-Key") or headers.get("X-Storage-Pass")
        if (user, password) != (SWIFT_USER, SWIFT_PASSWORD):
            return _Answer(401, body=b"Unauthorized")
        return _Answer(
            200, {"X-Auth-Token": self._new_token(), "X-Storage-Url": "http://elsewhere.invalid/"}
        )

    def _authenticate_v3(self, body: bytes) -> _Answer:
        try:
            auth = json.loads(body)["auth"]
            if "application_credential" in auth["identity"]:
                credential = auth["identity"]["application_credential"]
                if (credential["id"], credential["secret"]) != (APPLICATION_ID, SWIFT_PASSWORD):
                    return _Answer(401, body=b"Unauthorized")
                return self._keystone_token()
            user = auth["identity"]["password"]["user"]
            given = (
                user["name"],
                user["password"],
                user["domain"]["id"],
                auth["scope"]["project"]["id"],
            )
        except (ValueError, KeyError, TypeError):
            return _Answer(400, body=b"Bad Request")
        if given != (SWIFT_USER.partition(":")[2], SWIFT_PASSWORD, DOMAIN_ID, PROJECT_ID):
            return _Answer(401, body=b"Unauthorized")
        return self._keystone_token()

    def _keystone_token(self) -> _Answer:
        endpoint = {
            "interface": "public",
            "region": "region",
            "region_id": "region",
            "url": f"{self.url}/v1/AUTH_account",
        }
        token = {
            "expires_at": "2100-01-01T00:00:00.000000Z",
            "catalog": [{"type": "object-store", "name": "swift", "endpoints": [endpoint]}],
        }
        headers = {"X-Subject-Token": self._new_token()}
        return _Answer(201, headers, json.dumps({"token": token}).encode())

    def _new_token(self) -> str:
        token = f"AUTH_tk{secrets.token_hex(8)}"
        self._tokens.add(token)
        return token

    def draw(self) -> str | None:
        """Return the name of the failure of the next response, or None."""
        faults = self.faults
        if self._seed != faults.seed:
            self._seed = faults.seed
            self._random.seed(faults.seed)
        number = self._random.random()
        for name in ("errors", "resets", "stalls", "truncations", "trickles"):
            share = getattr(faults, name)
            if number < share:
                return name
            number -= share
        return None


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128
    objects: ObjectServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing: clients that disconnect are part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.server.objects.connections += 1

    def do_GET(self) -> None:
        objects = self.server.objects
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        answer = objects.answer(self.command, self.path, self.headers, body)  # type: ignore[arg-type]
        fault = objects.draw() if answer.is_data else None
        if objects.gate is not None and answer.is_data:
            objects.gate.wait(60)
        if objects.faults.latency:
            time.sleep(objects.faults.latency)
        if fault == "errors":
            answer = _Answer(503, body=b"slow down")
        objects.requests.append(
            RecordedRequest(
                self.command,
                unquote(urlsplit(self.path).path),
                self.headers.get("Range"),
                answer.status,
                self.headers.get("Host", ""),
                dict(self.headers.items()),
            )
        )
        if fault == "resets":
            linger = struct.pack("ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self.close_connection = True
            return
        self._send(answer, fault)

    do_HEAD = do_POST = do_GET  # noqa: N815 - names required by the base class

    def _send(self, answer: _Answer, fault: str | None) -> None:
        headers = {**answer.headers, "Content-Length": str(len(answer.body))}
        head = f"HTTP/1.1 {answer.status} {responses[answer.status]}\r\n" + "".join(
            f"{name}: {value}\r\n" for name, value in headers.items()
        )
        body = b"" if self.command == "HEAD" else answer.body
        if fault in ("stalls", "truncations"):
            half = len(body) // 2
            self.connection.sendall(f"{head}\r\n".encode() + body[:half])
            if fault == "stalls":
                self.server.objects.stopping.wait(self.server.objects.faults.stall_time)
            self.close_connection = True
            return
        if fault == "trickles":
            for byte in f"{head}\r\n".encode() + body:
                self.connection.sendall(bytes([byte]))
                if self.server.objects.stopping.wait(self.server.objects.faults.trickle_time):
                    return
            return
        self.connection.sendall(f"{head}\r\n".encode() + body)

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing: the requests are recorded."""


def _s3_error(status: int, code: str) -> _Answer:
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{code}</Message></Error>"
    return _Answer(status, {"Content-Type": "application/xml"}, body.encode())


def _swift_error(status: int, code: str) -> _Answer:
    return _Answer(status, {"Content-Type": "text/html"}, f"<h1>{code}</h1>".encode())
