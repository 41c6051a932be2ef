"""TIFF 6.0: little-endian, in strips, with one of four compressions (sections 9 and 13)."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from tempfile import SpooledTemporaryFile
from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt
from isal import isal_zlib

from mastaba.errors import InvalidParameterError
from mastaba.render.encoding.base import Strip, StripEncoder, StripRaster

_COMPRESSIONS: Final = {"raw": 1, "lzw": 5, "deflate": 8, "packbits": 32773}
"""Value of the tag Compression by name."""
_DEFLATE_LEVEL: Final = 1
_ROWS_PER_STRIP: Final = 278
_STRIP_OFFSETS, _STRIP_SIZES = 273, 279

_HEADER: Final = 8
_ENTRY: Final = 12
_INLINE: Final = 4
"""Bytes of values that fit into the directory entry itself."""
_UNASSOCIATED_ALPHA: Final = 2
_STRIP: Final = 1 << 16
"""Bytes of a strip in the file before compression: readers load one at a time."""
_BLOCK: Final = 1 << 20
"""Bytes compressed at a time."""
_LARGEST: Final = (1 << 32) - (1 << 24)
"""Bytes of pixels. Offsets have 32 bits; the directory and poor compression need extra room."""
_IN_MEMORY: Final = 1 << 22
"""Bytes of compressed strips buffered in memory until the directory is sent; more go to a file."""


@dataclass(frozen=True, slots=True)
class Field:
    """One entry of the directory.

    Attributes:
        tag: tag number.
        kind: letter as in `struct`: ``s`` text, ``H`` short, ``I`` long, ``d`` double.
        values: at least one.
    """

    tag: int
    kind: str
    values: tuple[int, ...] | tuple[float, ...] | bytes

    _TYPES: ClassVar[Mapping[str, int]] = {"s": 2, "H": 3, "I": 4, "d": 12}

    def packed(self) -> tuple[int, int, bytes]:
        """Return the type number, count and bytes of the values."""
        number = self._TYPES[self.kind]
        if isinstance(self.values, bytes):
            return number, len(self.values), self.values
        return (
            number,
            len(self.values),
            struct.pack(f"<{len(self.values)}{self.kind}", *self.values),
        )


class TiffEncoder(StripEncoder):
    """Writes uint8 rasters of 1 to 4 channels, and float32 rasters of any number of channels.

    Option ``compression``: ``raw`` (default), ``lzw``, ``deflate``, ``packbits``.
    """

    name: ClassVar[str] = "tiff"
    media_type: ClassVar[str] = "image/tiff"
    extension: ClassVar[str] = "tif"
    is_picture: ClassVar[bool] = False

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
        fields = _layout(raster.shape, raster.dtype.kind == "f")
        fields += [
            Field(259, "H", (_COMPRESSIONS[name],)),
            Field(_ROWS_PER_STRIP, "I", (height,)),
            *self._further_fields(raster),
        ]
        if name == "raw":
            starts = range(0, rows, height)
            yield _directory(fields, [min(height, rows - start) * row_size for start in starts])
            for strip in raster.strips:
                yield _samples(strip).tobytes()
            return
        # The directory comes first and contains the sizes of all strips.
        sizes: list[int] = []
        with SpooledTemporaryFile(_IN_MEMORY) as waiting:
            for block in raster.regrouped(height * max(1, _BLOCK // (height * row_size))):
                for encoded in _compressed(_samples(block), name, height):
                    sizes.append(len(encoded))
                    waiting.write(encoded)
            yield _directory(fields, sizes)
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
    if name not in _COMPRESSIONS:
        raise InvalidParameterError(
            f"the compression is one of {', '.join(_COMPRESSIONS)}", "FORMAT_OPTIONS"
        )
    return name


def _compressed(rows: npt.NDArray[np.uint8], name: str, height: int) -> list[bytes]:
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
    image.save(stream, "TIFF", compression=method, tiffinfo={_ROWS_PER_STRIP: height})
    with Image.open(stream) as written:
        assert isinstance(written, TiffImagePlugin.TiffImageFile)
        offsets, sizes = written.tag_v2[_STRIP_OFFSETS], written.tag_v2[_STRIP_SIZES]
    whole = stream.getbuffer()
    return [bytes(whole[start : start + size]) for start, size in zip(offsets, sizes, strict=True)]


def _layout(shape: Sequence[int], is_float: bool) -> list[Field]:
    rows, columns, channels = shape
    is_colour = channels in (3, 4)
    fields = [
        Field(256, "I", (columns,)),
        Field(257, "I", (rows,)),
        Field(258, "H", (32 if is_float else 8,) * channels),
        Field(262, "H", (2 if is_colour else 1,)),
        Field(277, "H", (channels,)),
        Field(284, "H", (1,)),
        Field(339, "H", (3 if is_float else 1,) * channels),
    ]
    extra = channels - (3 if is_colour else 1)
    if extra:
        meaning = 0 if is_float else _UNASSOCIATED_ALPHA
        fields.append(Field(338, "H", (meaning,) * extra))
    return fields


def _directory(fields: Sequence[Field], sizes: Sequence[int]) -> bytes:
    """Return everything before the strips: header, directory, values that do not fit into it.

    Args:
        sizes: bytes of each strip.
    """
    start = _start_of_strips([*fields, _offsets(sizes, 0), Field(_STRIP_SIZES, "I", tuple(sizes))])
    fields = sorted(
        [*fields, _offsets(sizes, start), Field(_STRIP_SIZES, "I", tuple(sizes))],
        key=lambda field: field.tag,
    )
    directory = [struct.pack("<2sHIH", b"II", 42, _HEADER, len(fields))]
    values = []
    position = _HEADER + 2 + _ENTRY * len(fields) + 4
    for field in fields:
        number, count, packed = field.packed()
        directory.append(struct.pack("<HHI", field.tag, number, count))
        if len(packed) <= _INLINE:
            directory.append(packed.ljust(_INLINE, b"\0"))
        else:
            directory.append(struct.pack("<I", position))
            packed += b"\0" * (len(packed) % 2)  # values start at even offsets
            values.append(packed)
            position += len(packed)
    return b"".join([*directory, struct.pack("<I", 0), *values])


def _offsets(sizes: Sequence[int], start: int) -> Field:
    positions = []
    for size in sizes:
        positions.append(start)
        start += size
    return Field(_STRIP_OFFSETS, "I", tuple(positions))


def _start_of_strips(fields: Sequence[Field]) -> int:
    lengths = [len(field.packed()[2]) for field in fields]
    outside = sum(length + length % 2 for length in lengths if length > _INLINE)
    return _HEADER + 2 + _ENTRY * len(fields) + 4 + outside
