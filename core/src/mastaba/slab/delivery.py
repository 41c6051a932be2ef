"""Conversion of stored tiles to response bodies (slab.md section 4).

Most tiles are sent unchanged. Raw, LZW, ZIP and PackBits tiles get a TIFF header in front, and
one-channel PNG tiles get the palette of the style.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from mastaba.errors import SlabFormatError
from mastaba.model.format import Codec, TileFormat
from mastaba.model.style import Palette

Delivery = Callable[[bytes], bytes]
"""Converts one stored tile to a response body."""

_COMPRESSION: Final = {Codec.RAW: 1, Codec.LZW: 5, Codec.ZIP: 8, Codec.PACKBITS: 32773}
_SHORT: Final = 3
_LONG: Final = 4
_IHDR_END: Final = 33
_COLOUR_TYPE: Final = 25
_PNG_START: Final = b"\x89PNG\r\n\x1a\n"


def tiff_delivery(
    tile_format: TileFormat, channels: int, tile_width: int, tile_height: int
) -> Delivery:
    """Return the delivery that prepends a little-endian TIFF header with one strip."""
    before, after = _tiff_header(tile_format, channels, tile_width, tile_height)

    def deliver(payload: bytes) -> bytes:
        return b"".join((before, struct.pack("<I", len(payload)), after, payload))

    return deliver


def _tiff_header(
    tile_format: TileFormat, channels: int, tile_width: int, tile_height: int
) -> tuple[bytes, bytes]:
    """Return the parts of the header before and after the strip byte count."""
    has_alpha = channels in (2, 4)
    bits, sample_format = (32, 3) if tile_format.sample == "float32" else (8, 1)
    entry_count = 11 if has_alpha else 10
    ifd_end = 8 + 2 + 12 * entry_count + 4
    # Up to two short values fit into the entry; more are stored after the directory.
    outside = channels > 2
    per_channel = struct.Struct(f"<{channels}H")
    header_length = ifd_end + (2 * per_channel.size if outside else 0)

    def channel_values(tag: int, value: int, position: int) -> bytes:
        if outside:
            return struct.pack("<HHII", tag, _SHORT, channels, position)
        values = per_channel.pack(*[value] * channels)
        return struct.pack("<HHI", tag, _SHORT, channels) + values.ljust(4, b"\0")

    def entry(tag: int, kind: int, value: int) -> bytes:
        return struct.pack("<HHII", tag, kind, 1, value)

    entries = [
        entry(256, _LONG, tile_width),
        entry(257, _LONG, tile_height),
        channel_values(258, bits, ifd_end),
        entry(259, _SHORT, _COMPRESSION[tile_format.codec]),
        entry(262, _SHORT, 2 if channels > 2 else 1),
        entry(273, _LONG, header_length),
        entry(277, _SHORT, channels),
        entry(278, _LONG, tile_height),
        entry(279, _LONG, 0),
    ]
    byte_count_at = 8 + 2 + 12 * len(entries) - 4
    if has_alpha:
        entries.append(entry(338, _SHORT, 2))
    entries.append(channel_values(339, sample_format, ifd_end + per_channel.size))
    header = b"".join(
        [struct.pack("<2sHIH", b"II", 42, 8, entry_count), *entries, struct.pack("<I", 0)]
    )
    if outside:
        header += per_channel.pack(*[bits] * channels) + per_channel.pack(
            *[sample_format] * channels
        )
    return header[:byte_count_at], header[byte_count_at + 4 :]


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
        return b"".join(
            (
                payload[:12],
                header,
                struct.pack(">I", zlib.crc32(header)),
                chunks,
                payload[_IHDR_END:],
            )
        )

    return deliver


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
