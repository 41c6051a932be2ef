"""Conversion of stored tiles to response bodies (slab.md section 4).

Most tiles are sent unchanged. Raw, LZW, ZIP and PackBits tiles get a TIFF header in front, and
one-channel PNG tiles get the palette of the style.
"""

from __future__ import annotations

import struct
import zlib
from functools import lru_cache
from typing import Final

from mastaba.containers.reader import Delivery
from mastaba.errors import SlabFormatError
from mastaba.model.format import Codec, TileFormat
from mastaba.model.style import Palette
from mastaba.slab.tiff import directory, image_fields

TIFF_COMPRESSIONS: Final = {
    Codec.RAW: "raw",
    Codec.LZW: "lzw",
    Codec.ZIP: "deflate",
    Codec.PACKBITS: "packbits",
}
"""Names of the compressions of codecs, as in `mastaba.slab.tiff`."""

_IHDR_END: Final = 33
_COLOUR_TYPE: Final = 25
_PNG_START: Final = b"\x89PNG\r\n\x1a\n"


def tiff_delivery(
    tile_format: TileFormat, channels: int, tile_width: int, tile_height: int
) -> Delivery:
    """Return the delivery that prepends a little-endian TIFF header with one strip."""
    compression, is_float = TIFF_COMPRESSIONS[tile_format.codec], tile_format.sample != "uint8"
    shape = tile_height, tile_width, channels
    fields = image_fields(shape, compression, tile_height, is_float=is_float)
    before, after = directory(fields, [0xFFFFFFFF]).split(b"\xff" * 4)

    def deliver(payload: bytes) -> bytes:
        return b"".join((before, struct.pack("<I", len(payload)), after, payload))

    return deliver


@lru_cache(maxsize=256)
def palette_delivery(palette: Palette) -> Delivery:
    """Return the delivery that converts a one-channel PNG to an indexed one; pixels are unchanged.

    The delivery raises `SlabFormatError` if the payload is not a PNG.
    """
    colours = [palette.colour(value) for value in range(256)]
    chunks = _chunk(b"PLTE", bytes(part for colour in colours for part in colour[:3]))
    if not palette.no_alpha:
        alphas = (colour[3] for colour in colours)
        # An alpha of -1 means 255 minus the index (style.md section 3).
        chunks += _chunk(b"tRNS", bytes(255 - i if a < 0 else a for i, a in enumerate(alphas)))

    def deliver(payload: bytes) -> bytes:
        if not payload.startswith(_PNG_START) or len(payload) < _IHDR_END:
            raise SlabFormatError("a tile of a PNG pyramid is not a PNG")
        header = payload[12:_COLOUR_TYPE] + b"\x03" + payload[_COLOUR_TYPE + 1 : 29]
        checksum = struct.pack(">I", zlib.crc32(header))
        return b"".join((payload[:12], header, checksum, chunks, payload[_IHDR_END:]))

    return deliver


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
