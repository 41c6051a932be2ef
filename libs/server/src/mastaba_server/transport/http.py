"""HTTP/1.1: bytes in, requests and responses, bytes out.

The parser is llhttp, in its strict mode, through httptools. Checked here are limits, the version,
repeated Host fields, names with underscores, and offers of other protocols.
"""

from __future__ import annotations

import re
import socket
import time
from collections import deque
from collections.abc import Mapping
from email.utils import formatdate
from functools import lru_cache
from typing import Any, ClassVar
from urllib.parse import quote_from_bytes, unquote_to_bytes

import httptools

from mastaba_server.transport.connection import NEVER, Buffers, Connection, DisconnectedError, Owner
from mastaba_server.transport.exchange import Exchange

_MAX_TARGET = 65_535
_MAX_HEAD = 400 << 10
_MAX_FIELDS = 100
# Bytes of a body that are received although the application does not see all of them. A front
# server that is still sending when the connection closes reports an error, not the response.
_MAX_RECEIVED = 16 << 20
_MAX_NAME = 256
# Fields of requests that may have a body, or want another protocol.
_NOT_SIMPLE = ("CONTENT_LENGTH", "HTTP_TRANSFER_ENCODING", "HTTP_UPGRADE", "HTTP_EXPECT")
_SIMPLE_LINE = re.compile(rb"(GET|HEAD) (/[!-~]*) HTTP/1\.1")
_ASCII = bytes(range(128))


