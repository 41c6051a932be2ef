"""Sources of the tiles of a TIFF image: stored tiles as they are, and windows of pixels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from mastaba.api.catalogue import Codec
from mastaba.errors import SlabFormatError
from mastaba_coverage.block import Place, TileBlock
from mastaba_coverage.cells import Cells
from mastaba_coverage.jpeg import is_halved
from mastaba_render.api.decoding import Pixels, TileDecoder

READ_AT_A_TIME: Final = 8 * 1024**2
"""Bytes of tiles that are read, or decoded, together."""


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
        codec: how they are stored.
        size: width and height of a tile in pixels.
    """

    def __init__(self, block: TileBlock, codec: Codec, size: tuple[int, int]) -> None:
        self.sizes = block.sizes.reshape(-1)
        self._block = block
        self._is_jpeg = codec is Codec.JPEG
        self._size = size

    def tiles(self, first: int, stop: int) -> Iterator[bytes]:
        while first < stop:
            # At least one tile, however large.
            total = np.cumsum(self.sizes[first:stop])
            count = max(1, int(np.searchsorted(total, READ_AT_A_TIME, side="right")))
            yield from self._group(first, first + count)
            first += count

    def is_uniform(self, count: int) -> bool:
        """Return whether some of the tiles, at most ``count``, have what the tags declare."""
        if not self._is_jpeg:
            return True
        stored = np.flatnonzero(self.sizes)
        chosen = stored[np.unique(np.linspace(0, len(stored) - 1, count).astype(int))]
        payloads = self._block.read([self._place(int(n)) for n in chosen]) if len(stored) else []
        return all(is_halved(payload, *self._size) for payload in payloads)

    def _group(self, first: int, stop: int) -> Iterator[bytes]:
        numbers = [n for n in range(first, stop) if self.sizes[n]]
        found = dict(zip(numbers, self._block.read([self._place(n) for n in numbers]), strict=True))
        for number in range(first, stop):
            payload = found.get(number, b"")
            if payload and self._is_jpeg and not is_halved(payload, *self._size):
                row, col = self._place(number)
                raise SlabFormatError(f"the JPEG in row {row}, column {col} differs from others")
            yield payload

    def _place(self, number: int) -> Place:
        row, col = divmod(number, self._block.sizes.shape[1])
        return self._block.tiles.min_row + row, self._block.tiles.min_col + col


class WindowTiles(TileSource):
    """Uncompressed tiles of any window of cells: the stored values, bit for bit.

    Parts of edge tiles beyond the window are nodata. A decoded tile that the next row of tiles
    needs is kept: one row at most.

    Args:
        block: the stored tiles that the window touches.
        decoder: of the stored tiles.
        cells: the window.
        size: width and height of a stored tile, and of a tile of the image, in cells.
        nodata: one value for each channel.
        dtype: of the values, little-endian.
        channels: numbers of those that the image has, in order.
        is_sparse: whether tiles are left out of which nothing is stored.
    """

    def __init__(
        self,
        block: TileBlock,
        decoder: TileDecoder,
        cells: Cells,
        size: tuple[int, int],
        nodata: Sequence[float],
        dtype: np.dtype[np.generic],
        channels: Sequence[int],
        *,
        is_sparse: bool = False,
    ) -> None:
        self._block = block
        self._decoder = decoder
        self._cells = cells
        self._width, self._height = size
        self._channels = list(channels)
        self._all = self._channels == list(range(len(nodata)))
        self._blank = np.array(nodata, dtype)[self._channels]
        self._across = -(-cells.columns // self._width)
        down = -(-cells.rows // self._height)
        self.nbytes = self._width * self._height * len(channels) * dtype.itemsize
        self.sizes = np.full(down * self._across, self.nbytes, np.int64)
        if is_sparse:
            for number in range(len(self.sizes)):
                if not any(map(block.has, self._needed(*divmod(number, self._across), 1))):
                    self.sizes[number] = 0

    def tiles(self, first: int, stop: int) -> Iterator[bytes]:
        at_a_time = max(1, READ_AT_A_TIME // self.nbytes)
        kept: dict[Place, Pixels] = {}
        while first < stop:
            row, col = divmod(first, self._across)
            count = min(at_a_time, self._across - col, stop - first)
            pixels = self._pixels(row, col, count, kept)
            for number in range(count):
                if self.sizes[first + number]:
                    yield pixels[:, number * self._width : (number + 1) * self._width].tobytes()
                else:
                    yield b""
            first += count

    def _pixels(self, row: int, col: int, count: int, kept: dict[Place, Pixels]) -> Pixels:
        """Return some tiles of one row side by side."""
        part = self._part(row, col, count)
        needed = [place for place in self._needed(row, col, count) if self._block.has(place)]
        for place in [place for place in kept if (place[0] + 1) * self._height <= part.top]:
            del kept[place]
        missing = [place for place in needed if place not in kept]
        for place, payload in zip(missing, self._block.read(missing), strict=True):
            kept[place] = self._decoder.decode(payload)
        pixels = np.empty(
            (self._height, count * self._width, len(self._channels)), self._blank.dtype
        )
        pixels[:] = self._blank
        for place in needed:
            tile = kept[place] if self._all else kept[place][:, :, self._channels]
            (rows, tile_rows) = _shared(
                place[0] * self._height, self._height, part.top, part.bottom
            )
            (cols, tile_cols) = _shared(place[1] * self._width, self._width, part.left, part.right)
            pixels[rows, cols] = tile[tile_rows, tile_cols]
        for place in needed:
            is_left = (place[1] + 1) * self._width <= part.right
            if is_left and (place[0] + 1) * self._height <= part.bottom:
                del kept[place]
        return pixels

    def _part(self, row: int, col: int, count: int) -> Cells:
        """Return the cells of some tiles of one row, inside the window."""
        cells = self._cells
        top, left = cells.top + row * self._height, cells.left + col * self._width
        return Cells(
            top,
            min(top + self._height, cells.bottom),
            left,
            min(left + count * self._width, cells.right),
        )

    def _needed(self, row: int, col: int, count: int) -> list[Place]:
        part = self._part(row, col, count)
        return [
            (tile_row, tile_col)
            for tile_row in range(part.top // self._height, (part.bottom - 1) // self._height + 1)
            for tile_col in range(part.left // self._width, (part.right - 1) // self._width + 1)
        ]


def _shared(corner: int, size: int, start: int, end: int) -> tuple[slice, slice]:
    """Return what a tile shares with a window on one axis: in the window, and in the tile."""
    first, last = max(corner, start), min(corner + size, end)
    return slice(first - start, last - start), slice(first - corner, last - corner)
