"""One connection from a front server: records in, responses out, never waiting for input."""

from __future__ import annotations

import logging
import select
import socket
import struct
import threading
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from flup.server.fcgi_base import (
    FCGI_ABORT_REQUEST,
    FCGI_BEGIN_REQUEST,
    FCGI_CANT_MPX_CONN,
    FCGI_DATA,
    FCGI_GET_VALUES,
    FCGI_GET_VALUES_RESULT,
    FCGI_KEEP_CONN,
    FCGI_NULL_REQUEST_ID,
    FCGI_PARAMS,
    FCGI_REQUEST_COMPLETE,
    FCGI_RESPONDER,
    FCGI_STDERR,
    FCGI_STDIN,
    FCGI_UNKNOWN_ROLE,
    FCGI_UNKNOWN_TYPE,
    FCGI_VERSION_1,
    Connection,
    FCGI_BeginRequestBody,
    FCGI_UnknownTypeBody,
)

from mastaba.server.exchange import DisconnectedError, FastCGIRequest
from mastaba.server.records import (
    HEADER_SIZE,
    MalformedRecordError,
    decode_pairs,
    encode_pairs,
    end_record,
    record,
    stream_records,
    unpack_header,
)

if TYPE_CHECKING:
    from mastaba.server.fastcgi import FastCGIServer

logger = logging.getLogger(__name__)

# Large enough for many requests without a body, and for bodies in few calls.
_RECEIVE_SIZE = 0x10000
_DONTWAIT = socket.MSG_DONTWAIT
# Far below the kernel's limit on buffers per call, far above what one call can send.
_MAX_BUFFERS = 512


