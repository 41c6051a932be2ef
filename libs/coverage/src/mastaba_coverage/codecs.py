"""Compression of the tiles and strips of TIFF files, and the predictors before it."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
from isal import isal_zlib

from mastaba.api.catalogue import Codec
from mastaba.errors import InvalidParameterError
from mastaba_coverage.shape import TileShape
from mastaba_render.api.geotiff import Field

if TYPE_CHECKING:
    from mastaba_render.api.decoding import Pixels

COMPRESSIONS: Final = {
    "none": 1,
    "lzw": 5,
    "jpeg": 7,
    "deflate": 8,
    "packbits": 32773,
    "lerc": 34887,
    "zstd": 50000,
    "webp": 50001,
}
"""Values of the tag Compression."""

PREDICTORS: Final = ("none", "horizontal", "floating-point")
"""Names of the values 1, 2 and 3 of the tag Predictor."""

STORED: Final = {
    Codec.RAW: "none",
    Codec.LZW: "lzw",
    Codec.JPEG: "jpeg",
    Codec.ZIP: "deflate",
    Codec.PACKBITS: "packbits",
}
"""Compressions of the codecs whose stored tiles are tiles of TIFF too."""

_OPTIONAL: Final = ("lerc", "zstd", "webp")
_PREDICTED: Final = ("lzw", "deflate", "zstd")
_LONGEST: Final = {"jpeg": 65500, "webp": 16382}
"""Columns, and rows, that libjpeg and imagecodecs write."""
_MCU: Final = 16
"""Rows of JPEG that are compressed together, where chroma has half the resolution."""
_DEFLATE_LEVEL: Final = 1
_ZSTD_LEVEL: Final = 9
_QUALITY: Final = 90
_LERC_VERSION: Final = 4
_ROWS_PER_STRIP, _STRIP_OFFSETS, _STRIP_SIZES = 278, 273, 279


@cache
def offered_compressions() -> tuple[str, ...]:
    """Return the names of the compressions that the installed libraries can write."""
    try:
        import imagecodecs
    except ImportError:
        return tuple(name for name in COMPRESSIONS if name not in _OPTIONAL)
    has = {name: bool(getattr(imagecodecs, name.upper()).available) for name in _OPTIONAL}
    return tuple(name for name in COMPRESSIONS if has.get(name, True))


@dataclass(frozen=True)
class TileCodec:
    """Compresses tiles.

    Attributes:
        name: one of `COMPRESSIONS`.
        predictor: value of the tag: 1 none, 2 horizontal, 3 floating point.
    """

    name: str
    predictor: int = 1

    @classmethod
    def of(cls, name: str, predictor: str | None, dtype: np.dtype[Any], channels: int) -> TileCodec:
        """Return a codec for some pixels.

        Args:
            name: one of `COMPRESSIONS`.
            predictor: one of `PREDICTORS`; None for the usual one.
            dtype: uint8 or float32.
            channels: number of channels.

        Raises:
            InvalidParameterError: the codec cannot hold such pixels.
        """
        is_float = dtype.kind == "f"
        if name == "jpeg" and (is_float or channels not in (1, 3)):
            raise InvalidParameterError(
                "jpeg compresses one or three fields of 8 bits", "compression"
            )
        if name == "webp" and (is_float or channels not in (3, 4)):
            raise InvalidParameterError(
                "webp compresses three or four fields of 8 bits", "compression"
            )
        usual = "floating-point" if is_float else "horizontal"
        if predictor in (None, "none"):
            has_usual = predictor is None and name in _PREDICTED
            return cls(name, 1 + PREDICTORS[1:].index(usual) + 1 if has_usual else 1)
        if name not in _PREDICTED:
            raise InvalidParameterError(f"{name} has no predictor", "predictor")
        if predictor != usual:
            kind = "floats" if is_float else "8-bit values"
            raise InvalidParameterError(f"the predictor of {kind} is {usual}", "predictor")
        return cls(name, PREDICTORS.index(usual) + 1)

    @property
    def compression(self) -> int:
        """Value of the tag Compression."""
        return COMPRESSIONS[self.name]

    @property
    def fields(self) -> list[Field]:
        """Further entries of the directory."""
        if self.name == "lerc":
            return [Field.of(50674, "I", _LERC_VERSION, 0)]
        return [Field.of(317, "H", self.predictor)] if self.predictor > 1 else []

    def strips(self, columns: int, cell: int) -> TileShape:
        """Return strips for an image.

        Args:
            columns: of the image.
            cell: bytes of a cell.

        Raises:
            InvalidParameterError: the codec cannot hold so many columns.
        """
        most = _LONGEST.get(self.name)
        if most is not None and columns > most:
            raise InvalidParameterError(
                f"{self.name} needs tiles for {columns} columns, not strips", "tiling"
            )
        return TileShape.strips(columns, cell, _MCU if self.name == "jpeg" else 1, most)

    def encode(self, pixels: Pixels) -> bytes:
        """Return a tile.

        Args:
            pixels: shape (rows, columns, channels), uint8 or little-endian float32.
        """
        return self._encode(np.ascontiguousarray(pixels))

    @cached_property
    def _encode(self) -> Callable[[Pixels], bytes]:
        return {
            "none": lambda pixels: pixels.tobytes(),
            "deflate": self._deflated,
            "lzw": self._by_library,
            "packbits": self._by_library,
            "zstd": self._zstd,
            "lerc": _lerc,
            "jpeg": _jpeg,
            "webp": _webp,
        }[self.name]

    def _deflated(self, pixels: Pixels) -> bytes:
        return isal_zlib.compress(self._predicted(pixels), _DEFLATE_LEVEL)

    def _zstd(self, pixels: Pixels) -> bytes:
        import imagecodecs

        return bytes(imagecodecs.zstd_encode(self._predicted(pixels).tobytes(), level=_ZSTD_LEVEL))

    def _by_library(self, pixels: Pixels) -> bytes:
        # Of the installed libraries, libtiff has these two.
        from PIL import Image, TiffImagePlugin

        rows = self._predicted(pixels)
        stream = io.BytesIO()
        method = "tiff_lzw" if self.name == "lzw" else self.name
        # Compression sees bytes only, so a grey image of the same bytes gives the same result.
        info = {_ROWS_PER_STRIP: len(rows)}
        Image.fromarray(rows).save(stream, "TIFF", compression=method, tiffinfo=info)
        with Image.open(stream) as written:
            assert isinstance(written, TiffImagePlugin.TiffImageFile)
            (start,), (size,) = written.tag_v2[_STRIP_OFFSETS], written.tag_v2[_STRIP_SIZES]
        return stream.getvalue()[start : start + size]

    def _predicted(self, pixels: Pixels) -> npt.NDArray[np.uint8]:
        """Return the bytes to compress, one row for each row of pixels."""
        rows, columns, channels = pixels.shape
        if self.predictor == 1:
            return pixels.view(np.uint8).reshape(rows, -1)
        if self.predictor == 2:
            found = pixels.copy()
            found[:, 1:] -= pixels[:, :-1]
            return found.reshape(rows, -1)
        # The first bytes of all values of a row, then the second ones, and so on.
        size = pixels.itemsize
        big = np.ascontiguousarray(pixels, pixels.dtype.newbyteorder(">")).view(np.uint8)
        planes = big.reshape(rows, columns * channels, size).transpose(0, 2, 1)
        found = np.ascontiguousarray(planes).reshape(rows, -1)
        result = found.copy()
        result[:, channels:] -= found[:, :-channels]
        return result


NONE: Final = TileCodec("none")


def _lerc(pixels: Pixels) -> bytes:
    import imagecodecs

    return bytes(imagecodecs.lerc_encode(np.squeeze(pixels, 2) if pixels.shape[2] == 1 else pixels))


def _jpeg(pixels: Pixels) -> bytes:
    from PIL import Image

    stream = io.BytesIO()
    image = Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)
    # Chroma at half resolution, as the tags of the file say. GDAL refuses that for one field.
    more = {} if image.mode == "L" else {"subsampling": "4:2:0"}
    image.save(stream, "JPEG", quality=_QUALITY, **more)
    return stream.getvalue()


def _webp(pixels: Pixels) -> bytes:
    import imagecodecs

    return bytes(imagecodecs.webp_encode(pixels, lossless=True))
