"""A reader of a level that shows an area: what is outside does not exist."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Final

import numpy as np

from mastaba.containers.index_cache import IndexCache
from mastaba.containers.reader import BlockKey, StoredTile, TileReader
from mastaba.containers.tile_index import TileIndex
from mastaba.errors import SlabFormatError
from mastaba.model.pyramid import Level, Pyramid
from mastaba.slab.delivery import tiff_delivery
from mastaba_render.areas.level import CUT, INSIDE, OUTSIDE, LevelArea, Mask
from mastaba_render.codecs import Pixels, TileDecoder
from mastaba_render.encoding.tile_format import stored_payload
from mastaba_render.wrapped import WrappedReader
from mastaba_storage.base import Storage

_WITH_ALPHA: Final = (2, 4)
"""Numbers of channels of which the last one is alpha."""


class Masking:
    """Takes the data of pixels that are not in a mask.

    Args:
        pyramid: a raster pyramid.
        level: one of its levels.
        reader: of the whole level.
    """

    def __init__(self, pyramid: Pyramid, level: Level, reader: TileReader) -> None:
        raster = pyramid.raster
        assert raster is not None
        self._format = pyramid.format
        matrix = level.matrix
        size = raster.channels, matrix.tile_width, matrix.tile_height
        self._decoder = reader.decoder or TileDecoder(pyramid.format, *size)
        self._deliver = reader.deliver
        self._as_tiff = (
            tiff_delivery(pyramid.format, *size) if pyramid.format.needs_tiff_header else None
        )
        blank = np.array(raster.nodata, pyramid.format.sample)
        if raster.channels in _WITH_ALPHA:
            blank[-1] = 0
        self.blank = blank

    def pixels(self, pixels: Pixels, mask: Mask) -> Pixels:
        """Return pixels with nodata outside of the mask: the same array if it is writeable.

        Args:
            pixels: shape (rows, columns, channels).
            mask: shape (rows, columns).
        """
        if not pixels.flags.writeable:
            pixels = pixels.copy()
        pixels[~mask] = self.blank
        return pixels

    def payload(self, payload: bytes, mask: Mask) -> bytes:
        """Return a stored tile with nodata outside of the mask, in the same encoding.

        Raises:
            SlabFormatError: the tile is damaged.
        """
        if mask.all():
            return payload
        return stored_payload(self.pixels(self._decoder.decode(payload), mask), self._format)

    def body(self, payload: bytes, mask: Mask) -> bytes:
        """Return a tile of a container as the body of a response, with nodata outside of the mask.

        Raises:
            SlabFormatError: the tile is damaged.
        """
        if mask.all() and self._deliver is not None:
            return self._deliver(payload)
        masked = self.payload(payload, mask)
        return masked if self._as_tiff is None else self._as_tiff(masked)


class MaskedTile(StoredTile):
    """A tile that the edge of an area passes: its bytes are made when they are read.

    Offset, length and version are those of the stored tile.

    Args:
        source: the stored tile.
        change: makes its bytes.
    """

    __slots__ = ("_change", "_source")

    def __init__(self, source: StoredTile, change: Callable[[bytes], bytes]) -> None:
        place = source.offset, source.length
        super().__init__(source.reader, source.slab, source.index, source.number, place)
        self._source = source
        self._change = change

    def read(self) -> bytes:
        """Return the bytes without what is outside; see `StoredTile.read`."""
        payload = self._source.read()
        self._follow()
        return self._changed(payload)

    def move_to(self, index: TileIndex) -> bool:
        """Become the same tile of another version; see `StoredTile.move_to`."""
        is_there = self._source.move_to(index)
        self._follow()
        return is_there

    def confirm(self) -> None:
        """Make sure that the version is current; see `StoredTile.confirm`."""
        self._source.confirm()
        self._follow()

    def whole(self, data: bytes) -> bytes:
        """Return the bytes without what is outside, given those that were read for the tile."""
        return self._changed(self._source.whole(data))

    def _changed(self, payload: bytes) -> bytes:
        try:
            return self._change(payload)
        except SlabFormatError as error:
            self.forget_index()
            raise SlabFormatError(f"slab {self.index.name}: tile {self.number}: {error}") from error

    def _follow(self) -> None:
        source = self._source
        self.index, self.offset, self.length = source.index, source.offset, source.length


class _MaskedBody(MaskedTile):
    """A tile of a container that has its own encoding, which is replaced by that of the layer."""

    __slots__ = ()
    is_addressable: ClassVar[bool] = False
    is_delivered: ClassVar[bool] = True


class _ShownIndex(TileIndex):
    """An index in which tiles outside of an area do not exist.

    Args:
        source: the index.
        is_shown: says for the number of a tile whether it exists.
    """

    __slots__ = ("_is_shown", "source")

    def __init__(self, source: TileIndex, is_shown: Callable[[int], bool]) -> None:
        self.source = source
        self._is_shown = is_shown
        self.storage, self.key, self.version = source.storage, source.key, source.version
        self.identity, self.modified = source.identity, source.modified

    @property
    def nbytes(self) -> int:
        return self.source.nbytes

    def tile(self, number: int) -> tuple[int, int] | None:
        return self.source.tile(number) if self._is_shown(number) else None


class MaskedLevelReader(WrappedReader):
    """Finds and reads the tiles of one level inside an area; used in place of a `TileReader`.

    Tiles wholly inside are those of the other reader. It gives no access to slabs: what reads
    them as a whole must look at `is_masked`.

    Args:
        plain: reader of the whole level.
        level: the level, with limits around the area.
        pyramid: of the level.
        area: what is shown of it.
    """

    is_masked: bool = True

    def __init__(self, plain: TileReader, level: Level, pyramid: Pyramid, area: LevelArea) -> None:
        super().__init__(plain, level)
        self.deliver, self.etag_suffix = plain.deliver, plain.etag_suffix
        self.decoder = plain.decoder
        self.coding, self.requires_coding = plain.coding, plain.requires_coding
        self.has_slabs = plain.has_slabs
        self._pyramid = pyramid
        self._area = area
        self._change = None if pyramid.raster is None else Masking(pyramid, level, plain)

    @property
    def masking(self) -> Masking:
        """What takes the data of pixels outside, of a raster level."""
        assert self._change is not None
        return self._change

    def moved(self, storage: Storage, indices: IndexCache) -> MaskedLevelReader:
        plain = self._plain.moved(storage, indices)
        return MaskedLevelReader(plain, self.level, self._pyramid, self._area)

    def locate(self, tile_row: int, tile_col: int) -> StoredTile | None:
        state = self._area.state(tile_row, tile_col)
        if state == INSIDE:
            return self._plain.locate(tile_row, tile_col)
        return self._shown(self._plain.locate, tile_row, tile_col) if state else None

    def locate_all(self, tiles: Sequence[tuple[int, int]]) -> list[StoredTile | None]:
        found = self.locate_sources(tiles)
        for number, (place, tile) in enumerate(zip(tiles, found, strict=True)):
            if tile is not None and self._area.state(*place) == CUT:
                found[number] = self._masked(tile, *place)
        return found

    def locate_sources(self, tiles: Sequence[tuple[int, int]]) -> list[StoredTile | None]:
        """Return tiles as `locate_all` does, with those that are cut as they are stored.

        For a caller that masks their pixels itself (`mask`).
        """
        shown = [number for number, place in enumerate(tiles) if self._area.state(*place)]
        located = self._plain.locate_all([tiles[number] for number in shown])
        found: list[StoredTile | None] = [None] * len(tiles)
        for number, tile in zip(shown, located, strict=True):
            found[number] = tile
        return found

    def mask(self, tile_row: int, tile_col: int) -> Mask | None:
        """Return which pixels of a tile are shown; None for all."""
        if self._area.state(tile_row, tile_col) != CUT:
            return None
        return self._area.mask(tile_row, tile_col)

    def expect(self, tile_row: int, tile_col: int) -> StoredTile | None:
        return self._shown(self._plain.expect, tile_row, tile_col)

    def known(self, tile_row: int, tile_col: int) -> StoredTile | None:
        return self._shown(self._plain.known, tile_row, tile_col)

    def stored_tile(self, slab: BlockKey, index: TileIndex, number: int) -> StoredTile | None:
        """Return a tile of a slab. Other containers may number their tiles in any way.

        Raises:
            NotImplementedError: the reader has no slabs: use `locate`.
        """
        if not self.has_slabs:
            raise NotImplementedError("tiles of containers are found by row and column")
        row, col = self._place(slab, number)
        found = self._plain.stored_tile(slab, _source(index), number)
        return self._shown(lambda _row, _col: found, row, col)

    def index(self, slab: BlockKey) -> TileIndex | None:
        """Return the index of a slab, in which tiles outside do not exist; of others, none do."""
        found = self._plain.index(slab)
        return None if found is None else self._shown_index(slab, found)

    def keep(self, slab: BlockKey, index: TileIndex) -> None:
        self._plain.keep(slab, _source(index))

    def forget(self, slab: BlockKey, index: TileIndex) -> None:
        self._plain.forget(slab, _source(index))

    def refresh(self, slab: BlockKey, stale: TileIndex, *, alone: bool = False) -> TileIndex:
        return self._shown_index(slab, self._plain.refresh(slab, _source(stale), alone=alone))

    def _shown(
        self, find: Callable[[int, int], StoredTile | None], tile_row: int, tile_col: int
    ) -> StoredTile | None:
        state = self._area.state(tile_row, tile_col)
        tile = None if state == OUTSIDE else find(tile_row, tile_col)
        return tile if tile is None or state == INSIDE else self._masked(tile, tile_row, tile_col)

    def _masked(self, tile: StoredTile, row: int, col: int) -> MaskedTile:
        area, change = self._area, self.masking
        if self.deliver or self.decoder or not tile.is_addressable:
            return _MaskedBody(tile, lambda payload: change.body(payload, area.mask(row, col)))
        return MaskedTile(tile, lambda payload: change.payload(payload, area.mask(row, col)))

    def _shown_index(self, slab: BlockKey, index: TileIndex) -> TileIndex:
        area, has_slabs = self._area, self.has_slabs
        return _ShownIndex(
            index,
            lambda number: has_slabs and area.state(*self._place(slab, number)) != OUTSIDE,
        )

    def _place(self, slab: BlockKey, number: int) -> tuple[int, int]:
        """Return row and column of a tile by its number in a slab."""
        _, slab_col, slab_row = slab
        width, height = self.level.tiles_per_width, self.level.tiles_per_height
        row, col = divmod(number, width)
        return slab_row * height + row, slab_col * width + col


def _source(index: TileIndex) -> TileIndex:
    return index.source if isinstance(index, _ShownIndex) else index
