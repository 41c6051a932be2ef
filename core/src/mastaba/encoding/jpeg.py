"""JPEG (ISO/IEC 10918-1), baseline, chroma at half resolution as in stored tiles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

import numpy as np
import simplejpeg

from mastaba.encoding.base import Encoder, Raster
from mastaba.encoding.options import quality
from mastaba.errors import InvalidParameterError

_MODES: Final = {1: ("GRAY", "Gray"), 3: ("RGB", "420")}
_MAX_SIDE: Final = 65500
"""Pixels; the limit of libjpeg, a little below that of the format."""


class JpegEncoder(Encoder):
    """Writes uint8 rasters of 1 or 3 channels. Option ``quality``: 1 to 100, default 75."""

    name: ClassVar[str] = "jpeg"
    media_type: ClassVar[str] = "image/jpeg"
    extension: ClassVar[str] = "jpg"

    def accepts(self, dtype: np.dtype[np.generic], channels: int) -> bool:
        return dtype == np.uint8 and channels in _MODES

    def encode(self, raster: Raster, options: Mapping[str, str]) -> bytes:
        pixels = np.ascontiguousarray(raster.pixels)
        rows, columns, channels = pixels.shape
        if max(rows, columns) > _MAX_SIDE:
            raise InvalidParameterError(f"a JPEG has at most {_MAX_SIDE} pixels a side", "FORMAT")
        colour_space, subsampling = _MODES[channels]
        encoded: bytes = simplejpeg.encode_jpeg(pixels, quality(options), colour_space, subsampling)
        return encoded
