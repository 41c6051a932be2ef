"""Encoding of the pixels of one tile as stored in slabs.

It is independent of the decoders of the server. A test that decodes tiles from this module
therefore compares two independent implementations of the format.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from mastaba_writer.deflate import Deflate

__all__ = [
    "TILE_FORMATS",
    "Pixels",
    "TileFormat",
    "encode_tile",
    "tile_format",
]

Pixels = NDArray[Any]
"""Array of shape (rows, columns) or (rows, columns, channels), dtype uint8 or float32."""


@dataclass(frozen=True, slots=True)
class TileFormat:
    """Properties of a pyramid format.

    Attributes:
        compression: value of TIFF tag 259 in the slab header; 0 for vector tiles.
        dtype: sample type, little-endian; None for vector tiles.
        channels: allowed numbers of channels; empty for vector tiles.
    """

    compression: int
    dtype: np.dtype[Any] | None
    channels: frozenset[int]

    @property
    def is_vector(self) -> bool:
        """Whether the payload is a vector tile instead of an image."""
        return self.dtype is None


def _integer(compression: int, *channels: int) -> TileFormat:
    return TileFormat(compression, np.dtype("u1"), frozenset(channels or (1, 2, 3, 4)))


def _float(compression: int) -> TileFormat:
    return TileFormat(compression, np.dtype("<f4"), frozenset({1}))


TILE_FORMATS: Mapping[str, TileFormat] = MappingProxyType(
    {
        "TIFF_RAW_UINT8": _integer(1),
        "TIFF_JPG_UINT8": _integer(7, 3),
        "TIFF_JPG90_UINT8": _integer(7, 3),
        "TIFF_PNG_UINT8": _integer(8),
        "TIFF_LZW_UINT8": _integer(5),
        "TIFF_ZIP_UINT8": _integer(8),
        "TIFF_PKB_UINT8": _integer(32773),
        "TIFF_RAW_FLOAT32": _float(1),
        "TIFF_LZW_FLOAT32": _float(5),
        "TIFF_ZIP_FLOAT32": _float(8),
        "TIFF_PKB_FLOAT32": _float(32773),
        "TIFF_PBF_MVT": TileFormat(0, None, frozenset()),
    }
)
"""The twelve pyramid formats by name."""


def tile_format(name: str) -> TileFormat:
    """Return the properties of a pyramid format.

    Raises:
        ValueError: the format is unknown.
    """
    try:
        return TILE_FORMATS[name]
    except KeyError:
        raise ValueError(f"unknown pyramid format {name!r}") from None


def encode_tile(format: str, pixels: Pixels | bytes, deflate: Deflate = zlib.compress) -> bytes:
    """Return the stored payload of one tile.

    Args:
        format: one of the twelve pyramid formats, for example ``TIFF_PNG_UINT8``.
        pixels: an array of shape (rows, columns) or (rows, columns, channels), uint8 or float32
            depending on the format. Bytes are returned unchanged as an encoded payload, which is
            the only option for vector tiles.
        deflate: compression of PNG and ZIP tiles (see `mastaba_writer.deflate`).

    Raises:
        ValueError: the format is unknown, or does not allow the sample type or the number of
            channels.
    """
    properties = tile_format(format)
    if isinstance(pixels, bytes):
        return pixels
    if properties.dtype is None:
        raise ValueError(f"{format} stores encoded vector tiles: pass bytes, not an array")
    image = pixels[:, :, np.newaxis] if pixels.ndim == 2 else pixels
    if image.ndim != 3 or image.dtype != properties.dtype:
        raise ValueError(f"{format} cannot store {image.dtype} of shape {pixels.shape}")
    if image.shape[2] not in properties.channels:
        raise ValueError(f"{format} cannot store {image.shape[2]} channels")
    image = np.ascontiguousarray(image, properties.dtype)
    return _ENCODERS[format.split("_")[1]](image, deflate)


def _jpeg(image: Pixels, quality: int) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(image).save(stream, "JPEG", quality=quality, subsampling="4:2:0")
    return stream.getvalue()


def _png(image: Pixels, deflate: Deflate) -> bytes:
    rows, columns, channels = image.shape
    colour_type = {1: 0, 2: 4, 3: 2, 4: 6}[channels]
    filtered = np.empty((rows, 1 + columns * channels), np.uint8)
    filtered[:, 0] = 0  # filter "none"
    filtered[:, 1:] = image.reshape(rows, columns * channels)
    return (
        b"\x89PNG\r\n\x1a\n"
        + _png_chunk(b"IHDR", struct.pack(">IIBBBBB", columns, rows, 8, colour_type, 0, 0, 0))
        + _png_chunk(b"IDAT", deflate(filtered.data, 5))
        + _png_chunk(b"IEND", b"")
    )


def _png_chunk(kind: bytes, data: bytes) -> bytes:
    checksum = zlib.crc32(data, zlib.crc32(kind))
    return b"".join([struct.pack(">I", len(data)), kind, data, struct.pack(">I", checksum)])


def _packbits(image: Pixels) -> bytes:
    return b"".join(_packbits_row(row.tobytes()) for row in image)


def _packbits_row(row: bytes) -> bytes:
    """Pack one row; runs shorter than three bytes become part of the adjacent literals."""
    values = np.frombuffer(row, np.uint8)
    starts = np.concatenate(([0], np.flatnonzero(np.diff(values)) + 1, [len(row)]))
    packed = bytearray()
    literal = 0  # first byte not yet written
    lengths = np.diff(starts)
    for run in np.flatnonzero(lengths >= 3):
        start, end = int(starts[run]), int(starts[run + 1])
        _packbits_literal(packed, row[literal:start])
        literal = end
        while end - start >= 2:
            count = min(128, end - start)
            packed += bytes((257 - count, row[start]))
            start += count
        literal = start  # a run longer than 128 may leave a single byte
    _packbits_literal(packed, row[literal:])
    return bytes(packed)


def _packbits_literal(packed: bytearray, data: bytes) -> None:
    for start in range(0, len(data), 128):
        part = data[start : start + 128]
        packed.append(len(part) - 1)
        packed += part


_LZW_CLEAR, _LZW_END, _LZW_FIRST, _LZW_LAST = 256, 257, 258, 4094


def _lzw(image: Pixels) -> bytes:
    """Compress as in TIFF 6 section 13: codes of 9 to 12 bits, whose width grows one code early."""
    bits = _BitWriter()
    bits.write(_LZW_CLEAR, 9)
    codes: dict[tuple[int, int], int] = {}  # (code of a prefix, next byte) -> code
    next_code, width = _LZW_FIRST, 9
    prefix = -1
    for byte in image.tobytes():
        if prefix < 0:
            prefix = byte
            continue
        known = codes.get((prefix, byte))
        if known is not None:
            prefix = known
            continue
        bits.write(prefix, width)
        codes[prefix, byte] = next_code
        prefix = byte
        if next_code == _LZW_LAST:
            bits.write(_LZW_CLEAR, width)
            codes.clear()
            next_code, width = _LZW_FIRST, 9
            continue
        next_code += 1
        width = next_code.bit_length()
    if prefix >= 0:
        bits.write(prefix, width)
        # The decoder adds an entry for the code just written before it reads the next one.
        width = min(12, (next_code + 1).bit_length())
    bits.write(_LZW_END, width)
    return bits.finish()


class _BitWriter:
    """Packs codes, most significant bit first."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._pending = 0
        self._count = 0

    def write(self, code: int, width: int) -> None:
        self._pending = self._pending << width | code
        self._count += width
        while self._count >= 8:
            self._count -= 8
            self._bytes.append(self._pending >> self._count)
            self._pending &= (1 << self._count) - 1

    def finish(self) -> bytes:
        if self._count:
            self._bytes.append(self._pending << (8 - self._count))
        return bytes(self._bytes)


_ENCODERS: Mapping[str, Callable[[Pixels, Deflate], bytes]] = {
    "RAW": lambda image, _: image.tobytes(),
    "ZIP": lambda image, deflate: deflate(image.data, 6),
    "LZW": lambda image, _: _lzw(image),
    "PKB": lambda image, _: _packbits(image),
    "PNG": _png,
    "JPG": lambda image, _: _jpeg(image, 75),
    "JPG90": lambda image, _: _jpeg(image, 90),
}
