"""An encoder that passes all conformance tests, from which wrong ones are made by one change."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from mastaba.errors import InvalidParameterError
from mastaba_render.encoder import StripEncoder, StripRaster

_HEADER: Final = struct.Struct("<4sHHBB")
_MAX_SIDE: Final = 0xFFFF
_CHECKS: Final = ("none", "crc")


class FlatEncoder(StripEncoder):
    """Writes a header, the samples and, with the option ``check=crc``, a check sum."""

    name: ClassVar[str] = "flat"
    media_type: ClassVar[str] = "image/x-flat"
    extension: ClassVar[str] = "flat"
    holds_alpha: ClassVar[bool] = True

    def accepts(self, dtype: np.dtype[np.generic], channels: int) -> bool:
        return dtype in (np.uint8, np.float32) and 1 <= channels <= 4

    def check_options(self, options: Mapping[str, str]) -> None:
        if options.get("check", "none") not in _CHECKS:
            raise InvalidParameterError("the check is none or crc", "FORMAT_OPTIONS")

    def encode_strips(self, raster: StripRaster, options: Mapping[str, str]) -> Iterator[bytes]:
        self.check_options(options)
        rows, columns, channels = raster.shape
        if max(rows, columns) > _MAX_SIDE:
            raise InvalidParameterError("at most 65535 pixels a side", "FORMAT")
        yield _HEADER.pack(b"FLAT", rows, columns, channels, raster.dtype.itemsize)
        total = 0
        for strip in raster.strips:
            data = self.samples(strip)
            total = zlib.crc32(data, total)
            yield data
        if options.get("check") == "crc":
            yield struct.pack("<I", total)

    def samples(self, strip: NDArray[Any]) -> bytes:
        return strip.astype(strip.dtype.newbyteorder("<")).tobytes()


def decode(data: bytes) -> NDArray[Any]:
    """Return the samples of an image, shape (rows, columns, channels)."""
    _, rows, columns, channels, size = _HEADER.unpack_from(data)
    dtype = "<f4" if size == 4 else np.uint8
    count = rows * columns * channels
    return np.frombuffer(data, dtype, count, _HEADER.size).reshape(rows, columns, channels)
