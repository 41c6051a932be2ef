"""Answers that grow with the request: written piece by piece, to a file if they are large."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from itertools import chain
from typing import TYPE_CHECKING, Final

from mastaba_server.body import SizedBody, head_of, spooled
from mastaba_server.cancellation import check
from mastaba_server.web.conditional import is_known
from mastaba_server.web.response import (
    ADDRESSES,
    DOCUMENT,
    Document,
    Response,
    accepts_coding,
    content_disposition,
)

if TYPE_CHECKING:
    from mastaba_server.web.request import Request

_FAST: Final = 1
"""Level of gzip; better ones take several times as long."""
_GZIP: Final = 16 + zlib.MAX_WBITS


def large_response(request: Request, pieces: Iterable[bytes], media_type: str) -> Response:
    """Return an answer with the headers of a `Document`, also 304.

    All pieces are written before anything is sent. Beyond `mastaba_server.body.IN_MEMORY` they go
    to a temporary file, compressed if the client accepts gzip.

    Raises:
        ClientGoneError, OverloadedError: the answer is no longer wanted.
    """
    digest = blake2b(digest_size=9)
    rest = while_wanted(pieces)
    head, is_all = head_of(rest)
    if is_all:
        return Document(b"".join(head), media_type).respond(request)
    # Caches treat it as a document; the server cannot answer the next request from it.
    request.environ[DOCUMENT] = None

    whole: Iterable[bytes] = chain(head, rest)
    if ADDRESSES in request.environ:
        # Compressed bodies cannot be changed later.
        whole = request.environ[ADDRESSES].pieces(whole)

    def hashed() -> Iterator[bytes]:
        for piece in whole:
            digest.update(piece)
            yield piece
        head.clear()

    compress = accepts_coding(request.environ, "gzip")
    body = spooled(_compressed(hashed()) if compress else hashed())
    etag = f'"{digest.hexdigest()}-gz"' if compress else f'"{digest.hexdigest()}"'
    headers = [("ETag", etag), ("Vary", "Accept-Encoding, Accept")]
    if is_known(request.environ, etag):
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


def while_wanted(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield pieces; errors of `large_response`."""
    for piece in pieces:
        check()
        yield piece


def _compressed(pieces: Iterable[bytes]) -> Iterator[bytes]:
    packer = zlib.compressobj(_FAST, zlib.DEFLATED, _GZIP)
    for piece in pieces:
        yield packer.compress(piece)
    yield packer.flush()
