"""Answers that are drawn from stored tiles: maps, and tiles of extra tile matrix sets.

The counterpart of `tile_response` for what is not stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from mastaba import __version__
from mastaba.http.conditional import etag_matches, last_modified, not_modified_since
from mastaba.http.response import Response
from mastaba.render.mosaic import latest

if TYPE_CHECKING:
    from mastaba.http.body import Body
    from mastaba.http.request import Request
    from mastaba.model.layer import Layer
    from mastaba.render.admission import Admission
    from mastaba.render.engine import PreparedMap
    from mastaba.render.request import MapLayer

Headers = list[tuple[str, str]]

_UNAGREED: Final = "no-cache"


def drawn_response(
    request: Request,
    admission: Admission,
    prepared: Sequence[PreparedMap],
    identity: object,
    cost: int,
    encode: Callable[[], Body],
    *,
    always: Headers,
    content: Headers,
) -> Response:
    """Return what is drawn, or 304 when the client has it already (RFC 9110 clause 13).

    Nothing is decoded for a client that has it already, where the storage can tell generations
    of its slabs apart. Otherwise the ETag is that of the bytes.

    Args:
        admission: decides when it is drawn.
        prepared: the maps that the answer is made of.
        identity: all that decides the bytes besides the stored tiles, with a stable ``repr``.
        cost: bytes that drawing and encoding hold at once.
        encode: draws and encodes.
        always: headers of both answers.
        content: further headers of an answer with a body.

    Raises:
        OverloadedError: too many maps are waiting.
        SlabFormatError, StorageError: the stored tiles cannot be read.
    """
    # Encoders change with the version.
    settings = repr((__version__, identity)).encode()
    version, modified = _version(prepared), _modified(prepared)
    headers = list(always)
    if modified is not None:
        headers.append(("Last-Modified", last_modified(int(modified))))
    etag = None
    if version is not None:
        etag = _etag(settings, b"sources", version)
        if _is_fresh(request, etag, modified):
            return Response(304, [*headers, ("ETag", etag)])
    with admission.map(cost):
        body = encode()
    # A slab replaced meanwhile has left it open which generation the picture was made of.
    if etag is None or _version(prepared) != version:
        etag = _etag(settings, b"body", *([body] if isinstance(body, bytes) else body))
        if _is_fresh(request, etag, None):
            if not isinstance(body, bytes):
                body.close()
            return Response(304, [*headers, ("ETag", etag)])
    return Response(200, [*content, *headers, ("ETag", etag)], body)


def identity_of(entry: MapLayer) -> tuple[object, ...]:
    """Return what decides the pixels of a layer in a map besides its stored tiles."""
    layer, style = entry.layer, entry.style
    pyramid = layer.pyramid
    pixels = (pyramid.format.name, pyramid.raster, pyramid.tile_matrix_set.crs.code)
    drawn = None if style is None else (style.palette, sorted(style.processing.items()))
    return (layer.id, *pixels, layer.resampling, drawn)


def cache_control(layers: Iterable[Layer]) -> Headers:
    """Return Cache-Control of a map: what its layers agree on, otherwise to be revalidated."""
    values = {layer.cache_control for layer in layers}
    agreed = values.pop() if len(values) == 1 else None
    return [("Cache-Control", agreed or _UNAGREED)]


def _version(prepared: Sequence[PreparedMap]) -> bytes | None:
    versions = [item.version() for item in prepared]
    known = [version for version in versions if version is not None]
    return "\n".join(known).encode() if len(known) == len(versions) else None


def _modified(prepared: Sequence[PreparedMap]) -> float | None:
    return latest(item.modified() for item in prepared) or None


def _is_fresh(request: Request, etag: str, modified: float | None) -> bool:
    if request.method != "GET":
        return False
    if_none_match = request.header("If-None-Match")
    if if_none_match:
        return etag_matches(if_none_match, etag)
    return not_modified_since(request.header("If-Modified-Since"), modified)


def _etag(settings: bytes, *content: bytes) -> str:
    digest = blake2b(settings, digest_size=12)
    for piece in content:
        digest.update(piece)
    return f'"{digest.hexdigest()}"'
