"""Pixels of stored slabs."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np

from mastaba.api.catalogue import MASK_FORMAT, TILE_FORMATS, Codec
from mastaba.errors import MastabaError
from mastaba_build.errors import BuildError
from mastaba_build.output.storage import OutputStore
from mastaba_build.plan.names import slab_key
from mastaba_build.plan.plan import Plan, SlabKey
from mastaba_build.samples import Mask, PixelType, Raster, Samples
from mastaba_render.api.decoding import TileDecoder

_LOSS = 8
"""Distance from nodata that compression may cause."""

HEADER = 2048
"""Bytes before the index of a slab."""


def slab_index(data: bytes, tiles: int) -> list[tuple[int, int]]:
    """Return offset and size of each tile of a slab.

    Raises:
        ValueError: its header is damaged.
    """
    if data[:4] != b"II*\0" or len(data) < HEADER + 8 * tiles:
        raise ValueError("its header is damaged")
    index = struct.unpack_from(f"<{2 * tiles}I", data, HEADER)
    return list(zip(index[:tiles], index[tiles:], strict=True))


def stored_rows(plan: Plan, store: OutputStore, slab: SlabKey, *, masks: bool) -> Iterator[Raster]:
    """Yield the rows of tiles of a stored slab, each as one image.

    Whether a pixel is valid is in its alpha or in the mask slab, if there is one. Otherwise a pixel
    is valid if it differs from nodata.

    Args:
        store: root of the pyramid that contains the slab.
        masks: whether that pyramid has mask slabs.

    Raises:
        BuildError: the slab cannot be read or is damaged.
    """
    type_ = plan.pixel_type
    matrix = plan.levels[slab.level].matrix
    size = matrix.tile_width, matrix.tile_height
    width, height = plan.configuration.slab
    count = width * height
    decoder = TileDecoder(TILE_FORMATS[type_.format], type_.channels, *size)
    colours = SlabTiles(store, slab_key(plan, slab), decoder, count)
    mask = None
    if masks and not type_.has_alpha:
        decoder = TileDecoder(TILE_FORMATS[MASK_FORMAT], 1, *size)
        mask = SlabTiles(store, slab_key(plan, slab, "MASK"), decoder, count)
    for first in range(0, count, width):
        row = type_.blank(size[1], width * size[0])
        for column in range(width):
            tile = stored_tile(type_, colours, mask, first + column)
            if tile is not None:
                part = np.s_[:, column * size[0] : (column + 1) * size[0]]
                row.samples[part], row.valid[part] = tile
        yield row


def stored_tile(
    type_: PixelType, colours: SlabTiles, mask: SlabTiles | None, number: int
) -> Raster | None:
    """Return a tile of a stored slab as `stored_rows` does; None if it is absent.

    Raises:
        BuildError: it is damaged.
    """
    samples = colours.tile(number)
    if samples is None:
        return None
    known = None if mask is None else mask.tile(number)
    valid = _valid(samples, type_) if known is None else known[:, :, 0] > 0
    return Raster(np.where(valid[:, :, np.newaxis], samples, samples.dtype.type(0)), valid)


def _valid(samples: Samples, type_: PixelType) -> Mask:
    if type_.has_alpha:
        valid: Mask = samples[:, :, -1] > 0
        return valid
    nodata = np.array(type_.nodata, samples.dtype)
    if TILE_FORMATS[type_.format].codec is not Codec.JPEG:
        different: Mask = np.any(samples != nodata, axis=2)
        return different
    distance = np.abs(samples.astype(np.int16) - nodata.astype(np.int16))
    far: Mask = np.any(distance > _LOSS, axis=2)
    return far


class SlabTiles:
    """The tiles of one stored slab.

    Args:
        store: root of the pyramid that contains it.
        key: its name below the root.
        tiles: number of its tiles.

    Raises:
        BuildError: it is missing or damaged.
    """

    def __init__(self, store: OutputStore, key: str, decoder: TileDecoder, tiles: int) -> None:
        self._name = key
        self._decoder = decoder
        try:
            self._data = store.read(key)
            self._index = slab_index(self._data, tiles)
        except FileNotFoundError:
            raise BuildError(f"{key}: does not exist; run mastaba build --verify") from None
        except ValueError as error:
            raise BuildError(f"{key}: {error}") from None

    def tile(self, number: int) -> Samples | None:
        """Return a tile, shape (rows, columns, channels); None if it is absent."""
        offset, size = self._index[number]
        if not size:
            return None
        try:
            return self._decoder.decode(self._data[offset : offset + size])
        except MastabaError as error:
            raise BuildError(f"{self._name}: a tile cannot be decoded: {error}") from None
