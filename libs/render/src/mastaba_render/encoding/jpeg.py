"""JPEG (ISO/IEC 10918-1), baseline, chroma at half resolution as in stored tiles."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from functools import partial
from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt
import simplejpeg

from mastaba.errors import InvalidParameterError
from mastaba_render.encoder import StripEncoder, StripRaster, quality

_MODES: Final = {1: ("GRAY", "Gray", 8), 3: ("RGB", "420", 16)}
"""Colour space, subsampling, and side of a minimum coded unit (MCU) in pixels, by channels."""
_SECOND_QUALITY: Final = 100
"""At 95, pixels beside an edge change by 20; here, by 3."""
_MAX_SIDE: Final = 65500
"""Pixels; the limit of libjpeg, a little below that of the format."""
_BLOCK: Final = 1 << 21
"""Bytes of pixels encoded at a time."""
_LONGEST_INTERVAL: Final = 0xFFFF
"""MCUs between two restart markers."""

_FRAME, _SCAN = 0xC0, 0xDA
_FIRST_RESTART: Final = 0xD0
_END: Final = b"\xff\xd9"


class JpegEncoder(StripEncoder):
    """Writes uint8 rasters of 1 or 3 channels. Option ``quality``: 1 to 100, default 75.

    The library takes whole images only. A tall image is encoded in blocks of rows that become the
    restart intervals of one scan (ISO/IEC 10918-1, E.1.4): after a restart marker, coding starts
    again as in a separate image.
    """

    name: ClassVar[str] = "jpeg"
    media_type: ClassVar[str] = "image/jpeg"
    extension: ClassVar[str] = "jpg"

    def accepts(self, dtype: np.dtype[np.generic], channels: int) -> bool:
        return dtype == np.uint8 and channels in _MODES

    def encode_strips(self, raster: StripRaster, options: Mapping[str, str]) -> Iterator[bytes]:
        rows, columns, channels = raster.shape
        if max(rows, columns) > _MAX_SIDE:
            raise InvalidParameterError(f"a JPEG has at most {_MAX_SIDE} pixels a side", "FORMAT")
        colour_space, subsampling, side = _MODES[channels]
        across = -(-columns // side)
        units = max(1, min(_BLOCK // (columns * channels * side), _LONGEST_INTERVAL // across))
        encode = partial(
            simplejpeg.encode_jpeg,
            quality=quality(options),
            colorspace=colour_space,
            colorsubsampling=subsampling,
        )
        if units * side >= rows:
            yield encode(raster.whole().pixels)
            return
        for number, block in enumerate(raster.regrouped(units * side)):
            encoded: bytes = encode(np.ascontiguousarray(block))
            frame, scan, data = _places(encoded)
            if number:
                yield bytes((0xFF, _FIRST_RESTART + (number - 1) % 8))
            else:
                # The height follows the marker, length and precision of the frame header.
                yield encoded[: frame + 5] + struct.pack(">H", rows) + encoded[frame + 7 : scan]
                yield struct.pack(">HHH", 0xFFDD, 4, units * across) + encoded[scan:data]
            yield encoded[data : -len(_END)]
        yield _END


def second_jpeg(pixels: npt.NDArray[np.uint8]) -> bytes:
    """Return an image that was a JPEG before: in the best quality, chroma at full resolution.

    Args:
        pixels: shape (rows, columns, channels), contiguous, 1 or 3 channels.
    """
    colour_space, subsampling = ("GRAY", "Gray") if pixels.shape[2] == 1 else ("RGB", "444")
    encoded: bytes = simplejpeg.encode_jpeg(pixels, _SECOND_QUALITY, colour_space, subsampling)
    return encoded


def _places(encoded: bytes) -> tuple[int, int, int]:
    """Return the offsets of the frame header, the scan header and the data of the scan."""
    frame = 0
    place = 2
    while (marker := encoded[place + 1]) != _SCAN:
        if marker == _FRAME:
            frame = place
        place += 2 + _length(encoded, place)
    return frame, place, place + 2 + _length(encoded, place)


def _length(encoded: bytes, place: int) -> int:
    return int.from_bytes(encoded[place + 2 : place + 4], "big")
