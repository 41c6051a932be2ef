"""FastCGI framing: records and name-value pairs to and from bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import lru_cache

from flup.server import fcgi_base as fcgi

from mastaba_server.transport.connection import MalformedError

HEADER_SIZE = 8
"""Bytes of the header of a record."""
MAX_CONTENT = 0xFFFF
# The largest content that needs no padding to the recommended multiple of 8 bytes.
_CHUNK = 0xFFF8

_header = struct.Struct(fcgi.FCGI_Header)
unpack_header = _header.unpack_from
"""Returns version, type, request id, content length and padding length of a record."""


def record(kind: int, request_id: int, content: bytes) -> bytes:
    """Return one complete record. The content must not exceed 65535 bytes."""
    padding = -len(content) & 7
    header = _header.pack(fcgi.FCGI_VERSION_1, kind, request_id, len(content), padding)
    return b"".join((header, content, bytes(padding)))


def stdout_buffers(request_id: int, head: bytes, body: bytes) -> list[bytes | memoryview]:
    """Return the records of a response as buffers for ``sendmsg``; a large body is not copied."""
    size = len(head) + len(body)
    if size <= MAX_CONTENT:
        padding = -size & 7
        header = _header.pack(fcgi.FCGI_VERSION_1, fcgi.FCGI_STDOUT, request_id, size, padding)
        return [b"".join((header, head, body, bytes(padding)))]
    buffers: list[bytes | memoryview] = []
    if head:
        buffers.append(record(fcgi.FCGI_STDOUT, request_id, head))
    view = memoryview(body)
    full = _header.pack(fcgi.FCGI_VERSION_1, fcgi.FCGI_STDOUT, request_id, _CHUNK, 0)
    whole = len(view) - len(view) % _CHUNK
    for start in range(0, whole, _CHUNK):
        buffers += (full, view[start : start + _CHUNK])
    if whole < len(view):
        buffers.append(record(fcgi.FCGI_STDOUT, request_id, bytes(view[whole:])))
    return buffers


def end_record(request_id: int, status: int) -> bytes:
    """Return the record that ends a request with a protocol status."""
    content = struct.pack(fcgi.FCGI_EndRequestBody, 0, status)
    return record(fcgi.FCGI_END_REQUEST, request_id, content)


@lru_cache(maxsize=256)
def end_of_answer(request_id: int) -> bytes:
    """Return the records that end the output stream and a completed request."""
    return record(fcgi.FCGI_STDOUT, request_id, b"") + end_record(request_id, 0)


@lru_cache(maxsize=256)
def end_of_request(request_id: int) -> bytes:
    """Return the records that end the parameters and the body of a request."""
    return record(fcgi.FCGI_PARAMS, request_id, b"") + record(fcgi.FCGI_STDIN, request_id, b"")


def encode_pairs(pairs: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Encode name-value pairs for PARAMS and GET_VALUES records."""
    return b"".join(fcgi.encode_pair(name, value) for name, value in pairs)


def decode_pairs(data: bytes, into: dict[str, object]) -> None:
    """Add name-value pairs to a dictionary, as native strings (PEP 3333).

    Names with a dot are left out: in a WSGI environment, these are the keys of servers,
    frameworks and applications.

    Raises:
        MalformedError: a length points beyond the end of the data.
    """
    # Decode once: slicing the text is cheaper than decoding each slice.
    text = data.decode("latin-1")
    position = 0
    end = len(data)
    try:
        while position < end:
            name_size = data[position]
            value_size = data[position + 1]
            if name_size < 128 and value_size < 128:
                position += 2
            else:
                name_size, position = size_at(data, position)
                value_size, position = size_at(data, position)
            middle = position + name_size
            name = text[position:middle]
            position = middle + value_size
            if "." not in name:
                into[name] = text[middle:position]
    except (IndexError, struct.error):
        raise MalformedError("a name-value pair is cut short") from None
    if position != end:
        raise MalformedError("a name-value pair is cut short")


def size_at(data: bytes, position: int) -> tuple[int, int]:
    """Return the size of a name or value, and the position after it."""
    size = data[position]
    if size < 128:
        return size, position + 1
    return struct.unpack_from("!L", data, position)[0] & 0x7FFFFFFF, position + 4
