"""PNG (ISO/IEC 15948): compression tuned for speed, at about the size of common encoders."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt
from isal import isal_zlib

from mastaba.encoding.base import Encoder, Raster

_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_COLOUR_TYPES: Final = {1: 0, 2: 4, 3: 2, 4: 6}
_INDEXED: Final = 3
_NO_FILTER: Final = 0
_UP: Final = 2
_LEVEL: Final = 1
_BLOCK: Final = 1 << 20
"""Bytes that are filtered at a time: memory beside the picture stays small."""


class PngEncoder(Encoder):
    """Writes uint8 rasters of 1 to 4 channels: grey, grey and alpha, RGB, RGBA."""

    name: ClassVar[str] = "png"
    media_type: ClassVar[str] = "image/png"
    extension: ClassVar[str] = "png"
    holds_alpha: ClassVar[bool] = True

    def accepts(self, dtype: np.dtype[np.generic], channels: int) -> bool:
        return dtype == np.uint8 and channels in _COLOUR_TYPES

    def encode(self, raster: Raster, options: Mapping[str, str]) -> bytes:
        return encode_png(np.asarray(raster.pixels, np.uint8))


def encode_png(pixels: npt.NDArray[np.uint8]) -> bytes:
    """Return a PNG of pixels of shape (rows, columns, 1 to 4 channels)."""
    rows, columns, channels = pixels.shape
    samples = np.ascontiguousarray(pixels).reshape(rows, columns * channels)
    return _png(columns, samples, _COLOUR_TYPES[channels], _UP)


def encode_indexed(
    indices: npt.NDArray[np.uint8], palette: Sequence[tuple[int, int, int, int]]
) -> bytes:
    """Return an indexed PNG.

    Args:
        indices: shape (rows, columns); every value is an index into the palette.
        palette: red, green, blue and alpha of 1 to 256 colours, 0 to 255.
    """
    colours = bytes(part for colour in palette for part in colour[:3])
    alphas = bytes(colour[3] for colour in palette).rstrip(b"\xff")
    chunks = _chunk(b"PLTE", colours)
    if alphas:
        chunks += _chunk(b"tRNS", alphas)
    # Differences of indices mean nothing, so filters only make the picture larger.
    return _png(indices.shape[1], np.ascontiguousarray(indices), _INDEXED, _NO_FILTER, chunks)


def _png(
    columns: int,
    samples: npt.NDArray[np.uint8],
    colour_type: int,
    filter_type: int,
    chunks: bytes = b"",
) -> bytes:
    header = struct.pack(">IIBBBBB", columns, len(samples), 8, colour_type, 0, 0, 0)
    return b"".join(
        (
            _SIGNATURE,
            _chunk(b"IHDR", header),
            chunks,
            _chunk(b"IDAT", _compressed(samples, filter_type)),
            _chunk(b"IEND", b""),
        )
    )


def _compressed(samples: npt.NDArray[np.uint8], filter_type: int) -> bytes:
    """Return the zlib stream of filtered rows; ``samples`` has shape (rows, bytes of a row)."""
    rows, width = samples.shape
    step = max(1, min(rows, _BLOCK // (width + 1)))
    compressor = isal_zlib.compressobj(_LEVEL)
    parts = []
    block = np.empty((step, width + 1), np.uint8)
    block[:, 0] = filter_type
    for start in range(0, rows, step):
        stop = min(start + step, rows)
        filtered = block[: stop - start]
        if filter_type == _NO_FILTER:
            filtered[:, 1:] = samples[start:stop]
        else:
            # The row above the first one counts as zeros.
            filtered[0, 1:] = samples[start] - samples[start - 1] if start else samples[0]
            np.subtract(samples[start + 1 : stop], samples[start : stop - 1], out=filtered[1:, 1:])
        parts.append(compressor.compress(filtered))
    parts.append(compressor.flush())
    return b"".join(parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    checksum = isal_zlib.crc32(data, isal_zlib.crc32(kind))
    return b"".join((struct.pack(">I", len(data)), kind, data, struct.pack(">I", checksum)))
