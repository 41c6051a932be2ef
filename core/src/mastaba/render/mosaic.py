"""Windows of a level, assembled from its tiles (resampling.md section 4)."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import numpy as np

from mastaba.errors import SlabFormatError
from mastaba.model.pyramid import Level, Pyramid
from mastaba.model.tile_matrix_set import TileLimits
from mastaba.render.map_request import Mask, Pixels
from mastaba.render.tile_cache import TileCache
from mastaba.slab.codecs import TileDecoder
from mastaba.slab.plan import locate_tiles, read_located
from mastaba.slab.reader import LevelReader, StoredTile

# With fewer tiles, using other threads costs more than it saves.
_PARALLEL_FROM: Final = 6

DECODED_AT_A_TIME: Final = 16 * 1024**2
"""Bytes of decoded tiles held at a time while a window is assembled."""

Place = tuple[int, int]
"""Row and column of a tile."""
KeptTiles = dict[Place, Pixels | None]
"""Decoded tiles by row and column; None where no tile is stored."""


@dataclass(frozen=True, slots=True)
class Window:
    """Pixels of a level: the first row and column, and those after the last."""

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
        valid: shape (rows, columns), False where there is no data; None if all is data.
    """

    pixels: Pixels
    valid: Mask | None


class LevelPixels:
    """The pixels of one level.

    Args:
        pyramid: raster pyramid of the level.
        reader: reader of the level.
        cache: decoded tiles, shared by all levels.

    Attributes:
        level: the level.
        nodata: one value per channel.
        is_float: whether pixels are float32 rather than uint8.
    """

    def __init__(self, pyramid: Pyramid, reader: LevelReader, cache: TileCache) -> None:
        assert pyramid.raster is not None
        matrix = reader.level.matrix
        self.level = reader.level
        self._reader = reader
        self._cache = cache
        self.nodata = pyramid.raster.nodata
        self.is_float = pyramid.format.sample == "float32"
        self._dtype = np.dtype(np.float32 if self.is_float else np.uint8)
        self._decoder = TileDecoder(
            pyramid.format, pyramid.raster.channels, matrix.tile_width, matrix.tile_height
        )

    def read(self, window: Window, around: int = 0, kept: KeptTiles | None = None) -> Mosaic:
        """Return the pixels of a window of any size and position.

        Args:
            around: tiles in a full turn of the Earth, after which columns repeat; 0 if they do
                not.
            kept: decoded tiles of the previous window, replaced by those of this one: the strips
                of a map share tiles.

        Raises:
            SlabFormatError, StorageError: a tile cannot be read or decoded.
        """
        touched = window.tiles(self.level)
        places = self._places(touched, around)
        kept = {} if kept is None else kept
        all_stored = len(places) == _count(touched)
        if all_stored and len(places) == 1:
            (tile,) = self.tiles(_stored(places, around), kept)
            # A window inside one tile needs no copy.
            if tile is not None:
                return self._mosaic(self._part(tile, places[0], window), None)
        pixels = np.empty((*window.shape, len(self.nodata)), self._dtype)
        valid: Mask | None = None
        if not all_stored:
            pixels[:] = self.nodata
            valid = np.zeros(window.shape, np.bool_)
        step = self.tiles_at_a_time
        for batch in (places[start : start + step] for start in range(0, len(places), step)):
            stored = _stored(batch, around)
            once = list(dict.fromkeys(stored)) if around else stored
            found = dict(zip(once, self.tiles(once, kept), strict=True))
            for place, key in zip(batch, stored, strict=True):
                tile = found[key]
                if tile is not None:
                    self._place(tile, place, window, pixels)
                rows, columns, _, _ = self._overlap(place, window)
                if tile is None and valid is None:
                    valid = np.ones(window.shape, np.bool_)
                if tile is None:
                    pixels[rows, columns] = self.nodata
                if valid is not None:
                    valid[rows, columns] = tile is not None
        return self._mosaic(pixels, valid)

    @property
    def tiles_at_a_time(self) -> int:
        """Number of tiles read and decoded at a time."""
        return max(1, DECODED_AT_A_TIME // self.tile_size)

    def tile_memory(self, window: Window) -> int:
        """Return the maximum bytes of decoded tiles held while a window is read."""
        return min(_count(window.tiles(self.level)), self.tiles_at_a_time) * self.tile_size

    @property
    def tile_size(self) -> int:
        """Bytes of a decoded tile."""
        matrix = self.level.matrix
        return matrix.tile_width * matrix.tile_height * len(self.nodata) * self._dtype.itemsize

    def _mosaic(self, pixels: Pixels, valid: Mask | None) -> Mosaic:
        if self.is_float:
            # Elevations must not be mixed with adjacent nodata values.
            mask = pixels[:, :, 0] != np.float32(self.nodata[0])
            valid = None if mask.all() else mask
        return Mosaic(pixels, valid)

    def count(self, window: Window, around: int = 0) -> tuple[int, int]:
        """Return how many rows and columns of tiles a window needs."""
        touched = window.tiles(self.level)
        return touched.max_row - touched.min_row + 1, touched.max_col - touched.min_col + 1

    def version(self, window: Window, around: int = 0) -> str | None:
        """Return a text that changes with the stored tiles of a window.

        Reads only slab indices that are not yet known.

        Args:
            around: as in `read`.

        Returns:
            None if the storage cannot distinguish generations of a slab.

        Raises:
            SlabFormatError, StorageError: an index cannot be read.
        """
        places = self._places(window.tiles(self.level), around)
        return self.version_of(_stored(places, around))

    def version_of(self, places: Sequence[tuple[int, int]]) -> str | None:
        """Return a text that changes with some stored tiles; see `version`.

        Args:
            places: rows and columns of the tiles.
        """
        parts = [self.level.matrix.id]
        for stored in locate_tiles(self._reader, places):
            if stored is None:
                parts.append("-")
            elif stored.version is None:
                return None
            else:
                parts.append(f"{stored.index.key}:{stored.version}")
        return " ".join(parts)

    def modified(self, window: Window, around: int = 0) -> float | None:
        """Return when the slabs of a window were last modified, Unix seconds.

        Args:
            around: as in `read`.

        Returns:
            0 if nothing is stored there, None if the storage does not report it.

        Raises:
            SlabFormatError, StorageError: an index cannot be read.
        """
        places = self._places(window.tiles(self.level), around)
        return self.modified_of(_stored(places, around))

    def modified_of(self, places: Sequence[tuple[int, int]]) -> float | None:
        """Return when the slabs of some tiles were last modified; see `modified`.

        Args:
            places: rows and columns of the tiles.
        """
        found = locate_tiles(self._reader, places)
        return latest(stored.modified for stored in found if stored is not None)

    def _places(self, touched: TileLimits, around: int) -> list[Place]:
        """Return the rows and columns of the tiles that may be stored."""
        limits = self.level.limits
        if not around:
            common = touched.intersection(limits)
            return [] if common is None else _all(common)
        return [(row, col) for row, col in _all(touched) if limits.contains(row, col % around)]

    def tiles(
        self, places: Sequence[Place], kept: KeptTiles | None = None, *, keep: bool = True
    ) -> list[Pixels | None]:
        """Return decoded tiles. All bytes of those not in memory are read in one plan.

        Args:
            places: rows and columns, inside the limits.
            kept: tiles of the previous strip; afterwards it holds these tiles only.
            keep: whether new tiles are put into the cache.

        Raises:
            SlabFormatError, StorageError: a tile cannot be read or decoded.
        """
        kept = {} if kept is None else kept
        found = [kept.get(place) for place in places]
        missing = [position for position, place in enumerate(places) if place not in kept]
        # Free tiles no longer needed before decoding more.
        kept.clear()
        wanted: list[tuple[int, StoredTile]] = []
        located = locate_tiles(self._reader, [places[position] for position in missing])
        for position, stored in zip(missing, located, strict=True):
            if stored is None:
                continue
            tile = self._cache.get(stored.identity)
            if tile is None:
                wanted.append((position, stored))
            else:
                found[position] = tile
        payloads = read_located([stored for _, stored in wanted])
        try:
            decoded = _decode_all(self._decoder, payloads)
        except SlabFormatError:
            for _, stored in wanted:
                stored.forget_index()
            raise
        for (position, stored), raw in zip(wanted, decoded, strict=True):
            tile = self._finite(raw) if self.is_float and raw is not None else raw
            found[position] = tile
            # Without generations in the storage, a cached tile could be out of date.
            if keep and tile is not None and stored.version is not None:
                # Use the identity after the read: the slab may have been replaced meanwhile.
                self._cache.put(stored.identity, tile)
        kept.update(zip(places, found, strict=True))
        return found

    def _finite(self, tile: Pixels) -> Pixels:
        """Return a tile with nodata instead of NaN and infinities, which kernels would spread."""
        finite = np.isfinite(tile)
        if finite.all():
            return tile
        # Float formats have one channel.
        cleaned: Pixels = np.where(finite, tile, np.float32(self.nodata[0]))
        return cleaned

    def _overlap(self, place: Place, window: Window) -> tuple[slice, slice, slice, slice]:
        """Return the rows and columns shared with a tile, counted in the window and in the tile."""
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

    def _part(self, tile: Pixels, place: Place, window: Window) -> Pixels:
        _, _, rows, columns = self._overlap(place, window)
        return tile[rows, columns]

    def _place(self, tile: Pixels, place: Place, window: Window, pixels: Pixels) -> None:
        rows, columns, tile_rows, tile_columns = self._overlap(place, window)
        pixels[rows, columns] = tile[tile_rows, tile_columns]


def _stored(places: Sequence[Place], around: int) -> Sequence[Place]:
    return [(row, col % around) for row, col in places] if around else places


def _count(limits: TileLimits) -> int:
    return (limits.max_row - limits.min_row + 1) * (limits.max_col - limits.min_col + 1)


def _all(limits: TileLimits) -> list[Place]:
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
    """Return the decoding threads of this process; threads do not survive a fork."""
    pid = os.getpid()
    with _executors_lock:
        if pid not in _executors:
            _executors.clear()
            _executors[pid] = ThreadPoolExecutor(
                max_workers=len(os.sched_getaffinity(0)), thread_name_prefix="decode"
            )
        return _executors[pid]


def latest(times: Iterable[float | None]) -> float | None:
    """Return the latest of some times; 0 without times, None if one of them is unknown."""
    last = 0.0
    for time in times:
        if time is None:
            return None
        last = max(last, time)
    return last
