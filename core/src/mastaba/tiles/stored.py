"""Responses with one stored tile: shared by all tile protocols.

This is the hot path of the server: no decoding, no arrays, and no computation per tile that
could be done once per level.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from mastaba.containers.reader import Delivery, StoredTile, TileReader
from mastaba.errors import (
    NotAcceptableError,
    ObjectNotFoundError,
    SlabFormatError,
    TileNotFoundError,
    TileOutOfRangeError,
)
from mastaba.model.layer import Layer
from mastaba.model.style import Palette, Style
from mastaba.model.surrogate_keys import SURROGATE_KEY, slab_key
from mastaba.model.tile_matrix_set import TileLimits
from mastaba.services import drawing
from mastaba.slab.delivery import palette_delivery, tiff_delivery
from mastaba_server.messages import FAILURE
from mastaba_server.web.conditional import etag_matches, last_modified, not_modified_since
from mastaba_server.web.request import Request
from mastaba_server.web.response import Headers, Response, accepts_coding, content_disposition

if TYPE_CHECKING:
    import numpy.typing as npt

    from mastaba.services.base import Site

TILE: Final = "mastaba.tile"
"""Key in the WSGI environment: the stored tile, or reader, row and column of a missing one."""

_GZIP_MAGIC = b"\x1f\x8b"
_MOST_SHARED: Final = 1024
_MAX_VECTOR_TILE = 64 * 1024 * 1024
"""Bytes; limits the size that a damaged vector tile can inflate to."""


class TilePublisher:
    """Serves the tiles of one level of a layer in one style.

    Args:
        layer: the layer.
        reader: reader of the level.
        style: only a palette on one-channel PNG changes a stored tile; other styles are ignored.
        missing_status: HTTP status for a tile inside the limits that is not stored, unless the
            layer sets another.
    """

    # There may be one for each level of each of many variants, which share what they can: memory
    # that many tiles need stays in the caches of the processor.
    __slots__ = (
        *("_all_limits", "_deliver", "_etag_suffix", "_form", "_keys", "_level", "_limits"),
        *("_palette", "_type_of", "layer", "reader"),
    )

    def __init__(
        self, layer: Layer, reader: TileReader, style: Style | None, missing_status: int = 404
    ) -> None:
        self.layer = layer
        self.reader = reader
        tile_format = layer.pyramid.format
        self._limits = reader.level.limits
        # Further tiles, which other variants of the layer have, are missing in this one.
        self._all_limits = layer.tile_limits.get(reader.level.matrix.id, self._limits)
        # A palette is inserted only into one-channel PNG.
        self._palette = style.palette if style and layer.pyramid.takes_palettes else None
        self._deliver, self._etag_suffix = _delivery(layer, reader, self._palette)
        self._type_of = None if self._palette else reader.type_of
        self._form = _shared_form(
            tile_format.media_type if self._type_of is None else None,
            tile_format.media_type,
            (not self._palette and layer.stored_cache_control) or layer.cache_control,
            layer.headers,
            reader.coding or tile_format.content_encoding,
            layer.missing_tile_status or missing_status,
            is_remote=reader.storage.is_remote,
            is_coded=bool(reader.coding),
            requires_coding=reader.requires_coding,
            may_be_gzip=tile_format.is_vector and not reader.coding,
        )
        self._keys = _shared_keys(layer.surrogate_keys, layer.key)
        name = reader.level.matrix.id
        quoted = quote(name, "")
        self._level = name if name == quoted else quoted

    def respond(self, request: Request, tile_row: int, tile_col: int) -> Response:
        """Return a tile, 304 if the client already has it, or the status for missing tiles.

        Raises:
            TileOutOfRangeError: outside the limits; ``parameters`` names ``row`` and/or ``col``.
            TileNotFoundError: the tile is not stored, and that is an error for this layer.
            NotAcceptableError: the client does not accept the coding of the tile.
            SlabFormatError, StorageError: the slab cannot be read.
        """
        environ = request.environ
        environ[TILE] = self.reader, tile_row, tile_col
        limits = self._limits
        if not (
            limits.min_row <= tile_row <= limits.max_row
            and limits.min_col <= tile_col <= limits.max_col
        ):
            check_limits(self._all_limits, tile_row, tile_col)  # too slow to call for every tile
            return self._missing()
        if FAILURE in environ:
            if isinstance(environ[FAILURE], ObjectNotFoundError):
                return self._missing()
            raise environ[FAILURE]
        reader = self.reader
        expect = reader.expect if self._form.is_remote else reader.locate
        tile = expect(tile_row, tile_col)
        if tile is None:
            return self._missing()
        environ[TILE] = tile
        disposition = self._form.inline
        if "filename" in request.query_string.lower() and (name := request.query.get("filename")):
            media_type = self.layer.pyramid.format.media_type
            disposition = ("Content-Disposition", content_disposition(media_type, name))
        try:
            return self._response(tile, environ, disposition)
        except ObjectNotFoundError:
            return self._missing()

    def pixel_value(
        self, site: Site, tile_row: int, tile_col: int, row: int, column: int
    ) -> npt.NDArray[Any]:
        """Return the value of one pixel of a tile; see `Publisher`."""
        if self.reader.locate(tile_row, tile_col) is None:
            raise TileNotFoundError("no tile is stored here")
        matrix = self.reader.level.matrix
        return site.renderer.stored_value(
            self.layer,
            matrix.id,
            tile_row * matrix.tile_height + row,
            tile_col * matrix.tile_width + column,
        )

    def at(self, tile_row: int, tile_col: int) -> TilePublisher:
        """Return the publisher whose tile is the answer: that of another variant, perhaps."""
        return self

    def surrogate_keys(self, tile_row: int, tile_col: int) -> str:
        """Return the keys of a tile for caches, separated by spaces; empty if they are off."""
        (_, column, row), _ = self.reader.place_of(tile_row, tile_col)
        return self._keys and f"{self._keys}{self._level}/{column}/{row}"

    def find(self, headers: Mapping[str, Any], tile_row: int, tile_col: int) -> Response | None:
        """Return the response of `respond` if the tile is easily found, or else None.

        That is the case if it is stored, and its slab on another machine has a known index.

        Args:
            headers: of the request, by their keys in the WSGI environment. The request has no
                query that gives the tile a file name.

        Raises:
            NotAcceptableError, SlabFormatError, StorageError: as `respond`.
        """
        limits = self._limits
        if not (
            limits.min_row <= tile_row <= limits.max_row
            and limits.min_col <= tile_col <= limits.max_col
        ):
            return None
        reader = self.reader
        locate = reader.known if self._form.is_remote else reader.locate
        tile = locate(tile_row, tile_col)
        return None if tile is None else self._response(tile, headers, self._form.inline)

    def _response(
        self, tile: StoredTile, headers: Mapping[str, Any], disposition: tuple[str, str]
    ) -> Response:
        """Return a tile, or 304. Raises `ObjectNotFoundError` and the errors of `respond`."""
        form = self._form
        if form.may_be_gzip:
            # Only the content shows whether this tile is gzip.
            decode = not accepts_coding(headers, "gzip")
        else:
            decode = form.coding is not None and not _takes(headers, form.coding)
            if decode and form.requires_coding:
                raise NotAcceptableError(
                    f"this tile is only sent in the content coding {form.coding}",
                    headers=[("Vary", "Accept-Encoding")],
                )
        # Nodes that read different descriptors have different ETags, even for equal slabs.
        generation = self.layer.pyramid.generation
        suffix = f"-{generation}{self._etag_suffix}{'-id' if decode else ''}"
        if headers.get("HTTP_IF_NONE_MATCH") or headers.get("HTTP_IF_MODIFIED_SINCE"):
            tile.confirm()
            fields = self._validators(tile, suffix)
            if _is_fresh(headers, tile, fields):
                return Response(304, fields)
        body = tile.read()
        # After the read: if the slab was replaced meanwhile, the tile has another version.
        fields = self._validators(tile, suffix)
        if self._type_of is not None:
            media_type = self._type_of(body)
            fields.append(("Content-Type", media_type))
            if disposition is form.inline:
                disposition = ("Content-Disposition", content_disposition(media_type))
        elif self._deliver and not tile.is_delivered and (decode or not form.is_coded):
            body = _converted(tile, body, self._deliver)
        fields.append(disposition)
        if form.may_be_gzip:
            if body.startswith(_GZIP_MAGIC):
                if decode:
                    body = _inflated(tile, body, zlib.MAX_WBITS + 16, _MAX_VECTOR_TILE)
                else:
                    fields.append(("Content-Encoding", "gzip"))
        elif form.coding and not decode:
            fields.append(("Content-Encoding", form.coding))
        elif decode and not form.is_coded:
            # Four channels of four bytes.
            matrix = self.reader.level.matrix
            largest = 16 * matrix.tile_width * matrix.tile_height
            body = _inflated(tile, body, zlib.MAX_WBITS, largest)
        return Response(200, fields, body)

    def _validators(self, tile: StoredTile, suffix: str) -> Headers:
        fields = [*self._form.fields]
        version = tile.version
        if version is not None:
            fields.append(("ETag", f'"{version}{suffix}"'))
        modified = tile.modified
        if modified is not None:
            fields.append(("Last-Modified", last_modified(int(modified))))
        if self._keys:
            _, column, row = tile.slab
            fields.append((SURROGATE_KEY, f"{self._keys}{self._level}/{column}/{row}"))
        return fields

    def _missing(self) -> Response:
        headers, status = self.layer.missing_headers, self._form.missing_status
        if status == 404:
            raise TileNotFoundError("no tile is stored here", headers)
        if status != 200:
            return Response(status, [*headers])
        matrix = self.reader.level.matrix
        blank: Response = drawing.load("tiles.missing").missing_tile(
            status, self.layer, matrix, self._palette
        )
        blank.headers += headers
        return blank


def check_limits(limits: TileLimits, tile_row: int, tile_col: int) -> None:
    """Refuse a tile outside the limits.

    Raises:
        TileOutOfRangeError: ``parameters`` names ``row`` and/or ``col``.
    """
    at_fault = []
    if not limits.min_row <= tile_row <= limits.max_row:
        at_fault.append("row")
    if not limits.min_col <= tile_col <= limits.max_col:
        at_fault.append("col")
    if at_fault:
        raise TileOutOfRangeError("there is no such tile in this layer", at_fault)


def _converted(tile: StoredTile, payload: bytes, deliver: Delivery) -> bytes:
    try:
        return deliver(payload)
    except (SlabFormatError, zlib.error) as error:
        raise _damaged(tile, str(error)) from None


def _inflated(tile: StoredTile, payload: bytes, window: int, limit: int) -> bytes:
    """Return a payload without its coding.

    Args:
        window: window bits of zlib; 16 added for gzip.
        limit: bytes; a larger result means damage.
    """
    inflater = zlib.decompressobj(window)
    try:
        body = inflater.decompress(payload, limit)
    except zlib.error as error:
        raise _damaged(tile, str(error)) from None
    if not inflater.eof or inflater.unconsumed_tail:
        raise _damaged(tile, "is not one complete compressed stream")
    return body


def _damaged(tile: StoredTile, reason: str) -> SlabFormatError:
    tile.forget_index()
    return SlabFormatError(f"{tile.index.word} {tile.index.key}: tile {tile.number}: {reason}")


def _takes(headers: Mapping[str, Any], coding: str) -> bool:
    # Clients without the header get deflate, as from existing servers.
    is_usual = coding == "deflate" and not headers.get("HTTP_ACCEPT_ENCODING")
    return is_usual or accepts_coding(headers, coding)


def _is_fresh(headers: Mapping[str, Any], tile: StoredTile, fields: Headers) -> bool:
    if_none_match = headers.get("HTTP_IF_NONE_MATCH")
    if if_none_match:
        return any(name == "ETag" and etag_matches(if_none_match, value) for name, value in fields)
    return not_modified_since(headers.get("HTTP_IF_MODIFIED_SINCE"), tile.modified)


@dataclass(frozen=True, slots=True, eq=False)
class _Form:
    """What many publishers share: headers, the first ones of all tiles, and how tiles are coded."""

    fields: tuple[tuple[str, str], ...]
    inline: tuple[str, str]
    coding: str | None
    missing_status: int
    is_remote: bool
    is_coded: bool
    requires_coding: bool
    may_be_gzip: bool


@lru_cache(maxsize=_MOST_SHARED)
def _shared_form(
    media_type: str | None,
    format_type: str,
    cache_control: str | None,
    headers: tuple[tuple[str, str], ...],
    coding: str | None,
    missing_status: int,
    **flags: bool,
) -> _Form:
    """Return the form of the tiles of some publishers.

    Args:
        media_type: of all tiles; None if each has its own. A 304 has none then: caches would store
            it.
        headers: of the layer.
    """
    fields = [("Content-Type", media_type)] if media_type else []
    if cache_control:
        fields.append(("Cache-Control", cache_control))
    if coding or flags["may_be_gzip"]:
        fields.append(("Vary", "Accept-Encoding"))
    inline = ("Content-Disposition", content_disposition(format_type))
    return _Form((*fields, *headers), inline, coding, missing_status, **flags)


@lru_cache(maxsize=_MOST_SHARED)
def _shared_keys(keys: tuple[str, ...], layer: str) -> str:
    """Return the surrogate keys of the tiles of a layer; empty if they are off.

    The last one lacks the level and the place of the slab: updates concern some slabs of a layer.
    """
    return " ".join((*keys, slab_key(layer))) if keys else ""


def _delivery(
    layer: Layer, reader: TileReader, palette: Palette | None
) -> tuple[Delivery | None, str]:
    """Return the conversion of payloads, and its suffix of the ETag."""
    pyramid, matrix = layer.pyramid, reader.level.matrix
    deliver = reader.deliver
    suffix = f"-{reader.etag_suffix}" if reader.etag_suffix else ""
    if deliver is None and pyramid.raster is not None and pyramid.format.needs_tiff_header:
        channels = pyramid.raster.channels
        deliver = tiff_delivery(pyramid.format, channels, matrix.tile_width, matrix.tile_height)
    if palette is not None:
        # If the operator edits a palette, the ETag of unchanged tiles must change.
        suffix += f"-{zlib.crc32(repr(palette).encode()):08x}"
        colour, plain = palette_delivery(palette), deliver
        return colour if plain is None else lambda payload: colour(plain(payload)), suffix
    return deliver, suffix
