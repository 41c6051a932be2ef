"""Windows of a level, assembled from its tiles (resampling.md section 4)."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final

import numpy as np

from mastaba.containers.reader import StoredTile, TileReader, may_retry
from mastaba.errors import ObjectChangedError, SlabFormatError
from mastaba.model.format import Codec
from mastaba.model.pyramid import Level, Pyramid
from mastaba_render import native
from mastaba_render.areas.reader import MaskedLevelReader
from mastaba_render.codecs import TileDecoder
from mastaba_render.map_request import MapImage, Mask, Pixels
from mastaba_render.native import Window
from mastaba_render.plan import read_located
from mastaba_render.tile_cache import Target, TileCache, TileSlices
from mastaba_server.threads.per_process import ThreadPool

# With fewer tiles, using other threads costs more than it saves.
_PARALLEL_FROM: Final = 6
_DECODING: Final = ThreadPool(len(os.sched_getaffinity(0)), "decode")

DECODED_AT_A_TIME: Final = 16 * 1024**2
"""Bytes of decoded tiles held at a time while a window is assembled."""

TileIndices = tuple[int, int]
"""Row and column of a tile."""
DecodedTiles = dict[TileIndices, Pixels | None]
"""None where no tile is stored."""
StoredTiles = dict[TileIndices, StoredTile | None]
"""None where no tile is stored."""
Targets = Mapping[TileIndices, Target]
"""Parts of tiles, and arrays for their pixels."""

_NOWHERE: Final[Targets] = {}


@dataclass(frozen=True, slots=True, eq=False)
class Mosaic:
    """The pixels of a window.

    Attributes:
        pixels: shape (rows, columns, channels); nodata where there is no tile.
        valid: shape (rows, columns), False where there is no data; None if all is data.
    """

    pixels: Pixels
    valid: Mask | None


def mosaic_of(pixels: Pixels, valid: Mask | None, nodata: tuple[float, ...]) -> Mosaic:
    """Return the pixels of a window; of floats, those that are nodata are not valid.

    Args:
        valid: where there are tiles.
        nodata: one value per channel.
    """
    if pixels.dtype == np.float32:
        # Elevations must not be mixed with adjacent nodata values.
        valid = pixels[:, :, 0] != np.float32(nodata[0])
    return Mosaic(pixels, None if valid is None or valid.all() else valid)


def pixels_within(level: Level) -> Window:
    """Return the pixels of a level inside its limits."""
    limits, matrix = level.limits, level.matrix
    return Window(
        *(limits.min_row * matrix.tile_height, (limits.max_row + 1) * matrix.tile_height),
        *(limits.min_col * matrix.tile_width, (limits.max_col + 1) * matrix.tile_width),
    )


class LevelPixels:
    """The pixels of one level.

    Where a method takes ``around``, it is the number of tiles in a full turn of the Earth, after
    which columns repeat; 0 if they do not.

    Args:
        pyramid: raster pyramid of the level.
        reader: reader of the level.
        cache: decoded tiles, shared by all levels.

    Attributes:
        level: the level.
        area: its pixels inside the limits.
        tile_width: pixels of the level across a stored tile.
        nodata: one value per channel.
        dtype: uint8 or float32.
        blank: a pixel without data.
        tile_size: bytes of a decoded tile.
    """

    def __init__(self, pyramid: Pyramid, reader: TileReader, cache: TileCache) -> None:
        assert pyramid.raster is not None
        matrix = reader.level.matrix
        self.level = reader.level
        self.area = pixels_within(reader.level)
        self.tile_width: float = matrix.tile_width
        # The cache contains tiles without masks, so that all areas share them.
        self._masked = reader if isinstance(reader, MaskedLevelReader) else None
        self._locate = reader.locate_all if self._masked is None else self._masked.locate_sources
        self._cache = cache
        self.nodata = pyramid.raster.nodata
        self.dtype = np.dtype(pyramid.format.sample)
        pixel = np.array([[self.nodata]], self.dtype)
        self.blank = MapImage(pixel, np.zeros((1, 1), np.bool_), self.nodata)
        self._decoder = reader.decoder or TileDecoder(
            pyramid.format, pyramid.raster.channels, matrix.tile_width, matrix.tile_height
        )
        self._window = reader.level.window
        self.tile_size = self._decoder.nbytes
        self._size = matrix.tile_height, matrix.tile_width
        # Parts of others cannot be decoded, or not into arrays of other sizes.
        self._is_jpeg = (
            pyramid.format.codec is Codec.JPEG
            and pyramid.raster.channels == 3
            and reader.decoder is None
            and self._window is None
        )
        self._tiles_at_a_time = max(1, DECODED_AT_A_TIME // self.tile_size)

    def count(self, window: Window, around: int = 0) -> tuple[int, int]:
        """Return how many rows and columns of tiles inside the limits a window needs."""
        rows, columns = self._inside(window, around)
        return len(rows), len(columns)

    def tile_memory(self, window: Window, around: int = 0) -> int:
        """Return the maximum bytes of decoded tiles held while a window is read."""
        rows, columns = self.count(window, around)
        return min(rows * columns, self._tiles_at_a_time) * self.tile_size

    def stored(self, window: Window, around: int = 0) -> StoredTiles:
        """Return the tiles of a window, without reading more than slab indices.

        Raises:
            SlabFormatError, StorageError: an index cannot be read.
        """
        return self.locate([place for _, place in self._places(window, around)])

    def locate(self, places: Iterable[TileIndices]) -> StoredTiles:
        """Return some tiles inside the limits; see `stored`."""
        once = list(dict.fromkeys(places))
        return dict(zip(once, self._locate(once), strict=True))

    def mask(self, place: TileIndices) -> Mask | None:
        """Return which pixels of a tile have data, if an area or the data window cuts it.

        Its other pixels are nodata already in the tiles of this class. None for all pixels.
        """
        data = self._data(place)
        shown = None if self._masked is None else self._masked.mask(*place)
        if data is None or shown is None:
            return data if shown is None else shown
        return data & shown

    def _data(self, place: TileIndices) -> Mask | None:
        """Return which pixels of a tile are in the data window; None for all."""
        if self._window is None:
            return None
        (row, col), (height, width) = place, self._size
        columns, rows = self._window[0] - col * width, self._window[1] - row * height
        if columns >= width and rows >= height:
            return None
        mask = np.zeros(self._size, np.bool_)
        mask[: max(rows, 0), : max(columns, 0)] = True
        return mask

    def read(
        self,
        window: Window,
        around: int = 0,
        stored: StoredTiles | None = None,
        kept: DecodedTiles | None = None,
    ) -> Mosaic:
        """Return the pixels of a window of any size and position.

        Args:
            stored: the tiles of this window, and perhaps others, if they are known already.
            kept: decoded tiles of the previous window, replaced by those of this one: the strips
                of a map share tiles. None if the window is the whole map.

        Raises:
            SlabFormatError, StorageError: a tile cannot be read or decoded.
        """
        places = self._places(window, around)
        stored = self.stored(window, around) if stored is None else stored
        # An area may cut any tile, and the data window the last ones.
        padded = self._window is not None and (
            window.right > self._window[0] or window.bottom > self._window[1]
        )
        complete = (
            self._masked is None
            and not padded
            and len(places) == math.prod(map(len, self._touched(window)))
        )
        shape = window.bottom - window.top, window.right - window.left
        pixels = np.empty((*shape, len(self.nodata)), self.dtype)
        valid: Mask | None = None
        if not complete:
            pixels[:] = self.nodata
            valid = np.zeros(shape, np.bool_)
        step = self._tiles_at_a_time
        for start in range(0, len(places), step):
            batch = places[start : start + step]
            parts = [(place, *self._overlap(*shown, window)) for shown, place in batch]
            wanted = [place for _, place in batch]
            targets: Targets = {}
            if kept is None:
                # A tile that is shown twice has two parts.
                times = Counter(wanted)
                targets = {
                    place: (part, pixels[inside])
                    for place, inside, part in parts
                    if times[place] == 1
                }
            found = self.tiles(wanted, stored, {} if kept is None else kept, targets=targets)
            for place, inside, part in parts:
                tile = found[place]
                if tile is None and valid is None:
                    valid = np.ones(shape, np.bool_)
                if valid is not None:
                    mask = None if tile is None else self.mask(place)
                    valid[inside] = tile is not None if mask is None else mask[part]
                if tile is None:
                    pixels[inside] = self.nodata
                elif place not in targets or tile is not targets[place][1]:
                    if complete and len(places) == 1:
                        # A window inside one tile needs no copy.
                        return mosaic_of(tile[part], None, self.nodata)
                    pixels[inside] = tile[part]
        return mosaic_of(pixels, valid, self.nodata)

    def tiles(
        self,
        places: Iterable[TileIndices],
        stored: StoredTiles,
        kept: DecodedTiles,
        *,
        keep: bool = True,
        targets: Targets = _NOWHERE,
    ) -> DecodedTiles:
        """Return decoded tiles. All bytes of those not in memory are read in one plan.

        Args:
            places: the tiles.
            stored: these tiles, and perhaps others. One that no longer exists becomes None.
            kept: tiles of the previous strip; afterwards it holds these tiles only.
            keep: whether new tiles are put into the cache.
            targets: parts of tiles, and arrays for their pixels. A tile of which only that part
                was decoded or copied is its array.

        Raises:
            SlabFormatError, StorageError: a tile cannot be read or decoded.
        """
        found: DecodedTiles = dict.fromkeys(places)
        known = {place: tile for place, tile in kept.items() if place in found}
        # Free tiles no longer needed before decoding more.
        kept.clear()
        ready, missing, payloads = self._fetched(found, stored, known, targets)
        known.clear()
        found.update(ready)
        found.update(self._decoded(missing, payloads, stored, keep=keep, targets=targets))
        kept.update(found)
        return found

    def groups(
        self, places: Iterable[TileIndices], stored: StoredTiles, size: int
    ) -> Iterator[DecodedTiles]:
        """Yield decoded tiles in groups. The bytes of all are read in one plan, before the first.

        Args:
            places: the tiles, each once.
            stored: these tiles, and perhaps others. One that no longer exists becomes None.
            size: number of tiles decoded at a time; more may be copied from the cache.

        Raises:
            SlabFormatError, StorageError: a tile cannot be read or decoded.
        """
        ready, missing, payloads = self._fetched(places, stored, {})
        if ready:
            yield ready
        names = list(missing)
        for start in range(0, len(names), size):
            part = slice(start, start + size)
            group = {place: missing[place] for place in names[part]}
            yield self._decoded(group, payloads[part], stored)
            payloads[part] = [None] * len(group)

    def _fetched(
        self,
        places: Iterable[TileIndices],
        stored: StoredTiles,
        known: DecodedTiles,
        targets: Targets = _NOWHERE,
    ) -> tuple[DecodedTiles, dict[TileIndices, StoredTile], list[bytes | None]]:
        """Return tiles that are decoded already, and the other stored ones with their bytes.

        All tiles of a slab are from one version: if it turns out to be replaced, its tiles are
        located again, and no tile is taken from memory.

        Args:
            stored: is updated if tiles are located again.
            known: tiles in memory that need not be in the cache; None for those that do not exist.
            targets: parts of tiles that are copied from the cache into arrays.
        """
        places = list(places)
        ready = {place: known[place] for place in places if place in known}
        wanted = _existing(stored, (place for place in places if place not in ready))
        # Copies take memory: no more are held at a time than decoded tiles.
        first = list(wanted)[: self._tiles_at_a_time]
        keys = [_cache_key(wanted[place]) for place in first]
        cached = self._cache.get(keys, [targets.get(place) for place in first])
        for place, pixels in zip(first, cached, strict=True):
            if pixels is not None:
                if self._masked is not None:
                    pixels = self._without_outside(place, pixels, targets)
                ready[place] = pixels
                del wanted[place]
        if not wanted:
            return ready, wanted, []
        for attempt in count(1):
            before = {tile.slab: tile.index for tile in wanted.values()}
            payloads = read_located(list(wanted.values()))
            replaced = {
                tile.slab
                for tile, payload in zip(wanted.values(), payloads, strict=True)
                if payload is None or tile.index is not before[tile.slab]
            }
            others = [stored.get(place) for place in ready]
            # Tiles that are read one by one may be of two versions of a slab.
            others += [tile for tile in wanted.values() if not tile.is_addressable]
            if not any(tile is not None and tile.slab in replaced for tile in others):
                return ready, wanted, payloads
            stored.update(self.locate(places))
            wanted, ready = _existing(stored, places), {}
            changed = ObjectChangedError("the tiles of a map are replaced again and again")
            if not may_retry(changed, attempt):
                raise changed
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _decoded(
        self,
        wanted: Mapping[TileIndices, StoredTile],
        payloads: Sequence[bytes | None],
        stored: StoredTiles,
        *,
        keep: bool = True,
        targets: Targets = _NOWHERE,
    ) -> DecodedTiles:
        """Decode the bytes of tiles; None for those that no longer exist."""
        places = list(wanted)

        def decode(number: int) -> Pixels | None:
            payload, target = payloads[number], direct.get(places[number])
            if payload is None:
                return None
            if target is not None and native.decode_jpeg(payload, self._size, *target):
                return target[1]
            return self._with_data(places[number], self._decoder.decode(payload))

        # Without generations in the storage, a cached tile could be out of date.
        keys = {
            place: _cache_key(tile)
            for place, tile in wanted.items()
            if keep and tile.index.version is not None
        }
        direct = {
            place: target
            for place, target in targets.items()
            if self._is_jpeg
            and not (place in keys and self._cache.wants(keys[place], self.tile_size))
        }
        try:
            if len(places) < _PARALLEL_FROM:
                decoded = list(map(decode, range(len(places))))
            else:
                decoded = _DECODING.map(decode, range(len(places)))
        except SlabFormatError:
            for tile in wanted.values():
                tile.forget_index()
            raise
        found = dict(zip(places, decoded, strict=True))
        for place, pixels in found.items():
            if pixels is None:
                stored[place] = None
            elif place in keys and (place not in direct or pixels is not direct[place][1]):
                # The identity after the read: the slab may have been replaced meanwhile.
                self._cache.put(keys[place], pixels)
        if self._masked is not None:
            for place, pixels in found.items():
                if pixels is not None:
                    found[place] = self._without_outside(place, pixels, targets)
        return found

    def _with_data(self, place: TileIndices, decoded: Pixels) -> Pixels:
        """Return a decoded tile with nodata where there is no data."""
        if decoded.shape[:2] != self._size or decoded.dtype != self.dtype:
            raise SlabFormatError(f"a tile has the shape {decoded.shape} of {decoded.dtype}")
        pixels, mask = self._finite(decoded), self._data(place)
        if mask is not None:
            pixels = pixels.copy()
            pixels[~mask] = self.nodata
        return pixels

    def _without_outside(self, place: TileIndices, pixels: Pixels, targets: Targets) -> Pixels:
        """Return a tile, or the part of it that was wanted, with nodata outside of the area."""
        mask = self.mask(place)
        if mask is None:
            return pixels
        assert self._masked is not None
        target = targets.get(place)
        if target is not None and pixels is target[1]:
            mask = mask[target[0]]
        return self._masked.masking.pixels(pixels, mask)

    def _places(self, window: Window, around: int) -> list[tuple[TileIndices, TileIndices]]:
        """Return the tiles of a window that may be stored: where they are shown, and stored."""
        rows, columns = self._inside(window, around)
        stored = [(col, col % around if around else col) for col in columns]
        return [((row, col), (row, place)) for row in rows for col, place in stored]

    def _inside(self, window: Window, around: int) -> tuple[range, Sequence[int]]:
        """Return the rows and columns of the tiles of a window that are inside the limits."""
        (rows, columns), limits = self._touched(window), self.level.limits
        shown = range(max(rows.start, limits.min_row), min(rows.stop, limits.max_row + 1))
        if around:
            return shown, [
                col for col in columns if limits.min_col <= col % around <= limits.max_col
            ]
        return shown, range(
            max(columns.start, limits.min_col), min(columns.stop, limits.max_col + 1)
        )

    def _touched(self, window: Window) -> tuple[range, range]:
        """Return the rows and columns of the tiles of a window, also outside the matrix."""
        width, height = self.level.matrix.tile_width, self.level.matrix.tile_height
        return (
            range(window.top // height, (window.bottom - 1) // height + 1),
            range(window.left // width, (window.right - 1) // width + 1),
        )

    def _finite(self, tile: Pixels) -> Pixels:
        """Return a tile with nodata instead of NaN and infinities, which kernels would spread."""
        if self.dtype == np.uint8 or np.isfinite(tile).all():
            return tile
        # Float formats have one channel.
        cleaned: Pixels = np.where(np.isfinite(tile), tile, np.float32(self.nodata[0]))
        return cleaned

    def _overlap(self, row: int, col: int, window: Window) -> tuple[TileSlices, TileSlices]:
        """Return the rows and columns shared with a tile: in the window, and in the tile."""
        height, width = self._size
        rows, tile_rows = overlap(row * height, height, window.top, window.bottom)
        columns, tile_columns = overlap(col * width, width, window.left, window.right)
        return (rows, columns), (tile_rows, tile_columns)


def area_met(area: Window, window: Window, turn: float) -> Window | None:
    """Return the pixels of a level that may hold data; None if a window meets none.

    Args:
        area: those of the level.
        turn: columns; 0 if they do not repeat. If they do, the pixels returned are those from the
            first to the last area that the window meets.
    """
    top, bottom, left, right = area
    if turn:
        start, end = float(window.left), float(window.right)
        if end - start > turn > 2 * (right - left):
            # A kernel of half the world need not show a region a second time, from far away.
            start, end = (start + end - turn) / 2, (start + end + turn) / 2
        first = math.floor((start - right) / turn) + 1
        last = math.ceil((end - left) / turn) - 1
        if first > last:
            return None
        left, right = math.floor(left + first * turn), math.ceil(right + last * turn)
    if min(window.bottom, bottom) <= max(window.top, top):
        return None
    return (
        None
        if min(window.right, right) <= max(window.left, left)
        else Window(top, bottom, left, right)
    )


def holds(area: Window, window: Window) -> bool:
    """Return whether an area contains a window."""
    top, bottom, left, right = window
    return top >= area.top and bottom <= area.bottom and left >= area.left and right <= area.right


def overlap(corner: int, size: int, start: int, end: int) -> tuple[slice, slice]:
    """Return the rows, or columns, that a tile shares with a window: in the window, in the tile.

    Args:
        corner: first row or column of the tile.
        size: of the tile, in rows or columns.
        start, end: of the window.
    """
    first, last = max(corner, start), min(corner + size, end)
    return slice(first - start, last - start), slice(first - corner, last - corner)


def _cache_key(tile: StoredTile) -> Hashable:
    if not tile.is_addressable:
        return tile.identity
    # As `identity`: a call less for each tile.
    return tile.index.identity, tile.offset, tile.length


def _existing(stored: StoredTiles, places: Iterable[TileIndices]) -> dict[TileIndices, StoredTile]:
    return {place: tile for place in places if (tile := stored[place]) is not None}
