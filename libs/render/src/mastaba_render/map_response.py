"""Responses drawn from stored tiles: maps, and tiles of extra tile matrix sets.

The counterpart of `tile_response` for images that are not stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from functools import lru_cache, partial
from hashlib import blake2b
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Protocol

from mastaba import __version__
from mastaba.model.crs import CRS
from mastaba.model.layer import Layer
from mastaba.model.style import Style
from mastaba.model.surrogate_keys import SURROGATE_KEY, drawn_key
from mastaba_render.encoder import Encoder
from mastaba_render.layer_map import Sources
from mastaba_server.body import Body, SizedBody, spooled
from mastaba_server.web.conditional import etag_matches, last_modified, not_modified_since
from mastaba_server.web.response import Headers, Response

if TYPE_CHECKING:
    from mastaba_render.admission import Admission
    from mastaba_server.web.request import Request


_UNAGREED: Final = "no-cache"
_PLAIN: Final = frozenset((bool, float, int, str, type(None)))
"""Types that are their own identity."""


class Drawable(Protocol):
    """What is drawn from stored tiles, such as a `PreparedMap`."""

    def sources(self) -> Sources:
        """Return the state of the stored tiles. After drawing, of the tiles drawn.

        Raises:
            SlabFormatError, StorageError: an index cannot be read.
        """


def drawn_response(
    request: Request,
    admission: Admission,
    prepared: Sequence[Drawable],
    identity: object,
    cost: int,
    encode: Callable[[], Body | Iterable[bytes]],
    *,
    always: Headers,
    content: Headers,
    is_dated: bool = True,
) -> Response:
    """Return the drawn body, or 304 if the client already has it (RFC 9110 clause 13).

    If the storage has versions of its slabs, nothing is decoded for a client that already has the
    body. Otherwise the ETag is computed from the body.

    Args:
        admission: decides when to draw.
        prepared: the maps, or other drawn things, in the response.
        identity: everything but the stored tiles that affects the bytes, such as the query; the
            ETag contains its `identity_of`.
        cost: peak memory of drawing and encoding, in bytes.
        encode: draws and encodes; returns the body, whole, spooled or in pieces.
        always: headers of both responses.
        content: further headers of a response with a body.
        is_dated: whether the body is as old as its stored tiles; without Last-Modified if not.

    Raises:
        OverloadedError: too many maps are waiting.
        SlabFormatError, StorageError: the stored tiles cannot be read.
    """
    # Encoders change with the version.
    settings = repr((__version__, identity_of(identity))).encode()
    version, modified = _sources(prepared)
    headers = list(always)
    # 0 means that the map contains no stored tile.
    modified = (modified or None) if is_dated else None
    if modified is not None:
        headers.append(("Last-Modified", last_modified(int(modified))))
    etag = None
    if version is not None:
        etag = _etag(settings, b"sources", version.encode())
        if _is_fresh(request, etag, modified):
            return Response(304, [*headers, ("ETag", etag)])
    with admission.map(cost):
        pieces = encode()
        body = pieces if isinstance(pieces, bytes | SizedBody) else spooled(pieces)
    # If a slab was replaced meanwhile, the version of the image is unknown.
    if etag is None or _sources(prepared).version != version:
        etag = _etag(settings, b"body", *([body] if isinstance(body, bytes) else body))
        if _is_fresh(request, etag, None):
            if not isinstance(body, bytes):
                body.close()
            return Response(304, [*headers, ("ETag", etag)])
    return Response(200, [*content, *headers, ("ETag", etag)], body)


def identity_of(value: Any) -> object:
    """Return what a value says about the bytes of a response, with a stable ``repr``.

    A dataclass gives its compared fields; a layer, a style and an encoder what affects pixels.
    """
    kind: Any = type(value)
    return _identity_by_type(kind)(value)


@lru_cache(256)
def _identity_by_type(kind: Any) -> Callable[[Any], object]:
    """Return what `identity_of` does with values of a type."""
    for base, identity in _IDENTITIES.items():
        if issubclass(kind, base):
            return identity
    if is_dataclass(kind):
        compared = [item.name for item in fields(kind) if item.compare]
        return lambda value: _of_members(map(partial(getattr, value), compared))
    return lambda value: value


def _of_layer(layer: Layer) -> object:
    pyramid, raster = layer.pyramid, layer.pyramid.raster
    assert raster is not None
    pixels = pyramid.generation, pyramid.format.name, raster.channels, raster.nodata
    ground = pyramid.tile_matrix_set.crs.code, layer.registration
    return (layer.key, *pixels, *ground, layer.resampling)


def _of_style(style: Style) -> object:
    return style.palette, sorted(style.processing.items())


def _of_encoder(encoder: Encoder) -> object:
    return encoder.media_type, identity_of(encoder.settings) if encoder.settings else None


def _of_mapping(mapping: Mapping[Any, Any]) -> object:
    return [(key, identity_of(mapping[key])) for key in sorted(mapping)]


def _of_set(members: AbstractSet[Any]) -> object:
    return sorted(map(identity_of, members), key=repr)


def _of_members(members: Iterable[Any]) -> object:
    return [item if type(item) in _PLAIN or not item else identity_of(item) for item in members]


_IDENTITIES: Final[Mapping[Any, Callable[[Any], object]]] = {
    Layer: _of_layer,
    Style: _of_style,
    Encoder: _of_encoder,
    CRS: attrgetter("code"),
    Mapping: _of_mapping,
    AbstractSet: _of_set,
    tuple: _of_members,
    list: _of_members,
}


def cache_control(layers: Iterable[Layer]) -> Headers:
    """Return the headers of a map for caches, and `Layer.headers` of its layers.

    Cache-Control is the value on which its layers agree, otherwise ``no-cache``. Surrogate keys
    are added if they are turned on.
    """
    shown = list(layers)
    values = {layer.cache_control for layer in shown}
    agreed = values.pop() if len(values) == 1 else None
    return [
        ("Cache-Control", agreed or _UNAGREED),
        *(header for layer in shown for header in layer.headers),
        *drawn_keys(shown),
    ]


def drawn_keys(layers: Iterable[Layer]) -> Headers:
    """Return the header with the surrogate keys of what is drawn from layers, if turned on."""
    keys: dict[str, None] = {}
    for layer in layers:
        if layer.surrogate_keys:
            keys |= dict.fromkeys((*layer.surrogate_keys, drawn_key(layer.key)))
    return [(SURROGATE_KEY, " ".join(keys))] if keys else []


def _sources(prepared: Sequence[Drawable]) -> Sources:
    parts = [item.sources() for item in prepared]
    return parts[0] if len(parts) == 1 else Sources.joined(parts, "\n")


def _is_fresh(request: Request, etag: str, modified: float | None) -> bool:
    if request.method != "GET":
        return False
    if_none_match = request.environ.get("HTTP_IF_NONE_MATCH")
    if if_none_match:
        return etag_matches(if_none_match, etag)
    since = request.environ.get("HTTP_IF_MODIFIED_SINCE")
    return since is not None and not_modified_since(since, modified)


def _etag(settings: bytes, *content: bytes) -> str:
    digest = blake2b(settings, digest_size=12)
    for piece in content:
        digest.update(piece)
    return f'"{digest.hexdigest()}"'
