"""A decoded tile as a picture file, for a human to look at."""

from __future__ import annotations

import io
from typing import Final

import numpy as np
from PIL import Image

from mastaba.slab.codecs import Pixels

SUFFIXES: Final = {
    ".png": "PNG",
    ".jpg": "JPEG",
    ".jpeg": "JPEG",
    ".tif": "TIFF",
    ".tiff": "TIFF",
    ".webp": "WEBP",
}
"""Pillow's name of each picture format, by file suffix."""

_ALPHA: Final = frozenset((2, 4))
# Deeper than any sea: such numbers stand for the absence of data.
_NO_ELEVATION: Final = -12000.0


def picture(pixels: Pixels, suffix: str) -> tuple[bytes, str]:
    """Return a picture of a tile, and a sentence on what was changed for it.

    Floating-point samples stay as they are in TIFF; in the other formats they become grey levels
    from the lowest to the highest value. JPEG drops an alpha channel.

    Args:
        pixels: shape (height, width, channels).
        suffix: one of `SUFFIXES`.
    """
    name, said = SUFFIXES[suffix], ""
    if pixels.dtype == np.uint8:
        if name == "JPEG" and pixels.shape[2] in _ALPHA:
            pixels, said = pixels[:, :, :-1], "without its alpha channel"
    elif name != "TIFF":
        pixels, said = _grey(pixels)
    stream = io.BytesIO()
    array = pixels[:, :, 0] if pixels.shape[2] == 1 else pixels
    Image.fromarray(np.ascontiguousarray(array)).save(stream, name)
    return stream.getvalue(), said


def _grey(pixels: Pixels) -> tuple[Pixels, str]:
    values = pixels[np.isfinite(pixels) & (pixels > _NO_ELEVATION)]
    if not values.size:
        return np.zeros(pixels.shape, np.uint8), "black: no value is data"
    low, high = float(values.min()), float(values.max())
    scale = 255.0 / (high - low) if high > low else 0.0
    clean = np.clip(np.nan_to_num(pixels.astype(np.float64), nan=low), low, high)
    grey = np.rint((clean - low) * scale).astype(np.uint8)
    return grey, f"black is {low:g}, white is {high:g}"
