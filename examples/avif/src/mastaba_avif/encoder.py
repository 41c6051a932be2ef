"""AVIF by Pillow, which takes whole images only."""

import io
from collections.abc import Mapping

import numpy as np
from PIL import Image

from mastaba.errors import InvalidParameterError
from mastaba_render.api.encoders import Encoder, Raster

_MAX_SIDE = 65536  # pixels, a limit of the format
# AVIF by Pillow has no grey: channels of the raster for RGB or RGBA.
_COLOURS = {1: [0, 0, 0], 2: [0, 0, 0, 1], 3: [0, 1, 2], 4: [0, 1, 2, 3]}


class AvifEncoder(Encoder):
    name = "avif"
    media_type = "image/avif"
    extension = "avif"
    holds_alpha = True

    def accepts(self, dtype: "np.dtype[np.generic]", channels: int) -> bool:
        return dtype == np.uint8 and 1 <= channels <= 4

    def check_options(self, options: Mapping[str, str]) -> None:
        self._quality(options)

    def encode(self, raster: Raster, options: Mapping[str, str]) -> bytes:
        rows, columns, channels = raster.pixels.shape
        if max(rows, columns) > _MAX_SIDE:
            raise InvalidParameterError(f"AVIF has at most {_MAX_SIDE} pixels a side", "FORMAT")
        pixels = np.ascontiguousarray(raster.pixels[:, :, _COLOURS[channels]])
        image, stream = Image.fromarray(pixels), io.BytesIO()
        # One thread: the server draws several maps at a time.
        speed = self.settings.get("speed", 8)
        image.save(stream, "AVIF", quality=self._quality(options), speed=speed, max_threads=1)
        return stream.getvalue()

    def memory(self, shape: tuple[int, int, int], dtype: "np.dtype[np.generic]") -> int:
        return 16 * shape[0] * shape[1] + 2**25  # bytes held at once: planes, codec, result

    def _quality(self, options: Mapping[str, str]) -> int:
        text = options.get("quality")
        if text is None:
            return int(self.settings.get("quality", 75))
        if text.isascii() and text.isdigit() and len(text) < 4 and 1 <= int(text) <= 100:
            return int(text)
        raise InvalidParameterError("quality is not from 1 to 100", "FORMAT_OPTIONS")
