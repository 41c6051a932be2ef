"""Raw samples, band interleaved by line (resampling.md section 9)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

import numpy as np

from mastaba_render.encoder import StripEncoder, StripRaster


class BilEncoder(StripEncoder):
    """Writes little-endian float32 without a header; uint8 samples become floats.

    Rows start at the top. A row holds all samples of the first channel, then of the second.
    """

    name: ClassVar[str] = "bil"
    media_type: ClassVar[str] = "image/x-bil;bits=32"
    extension: ClassVar[str] = "bil"
    is_picture: ClassVar[bool] = False

    def accepts(self, dtype: np.dtype[np.generic], channels: int) -> bool:
        return dtype in (np.uint8, np.float32) and channels >= 1

    def encode_strips(self, raster: StripRaster, options: Mapping[str, str]) -> Iterator[bytes]:
        for strip in raster.strips:
            yield strip.transpose(0, 2, 1).astype("<f4").tobytes()
