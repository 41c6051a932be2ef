"""Sources of the tiles of a TIFF image: stored tiles as they are, and windows of pixels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from mastaba_coverage.block import TileBlock, TileIndices
from mastaba_coverage.cells import Cells
from mastaba_coverage.errors import NotCopyableError
from mastaba_coverage.jpeg import is_halved
from mastaba_coverage.shape import TileShape
from mastaba_coverage.stored_values import StoredValues
from mastaba_render.api.maps import Pixels, overlap

READ_AT_A_TIME: Final = 8 * 1024**2
"""Bytes of tiles that are read, or decoded, together: many, for storages on other machines."""
_COPIED_AT_A_TIME: Final = 2 * 1024**2
_DECODED_AT_A_TIME: Final = 256 * 1024
"""The same of local storages: few, so that tiles need not wait long for the processor."""
KEPT: Final = 64 * 1024**2
"""Bytes of decoded tiles that are kept for the next row of tiles of a file."""


class TileSource(ABC):
    """The tiles of one image, by number: row by row.

    Attributes:
        sizes: bytes of each tile, 0 for one that is left out; int64.
    """

    sizes: npt.NDArray[np.int64]

    @abstractmethod
    def tiles(self, first: int, stop: int) -> Iterator[bytes]:
        """Yield the tiles from ``first`` to before ``stop``; empty for one that is left out.

        Raises:
            ObjectChangedError: a slab has been replaced since its index was read.
            SlabFormatError, StorageError: a tile cannot be read or decoded.
        """


class CopiedTiles(TileSource):
    """Stored tiles as they are.

    Args:
        block: the tiles, all of the image.
        size: width and height of a tile in pixels.
        is_jpeg: whether they are JPEG.
        blank: a tile for each that is not stored; empty if these are left out.
    """

    def __init__(
        self, block: TileBlock, size: tuple[int, int], *, is_jpeg: bool, blank: bytes = b""
    ) -> None:
        stored = block.sizes.reshape(-1)
        self._stored = stored
        self.sizes = np.where(stored > 0, stored, len(blank)) if blank else stored
        self._block = block
        self._is_jpeg = is_jpeg
        self._size = size
        self._blank = blank

    def tiles(self, first: int, stop: int) -> Iterator[bytes]:
        most = READ_AT_A_TIME if self._block.is_remote else _COPIED_AT_A_TIME
        ends = np.cumsum(self.sizes[first:stop])
        start, done = first, 0
        while first < stop:
            # At least one tile, however large.
            count = int(np.searchsorted(ends, done + most, side="right"))
            after = max(first + 1, start + count)
            yield from self._group(first, after)
            first, done = after, int(ends[after - start - 1])

    def is_uniform(self, count: int) -> bool:
        """Return whether some of the tiles, at most ``count``, have what the tags declare."""
        if not self._is_jpeg:
            return True
        stored = np.flatnonzero(self._stored)
        chosen = stored[np.unique(np.linspace(0, len(stored) - 1, count).astype(int))]
        payloads = self._block.read([self._place(int(n)) for n in chosen]) if len(stored) else []
        return all(is_halved(payload, *self._size) for payload in payloads)

    def _group(self, first: int, stop: int) -> Iterator[bytes]:
        numbers = [n for n in range(first, stop) if self._stored[n]]
        found = dict(zip(numbers, self._block.read([self._place(n) for n in numbers]), strict=True))
        for number in range(first, stop):
            payload = found.get(number)
            if payload is not None and self._is_jpeg and not is_halved(payload, *self._size):
                row, col = self._place(number)
                raise NotCopyableError(f"the JPEG in row {row}, column {col} differs from others")
            yield self._blank if payload is None else payload

    def _place(self, number: int) -> TileIndices:
        row, col = divmod(number, self._block.sizes.shape[1])
        return self._block.tiles.min_row + row, self._block.tiles.min_col + col


class WrittenTiles(TileSource):
    """Tiles that are in a file already."""

    def __init__(self, sizes: npt.NDArray[np.int64]) -> None:
        self.sizes = sizes

    def tiles(self, first: int, stop: int) -> Iterator[bytes]:
        raise AssertionError("the tiles are in a file")


class PixelTiles(TileSource):
    """Uncompressed tiles, made of pixels.

    Args:
        shape: of the tiles of the image.
        rows, columns: of the image.
        cell_size: bytes of the values of a cell.

    Attributes:
        nbytes: bytes of the values of a tile.
    """

    def __init__(self, shape: TileShape, rows: int, columns: int, cell_size: int) -> None:
        self._shape = shape
        self._across = shape.across(columns)
        self._down = shape.down(rows)
        row = shape.width * cell_size
        self.nbytes = row * shape.height
        heights = [shape.height_of(number, rows) for number in range(self._down)]
        self.sizes = np.repeat(np.array(heights, np.int64) * row, self._across)

    @abstractmethod
    def blocks(self, first: int = 0, stop: int | None = None) -> Iterator[Pixels | None]:
        """Yield the pixels of tiles, as `tiles` does with their bytes; None for one left out."""

    def tiles(self, first: int, stop: int) -> Iterator[bytes]:
        for pixels in self.blocks(first, stop):
            yield b"" if pixels is None else pixels.tobytes()


class BitTiles(TileSource):
    """Uncompressed tiles of one bit for each pixel: whether it is not 0.

    Args:
        pixels: tiles of 8-bit pixels with one channel.
        width: pixels of a row of a tile.

    Attributes:
        pixels: as given.
    """

    def __init__(self, pixels: PixelTiles, width: int) -> None:
        self.pixels = pixels
        self.sizes = pixels.sizes // width * -(-width // 8)

    def tiles(self, first: int, stop: int) -> Iterator[bytes]:
        for pixels in self.pixels.blocks(first, stop):
            yield b"" if pixels is None else packed(pixels)


def packed(pixels: Pixels) -> bytes:
    """Return one bit for each pixel, of shape (rows, columns, 1): whether it is not 0."""
    return np.packbits(pixels[:, :, 0], axis=1).tobytes()


class StoredCells(NamedTuple):
    """The stored cells from which an image is made.

    Attributes:
        block: the stored tiles that the image needs.
        values: of the stored tiles.
        size: width and height of a stored tile in cells.
        nodata: one value for each channel.
        dtype: of the values, little-endian.
    """

    block: TileBlock
    values: StoredValues
    size: tuple[int, int]
    nodata: Sequence[float]
    dtype: np.dtype[np.generic]


class WindowTiles(PixelTiles):
    """Uncompressed tiles of any window of cells: the stored values, bit for bit.

    Parts of edge tiles beyond the window are nodata. A decoded tile that the next row of tiles
    needs is kept: one row at most, and at most 64 MiB.

    Args:
        stored: the cells that the window touches.
        cells: the window.
        shape: of the tiles of the image.
        channels: numbers of those that the image has, in order.
        is_sparse: whether tiles are left out of which nothing is stored.
    """

    def __init__(
        self,
        stored: StoredCells,
        cells: Cells,
        shape: TileShape,
        channels: Sequence[int],
        *,
        is_sparse: bool = False,
    ) -> None:
        self._block, self._values, (self._width, self._height), nodata, dtype = stored
        super().__init__(shape, cells.rows, cells.columns, len(channels) * dtype.itemsize)
        self._cells = cells
        self._channels = list(channels)
        self._all = self._channels == list(range(len(nodata)))
        self._blank = np.array(nodata, dtype)[self._channels]
        self._kept = max(1, KEPT // self._values.nbytes)
        if is_sparse:
            self.sizes[~self._touched()] = 0

    def _touched(self) -> npt.NDArray[np.bool_]:
        """Return for each tile whether a stored one touches it."""
        cells, shape = self._cells, self._shape
        top = cells.top + shape.height * np.arange(self._down)
        left = cells.left + shape.width * np.arange(self._across)
        bottom = np.minimum(top + shape.height, cells.bottom) - 1
        right = np.minimum(left + shape.width, cells.right) - 1
        width, height = self._width, self._height
        return self._block.touched(
            top // height, bottom // height, left // width, right // width
        ).reshape(-1)

    def blocks(self, first: int = 0, stop: int | None = None) -> Iterator[Pixels | None]:
        most = READ_AT_A_TIME if self._block.is_remote else _DECODED_AT_A_TIME
        at_a_time = max(1, most // self.nbytes)
        stop = len(self.sizes) if stop is None else stop
        kept: dict[TileIndices, Pixels] = {}
        width = self._shape.width
        while first < stop:
            row, col = divmod(first, self._across)
            count = min(at_a_time, self._across - col, stop - first)
            if not self.sizes[first : first + count].any():
                yield from [None] * count
            else:
                pixels = self._pixels(row, col, count, kept)
                for number in range(count):
                    is_there = self.sizes[first + number]
                    yield pixels[:, number * width : (number + 1) * width] if is_there else None
            first += count

    def _pixels(self, row: int, col: int, count: int, kept: dict[TileIndices, Pixels]) -> Pixels:
        """Return some tiles of one row side by side."""
        part = self._part(row, col, count)
        needed = [place for place in self._needed(row, col, count) if self._block.has(place)]
        for place in [place for place in kept if (place[0] + 1) * self._height <= part.top]:
            del kept[place]
        height = self._shape.height_of(row, self._cells.rows)
        pixels = np.empty(
            (height, count * self._shape.width, len(self._channels)), self._blank.dtype
        )
        pixels[:] = self._blank
        missing = [place for place in needed if place not in kept]
        for place in needed:
            if place in kept:
                self._copy(place, kept[place], part, pixels)
        # A strip may need many tiles, which are not held all at once.
        group = max(1, READ_AT_A_TIME // self._values.nbytes)
        for first in range(0, len(missing), group):
            places = missing[first : first + group]
            for place, payload in zip(places, self._block.read(places), strict=True):
                kept[place] = self._values.decode(place, payload)
                self._copy(place, kept[place], part, pixels)
            self._drop(places, part, kept)
        self._drop(needed, part, kept)
        return pixels

    def _drop(
        self, places: Sequence[TileIndices], part: Cells, kept: dict[TileIndices, Pixels]
    ) -> None:
        """Drop decoded tiles that the next tiles of the image do not need.

        Those that the next tiles of the row need are few. Of the others, the next row needs some.
        """
        for place in places:
            is_left = min((place[1] + 1) * self._width, self._cells.right) <= part.right
            is_above = (place[0] + 1) * self._height <= part.bottom
            if place in kept and is_left and (is_above or len(kept) > self._kept):
                del kept[place]

    def _copy(self, place: TileIndices, tile: Pixels, part: Cells, pixels: Pixels) -> None:
        """Copy what a decoded tile and a part of the window have in common."""
        rows, tile_rows = overlap(place[0] * self._height, self._height, part.top, part.bottom)
        cols, tile_cols = overlap(place[1] * self._width, self._width, part.left, part.right)
        found = tile[tile_rows, tile_cols]
        pixels[rows, cols] = found if self._all else found[:, :, self._channels]

    def _part(self, row: int, col: int, count: int) -> Cells:
        """Return the cells of some tiles of one row, inside the window."""
        cells, shape = self._cells, self._shape
        top, left = cells.top + row * shape.height, cells.left + col * shape.width
        return Cells(
            top,
            min(top + shape.height, cells.bottom),
            left,
            min(left + count * shape.width, cells.right),
        )

    def _needed(self, row: int, col: int, count: int) -> list[TileIndices]:
        part = self._part(row, col, count)
        return [
            (tile_row, tile_col)
            for tile_row in range(part.top // self._height, (part.bottom - 1) // self._height + 1)
            for tile_col in range(part.left // self._width, (part.right - 1) // self._width + 1)
        ]
