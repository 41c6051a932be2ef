"""Bytes of tiles in archives: as stored, or in the form that a format requires."""

from __future__ import annotations

import gzip
import io
import struct
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import numpy as np
from PIL import Image

from mastaba.api.catalogue import Codec
from mastaba.errors import SlabFormatError
from mastaba_render.api.decoding import TileDecoder

if TYPE_CHECKING:
    from mastaba.api.catalogue import Level, Pyramid

Convert = Callable[[bytes], bytes]
"""Returns the payload of an archive for a stored tile."""

_GZIP: Final = b"\x1f\x8b"
_LEVEL: Final = 6
_COMPRESSIONS: Final = {Codec.RAW: 1, Codec.LZW: 5, Codec.ZIP: 8, Codec.PACKBITS: 32773}


def gzipped(payload: bytes) -> bytes:
    """Return a vector tile with gzip; equal tiles give equal bytes."""
    return payload if payload.startswith(_GZIP) else gzip.compress(payload, _LEVEL, mtime=0)


def plain(payload: bytes) -> bytes:
    """Return a vector tile without gzip.

    Raises:
        SlabFormatError: it is damaged.
    """
    if not payload.startswith(_GZIP):
        return payload
    try:
        return gzip.decompress(payload)
    except (OSError, EOFError, zlib.error) as error:
        raise SlabFormatError(f"a vector tile is damaged: {error}") from None


def as_tiff(pyramid: Pyramid, level: Level) -> Convert:
    """Return the conversion that puts the header of a TIFF with one strip before tiles."""
    assert pyramid.raster is not None
    matrix, channels = level.matrix, pyramid.raster.channels
    is_float = pyramid.format.sample == "float32"
    bits, sample = (32, 3) if is_float else (8, 1)
    is_colour = channels in (3, 4)
    longs = {256: matrix.tile_width, 257: matrix.tile_height, 278: matrix.tile_height}
    shorts = {
        258: (bits,) * channels,
        259: (_COMPRESSIONS[pyramid.format.codec],),
        262: (2 if is_colour else 1,),
        277: (channels,),
        339: (sample,) * channels,
    }
    if channels in (2, 4):
        shorts[338] = (0 if is_float else 2,)
    count = len(longs) + len(shorts) + 2
    end = 8 + 2 + 12 * count + 4
    values, entries = b"", {}
    for tag, numbers in shorts.items():
        packed = struct.pack(f"<{len(numbers)}H", *numbers)
        if len(packed) > 4:
            place = end + len(values)
            values += packed + bytes(len(packed) % 4)
            packed = struct.pack("<I", place)
        entries[tag] = struct.pack("<HHI", tag, 3, len(numbers)) + packed.ljust(4, b"\0")
    for tag, number in longs.items():
        entries[tag] = struct.pack("<HHII", tag, 4, 1, number)
    start = end + len(values)
    entries[273] = struct.pack("<HHII", 273, 4, 1, start)
    before = b"".join(entries[tag] for tag in sorted(entries))
    head = struct.pack("<2sHIH", b"II", 42, 8, count)
    split = sum(1 for tag in entries if tag < 279) * 12

    def convert(payload: bytes) -> bytes:
        size = struct.pack("<HHII", 279, 4, 1, len(payload))
        return b"".join((head, before[:split], size, before[split:], bytes(4), values, payload))

    return convert


def as_gridded(pyramid: Pyramid, level: Level) -> Convert:
    """Return the conversion of float tiles to TIFF as GeoPackage allows it: raw or LZW."""
    matrix, codec = level.matrix, pyramid.format.codec
    if codec in (Codec.RAW, Codec.LZW):
        return as_tiff(pyramid, level)
    decoder = TileDecoder(pyramid.format, 1, matrix.tile_width, matrix.tile_height)

    def convert(payload: bytes) -> bytes:
        pixels = np.asarray(decoder.decode(payload)[:, :, 0], np.float32)
        stream = io.BytesIO()
        Image.fromarray(pixels).save(stream, "TIFF", compression="tiff_lzw")
        return stream.getvalue()

    return convert
