"""WebP, if Pillow was built with it."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final

import numpy as np

from mastaba.errors import InvalidParameterError
from mastaba_render.encoded_map import coloured
from mastaba_render.encoder import Encoder, Raster, StripRaster, quality
from mastaba_server.web.parameters import flag

_MAX_SIDE: Final = 16383
"""Pixels; the limit of the format."""
_METHOD: Final = 2
"""Effort, 0 to 6: more takes much time and saves little."""
_BYTES_OF_A_PIXEL: Final = 16
"""Held per pixel: our image, those of Pillow and the codec, and the result."""


class WebpEncoder(Encoder):
    """Writes uint8 rasters of 1 to 4 channels.

    Options: ``quality``, 1 to 100, default 75; ``lossless``, ``true`` for exact pixels.
    """

    name: ClassVar[str] = "webp"
    media_type: ClassVar[str] = "image/webp"
    extension: ClassVar[str] = "webp"
    holds_alpha: ClassVar[bool] = True

    def accepts(self, dtype: np.dtype[np.generic], channels: int) -> bool:
        return dtype == np.uint8 and 1 <= channels <= 4

    def encode_strips(self, raster: StripRaster, options: Mapping[str, str]) -> Iterator[bytes]:
        # Checked before the strips are drawn. The library takes whole images only.
        _check_size(raster.shape)
        yield from super().encode_strips(raster, options)

    def memory(self, shape: tuple[int, int, int], dtype: np.dtype[Any]) -> int:
        return shape[0] * shape[1] * _BYTES_OF_A_PIXEL

    def encode(self, raster: Raster, options: Mapping[str, str]) -> bytes:
        # Most servers never write WebP, and Pillow takes a while to load.
        from PIL import Image

        _check_size(raster.pixels.shape)
        stream = io.BytesIO()
        # WebP has no grey.
        image = Image.fromarray(np.ascontiguousarray(coloured(raster.pixels)))
        if flag(options.get("lossless", "")):
            # Here, quality is an effort too.
            image.save(stream, "WEBP", lossless=True, exact=True, quality=0, method=0)
        else:
            image.save(stream, "WEBP", quality=quality(options), method=_METHOD)
        return stream.getvalue()


def _check_size(shape: tuple[int, ...]) -> None:
    if max(shape[:2]) > _MAX_SIDE:
        raise InvalidParameterError(f"a WebP has at most {_MAX_SIDE} pixels a side", "FORMAT")
