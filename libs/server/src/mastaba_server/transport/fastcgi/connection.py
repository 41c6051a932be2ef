"""FastCGI: records in, requests and responses, records out.

Constants, formats and the encoding of pairs are those of flup (see `records`). Its server,
connection and request classes are not used: a keep-alive connection would occupy a thread, and a
stored tile takes 1.4 times the processor time (``python -m benchmarks.other_transports``).
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping
from typing import Any, ClassVar

from flup.server import fcgi_base as fcgi

from mastaba_server.transport.connection import Buffers, Connection, MalformedError, Owner
from mastaba_server.transport.exchange import Exchange
from mastaba_server.transport.fastcgi.params import ParamsDecoder
from mastaba_server.transport.fastcgi.records import (
    HEADER_SIZE,
    decode_pairs,
    encode_pairs,
    end_of_answer,
    end_of_request,
    end_record,
    record,
    stdout_buffers,
    unpack_header,
)

# Front servers use it to limit their connections, which is not needed: an idle one costs little.
_MANY = b"1024"
_CAPABILITY = {fcgi.FCGI_MAX_CONNS: _MANY, fcgi.FCGI_MAX_REQS: _MANY, fcgi.FCGI_MPXS_CONNS: b"0"}

# The begin of a request and the header of its parameters. Version and type are one number.
_HEAD = struct.Struct("!HHHBx HB5x HHHBx")
_USUAL = (
    fcgi.FCGI_VERSION_1 << 8 | fcgi.FCGI_BEGIN_REQUEST,
    HEADER_SIZE,
    0,
    fcgi.FCGI_RESPONDER,
    fcgi.FCGI_VERSION_1 << 8 | fcgi.FCGI_PARAMS,
)

_params = ParamsDecoder()


class FastCGIConnection(Connection):
    """A connection from a front server, with at most one request at a time."""

    def __init__(self, sock: socket.socket, owner: Owner) -> None:
        super().__init__(sock, owner)
        self._input = b""
        self._request: FastCGIExchange | None = None
        self._answering = 0

    @staticmethod
    def environ(listener: socket.socket) -> dict[str, Any]:
        # What PEP 3333 requires and front servers may omit.
        return {
            "REQUEST_METHOD": "GET",
            "PATH_INFO": "",
            "QUERY_STRING": "",
            "SERVER_NAME": "localhost",
            "SERVER_PORT": "80",
            "SERVER_PROTOCOL": "HTTP/1.0",
        }

    @property
    def idle(self) -> bool:
        return not (self._request or self._input or self.output or self.ending)

    def is_gone(self) -> bool:
        """Return whether the client hung up or aborted the request that is being answered."""
        if self.hangup or not self.again:
            return self.hangup
        # Data has arrived since the request, and is read after it.
        try:
            data = self.socket.recv(HEADER_SIZE, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except OSError:
            return False
        if len(data) < HEADER_SIZE:
            return not data
        _, kind, aborted, _, _ = unpack_header(data)
        return bool(kind == fcgi.FCGI_ABORT_REQUEST and aborted == self._answering)

    def receive(self, data: bytes) -> None:
        if not self._input and self._request is None:
            request = self._whole_request(data)
            if request is not None:
                self._answering = request.id
                request.run()
                return
        if self._input:
            data = self._input + data
            self._input = b""
        position = 0
        end = len(data)
        while end - position >= HEADER_SIZE:
            version, kind, request_id, length, padding = unpack_header(data, position)
            if version != fcgi.FCGI_VERSION_1:
                raise MalformedError(f"FastCGI version {version}")
            start = position + HEADER_SIZE
            stop = start + length
            if stop + padding > end:
                break
            position = stop + padding
            request = self._request
            if request is not None and request_id == request.id and kind == fcgi.FCGI_PARAMS:
                self._take_params(request, data[start:stop])
            elif request is not None and request_id == request.id and kind == fcgi.FCGI_STDIN:
                if length:
                    request.take_body(data[start:stop])
                    continue
                if not request.complete:
                    raise MalformedError("a body without the end of the parameters")
                self._request = None
                self._answering = request_id
                request.run()
                if self.output or not self.open:
                    break
            else:
                self._take_other(kind, request_id, data[start:stop])
            if not self.open or self.ending:
                return
        if position < end and self.open:
            self._input = data[position:]

    def _whole_request(self, data: bytes) -> FastCGIExchange | None:
        """Return the request that data consists of; None if it is anything else.

        Front servers send a request without a body at once: its begin, one record of parameters,
        and the two empty records that end parameters and body.
        """
        if len(data) < _HEAD.size:
            return None
        begin, request_id, size, gap, role, flags, params, same_id, length, padding = (
            _HEAD.unpack_from(data)
        )
        start = _HEAD.size
        stop = start + length
        if (
            (begin, size, gap, role, params) != _USUAL
            or request_id == fcgi.FCGI_NULL_REQUEST_ID
            or request_id != same_id
            or not 0 < length <= self.owner.limits.params
            or data[stop + padding :] != end_of_request(request_id)
        ):
            return None
        request = FastCGIExchange(self, request_id)
        self.closing = self.owner.closing or not flags & fcgi.FCGI_KEEP_CONN
        request.complete = True
        _params.decode(data[start:stop], request.params)
        return request

    def _take_params(self, request: FastCGIExchange, content: bytes) -> None:
        if request.complete:
            raise MalformedError("parameters after their end")
        if content:
            request.pairs.append(content)
            request.pairs_size += len(content)
            if request.pairs_size > self.owner.limits.params:
                self._request = None
                request.refuse("414 URI Too Long")
            return
        request.complete = True
        # A pair may begin in one record and end in the next.
        _params.decode(b"".join(request.pairs), request.params)

    def _take_other(self, kind: int, request_id: int, content: bytes) -> None:
        if kind == fcgi.FCGI_BEGIN_REQUEST:
            self._begin(request_id, content)
        elif kind == fcgi.FCGI_ABORT_REQUEST:
            # A response in progress is complete before the next record is examined.
            if self._request is not None and self._request.id == request_id:
                self._request = None
                self.send_now([end_record(request_id, fcgi.FCGI_REQUEST_COMPLETE)])
                if self.closing:
                    self.linger()
        elif kind == fcgi.FCGI_GET_VALUES and request_id == fcgi.FCGI_NULL_REQUEST_ID:
            names: dict[str, object] = {}
            decode_pairs(content, names)
            known = [name for name in names if name in _CAPABILITY]
            pairs = encode_pairs((name.encode(), _CAPABILITY[name]) for name in known)
            self.send_now([record(fcgi.FCGI_GET_VALUES_RESULT, fcgi.FCGI_NULL_REQUEST_ID, pairs)])
        elif kind not in (fcgi.FCGI_PARAMS, fcgi.FCGI_STDIN, fcgi.FCGI_DATA):
            unknown = struct.pack(fcgi.FCGI_UnknownTypeBody, kind)
            self.send_now([record(fcgi.FCGI_UNKNOWN_TYPE, fcgi.FCGI_NULL_REQUEST_ID, unknown)])
        # Other records belong to a request that was refused or aborted.

    def _begin(self, request_id: int, content: bytes) -> None:
        if request_id == fcgi.FCGI_NULL_REQUEST_ID or len(content) != HEADER_SIZE:
            raise MalformedError("a malformed begin of a request")
        role, flags = struct.unpack(fcgi.FCGI_BeginRequestBody, content)
        if self._request is not None:
            if self._request.id == request_id:
                raise MalformedError("a request identifier is used twice")
            self.send_now([end_record(request_id, fcgi.FCGI_CANT_MPX_CONN)])
        elif role != fcgi.FCGI_RESPONDER:
            self.send_now([end_record(request_id, fcgi.FCGI_UNKNOWN_ROLE)])
            if not flags & fcgi.FCGI_KEEP_CONN:
                self.linger()
        else:
            self._request = FastCGIExchange(self, request_id)
            self.closing = not flags & fcgi.FCGI_KEEP_CONN


class FastCGIExchange(Exchange):
    """A FastCGI request and its response.

    Attributes:
        id: number of the request on its connection.
        pairs: contents of the parameter records, until the parameters are complete.
        params: the parameters.
    """

    before_status: ClassVar = "Status: "

    def __init__(self, connection: FastCGIConnection, request_id: int) -> None:
        super().__init__(connection)
        self.id = request_id
        self.pairs: list[bytes] = []
        self.pairs_size = 0
        self.complete = False
        self.params: dict[str, Any] = {}

    def address(self) -> tuple[str, str, Mapping[str, Any]] | None:
        get = self.params.get
        if get("REQUEST_METHOD") != "GET":
            return None
        path = get("SCRIPT_NAME", "") + get("PATH_INFO", "")
        return path, get("QUERY_STRING", ""), self.params

    def environ(self) -> dict[str, Any]:
        environ = {**self.connection.owner.environ, **self.params}
        declared = environ.get("CONTENT_LENGTH")
        if self.body and declared and declared.isdecimal():
            # Truncated, since Python refuses to convert thousands of digits.
            del self.body[int(declared[:20]) :]
        if environ.get("HTTPS", "off") in ("on", "1"):
            environ["wsgi.url_scheme"] = "https"
        return environ

    def frame(self, head: bytes, data: bytes, *, last: bool) -> Buffers:
        buffers = stdout_buffers(self.id, head and head + b"\r\n", data)
        if last:
            buffers.append(end_of_answer(self.id))
        return buffers
