"""Maps in a format, made strip by strip (resampling.md sections 9 and 10).

Strips of rows flow through four steps while the pieces of a response are requested, so the map is
never held whole unless its encoder needs it whole:

1. draw: `LayerMap` reads source tiles, resamples the rows of each layer and applies its style.
2. merge: `PreparedMap` combines the layers into one strip.
3. finish: a `Finish` function makes pixels for the format: `as_picture`, `as_data`, or another.
4. encode: the `Encoder` turns strips into pieces of the response.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Any, Final, Protocol

import numpy as np

from mastaba.errors import UnsupportedFormatError
from mastaba.model.bbox import BoundingBox
from mastaba.model.crs import CRS
from mastaba_render import native
from mastaba_render.encoder import Encoder, StripRaster
from mastaba_render.map_request import LUMINANCE, WHITE, Background, MapImage, Mask, Pixels
from mastaba_render.native import Bytes
from mastaba_render.origin import UNKNOWN, Origin
from mastaba_server import cancellation, trace

Finish = Callable[[MapImage, int], Pixels]
"""Turns a strip into pixels for a format, given the strip and the number of its first row."""

_NO_BACKGROUND: Final = Background()

_FINISHED: Final = 4
"""Most copies of a strip for the encoder that finishing makes."""


class Strips(Protocol):
    """Source of a map: a `PreparedMap`, or several combined."""

    width: int
    height: int
    strip_height: int
    blank: MapImage
    """A pixel without data."""
    memory: int
    """Bytes that drawing holds at once."""
    registration: str
    """Of the values, ``area`` or ``post``."""

    def strips(self) -> Iterator[MapImage]:
        """Yield the map in strips of `strip_height` rows, from the top; the last may be lower."""


class EncodedMap:
    """The bytes of a map, made on request.

    Args:
        prepared: draws it.
        finish: makes the pixels for the encoder.
        encoder: encoder of the format.
        options: options of the encoder.
        bbox, crs: extent of the map.
        origin: where its pixels come from.

    Attributes:
        memory: upper estimate of the bytes held at once while the pieces are made, without
            finished pieces and the cache of decoded tiles.

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
        origin: Origin = UNKNOWN,
    ) -> None:
        self._prepared = prepared
        self._finish = finish
        self._encoder = encoder
        self._options = options
        self._bbox = bbox
        self._crs = crs
        self._origin = origin
        # A pixel without data needs the most channels. Grey ones on a coloured background need
        # three, so all strips get three.
        blank = finish(prepared.blank, 0)
        self._dtype: np.dtype[Any] = blank.dtype
        self._shape = prepared.height, prepared.width, blank.shape[2]
        if not encoder.accepts(self._dtype, blank.shape[2]):
            raise UnsupportedFormatError(f"{encoder.media_type} cannot hold the pixels of this map")
        strip: int = prepared.strip_height * prepared.width * blank.shape[2] * blank.itemsize
        self.memory = prepared.memory + _FINISHED * strip + encoder.memory(self._shape, self._dtype)

    def pieces(self) -> Iterator[bytes]:
        """Yield the encoded map in pieces. Nothing is read before the first is requested.

        Raises:
            InvalidParameterError: the format cannot hold a map of this size.
            SlabFormatError, StorageError: the data cannot be read.
        """
        nodata = self._prepared.blank.nodata
        raster = StripRaster(
            *(self._shape, self._dtype, self._bbox, self._crs, nodata, self._finished()),
            registration=self._prepared.registration,
            origin=self._origin,
        )
        pieces = self._encoder.encode_strips(raster, self._options)
        notes = trace.local.trace
        return pieces if notes is None else notes.measured("encode", pieces, apart="draw")

    def _finished(self) -> Iterator[Pixels]:
        strips, notes = self._prepared.strips(), trace.local.trace
        drawn = strips if notes is None else notes.measured("draw", strips)
        return map(self._pixels, drawn, count(0, self._prepared.strip_height))

    def _pixels(self, image: MapImage, row: int) -> Pixels:
        """Return the pixels of the strip that begins at a row."""
        pixels = self._finish(image, row)
        if pixels.shape[2] < self._shape[2]:
            pixels = coloured(pixels)
        cancellation.check()
        return pixels


def finish_for(encoder: Encoder, background: Background, *, in_colour: bool = False) -> Finish:
    """Return what makes the pixels for a format: `as_picture` or `as_data`.

    Args:
        in_colour: whether grey pictures become RGB.
    """

    def picture(image: MapImage, _row: int) -> Pixels:
        pixels = as_picture(image, background, alpha_possible=encoder.holds_alpha)
        return coloured(pixels) if in_colour else pixels

    ground = background if encoder.shows_background else _NO_BACKGROUND
    return picture if encoder.is_picture else lambda image, _row: as_data(image, ground)


def coloured(pixels: Pixels) -> Pixels:
    """Return grey pixels, with or without alpha, as RGB; others unchanged."""
    channels = pixels.shape[2]
    if channels > 2:
        return pixels
    colours = np.repeat(pixels[:, :, :1], 3, axis=2)
    return colours if channels == 1 else np.concatenate([colours, pixels[:, :, 1:]], axis=2)


def as_picture(image: MapImage, background: Background, *, alpha_possible: bool) -> Bytes:
    """Return the pixels for a picture format: PNG, JPEG, WebP (wms.md section 3.4).

    Args:
        alpha_possible: whether the format can hold an alpha channel.

    Returns:
        shape (height, width, channels): with alpha if the background is transparent and the
        format can hold it, otherwise flattened onto the background. Grey stays grey if the
        background allows it.
    """
    pixels, valid = image.pixels, image.valid
    assert pixels.dtype == np.uint8
    channels = pixels.shape[2]
    if background.transparent and alpha_possible:
        return _with_alpha(pixels, valid)
    # Colours that encode numbers are not mixed with a background that was not requested.
    default = (0, 0, 0) if image.encodes_numbers else WHITE
    red, green, blue = background.colour or default
    has_alpha = channels in (2, 4)
    if valid is None and not has_alpha:
        return pixels
    is_grey = channels < 3 and red == green == blue
    ground = np.array([red] if is_grey else [red, green, blue], np.uint8)
    if has_alpha:
        flat = native.flatten(pixels, ground)
    else:
        flat = np.repeat(pixels, 3, axis=2) if len(ground) > channels else pixels.copy()
    if valid is not None:
        np.copyto(flat, ground, where=~valid[:, :, np.newaxis])
    return flat


def _with_alpha(pixels: Bytes, valid: Mask | None) -> Bytes:
    channels = pixels.shape[2]
    if channels in (2, 4):
        if valid is None:
            return pixels
        result = pixels.copy()
    else:
        result = np.full((*pixels.shape[:2], channels + 1), 255, np.uint8)
        result[:, :, :-1] = pixels
    if valid is not None:
        result[~valid] = 0
    return result


def as_data(image: MapImage, background: Background) -> Pixels:
    """Return the pixels for a data format: TIFF, GeoTIFF, BIL, ASCII grid.

    Channels stay. Pixels without data hold the nodata value, or the background colour if the
    request gives one and the pixels are 8-bit.
    """
    pixels, valid = image.pixels, image.valid
    if background.colour is None or pixels.dtype != np.uint8 or valid is None:
        return pixels
    red, green, blue = background.colour
    luminance = int(np.array(background.colour, np.float32) @ LUMINANCE)
    channels = pixels.shape[2]
    filling = [red, green, blue, 255] if channels > 2 else [luminance, 255]
    result = pixels.copy()
    result[~valid] = filling[:channels]
    return result
