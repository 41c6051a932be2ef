"""Maps in a format: drawn, finished and encoded strip by strip."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Protocol

import numpy as np

from mastaba import cancellation, trace
from mastaba.encoding.base import Encoder, StripRaster
from mastaba.errors import UnsupportedFormatError
from mastaba.model.bbox import BoundingBox
from mastaba.model.crs import CRS
from mastaba.render.request import MapImage, Pixels

Finish = Callable[[MapImage, int], Pixels]
"""Makes pixels for a format of a strip and the number of its first row."""

_FINISHED: Final = 4
"""Copies of a strip for the encoder that finishing it makes at most."""


class Strips(Protocol):
    """What a map is drawn from: a `PreparedMap`, or several that make one."""

    @property
    def width(self) -> int: ...

    @property
    def height(self) -> int: ...

    @property
    def strip_height(self) -> int: ...

    @property
    def blank(self) -> MapImage:
        """A pixel without data."""

    @property
    def memory(self) -> int:
        """Bytes that drawing holds at once."""

    def strips(self) -> Iterator[MapImage]:
        """Yield the map in strips of rows, from the top."""


class EncodedMap:
    """The bytes of a map, which are made while they are asked for.

    Args:
        prepared: draws it.
        finish: makes the pixels that the encoder takes.
        encoder: of the format.
        options: of the encoder.
        bbox, crs: the place of the map.

    Raises:
        UnsupportedFormatError: the encoder cannot hold such pixels.
    """

    def __init__(
        self,
        prepared: Strips,
        finish: Finish,
        encoder: Encoder,
        options: Mapping[str, str],
        bbox: BoundingBox,
        crs: CRS,
    ) -> None:
        self._prepared = prepared
        self._finish = finish
        self._encoder = encoder
        self._options = options
        self._bbox = bbox
        self._crs = crs
        self._blank = prepared.blank
        # A pixel without data takes the most channels: grey ones on a coloured background take
        # three, and so do all strips then.
        finished = finish(self._blank, 0)
        self._dtype: np.dtype[Any] = finished.dtype
        self._channels = finished.shape[2]
        if not encoder.accepts(self._dtype, self._channels):
            raise UnsupportedFormatError(f"{encoder.media_type} cannot hold the pixels of this map")

    @property
    def memory(self) -> int:
        """Bytes that are held at once while the pieces are made, an upper estimate.

        What was made already, and the cache of decoded tiles, are not in it.
        """
        prepared = self._prepared
        strip: int = prepared.strip_height * prepared.width * self._channels * self._dtype.itemsize
        return prepared.memory + _FINISHED * strip + self._encoder.memory(self._shape, self._dtype)

    @property
    def _shape(self) -> tuple[int, int, int]:
        return self._prepared.height, self._prepared.width, self._channels

    def pieces(self) -> Iterator[bytes]:
        """Yield the encoded map in pieces. Nothing is read before the first is asked for.

        Raises:
            InvalidParameterError: the format cannot hold a map of this size.
            SlabFormatError, StorageError: the data cannot be read.
        """
        nodata = self._blank.nodata
        raster = StripRaster(
            self._shape, self._dtype, self._bbox, self._crs, nodata, self._finished()
        )
        pieces = self._encoder.encode_strips(raster, self._options)
        return trace.pulled("encode", pieces, apart="draw")

    def _finished(self) -> Iterator[Pixels]:
        row = 0
        for image in self._prepared.strips():
            cancellation.check()
            pixels = self._finish(image, row)
            if pixels.shape[2] < self._channels:
                pixels = coloured(pixels)
            yield pixels
            row += len(pixels)


def coloured(pixels: Pixels) -> Pixels:
    """Return grey pixels, with alpha or without, as RGB ones; others as they are."""
    channels = pixels.shape[2]
    if channels > 2:
        return pixels
    colours = np.repeat(pixels[:, :, :1], 3, axis=2)
    return colours if channels == 1 else np.concatenate([colours, pixels[:, :, 1:]], axis=2)
