"""Verification of levels: slabs against those from which they were computed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from mastaba.api.catalogue import MASK_FORMAT, TILE_FORMATS
from mastaba_build.errors import BuildError
from mastaba_build.output.records import Record, RecordedSlab
from mastaba_build.output.storage import OutputStore
from mastaba_build.pixels.stored import SlabTiles, stored_tile
from mastaba_build.plan.names import kinds_of, recorded_key
from mastaba_build.samples import PixelType, Raster
from mastaba_render.api.decoding import TileDecoder
from mastaba_render.api.resampling import decimate


class Parents:
    """Compares slabs with those of the next finer level (generation.md section 4.8).

    Levels in ``factors`` of the build record are compared: they were computed from the level below,
    and are lossless. Without mask slabs, a pixel with the colour of nodata may have data, so the
    pixels above such pixels and others are not compared.

    Args:
        store: the output, opened.
        descriptor: of the pyramid, a valid one.
    """

    def __init__(self, store: OutputStore, record: Record, descriptor: Mapping[str, Any]) -> None:
        self._store = store
        self._record = record
        self._descriptor = descriptor
        self._factors: Mapping[str, int] = record.facts.get("factors", {})
        self._method = str(record.facts.get("decimation", "average"))
        self._slabs = {(one.level, one.column, one.row): one for one in record.stored()}
        levels = descriptor["levels"]
        self._finer = dict(pairwise(level["id"] for level in levels))
        self._size = levels[0]["tiles_per_width"], levels[0]["tiles_per_height"]
        if self._factors:
            specification = descriptor["raster_specifications"]
            nodata = tuple(map(float, specification["nodata"].split(",")))
            self._type = PixelType(descriptor["format"], specification["channels"], nodata)
            format = TILE_FORMATS[self._type.format]
            self._decoder = TileDecoder(format, self._type.channels, *record.tile_size)
            self._masks = TileDecoder(TILE_FORMATS[MASK_FORMAT], 1, *record.tile_size)
            self._has_masks = "MASK" in kinds_of(descriptor) and not self._type.has_alpha

    def problem(self, slab: RecordedSlab) -> str | None:
        """Return how a slab differs from those below it, or None.

        Slabs that are missing or damaged are not compared.

        Raises:
            OutputError: the output cannot be read.
        """
        finer = self._finer.get(slab.level)
        if slab.level not in self._factors or finer is None:
            return None
        try:
            wrong = self._differences(slab, self._factors[slab.level], finer)
        except BuildError:
            return None
        return f"{wrong} pixels are not those of level {finer}" if wrong else None

    def _differences(self, slab: RecordedSlab, factor: int, finer: str) -> int:
        """Return the number of pixels that are not the decimated ones of the level below."""
        whole = self._whole(slab)
        width, height = (size // factor for size in self._record.tile_size)
        wrong = 0
        for down, across in np.ndindex(factor, factor):
            address = finer, factor * slab.column + across, factor * slab.row + down
            child = self._slabs.get(address)
            for row, column, tile in self._tiles(child):
                top = (down * self._size[1] + row) * height
                left = (across * self._size[0] + column) * width
                part = np.s_[top : top + height, left : left + width]
                found = Raster(whole.samples[part], whole.valid[part])
                wrong += self._wrong(found, tile, factor)
        return wrong

    def _wrong(self, found: Raster, tile: Raster | None, factor: int) -> int:
        """Return how many pixels of a part of a slab are not those of the tile below."""
        if tile is None:
            return int(found.valid.sum())
        samples, valid = decimate(*tile, factor, self._method, has_alpha=self._type.has_alpha)
        different = (samples != found.samples).any(axis=2) & valid
        if self._has_masks:
            return int((different | (valid != found.valid)).sum())
        rows, columns = valid.shape
        known = tile.valid.reshape(rows, factor, columns, factor).all(axis=(1, 3))
        return int((different & known | found.valid & ~valid).sum())

    def _whole(self, slab: RecordedSlab) -> Raster:
        width, height = self._record.tile_size
        whole = self._type.blank(self._size[1] * height, self._size[0] * width)
        for row, column, tile in self._tiles(slab):
            if tile is not None:
                top, left = row * height, column * width
                part = np.s_[top : top + height, left : left + width]
                whole.samples[part], whole.valid[part] = tile
        return whole

    def _tiles(self, slab: RecordedSlab | None) -> Iterator[tuple[int, int, Raster | None]]:
        """Yield row and column in the slab of each tile, and the tile; None without data."""
        width, height = self._size
        count = width * height
        colours = mask = None
        if slab is not None:
            root = self._store.below(slab.holder or self._record.root)
            key = recorded_key(self._descriptor, slab)
            colours = SlabTiles(root, key, self._decoder, count)
            if self._has_masks:
                key = recorded_key(self._descriptor, slab, "MASK")
                mask = SlabTiles(root, key, self._masks, count)
        for number in range(count):
            tile = None
            if colours is not None:
                tile = stored_tile(self._type, colours, mask, number)
            yield number // width, number % width, tile
