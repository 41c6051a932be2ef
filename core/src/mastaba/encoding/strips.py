"""Compression of the rows of a picture in the ways of TIFF 6.0 (sections 9, 13, Adobe deflate)."""

from __future__ import annotations

import io
from typing import Final

import numpy as np
import numpy.typing as npt
from isal import isal_zlib

_STRIP: Final = 1 << 16
"""Bytes of a strip before compression: readers take one strip at a time."""
_DEFLATE_LEVEL: Final = 1

COMPRESSIONS: Final = {"raw": 1, "lzw": 5, "deflate": 8, "packbits": 32773}
"""Value of the TIFF tag Compression by name."""


def encode_strips(rows: npt.NDArray[np.uint8], compression: str) -> tuple[list[bytes], int]:
    """Return the strips of a picture, and how many rows each but the last one holds.

    Args:
        rows: shape (rows, bytes of a row), contiguous.
        compression: key of `COMPRESSIONS`.
    """
    if compression in ("lzw", "packbits"):
        return _by_libtiff(rows, "tiff_lzw" if compression == "lzw" else compression)
    step = max(1, min(len(rows), _STRIP // rows.shape[1]))
    strips = (rows[start : start + step] for start in range(0, len(rows), step))
    if compression == "raw":
        return [strip.tobytes() for strip in strips], step
    return [isal_zlib.compress(strip, _DEFLATE_LEVEL) for strip in strips], step


def _by_libtiff(rows: npt.NDArray[np.uint8], compression: str) -> tuple[list[bytes], int]:
    # Both compressions see bytes only: a grey picture of the same bytes gives the same strips.
    from PIL import Image, TiffImagePlugin

    stream = io.BytesIO()
    Image.fromarray(rows).save(stream, "TIFF", compression=compression)
    with Image.open(stream) as image:
        assert isinstance(image, TiffImagePlugin.TiffImageFile)
        offsets, sizes = image.tag_v2[273], image.tag_v2[279]
        step: int = image.tag_v2[278]
    whole = stream.getbuffer()
    return [
        bytes(whole[start : start + size]) for start, size in zip(offsets, sizes, strict=True)
    ], step