class ErrorStream:
    """The ``wsgi.errors`` of a connection: text for the front server's log."""

    def __init__(self) -> None:
        self.pending: list[str] = []

    def write(self, text: str) -> None:
        """Hold a text until the end of the request."""
        self.pending.append(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Hold several texts until the end of the request."""
        self.pending.extend(lines)

    def flush(self) -> None:
        """Do nothing: the text is sent with the response."""

    def take(self, request_id: int) -> list[bytes]:
        """Return the records of the held texts, and discard the texts."""
        data = "".join(self.pending).encode("utf-8", "backslashreplace")
        self.pending = []
        return [
            *stream_records(FCGI_STDERR, request_id, data),
            record(FCGI_STDERR, request_id, b""),
        ]


class FastCGIConnection(Connection):  # type: ignore[misc]
    """A connection that keeps its parser state between arrivals of data.

    ``run`` is called whenever the socket may be readable or writable, by one thread at a time
    (the one that holds ``owned``). ``hangup`` means that the end of the input was announced and
    must still be read. A connection never waits for input. It waits for room in the socket only
    when an application calls ``write``. Data that does not fit into the socket stays in
    ``output``: at most one piece of a streamed response. The next piece is fetched once it is
    sent.
    """

    def __init__(self, sock: socket.socket, server: FastCGIServer) -> None:
        super().__init__(sock, None, server, 0)
        self.descriptor = sock.fileno()
        self.owned = threading.Lock()
        self.again = False
        self.hangup = False
        self.registered = 0
        self.open = True
        self.answered = False
        self.output: list[memoryview] = []
        self.progress = 0.0
        self.errors = ErrorStream()
        self._input = b""
        self._request: FastCGIRequest | None = None
        self._unfinished: FastCGIRequest | None = None
        self._environ = {**server.environ, "wsgi.errors": self.errors}
        self._reserved = {k: v for k, v in self._environ.items() if k.startswith("wsgi.")}
        self._closing = False
        self._discarding = False

    @property
    def idle(self) -> bool:
        """Whether the connection waits for a new request."""
        return self._request is None and not self._input and not self.output

    @property
    def socket(self) -> socket.socket:
        """The connection's socket."""
        return self._sock  # type: ignore[no-any-return]

    def run(self) -> None:
        """Do all that can be done now. Connection errors close it and do not propagate."""
        try:
            if self.output:
                self._flush()
            while self.open and not self.output:
                data = self._sock.recv(_RECEIVE_SIZE, _DONTWAIT)
                if not data:
                    self.close()
                    return
                if not self._discarding:
                    self._process(data)
                if len(data) < _RECEIVE_SIZE and not self.hangup:
                    # Nothing is left; new data raises a new event.
                    return
        except BlockingIOError:
            pass
        except MalformedRecordError as error:
            logger.warning("FastCGI connection closed: %s", error)
            self.close()
        except (DisconnectedError, OSError) as error:
            logger.debug("FastCGI connection lost: %s", error)
            self.close()

    def close(self) -> None:
        """Close the socket immediately."""
        if self.open:
            self.open = False
            self._request = None
            self.output = []
            self.server.forget(self)
            self._sock.close()
            if self._unfinished is not None:
                self._unfinished.end()

    def send_last(self, buffers: list[bytes | memoryview]) -> None:
        """Send the end of a response, and keep what the socket does not accept.

        :raises DisconnectedError: the connection broke.
        """
        self._unfinished = None
        self._send(buffers)
        if self.output:
            self.progress = time.monotonic()
        else:
            self._answered()

    def send_part(self, buffers: list[bytes | memoryview], request: FastCGIRequest) -> None:
        """Send part of a response, and keep what the socket does not accept.

        The request continues once that is sent.

        :raises DisconnectedError: the connection broke.
        """
        self._unfinished = request
        self._send(buffers)
        self.progress = time.monotonic()

    def send_now(self, buffers: list[bytes | memoryview]) -> None:
        """Send part of a response, waiting for a slow receiver that makes progress.

        :raises DisconnectedError: the connection broke, or the receiver stalled for too long.
        """
        self._send(buffers)
        if self.output:
            self._wait_sent()

    # Records in

    def _process(self, data: bytes) -> None:
        if self._input:
            data = self._input + data
            self._input = b""
        position = 0
        end = len(data)
        while end - position >= HEADER_SIZE:
            version, kind, request_id, length, padding = unpack_header(data, position)
            if version != FCGI_VERSION_1:
                raise MalformedRecordError(f"version {version} of the protocol")
            start = position + HEADER_SIZE
            stop = start + length
            if stop + padding > end:
                break
            position = stop + padding
            request = self._request
            if request is not None and request_id == request.requestId:
                if kind == FCGI_PARAMS:
                    self._take_params(request, data[start:stop])
                    continue
                if kind == FCGI_STDIN:
                    if length:
                        self._take_body(request, data[start:stop])
                        continue
                    self._request = None
                    if request.complete:
                        request.run()
                        if self.output or not self.open:
                            break
                        continue
                    raise MalformedRecordError("a body without the end of the parameters")
            self._take_other(kind, request_id, data[start:stop])
            if not self.open or self._discarding:
                return
        if position < end and self.open:
            self._input = data[position:]

    def _take_params(self, request: FastCGIRequest, content: bytes) -> None:
        if request.complete:
            raise MalformedRecordError("parameters after their end")
        if content:
            request.pairs.append(content)
            request.pairs_size += len(content)
            limit = self.server.max_params
            if request.pairs_size > limit:
                logger.warning("FastCGI request refused: parameters of more than %d bytes", limit)
                self._request = None
                request.refuse("414 URI Too Long")
                self._linger()
            return
        pairs = request.pairs
        environ = self._environ.copy()
        # A pair may begin in one record and end in the next.
        self.server.params.decode(pairs[0] if len(pairs) == 1 else b"".join(pairs), environ)
        # A parameter must not overwrite a key that WSGI reserves.
        environ.update(self._reserved)
        request.pairs = []
        request.environ = environ
        request.complete = True

    def _take_body(self, request: FastCGIRequest, content: bytes) -> None:
        room = self.server.max_body - request.body_size
        if room > 0:
            request.body.append(content[:room])
        request.body_size += len(content)

    def _take_other(self, kind: int, request_id: int, content: bytes) -> None:
        if kind == FCGI_BEGIN_REQUEST:
            self._begin(request_id, content)
        elif kind == FCGI_ABORT_REQUEST:
            # A response in progress is complete before the next record is examined.
            if self._request is not None and self._request.requestId == request_id:
                flags = self._request.flags
                self._request = None
                self._send_small(end_record(request_id, FCGI_REQUEST_COMPLETE))
                if not flags & FCGI_KEEP_CONN:
                    self._linger()
        elif kind == FCGI_GET_VALUES and request_id == FCGI_NULL_REQUEST_ID:
            self._get_values(content)
        elif kind not in (FCGI_PARAMS, FCGI_STDIN, FCGI_DATA):
            unknown = struct.pack(FCGI_UnknownTypeBody, kind)
            self._send_small(record(FCGI_UNKNOWN_TYPE, FCGI_NULL_REQUEST_ID, unknown))
        # Other records belong to a request that was refused or aborted.

    def _begin(self, request_id: int, content: bytes) -> None:
        if request_id == FCGI_NULL_REQUEST_ID or len(content) != HEADER_SIZE:
            raise MalformedRecordError("a malformed begin of a request")
        role, flags = struct.unpack(FCGI_BeginRequestBody, content)
        if self._request is not None:
            if self._request.requestId == request_id:
                raise MalformedRecordError("a request identifier is used twice")
            self._send_small(end_record(request_id, FCGI_CANT_MPX_CONN))
        elif role != FCGI_RESPONDER:
            self._send_small(end_record(request_id, FCGI_UNKNOWN_ROLE))
            if not flags & FCGI_KEEP_CONN:
                self._linger()
        else:
            self._request = FastCGIRequest(self, request_id, role, flags)
            self._closing = not flags & FCGI_KEEP_CONN

    def _get_values(self, content: bytes) -> None:
        asked: dict[str, object] = {}
        decode_pairs(content, asked)
        values = [
            (name.encode("latin-1"), str(self.server.capability[name]).encode("latin-1"))
            for name in asked
            if name in self.server.capability
        ]
        self._send_small(record(FCGI_GET_VALUES_RESULT, FCGI_NULL_REQUEST_ID, encode_pairs(values)))

    def is_aborted(self, request_id: int) -> bool:
        """Return whether the client hung up or aborted the request that is now being served."""
        if self.hangup or not self.again:
            return self.hangup
        # Data has arrived since the request, and is read after it.
        try:
            data = self._sock.recv(HEADER_SIZE, socket.MSG_PEEK | _DONTWAIT)
        except OSError:
            return False
        if len(data) < HEADER_SIZE:
            return not data
        _, kind, aborted, _, _ = unpack_header(data)
        return bool(kind == FCGI_ABORT_REQUEST and aborted == request_id)

    # Bytes out

    def _send(self, buffers: list[bytes | memoryview]) -> bool:
        """Send what the socket accepts, keep the rest; return whether it accepted anything."""
        try:
            sent: int = self._sock.sendmsg(buffers[:_MAX_BUFFERS], (), _DONTWAIT)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            raise DisconnectedError(str(error)) from error
        taken = sent > 0
        for index, buffer in enumerate(buffers):
            if sent < len(buffer):
                self.output = [memoryview(item) for item in buffers[index:]]
                self.output[0] = self.output[0][sent:]
                break
            sent -= len(buffer)
        return taken

    def _send_small(self, data: bytes) -> None:
        # Management records are rare: a client that does not read them may be dropped.
        self.send_now([data])

    def _flush(self) -> None:
        """Send what was kept; then process the input received meanwhile."""
        while self.output:
            output, self.output = self.output, []
            if not self._send([*output]):
                return
            self.progress = time.monotonic()
            if self._unfinished is not None and not self.output:
                self._unfinished.go_on()
        self._answered()
        if self.open and self._input:
            self._process(b"")

    def _answered(self) -> None:
        self.answered = True
        if self._closing:
            self.close()

    def _wait_sent(self) -> None:
        poll = select.poll()
        poll.register(self.descriptor, select.POLLOUT)
        while self.output:
            if not poll.poll(self.server.send_timeout * 1000):
                raise DisconnectedError("the client does not receive its answer")
            output, self.output = self.output, []
            self._send([*output])

    def _linger(self) -> None:
        """Shut down our side, and discard what the client still sends until it closes its own.

        Closing at once would reset the connection before the client has read the response.
        """
        self._discarding = True
        self._input = b""
        self._sock.shutdown(socket.SHUT_WR)
