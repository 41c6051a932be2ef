"""Export of decoded tiles to image files for viewing."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Final

import numpy as np
from PIL import Image

if TYPE_CHECKING:
    from mastaba_render.api.decoding import Pixels

SUFFIXES: Final = {
    ".png": "PNG",
    ".jpg": "JPEG",
    ".jpeg": "JPEG",
    ".tif": "TIFF",
    ".tiff": "TIFF",
    ".webp": "WEBP",
}
"""Pillow's name of each image format, by file suffix."""

_ALPHA: Final = frozenset((2, 4))
# Deeper than any sea: lower values mean nodata.
_NO_ELEVATION: Final = -12000.0


def picture(pixels: Pixels, suffix: str) -> tuple[bytes, str]:
    """Return an image file of a tile, and a note on how the pixels were changed.

    In TIFF, floating-point samples are unchanged. In other formats, they become grey levels from
    the lowest to the highest value. JPEG has no alpha channel.

    Args:
        pixels: shape (height, width, channels).
        suffix: one of `SUFFIXES`.
    """
    name, note = SUFFIXES[suffix], ""
    if pixels.dtype == np.uint8:
        if name == "JPEG" and pixels.shape[2] in _ALPHA:
            pixels, note = pixels[:, :, :-1], "without its alpha channel"
    elif name != "TIFF":
        pixels, note = _grey(pixels)
    stream = io.BytesIO()
    array = pixels[:, :, 0] if pixels.shape[2] == 1 else pixels
    Image.fromarray(np.ascontiguousarray(array)).save(stream, name)
    return stream.getvalue(), note


def _grey(pixels: Pixels) -> tuple[Pixels, str]:
    values = pixels[np.isfinite(pixels) & (pixels > _NO_ELEVATION)]
    if not values.size:
        return np.zeros(pixels.shape, np.uint8), "black: all values are nodata"
    low, high = float(values.min()), float(values.max())
    scale = 255.0 / (high - low) if high > low else 0.0
    clean = np.clip(np.nan_to_num(pixels.astype(np.float64), nan=low), low, high)
    grey = np.rint((clean - low) * scale).astype(np.uint8)
    return grey, f"black is {low:g}, white is {high:g}"
