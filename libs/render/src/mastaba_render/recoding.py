"""Readers of levels whose tiles are sent in the format of another pyramid of the same layer."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from mastaba.containers.base import MakeReader
from mastaba.containers.index_cache import IndexCache
from mastaba.containers.reader import Decoder, Delivery, TileReader
from mastaba.errors import SlabFormatError
from mastaba.model.format import TileFormat
from mastaba.model.pyramid import Level, Pyramid
from mastaba.slab.delivery import tiff_delivery
from mastaba_render.codecs import TileDecoder
from mastaba_render.encoding.tile_format import stored_payload
from mastaba_render.wrapped import WrappedReader
from mastaba_storage.base import Storage


def recoded(
    readers: Mapping[str, MakeReader], pyramid: Pyramid, wanted: TileFormat
) -> dict[str, MakeReader]:
    """Return what makes readers whose tiles are sent in another format.

    Args:
        readers: what makes the readers of each level.
        pyramid: a raster pyramid with these levels.
        wanted: with the same sample type as its format.

    Raises:
        ValueError: tiles cannot be encoded in this format.
    """
    assert pyramid.raster is not None
    channels = pyramid.raster.channels
    try:
        if channels not in wanted.channels:
            raise SlabFormatError(f"it is not for {channels} channels")
        stored_payload(np.zeros((16, 16, channels), wanted.sample), wanted)
    except SlabFormatError as error:
        raise ValueError(
            f"its tiles cannot be sent as {wanted.media_type}, that of the first pyramid: {error}"
        ) from error
    return {name: partial(_recoded, make, pyramid, wanted) for name, make in readers.items()}


def _recoded(make: MakeReader, pyramid: Pyramid, wanted: TileFormat, level: Level) -> TileReader:
    return _RecodedReader(make(level), pyramid, wanted)


class _RecodedReader(WrappedReader):
    """Finds and reads the tiles of another reader, which are encoded in a format when sent."""

    def __init__(self, plain: TileReader, pyramid: Pyramid, wanted: TileFormat) -> None:
        super().__init__(plain, plain.level)
        self.etag_suffix = f"{plain.etag_suffix}-{wanted.name.lower()}"
        self._pyramid, self._wanted = pyramid, wanted
        raster, matrix = pyramid.raster, plain.level.matrix
        assert raster is not None
        size = raster.channels, matrix.tile_width, matrix.tile_height
        self.decoder: Decoder = plain.decoder or TileDecoder(pyramid.format, *size)
        self._as_tiff: Delivery | None = None
        if wanted.needs_tiff_header:
            self._as_tiff = tiff_delivery(wanted, *size)
        self.deliver = self._encoded

    def moved(self, storage: Storage, indices: IndexCache) -> _RecodedReader:
        plain = self._plain.moved(storage, indices)
        return _RecodedReader(plain, self._pyramid, self._wanted)

    def _encoded(self, payload: bytes) -> bytes:
        pixels: Any = self.decoder.decode(payload)
        encoded = stored_payload(pixels, self._wanted)
        return encoded if self._as_tiff is None else self._as_tiff(encoded)
