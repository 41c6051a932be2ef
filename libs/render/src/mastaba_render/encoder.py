"""Interface of image encoders."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from mastaba.model.bbox import BoundingBox
from mastaba.model.crs import CRS
from mastaba_render.origin import UNKNOWN, Origin
from mastaba_server.web.parameters import size

Strip = npt.NDArray[Any]
"""Some rows of a raster: shape (rows, columns, channels), dtype uint8 or float32."""

_DEFAULT_QUALITY: Final = 75
_BEST_QUALITY: Final = 100
_WHOLE: Final = 4
"""Copies of a raster held by an encoder that needs it whole: ours, two of the codec, the result."""
_BY_STRIPS: Final = 16 * 1024**2
"""Bytes held by an encoder that works in strips: the current strip and its encoded form."""


@dataclass(frozen=True, slots=True, eq=False)
class Raster:
    """Pixels of a map, with their position on the ground.

    Attributes:
        pixels: shape (rows, columns, channels), dtype uint8 or float32, top row first. Read-only;
            may be a view with gaps. Floats may be infinite or NaN.
        bbox: outer edges of the border pixels, x before y, CRS units.
        crs: CRS of ``bbox``.
        nodata: one value per channel, or None.
        registration: ``post`` if a value belongs to the middle of its pixel, else ``area``.
    """

    pixels: npt.NDArray[np.uint8] | npt.NDArray[np.float32]
    bbox: BoundingBox
    crs: CRS
    nodata: tuple[float, ...] | None = None
    registration: str = "area"


@dataclass(frozen=True, slots=True, eq=False)
class StripRaster:
    """A raster in strips of rows, so that it is never held whole.

    Attributes:
        shape: rows, columns, channels.
        dtype: uint8 or float32.
        bbox: as in `Raster`.
        crs: as in `Raster`.
        nodata: as in `Raster`.
        strips: from the top, of any heights that add up to all rows; can be consumed once.
        registration: as in `Raster`.
        origin: where the pixels come from, for formats that name sources.
    """

    shape: tuple[int, int, int]
    dtype: np.dtype[Any]
    bbox: BoundingBox
    crs: CRS
    nodata: tuple[float, ...] | None
    strips: Iterable[Strip]
    registration: str = "area"
    origin: Origin = UNKNOWN

    @classmethod
    def of(cls, raster: Raster) -> StripRaster:
        """Return a raster as a single strip."""
        pixels, where = raster.pixels, (raster.bbox, raster.crs)
        return cls(
            *(pixels.shape, pixels.dtype, *where, raster.nodata, [pixels], raster.registration)
        )

    @property
    def offset(self) -> float:
        """Where a value is in its pixel, from the left and from the top: 0 for areas, else 0.5."""
        return 0.5 if self.registration == "post" else 0.0

    def regrouped(self, height: int) -> Iterator[Strip]:
        """Yield all rows in strips of equal height; the last one may be lower."""
        waiting: list[Strip] = []
        missing = height
        for strip in self.strips:
            start = 0
            while len(strip) - start >= missing:
                waiting.append(strip[start : start + missing])
                yield _joined(waiting)
                start += missing
                waiting, missing = [], height
            if start < len(strip):
                waiting.append(strip[start:])
                missing -= len(strip) - start
        if waiting:
            yield _joined(waiting)

    def whole(self) -> Raster:
        """Return all rows in one array."""
        (pixels,) = self.regrouped(self.shape[0])
        pixels = np.ascontiguousarray(pixels)
        return Raster(pixels, self.bbox, self.crs, self.nodata, self.registration)


def _joined(strips: list[Strip]) -> Strip:
    return strips[0] if len(strips) == 1 else np.concatenate(strips)


class Encoder(ABC):
    """Writes rasters in one media type. Instances are shared by all threads.

    The same raster and options always give the same bytes. `name`, `media_type` and `extension`
    are in lower case.

    Attributes:
        name: short name, such as ``png``.
        media_type: Content-Type of the output, and the FORMAT that requests it.
        extension: file extension, without dot.
        settings: settings of its plugin in server.json, validated; set after the instance is
            created.
        is_picture: whether the format is meant for viewing: flattened onto a background, or
            transparent, where there is no data. Data formats keep their channels and hold the
            nodata value there.
        holds_alpha: whether a picture format can hold an alpha channel: `accepts` then allows
            uint8 with 2 or 4 channels, and otherwise neither.
        shows_background: whether a data format shows the background colour that a request gives
            where an 8-bit layer has no data; grids of numbers do not.
        names_sources: whether `encode_strips` writes `StripRaster.origin`.
    """

    name: ClassVar[str]
    media_type: ClassVar[str]
    extension: ClassVar[str]
    settings: Mapping[str, Any] = MappingProxyType({})
    is_picture: ClassVar[bool] = True
    holds_alpha: ClassVar[bool] = False
    shows_background: ClassVar[bool] = False
    names_sources: ClassVar[bool] = False

    @abstractmethod
    def accepts(self, dtype: np.dtype[np.generic], channels: int) -> bool:
        """Return whether rasters of this sample type and channel count can be written.

        False for types other than uint8 and float32.
        """

    def check_options(self, options: Mapping[str, str]) -> None:  # noqa: B027 - most take any
        """Refuse options that `encode` would refuse, before there is anything to encode.

        Raises:
            InvalidParameterError: an option has an invalid value.
        """

    @abstractmethod
    def encode(self, raster: Raster, options: Mapping[str, str]) -> bytes:
        """Return the encoded image.

        Args:
            raster: a raster that `accepts` allows.
            options: ``FORMAT_OPTIONS`` of the request, names in lower case; unknown ones are
                ignored.

        Raises:
            InvalidParameterError: an option has an invalid value, or the format cannot hold an
                image of this size.
        """

    def encode_strips(self, raster: StripRaster, options: Mapping[str, str]) -> Iterator[bytes]:
        """Yield the encoded image in pieces.

        An encoder that does not override this gets the whole raster.

        Args:
            raster: as for `encode`; its strips are consumed.
            options: as for `encode`.

        Raises:
            InvalidParameterError: as for `encode`, before the first piece.
        """
        yield self.encode(raster.whole(), options)

    def memory(self, shape: tuple[int, int, int], dtype: np.dtype[Any]) -> int:
        """Return an upper estimate of the bytes that `encode_strips` holds at once."""
        return _WHOLE * math.prod(shape) * dtype.itemsize


class StripEncoder(Encoder):
    """An encoder that needs a few rows at a time."""

    @abstractmethod
    def encode_strips(self, raster: StripRaster, options: Mapping[str, str]) -> Iterator[bytes]:
        """Yield the encoded image in pieces; the bytes do not depend on the strips."""

    def encode(self, raster: Raster, options: Mapping[str, str]) -> bytes:
        return b"".join(self.encode_strips(StripRaster.of(raster), options))

    def memory(self, shape: tuple[int, int, int], dtype: np.dtype[Any]) -> int:
        row = shape[1] * shape[2] * dtype.itemsize
        return min(super().memory(shape, dtype), max(_BY_STRIPS, 64 * row))


def quality(options: Mapping[str, str]) -> int:
    """Return the option ``quality``, 1 to 100; 75 if absent or invalid (wms.md section 3.1)."""
    text = options.get("quality")
    number = size(text, _BEST_QUALITY) if text else None
    return number or _DEFAULT_QUALITY
