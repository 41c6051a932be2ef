"""Decoding of stored tiles (slab.md section 3)."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import simplejpeg
from isal import isal_zlib
from isal.igzip_lib import IsalError
from PIL import Image, features

from mastaba.containers.reader import Delivery
from mastaba.errors import SlabFormatError
from mastaba.model.format import Codec, TileFormat
from mastaba.slab.delivery import tiff_delivery

Pixels = npt.NDArray[Any]
"""dtype uint8 or float32."""

# The type stub of isal declares the error class incorrectly.
_DAMAGE: Final[tuple[type[Exception], ...]] = (  # type: ignore[assignment]
    ValueError,
    OSError,
    SyntaxError,
    zlib.error,
    struct.error,
    IsalError,
    Image.DecompressionBombError,
)
"""Errors that the libraries raise for invalid data."""

_PNG_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_PNG_MODES: Final = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}
_PNG_COLOUR_TYPES: Final = {1: 0, 2: 4, 3: 2, 4: 6}


class TileDecoder:
    """Decodes the tiles of one level.

    Args:
        tile_format: raster tile format of the pyramid.
        channels: number of channels of the pyramid.
        tile_width: pixels.
        tile_height: pixels.
    """

    def __init__(
        self, tile_format: TileFormat, channels: int, tile_width: int, tile_height: int
    ) -> None:
        self._format = tile_format
        self._shape = (tile_height, tile_width, channels)
        self._dtype = np.dtype(tile_format.sample).newbyteorder("<")
        self._as_tiff: Delivery | None = None
        if tile_format.codec in (Codec.LZW, Codec.PACKBITS):
            self._as_tiff = tiff_delivery(tile_format, channels, tile_width, tile_height)

    @property
    def nbytes(self) -> int:
        """Size of one decoded tile in bytes."""
        height, width, channels = self._shape
        return height * width * channels * self._dtype.itemsize

    def decode(self, payload: bytes) -> Pixels:
        """Return the pixels of a tile, shape (tile height, tile width, channels), read-only.

        Raises:
            SlabFormatError: the payload is damaged, or its size does not match the descriptor.
        """
        try:
            pixels = self._decode(payload)
        except _DAMAGE as error:
            raise SlabFormatError(f"a tile in {self._format.name} cannot be decoded") from error
        pixels.flags.writeable = False
        return pixels

    def _decode(self, payload: bytes) -> Pixels:
        match self._format.codec:
            case Codec.RAW:
                return self._from_samples(payload)
            case Codec.ZIP:
                return self._from_samples(_inflate(payload, self.nbytes))
            case Codec.JPEG:
                return self._jpeg(payload)
            case Codec.PNG:
                return self._png(payload)
            case Codec.WEBP | Codec.AVIF:
                return self._opened(payload, self._format.codec.upper())
            case _:
                assert self._as_tiff is not None
                with Image.open(io.BytesIO(self._as_tiff(payload))) as image:
                    return self._checked(np.array(image))

    def _from_samples(self, samples: bytes | bytearray) -> Pixels:
        if len(samples) != self.nbytes:
            raise SlabFormatError(
                f"a tile has {len(samples)} bytes of pixels instead of {self.nbytes}"
            )
        return np.frombuffer(samples, self._dtype).reshape(self._shape)

    def _checked(self, pixels: Pixels) -> Pixels:
        if pixels.ndim == 2:
            pixels = pixels[:, :, np.newaxis]
        if pixels.shape != self._shape:
            raise SlabFormatError(f"a tile has the shape {pixels.shape} instead of {self._shape}")
        return pixels.astype(self._dtype, copy=False)

    def _jpeg(self, payload: bytes) -> Pixels:
        # Checked first, because a small JPEG can declare gigabytes of pixels.
        height, width, *_ = simplejpeg.decode_jpeg_header(payload)
        if (height, width) != self._shape[:2]:
            raise SlabFormatError(f"a tile has {(width, height)} pixels")
        colours = "GRAY" if self._shape[2] == 1 else "RGB"
        return self._checked(simplejpeg.decode_jpeg(payload, colours, fastdct=False))

    def _png(self, payload: bytes) -> Pixels:
        """Decode a PNG, with a fast path for files without row filters, as slab writers create."""
        height, width, channels = self._shape
        data = _single_idat(payload, width, height, _PNG_COLOUR_TYPES[channels])
        if data is not None:
            stride = 1 + width * channels
            rows = np.frombuffer(_inflate(data, height * stride), np.uint8)
            rows = rows.reshape(height, stride)
            if not rows[:, 0].any():
                return np.ascontiguousarray(rows[:, 1:]).reshape(self._shape)
        return self._opened(payload, "PNG")

    def _opened(self, payload: bytes, name: str) -> Pixels:
        if name == "AVIF" and not features.check("avif"):
            raise SlabFormatError("this Pillow cannot decode AVIF: install 11.3 or a later one")
        height, width, channels = self._shape
        with Image.open(io.BytesIO(payload), formats=(name,)) as image:
            if image.size != (width, height):
                raise SlabFormatError(f"a tile has {image.size} pixels")
            return self._checked(np.array(image.convert(_PNG_MODES[channels])))


def _single_idat(payload: bytes, width: int, height: int, colour_type: int) -> bytes | None:
    """Return the IDAT data of a PNG if it has the given size and type and only one IDAT chunk."""
    expected = struct.pack(">IIBBBBB", width, height, 8, colour_type, 0, 0, 0)
    if payload[:8] != _PNG_SIGNATURE or payload[16:29] != expected:
        return None
    position, data = 33, None
    while position + 8 <= len(payload):
        length, kind = struct.unpack_from(">I4s", payload, position)
        if kind == b"IDAT":
            if data is not None:
                return None
            data = payload[position + 8 : position + 8 + length]
        elif kind == b"IEND":
            return data
        position += 12 + length
    return None


def _inflate(data: bytes, size: int) -> bytes:
    """Inflate a zlib stream of exactly ``size`` bytes, without allocating more memory."""
    inflater = isal_zlib.decompressobj()
    result = inflater.decompress(data, size + 1)
    if len(result) != size:
        raise SlabFormatError(f"a tile does not inflate to {size} bytes")
    return result