class HTTPConnection(Connection):
    """A connection from an HTTP client. The parser calls its methods ``on_…``."""

    def __init__(self, sock: socket.socket, owner: Owner) -> None:
        super().__init__(sock, owner)
        try:
            peer = sock.getpeername()
        except OSError:  # the client has reset the connection
            peer = ""
        self.client = peer[0] if isinstance(peer, tuple) else ""
        self._parser: Any = httptools.HttpRequestParser(self)
        self._arriving: HTTPExchange | None = None
        self._ready: deque[HTTPExchange] = deque()
        self._in_body = False
        # Bytes and header fields of the request that is arriving.
        self._received = 0
        self._fields = 0
        # No further request is read.
        self._is_last = False
        # Everything after the line of the last simple request, and its fields.
        self._simple_rest = b""
        self._simple_params: dict[str, str] = {}

    @staticmethod
    def environ(listener: socket.socket) -> dict[str, Any]:
        name = listener.getsockname()
        host, port = name[:2] if isinstance(name, tuple) else (name, 0)
        return {"SERVER_NAME": host, "SERVER_PORT": str(port)}

    @property
    def idle(self) -> bool:
        return not (self._arriving or self._ready or self.output or self.ending)

    @property
    def is_read(self) -> bool:
        """Whether no request has arrived after the one that is answered."""
        return not (self._arriving or self._ready)

    def receive(self, data: bytes) -> None:
        if data and not self._is_last and not self._repeats(data):
            self._parse(data)
        ready = self._ready
        while ready and self.open and not self.output:
            exchange = ready.popleft()
            if exchange.refusal:
                exchange.refuse(exchange.refusal)
            else:
                exchange.run()

    def expire(self) -> None:
        if self._arriving is None or self.output or self.ending:
            super().expire()
            return
        self._refuse("408 Request Timeout")
        try:
            self.receive(b"")
        except (DisconnectedError, OSError):
            self.close()

    def _complete(self) -> None:
        super()._complete()
        if self._arriving is not None:
            self._set_deadline(self._arriving)

    def _repeats(self, data: bytes) -> bool:
        """Take a request that differs from the one before only in its target.

        A browser sends the same dozen fields with each tile. Parsing them again would take longer
        than the rest of the transport.

        Returns:
            False if the data must be parsed.
        """
        end = data.find(b"\r\n")
        if data[end:] != self._simple_rest or self._arriving is not None or end > _MAX_TARGET:
            return False
        line = _SIMPLE_LINE.fullmatch(data, 0, end)
        if line is None:
            return False
        exchange = HTTPExchange(self)
        exchange.method = line[1].decode()
        exchange.target = line[2]
        exchange.params = self._simple_params
        exchange.keep = True
        self._ready.append(exchange)
        return True

    def _remember(self, data: bytes) -> None:
        """Note the fields of a request that has arrived alone and has no body.

        The data must be what `_repeats` expects: empty lines may precede a request, and the
        parser may read a line end where there is none here.
        """
        (exchange,) = self._ready
        params = exchange.params
        # Cheaper than to match the pattern of simple lines.
        line = b"%s %s HTTP/1.1" % (exchange.method.encode(), exchange.target)
        size = len(line)
        if data[: size + 2] != line + b"\r\n":
            return
        if exchange.keep and params.keys().isdisjoint(_NOT_SIMPLE):
            self._simple_rest = data[size:]
            self._simple_params = params

    def _parse(self, data: bytes) -> None:
        arriving = self._arriving
        if not data.isascii() and not self._in_body and not (arriving and arriving.params):
            # Some clients do not encode the characters of a path or query.
            line, end, rest = data.partition(b"\r\n")
            data = quote_from_bytes(line, _ASCII).encode() + end + rest
        after_upgrade: bytes | None = None
        try:
            self._parser.feed_data(data)
            if arriving is None is self._arriving and len(self._ready) == 1:
                self._remember(data)
        except httptools.HttpParserUpgrade as upgrade:
            after_upgrade = data[upgrade.args[0] :]
        except httptools.HttpParserCallbackError as error:
            if not isinstance(error.__context__, _RefusedError):
                raise
            self._refuse(str(error.__context__))
        except httptools.HttpParserInvalidMethodError:
            self._refuse("501 Not Implemented")
        except httptools.HttpParserError:
            self._refuse("400 Bad Request")
        if after_upgrade is not None:
            # Not while an exception is handled: it would hide the reason of a refusal.
            self._decline_upgrade(after_upgrade)
        arriving = self._arriving
        if arriving is None:
            self.deadline = NEVER
            return
        if arriving.is_body_awaited is not self._in_body:
            arriving.is_body_awaited = self._in_body
            self._set_deadline(arriving)
        self._received += len(data)
        if not self._in_body:
            if self._received > _MAX_HEAD:
                self._refuse("431 Request Header Fields Too Large")
        elif self._received > _MAX_RECEIVED:
            self._finish_with(arriving)
            self.ending = True
        elif arriving.expects_continue and not self._ready:
            arriving.expects_continue = False
            if not arriving.body_size:
                self.send_now([b"HTTP/1.1 100 Continue\r\n\r\n"])

    def _set_deadline(self, arriving: HTTPExchange) -> None:
        limits = self.owner.limits
        seconds = limits.body_time if arriving.is_body_awaited else limits.head_time
        self.deadline = time.monotonic() + seconds

    def _decline_upgrade(self, rest: bytes) -> None:
        """Go on with HTTP/1.1 although the client offers another protocol.

        The parser takes everything after the head for the other protocol, even a body.
        """
        self._parser = httptools.HttpRequestParser(self)
        exchange = self._ready[-1]
        params = exchange.params
        if "HTTP_TRANSFER_ENCODING" in params:
            framing = f"Transfer-Encoding: {params['HTTP_TRANSFER_ENCODING']}"
        else:
            framing = f"Content-Length: {params.get('CONTENT_LENGTH', '0')}"
        if framing != "Content-Length: 0":
            self._ready.pop()
            self._is_last = False
            try:
                self._parser.feed_data(f"POST / HTTP/1.1\r\nHost:\r\n{framing}\r\n\r\n".encode())
            except httptools.HttpParserError:
                self._refuse("400 Bad Request")
                return
            self._arriving = exchange
        if rest and not self._is_last:
            self._parse(rest)

    def _refuse(self, status: str) -> None:
        """Answer what has arrived of a request with an error."""
        if not self._is_last:
            exchange = self._arriving or HTTPExchange(self)
            exchange.refusal = status
            self._finish_with(exchange)

    def end_with(self, exchange: HTTPExchange) -> None:
        """Close the connection after the response to an exchange that is being answered."""
        exchange.keep = False
        self._is_last = True
        self._arriving = None
        self._ready.clear()

    def _finish_with(self, exchange: HTTPExchange) -> None:
        """Answer an exchange, then close the connection."""
        exchange.keep = False
        self._arriving = None
        self._is_last = True
        self._ready.append(exchange)

    # Called by the parser

    def on_message_begin(self) -> None:
        self._arriving = HTTPExchange(self)
        self._received = self._fields = 0

    def on_url(self, part: bytes) -> None:
        assert self._arriving is not None
        target = self._arriving.target = self._arriving.target + part
        if len(target) > _MAX_TARGET:
            raise _RefusedError("414 URI Too Long")

    def on_header(self, name: bytes, value: bytes) -> None:
        self._fields += 1
        if self._fields > _MAX_FIELDS or len(name) > _MAX_NAME:
            raise _RefusedError("431 Request Header Fields Too Large")
        key = _key(name)
        # Fields after the body are ignored: they could pretend to be those of the head.
        if key and not self._in_body:
            assert self._arriving is not None
            params = self._arriving.params
            text = value.decode("latin-1").strip(" \t")
            if key not in params:
                params[key] = text
            elif key == "HTTP_HOST":
                raise _RefusedError("400 Bad Request")
            else:
                params[key] += f",{text}"

    def on_headers_complete(self) -> None:
        exchange = self._arriving
        assert exchange is not None
        version = exchange.version = self._parser.get_http_version()
        if version not in ("1.1", "1.0"):
            raise _RefusedError("505 HTTP Version Not Supported")
        params = exchange.params
        if "HTTP_HOST" not in params and version == "1.1":
            raise _RefusedError("400 Bad Request")
        encoding = params.get("HTTP_TRANSFER_ENCODING")
        if encoding is not None and (encoding.lower() != "chunked" or version == "1.0"):
            # Front servers may take another end of the body for the right one.
            raise _RefusedError("400 Bad Request")
        exchange.method = self._parser.get_method().decode()
        if exchange.method == "CONNECT":
            raise _RefusedError("501 Not Implemented")
        if exchange.target[:1] not in b"/*":
            try:
                httptools.parse_url(exchange.target)
            except httptools.HttpParserInvalidURLError:
                raise _RefusedError("400 Bad Request") from None
        exchange.keep = self._parser.should_keep_alive()
        self._in_body = True
        if params.get("HTTP_EXPECT", "").lower() == "100-continue" and version == "1.1":
            exchange.expects_continue = True
            if int(params.get("CONTENT_LENGTH", "0")) > self.owner.limits.body:
                # The application refuses it; the client need not send it.
                self._finish_with(exchange)
                raise _RefusedError

    def on_body(self, data: bytes) -> None:
        assert self._arriving is not None
        self._arriving.take_body(data)

    def on_message_complete(self) -> None:
        exchange = self._arriving
        assert exchange is not None
        self._arriving = None
        self._in_body = False
        if exchange.keep:
            self._ready.append(exchange)
        else:
            self._finish_with(exchange)


