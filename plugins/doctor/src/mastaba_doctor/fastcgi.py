"""One request to a FastCGI server, as a front server sends it."""

from __future__ import annotations

import socket
import struct
from email.parser import BytesParser
from typing import Final

from mastaba_doctor.answer import SEEN, Answer, media_type
from mastaba_server.transport.fastcgi.records import (
    HEADER_SIZE,
    encode_pairs,
    record,
    unpack_header,
)
from mastaba_server.transport.listener import host_and_port

_BEGIN: Final = 1
_END: Final = 3
_PARAMS: Final = 4
_STDIN: Final = 5
_STDOUT: Final = 6
_RESPONDER: Final = struct.pack("!HB5x", 1, 0)
_MAX_ANSWER: Final = 4 * SEEN
_ALL: Final = frozenset(("", "0.0.0.0"))  # noqa: S104 - connected to, not bound


class NoFastCGIError(Exception):
    """The program that listens does not speak FastCGI, or does not answer."""


def connect(port: str, timeout: float) -> socket.socket:
    """Connect to the ``port`` of a server.json.

    Raises:
        OSError: no one listens there, or access is denied.
        ValueError: it is not an address.
    """
    if ":" not in port:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.settimeout(timeout)
        try:
            sock.connect(port)
        except BaseException:
            sock.close()
            raise
        return sock
    host, number = host_and_port(port)
    return socket.create_connection(("127.0.0.1" if host in _ALL else host, number), timeout)


def get(sock: socket.socket, path: str, query: str = "") -> Answer:
    """Send a GET over a connection, which cannot be used again.

    Raises:
        NoFastCGIError: the response is not FastCGI, or does not arrive in time.
    """
    params = {
        "REQUEST_METHOD": "GET",
        "SCRIPT_NAME": "",
        "PATH_INFO": path,
        "QUERY_STRING": query,
        "REQUEST_URI": f"{path}?{query}" if query else path,
        "SERVER_PROTOCOL": "HTTP/1.1",
        "SERVER_NAME": "localhost",
        "SERVER_PORT": "80",
        "REMOTE_ADDR": "127.0.0.1",
    }
    pairs = encode_pairs((name.encode(), value.encode()) for name, value in params.items())
    records = (
        record(_BEGIN, 1, _RESPONDER),
        record(_PARAMS, 1, pairs),
        record(_PARAMS, 1, b""),
        record(_STDIN, 1, b""),
    )
    try:
        sock.sendall(b"".join(records))
        return _parsed(_output(sock))
    except (OSError, ValueError, struct.error) as error:
        raise NoFastCGIError(str(error) or type(error).__name__) from error


def _output(sock: socket.socket) -> bytes:
    parts: list[bytes] = []
    size = 0
    while size < _MAX_ANSWER:
        version, kind, _, length, padding = unpack_header(_exactly(sock, HEADER_SIZE))
        if version != 1:
            raise ValueError("the answer is not FastCGI")
        content = _exactly(sock, length)
        _exactly(sock, padding)
        if kind == _END:
            break
        if kind == _STDOUT:
            parts.append(content)
            size += length
    return b"".join(parts)


def _exactly(sock: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = sock.recv(size - len(parts))
        if not part:
            raise ValueError("the connection was closed")
        parts += part
    return bytes(parts)


def _parsed(output: bytes) -> Answer:
    head, separator, body = output.partition(b"\r\n\r\n")
    if not separator:
        raise ValueError("the answer has no headers")
    headers = BytesParser().parsebytes(head, headersonly=True)
    status = int((headers.get("Status") or "200").split()[0])
    return Answer(status, media_type(headers.get("Content-Type") or ""), body[:SEEN])
