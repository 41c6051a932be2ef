"""TIFF 6.0: little-endian, in strips, with one of four compressions (sections 9 and 13)."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from tempfile import SpooledTemporaryFile
from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt
from isal import isal_zlib

from mastaba.errors import InvalidParameterError
from mastaba.slab.tiff import (
    COMPRESSIONS,
    ROWS_PER_STRIP,
    STRIP_OFFSETS,
    STRIP_SIZES,
    Field,
    directory,
    image_fields,
)
from mastaba_render.encoder import Strip, StripEncoder, StripRaster
from mastaba_render.origin import origin_fields

_DEFLATE_LEVEL: Final = 1
_STRIP: Final = 1 << 16
"""Bytes of a strip in the file before compression: readers load one at a time."""
_BLOCK: Final = 1 << 20
"""Bytes compressed at a time."""
_LARGEST: Final = (1 << 32) - (1 << 24)
"""Bytes of pixels. Offsets have 32 bits; the directory and poor compression need extra room."""
_IN_MEMORY: Final = 1 << 22
"""Bytes of compressed strips buffered in memory until the directory is sent; more go to a file."""


class TiffEncoder(StripEncoder):
    """Writes uint8 rasters of 1 to 4 channels, and float32 rasters of any number of channels.

    Option ``compression``: ``raw`` (default), ``lzw``, ``deflate``, ``packbits``.
    """

    name: ClassVar[str] = "tiff"
    media_type: ClassVar[str] = "image/tiff"
    extension: ClassVar[str] = "tif"
    is_picture: ClassVar[bool] = False
    shows_background: ClassVar[bool] = True
    names_sources: ClassVar[bool] = True

    def accepts(self, dtype: np.dtype[np.generic], channels: int) -> bool:
        return dtype == np.float32 or (dtype == np.uint8 and 1 <= channels <= 4)

    def check_options(self, options: Mapping[str, str]) -> None:
        _compression(options)

    def encode_strips(self, raster: StripRaster, options: Mapping[str, str]) -> Iterator[bytes]:
        name = _compression(options)
        rows, columns, channels = raster.shape
        row_size = columns * channels * raster.dtype.itemsize
        if rows * row_size > _LARGEST:
            raise InvalidParameterError("a TIFF holds less than 4 GiB of pixels", "FORMAT")
        height = max(1, min(rows, _STRIP // row_size))
        is_float = raster.dtype.kind == "f"
        fields = [
            *image_fields(raster.shape, name, height, is_float=is_float),
            Field.of(284, "H", 1),  # the channels of a pixel follow each other
            *origin_fields(raster.origin),
            *self._further_fields(raster),
        ]
        if name == "raw":
            starts = range(0, rows, height)
            yield directory(fields, [min(height, rows - start) * row_size for start in starts])
            for strip in raster.strips:
                yield _samples(strip).tobytes()
            return
        # The directory comes first and contains the sizes of all strips.
        sizes: list[int] = []
        with SpooledTemporaryFile(_IN_MEMORY) as waiting:
            for block in raster.regrouped(height * max(1, _BLOCK // (height * row_size))):
                for encoded in compressed_rows(_samples(block), name, height):
                    sizes.append(len(encoded))
                    waiting.write(encoded)
            yield directory(fields, sizes)
            waiting.seek(0)
            while piece := waiting.read(_BLOCK):
                yield piece

    def _further_fields(self, raster: StripRaster) -> list[Field]:
        return []


def _samples(strip: Strip) -> npt.NDArray[np.uint8]:
    """Return the bytes of each row, little-endian."""
    pixels = np.ascontiguousarray(strip, strip.dtype.newbyteorder("<"))
    return pixels.view(np.uint8).reshape(len(pixels), -1)


def _compression(options: Mapping[str, str]) -> str:
    name = options.get("compression", "raw").lower()
    if name not in COMPRESSIONS:
        raise InvalidParameterError(
            f"the compression is one of {', '.join(COMPRESSIONS)}", "FORMAT_OPTIONS"
        )
    return name


def compressed_rows(rows: npt.NDArray[np.uint8], name: str, height: int) -> list[bytes]:
    """Return rows as compressed strips.

    Args:
        rows: shape (rows, bytes of a row), contiguous.
        height: rows in each strip; the last one may hold fewer.
    """
    if name == "deflate":
        starts = range(0, len(rows), height)
        return [isal_zlib.compress(rows[i : i + height], _DEFLATE_LEVEL) for i in starts]
    # libtiff has the other two. Most servers never write them, and Pillow takes a while to load.
    from PIL import Image, TiffImagePlugin

    stream = io.BytesIO()
    method = "tiff_lzw" if name == "lzw" else name
    # Compression sees bytes only: a grey image of the same bytes gives the same strips.
    image = Image.fromarray(rows)
    image.save(stream, "TIFF", compression=method, tiffinfo={ROWS_PER_STRIP: height})
    with Image.open(stream) as written:
        assert isinstance(written, TiffImagePlugin.TiffImageFile)
        offsets, sizes = written.tag_v2[STRIP_OFFSETS], written.tag_v2[STRIP_SIZES]
    whole = stream.getbuffer()
    return [bytes(whole[start : start + size]) for start, size in zip(offsets, sizes, strict=True)]
