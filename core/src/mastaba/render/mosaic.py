"""Windows of a level, put together of its tiles (resampling.md section 4)."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import numpy as np

from mastaba.model.pyramid import Level, Pyramid
from mastaba.model.tile_matrix_set import TileLimits
from mastaba.render.request import Mask, Pixels
from mastaba.render.tile_cache import TileCache
from mastaba.slab.codecs import TileDecoder
from mastaba.slab.plan import locate_tiles, read_located
from mastaba.slab.reader import LevelReader, StoredTile

# Below this many tiles, handing them to other threads costs more than it saves.
_PARALLEL_FROM: Final = 6


@dataclass(frozen=True, slots=True)
class Window:
    """Pixels of a level, from the first row and column to those behind the last."""

    top: int
    bottom: int
    left: int
    right: int

    @property
    def shape(self) -> tuple[int, int]:
        return self.bottom - self.top, self.right - self.left

    def tiles(self, level: Level) -> TileLimits:
        """Return the tiles that the window touches; indices may lie outside the matrix."""
        width, height = level.matrix.tile_width, level.matrix.tile_height
        return TileLimits(
            self.top // height,
            (self.bottom - 1) // height,
            self.left // width,
            (self.right - 1) // width,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Mosaic:
    """The pixels of a window.

    Attributes:
        pixels: shape (rows, columns, channels); nodata where there is no tile.
        valid: shape (rows, columns), False where there is no data; None when all is data.
    """

    pixels: Pixels
    valid: Mask | None


class LevelPixels:
    """Gives the pixels of one level.

    Args:
        pyramid: of the level; not a vector one.
        reader: of the level.
        cache: of decoded tiles, shared by all levels.
    """

    def __init__(self, pyramid: Pyramid, reader: LevelReader, cache: TileCache) -> None:
        assert pyramid.raster is not None
        matrix = reader.level.matrix
        self.level = reader.level
        self._reader = reader
        self._cache = cache
        self._nodata = pyramid.raster.nodata
        self._is_float = pyramid.format.sample == "float32"
        self._decoder = TileDecoder(
            pyramid.format, pyramid.raster.channels, matrix.tile_width, matrix.tile_height
        )

    def read(self, window: Window, around: int = 0) -> Mosaic:
        """Return the pixels of a window, of any size and place.

        Args:
            around: tiles in a full turn of the Earth, after which columns begin again; 0 where
                they do not.

        Raises:
            SlabFormatError, StorageError: a tile cannot be read or decoded.
        """
        channels = len(self._nodata)
        dtype = np.float32 if self._is_float else np.uint8
        touched = window.tiles(self.level)
        places = self._places(touched, around)
        stored = _stored(places, around)
        once = list(dict.fromkeys(stored)) if around else stored
        tiles = self._tiles(once)
        if len(once) < len(stored):
            found = dict(zip(once, tiles, strict=True))
            tiles = [found[place] for place in stored]
        complete = len(places) == _count(touched) and all(tile is not None for tile in tiles)
        # One tile that holds the whole window needs no copy at all.
        if complete and len(tiles) == 1:
            assert tiles[0] is not None
            pixels = self._part(tiles[0], places[0], window)
        else:
            pixels = np.empty((*window.shape, channels), dtype)
            if not complete:
                pixels[:] = self._nodata
            for tile, place in zip(tiles, places, strict=True):
                if tile is not None:
                    self._place(tile, place, window, pixels)
        valid: Mask | None = None
        if self._is_float:
            # Elevation next to nodata must not become something between the two.
            mask = pixels[:, :, 0] != np.float32(self._nodata[0])
            valid = None if mask.all() else mask
        elif not complete:
            valid = np.zeros(window.shape, np.bool_)
            for tile, place in zip(tiles, places, strict=True):
                if tile is not None:
                    rows, columns, _, _ = self._overlap(place, window)
                    valid[rows, columns] = True
        return Mosaic(pixels, valid)

    def version(self, window: Window, around: int = 0) -> str | None:
        """Return a text that changes with the stored tiles of a window.

        Reads nothing but indices of slabs that are not known yet.

        Args:
            around: as in `read`.

        Returns:
            None when the storage cannot tell generations of a slab apart.

        Raises:
            SlabFormatError, StorageError: an index cannot be read.
        """
        places = self._places(window.tiles(self.level), around)
        parts = [self.level.matrix.id]
        for stored in locate_tiles(self._reader, _stored(places, around)):
            if stored is None:
                parts.append("-")
            elif stored.version is None:
                return None
            else:
                parts.append(f"{stored.index.key}:{stored.version}")
        return " ".join(parts)

    def _places(self, touched: TileLimits, around: int) -> list[tuple[int, int]]:
        """Return the rows and columns of those tiles that may be stored."""
        limits = self.level.limits
        if not around:
            common = touched.intersection(limits)
            return [] if common is None else _all(common)
        return [(row, col) for row, col in _all(touched) if limits.contains(row, col % around)]

    def _tiles(self, places: Sequence[tuple[int, int]]) -> list[Pixels | None]:
        """Return decoded tiles; of those not in the cache, all bytes are read in one plan."""
        found: list[Pixels | None] = [None] * len(places)
        wanted: list[tuple[int, StoredTile]] = []
        for position, stored in enumerate(locate_tiles(self._reader, places)):
            if stored is None:
                continue
            tile = self._cache.get(stored.identity)
            if tile is None:
                wanted.append((position, stored))
            else:
                found[position] = tile
        payloads = read_located([stored for _, stored in wanted])
        decoded = _decode_all(self._decoder, payloads)
        for (position, stored), raw in zip(wanted, decoded, strict=True):
            tile = self._finite(raw) if self._is_float and raw is not None else raw
            found[position] = tile
            # Where the storage knows no generations, a kept tile could be out of date.
            if tile is not None and stored.version is not None:
                # The identity after the read: the slab may have been replaced meanwhile.
                self._cache.put(stored.identity, tile)
        return found

    def _finite(self, tile: Pixels) -> Pixels:
        """Return a tile with nodata in place of NaN and infinities, which kernels would spread."""
        finite = np.isfinite(tile)
        if finite.all():
            return tile
        # Formats of floats have one channel.
        cleaned: Pixels = np.where(finite, tile, np.float32(self._nodata[0]))
        return cleaned

    def _overlap(self, place: tuple[int, int], window: Window) -> tuple[slice, slice, slice, slice]:
        """Return rows and columns of the window that a tile covers, and those of the tile."""
        matrix = self.level.matrix
        top, left = place[0] * matrix.tile_height, place[1] * matrix.tile_width
        first_row, last_row = max(top, window.top), min(top + matrix.tile_height, window.bottom)
        first_col, last_col = max(left, window.left), min(left + matrix.tile_width, window.right)
        return (
            slice(first_row - window.top, last_row - window.top),
            slice(first_col - window.left, last_col - window.left),
            slice(first_row - top, last_row - top),
            slice(first_col - left, last_col - left),
        )

    def _part(self, tile: Pixels, place: tuple[int, int], window: Window) -> Pixels:
        _, _, rows, columns = self._overlap(place, window)
        return tile[rows, columns]

    def _place(self, tile: Pixels, place: tuple[int, int], window: Window, pixels: Pixels) -> None:
        rows, columns, tile_rows, tile_columns = self._overlap(place, window)
        pixels[rows, columns] = tile[tile_rows, tile_columns]


def _stored(places: Sequence[tuple[int, int]], around: int) -> Sequence[tuple[int, int]]:
    return [(row, col % around) for row, col in places] if around else places


def _count(limits: TileLimits) -> int:
    return (limits.max_row - limits.min_row + 1) * (limits.max_col - limits.min_col + 1)


def _all(limits: TileLimits) -> list[tuple[int, int]]:
    return [
        (row, col)
        for row in range(limits.min_row, limits.max_row + 1)
        for col in range(limits.min_col, limits.max_col + 1)
    ]


def _decode_all(decoder: TileDecoder, payloads: Sequence[bytes | None]) -> list[Pixels | None]:
    def decode(payload: bytes | None) -> Pixels | None:
        return None if payload is None else decoder.decode(payload)

    if len(payloads) < _PARALLEL_FROM:
        return [decode(payload) for payload in payloads]
    return list(_executor().map(decode, payloads))


_executors: dict[int, ThreadPoolExecutor] = {}
_executors_lock = threading.Lock()


def _executor() -> ThreadPoolExecutor:
    """Return the decoding threads of this process; threads do not outlive a fork."""
    pid = os.getpid()
    with _executors_lock:
        if pid not in _executors:
            _executors.clear()
            _executors[pid] = ThreadPoolExecutor(
                max_workers=len(os.sched_getaffinity(0)), thread_name_prefix="decode"
            )
        return _executors[pid]
