"""Answers that grow with the request: written piece by piece, to a file if they are large."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from itertools import chain
from typing import TYPE_CHECKING, Final

from mastaba.api.web import (
    Document,
    Response,
    SizedBody,
    accepts_coding,
    check_wanted,
    content_disposition,
    spooled,
)

if TYPE_CHECKING:
    from mastaba.api.web import Request

IN_MEMORY: Final = 1024 * 1024
"""Bytes of an answer that is kept in memory."""

_PIECE: Final = 256 * 1024
_FAST: Final = 1
"""Level of gzip; better ones take several times as long."""
_GZIP: Final = 16 + zlib.MAX_WBITS


def large_response(request: Request, pieces: Iterable[bytes], media_type: str) -> Response:
    """Return an answer with the headers of a `Document`, also 304.

    All pieces are written before anything is sent. Beyond `IN_MEMORY` they go to a temporary file,
    compressed if the client accepts gzip.

    Raises:
        ClientGoneError, OverloadedError: the answer is no longer wanted.
    """
    digest = blake2b(digest_size=9)
    rest = _checked(pieces)
    head: list[bytes] = []
    for piece in rest:
        head.append(piece)
        if sum(map(len, head)) > IN_MEMORY:
            break
    else:
        return Document(b"".join(head), media_type).respond(request)
    # It also says that caches treat the answer as a document.
    Document(b"", media_type).respond(request)

    def hashed() -> Iterator[bytes]:
        for piece in chain(head, rest):
            digest.update(piece)
            yield piece
        head.clear()

    compress = accepts_coding(request.environ, "gzip")
    body = spooled(_compressed(hashed()) if compress else hashed())
    etag = f'"{digest.hexdigest()}-gz"' if compress else f'"{digest.hexdigest()}"'
    headers = [("ETag", etag), ("Vary", "Accept-Encoding, Accept")]
    if _is_known(request, etag):
        if isinstance(body, SizedBody):
            body.close()
        return Response(304, headers)
    headers += [
        ("Content-Type", media_type),
        ("Content-Disposition", content_disposition(media_type)),
    ]
    if compress:
        headers.append(("Content-Encoding", "gzip"))
    return Response(200, headers, body)


def in_pieces(data: bytes) -> Iterator[bytes]:
    """Yield parts of an answer that is in memory."""
    for start in range(0, len(data), _PIECE):
        yield data[start : start + _PIECE]


def _checked(pieces: Iterable[bytes]) -> Iterator[bytes]:
    for piece in pieces:
        check_wanted()
        yield piece


def _compressed(pieces: Iterable[bytes]) -> Iterator[bytes]:
    packer = zlib.compressobj(_FAST, zlib.DEFLATED, _GZIP)
    for piece in pieces:
        yield packer.compress(piece)
    yield packer.flush()


def _is_known(request: Request, etag: str) -> bool:
    known = request.environ.get("HTTP_IF_NONE_MATCH", "").split(",")
    return any(item.strip().removeprefix("W/") in (etag, "*") for item in known)
