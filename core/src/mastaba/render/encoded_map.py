"""Maps in a format, made strip by strip.

Strips of rows flow through four steps while the pieces of a response are requested, so the map is
never held whole unless its encoder needs it whole:

1. draw: `LayerMap` reads source tiles, resamples the rows of each layer and applies its style.
2. merge: `PreparedMap` combines the layers into one strip.
3. finish: a `Finish` function makes pixels for the format, such as flattened onto a background.
4. encode: the `Encoder` turns strips into pieces of the response.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Protocol

import numpy as np

from mastaba import cancellation, trace
from mastaba.errors import UnsupportedFormatError
from mastaba.model.bbox import BoundingBox
from mastaba.model.crs import CRS
from mastaba.render.compose import Finish, coloured
from mastaba.render.encoding.base import Encoder, StripRaster
from mastaba.render.map_request import MapImage, Pixels

_FINISHED: Final = 4
"""Most copies of a strip for the encoder that finishing makes."""


class Strips(Protocol):
    """Source of a map: a `PreparedMap`, or several combined."""

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
    """The bytes of a map, made on request.

    Args:
        prepared: draws it.
        finish: makes the pixels for the encoder.
        encoder: encoder of the format.
        options: options of the encoder.
        bbox, crs: extent of the map.

    Raises:
        UnsupportedFormatError: the format cannot hold such pixels.
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
        # A pixel without data needs the most channels. Grey ones on a coloured background need
        # three, so all strips get three.
        finished = finish(self._blank, 0)
        self._dtype: np.dtype[Any] = finished.dtype
        self._channels = finished.shape[2]
        if not encoder.accepts(self._dtype, self._channels):
            raise UnsupportedFormatError(f"{encoder.media_type} cannot hold the pixels of this map")

    @property
    def memory(self) -> int:
        """Upper estimate of the bytes held at once while the pieces are made.

        Finished pieces and the cache of decoded tiles are not included.
        """
        prepared = self._prepared
        strip: int = prepared.strip_height * prepared.width * self._channels * self._dtype.itemsize
        return prepared.memory + _FINISHED * strip + self._encoder.memory(self._shape, self._dtype)

    @property
    def _shape(self) -> tuple[int, int, int]:
        return self._prepared.height, self._prepared.width, self._channels

    def pieces(self) -> Iterator[bytes]:
        """Yield the encoded map in pieces. Nothing is read before the first is requested.

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
