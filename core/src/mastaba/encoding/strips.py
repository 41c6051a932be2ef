"""Compression of image rows as in TIFF 6.0 (sections 9, 13, Adobe deflate)."""

from __future__ import annotations

import io
from typing import Final

import numpy as np
import numpy.typing as npt
from isal import isal_zlib

_DEFLATE_LEVEL: Final = 1
_ROWS_PER_STRIP: Final = 278

COMPRESSIONS: Final = {"raw": 1, "lzw": 5, "deflate": 8, "packbits": 32773}
"""Value of the TIFF tag Compression by name."""


def encode_strips(rows: npt.NDArray[np.uint8], compression: str, height: int) -> list[bytes]:
    """Return rows of an image as compressed strips.

    Args:
        rows: shape (rows, bytes of a row), contiguous.
        compression: key of `COMPRESSIONS`.
        height: rows in each strip; the last one may hold fewer.
    """
    if compression in ("lzw", "packbits"):
        return _by_libtiff(rows, "tiff_lzw" if compression == "lzw" else compression, height)
    strips = (rows[start : start + height] for start in range(0, len(rows), height))
    if compression == "raw":
        return [strip.tobytes() for strip in strips]
    return [isal_zlib.compress(strip, _DEFLATE_LEVEL) for strip in strips]


def _by_libtiff(rows: npt.NDArray[np.uint8], compression: str, height: int) -> list[bytes]:
    # Both compressions see bytes only: a grey image of the same bytes gives the same strips.
    from PIL import Image, TiffImagePlugin

    stream = io.BytesIO()
    tags = {_ROWS_PER_STRIP: height}
    Image.fromarray(rows).save(stream, "TIFF", compression=compression, tiffinfo=tags)
    with Image.open(stream) as image:
        assert isinstance(image, TiffImagePlugin.TiffImageFile)
        offsets, sizes = image.tag_v2[273], image.tag_v2[279]
    whole = stream.getbuffer()
    return [bytes(whole[start : start + size]) for start, size in zip(offsets, sizes, strict=True)]