class _RefusedError(Exception):
    """Stops the parser. Contains the status with which the request is refused."""


class HTTPExchange(Exchange):
    """An HTTP request and its response.

    Attributes:
        method: request method.
        target: request target, as sent.
        params: client address and header fields, by their WSGI keys.
        version: ``1.0`` or ``1.1``.
        keep: the connection serves further requests.
        refusal: status with which the request is refused; empty if it is served.
    """

    before_status: ClassVar = "HTTP/1.1 "
    connection: HTTPConnection

    def __init__(self, connection: HTTPConnection) -> None:
        super().__init__(connection)
        self.method = "GET"
        self.target = b""
        self.params: dict[str, str] = {"REMOTE_ADDR": connection.client}
        self.version = "1.1"
        self.keep = False
        self.refusal = ""
        self.expects_continue = False
        self.is_body_awaited: bool | None = None
        self._has_body = True
        self._chunked = False
        self._left: int | None = None

    def address(self) -> tuple[str, str, Mapping[str, Any]] | None:
        target = self.target
        if self.method != "GET" or not target.startswith(b"/") or b"#" in target:
            return None
        path, _, query = target.decode("latin-1").partition("?")
        return None if "%" in path else (path, query, self.params)

    def part(self) -> None:
        self.connection.end_with(self)

    def environ(self) -> dict[str, Any]:
        target = self.target.decode("latin-1")
        if target[0] != "/" and target != "*":
            url = httptools.parse_url(self.target)
            target = (url.path or b"/").decode("latin-1")
            if url.query is not None:
                target += "?" + url.query.decode("latin-1")
        path, _, query = target.partition("#")[0].partition("?")
        return {
            **self.connection.owner.environ,
            **self.params,
            **({"REQUEST_URI": target} if "%" in path else {}),
            "REQUEST_METHOD": self.method,
            "SERVER_PROTOCOL": f"HTTP/{self.version}",
            "PATH_INFO": unquote_to_bytes(path).decode("latin-1") if "%" in path else path,
            "QUERY_STRING": query,
        }

    def frame(self, head: bytes, data: bytes, *, last: bool) -> Buffers:
        buffers: Buffers = []
        if head:
            buffers.append(self._with_own_fields(head, len(data) if last else None))
        if self._has_body:
            if self._chunked:
                if data:
                    buffers += (b"%x\r\n" % len(data), data, b"\r\n")
                if last:
                    buffers.append(b"0\r\n\r\n")
            elif data:
                if self._left is not None:
                    data = data[: self._left] if len(data) > self._left else data
                    self._left -= len(data)
                buffers.append(data)
            if last and self._left:
                # Only a closed connection shows the client that the response is incomplete.
                self.keep = False
        if not self.keep:
            self.connection.closing = True
        return buffers

    def _with_own_fields(self, head: bytes, size: int | None) -> bytes:
        """Add the fields that the application leaves to the server, and the end of the head.

        Args:
            size: of the whole body; None if unknown.
        """
        lines = head.lower()
        own = "" if b"\r\ndate: " in lines else _date(int(time.time()))
        self._has_body = self.method != "HEAD" and self.status[:3] not in ("204", "304")
        _, given, rest = lines.rpartition(b"\r\ncontent-length: ")
        if given:
            self._left = int(rest.partition(b"\r\n")[0])
        elif self._has_body and size is not None:
            own += f"Content-Length: {size}\r\n"
        elif self._has_body and self.version == "1.1":
            self._chunked = True
            own += "Transfer-Encoding: chunked\r\n"
        elif self._has_body:
            self.keep = False
        if self.connection.owner.closing and self.connection.is_read:
            self.keep = False
        if not self.keep:
            own += "Connection: close\r\n"
        elif self.version == "1.0":
            own += "Connection: keep-alive\r\n"
        return b"%s%s\r\n" % (head, own.encode())


@lru_cache(maxsize=256)
def _key(name: bytes) -> str:
    """Return the WSGI key of a header field; empty if its name contains an underscore.

    Such a name would have the same key as one with hyphens, which a front server may rely on.
    """
    if b"_" in name:
        return ""
    key = name.decode("latin-1").upper().replace("-", "_")
    return key if key in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{key}"


@lru_cache(maxsize=1)
def _date(now: int) -> str:
    return f"Server: mastaba\r\nDate: {formatdate(now, usegmt=True)}\r\n"
