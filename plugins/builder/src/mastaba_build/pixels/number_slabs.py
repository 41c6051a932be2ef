"""Slabs of source numbers: their tiles, and the share of each source."""

from __future__ import annotations

import zlib
from collections import OrderedDict
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from isal import isal_zlib

from mastaba_build.output.numbers import NumberedSlab, Share
from mastaba_build.pixels.owners import Numbers
from mastaba_build.plan.names import SOURCE_FORMAT
from mastaba_build.samples import Mask, Raster
from mastaba_writer.slab_writer import SlabAssembler
from mastaba_writer.tile_encoder import encode_tile

_KEPT = 1024
_LEVEL = 8
_MEMORY = 4
"""Of zlib. Small tables stay in the caches of the processor, and these tiles have few strings."""
_SHORT = 512
"""Bytes. Seams that cross few rows are this short after ISA-L; zlib would save a fifth of that."""
_FEW = 6


class NumberTiles:
    """Encoded tiles; equal ones are encoded once.

    Those of one number, and of 256 × 256 pixels those with few changes, are compressed by ISA-L, 25
    times as fast as zlib; others by zlib at its level 8, which halves them.
    """

    def __init__(self) -> None:
        self._constant: dict[tuple[int, tuple[int, int]], bytes] = {}
        self._seams: OrderedDict[bytes, bytes] = OrderedDict()

    def encoded(self, pixels: npt.NDArray[np.float32]) -> bytes:
        """Return a tile of numbers as it is stored."""
        # Straight seams repeat from tile to tile. ISA-L is faster than a hash of all bytes.
        key = isal_zlib.compress(pixels.data, 1)
        if len(key) <= _SHORT:
            return key
        data = self._seams.pop(key, None)
        if data is None:
            data = encode_tile(SOURCE_FORMAT, pixels, _deflated)
            if len(self._seams) >= _KEPT:
                self._seams.popitem(last=False)
        self._seams[key] = data
        return data

    def constant(self, number: int, shape: tuple[int, int]) -> bytes:
        """Return a tile of one number as it is stored."""
        key = number, shape
        if key not in self._constant:
            if len(self._constant) >= _KEPT:
                self._constant.clear()
            pixels = np.full(shape, number, np.float32)
            self._constant[key] = encode_tile(
                SOURCE_FORMAT, pixels, lambda one, _: isal_zlib.compress(one, 1)
            )
        return self._constant[key]


def _deflated(data: bytes | memoryview, _level: int) -> bytes:
    stream = zlib.compressobj(_LEVEL, memLevel=_MEMORY)
    return stream.compress(data) + stream.flush()


class NumberSlab:
    """A slab of source numbers, row of tiles by row of tiles.

    Args:
        size: its width and height in tiles.
        tile: rows and columns of a tile.
        corner: row and column of its first pixel in the matrix.
        table: number of the source at each position.
        has_alpha: whether pixels of alpha 0 have no number.
        stores_empty: whether tiles without data are stored.
    """

    def __init__(
        self,
        size: tuple[int, int],
        tile: tuple[int, int],
        corner: tuple[int, int],
        table: npt.NDArray[np.uint32],
        tiles: NumberTiles,
        *,
        has_alpha: bool,
        stores_empty: bool,
    ) -> None:
        self._assembler = SlabAssembler(
            format=SOURCE_FORMAT,
            channels=1,
            tile_width=tile[1],
            tile_height=tile[0],
            tiles_per_width=size[0],
            tiles_per_height=size[1],
            shared=True,
        )
        self._width = size[0]
        self._tile = tile
        self._top, self._left = corner
        self._table = table
        self._stored = table.astype(np.float32)
        self._tiles = tiles
        self._has_alpha = has_alpha
        self._empty = tiles.constant(0, tile) if stores_empty else None
        self._shares: dict[int, Share] = {}

    def skip(self) -> None:
        """Append a row of tiles without data."""
        for _ in range(self._width):
            self._assembler.add(self._empty)
        self._top += self._tile[0]

    def add(self, numbers: Numbers, row: Raster, full: list[int]) -> None:
        """Append a row of tiles.

        Args:
            numbers: positions of the sources in the table; changed where the row has no data.
            row: the pixels, shape (rows, columns, channels).
            full: the tiles with data.
        """
        columns = self._tile[1]
        tiles = [self._empty] * self._width
        for column in full:
            place = np.s_[:, column * columns : (column + 1) * columns]
            part, valid = numbers[place], row.valid[place]
            if not valid.all():
                np.copyto(part, 0, where=~valid)
            if self._has_alpha:
                np.copyto(part, 0, where=row.samples[place][:, :, -1] == 0)
            tiles[column] = self._added(part, self._left + column * columns)
        for payload in tiles:
            self._assembler.add(payload)
        self._top += self._tile[0]

    def _added(self, part: Numbers, left: int) -> bytes | None:
        """Count the pixels of a tile, and return it as it is stored."""
        first = int(part[0, 0])
        if first == part[-1, -1] and (part == first).all():
            number = int(self._table[first])
            if number == 0:
                return self._empty
            rows, columns = part.shape
            self._count(number, part.size, (self._top, self._top + rows, left, left + columns))
            return self._tiles.constant(number, self._tile)
        for position, where in _parts(part):
            number = int(self._table[position])
            if number:
                down, across = (np.flatnonzero(where.any(axis=axis)) for axis in (1, 0))
                self._count(
                    number,
                    int(np.count_nonzero(where)),
                    (
                        self._top + int(down[0]),
                        self._top + int(down[-1]) + 1,
                        left + int(across[0]),
                        left + int(across[-1]) + 1,
                    ),
                )
        return self._tiles.encoded(self._stored.take(part))

    def _count(self, number: int, pixels: int, area: tuple[int, int, int, int]) -> None:
        """Add pixels of a source in an area: first row, row after the last, and so the columns."""
        top, bottom, left, right = area
        added = Share(number, pixels, top, bottom - 1, left, right - 1)
        known = self._shares.get(number)
        self._shares[number] = added if known is None else merged(known, added)

    def finish(self) -> tuple[NumberedSlab, bytearray]:
        """Return the facts of the slab, without MD5, and its bytes."""
        data = self._assembler.finish()
        shares = tuple(self._shares[number] for number in sorted(self._shares))
        return NumberedSlab(len(data), "", shares), data


def _parts(tile: Numbers) -> Iterator[tuple[int, Mask]]:
    """Yield each position in a tile, and where it is."""
    # Nearly all tiles have two or three, which is sooner seen by comparing than by counting.
    left, flat = np.ones(tile.shape, bool), tile.ravel()
    for _ in range(_FEW):
        first = int(flat[left.argmax()])
        where = tile == first
        yield first, where
        left &= ~where
        if not left.any():
            return
    for position in np.flatnonzero(np.bincount(tile[left])).tolist():
        yield position, tile == position


def merged(one: Share, other: Share) -> Share:
    """Return the pixels of one source in two areas together."""
    return Share(
        one.number,
        one.pixels + other.pixels,
        min(one.min_row, other.min_row),
        max(one.max_row, other.max_row),
        min(one.min_col, other.min_col),
        max(one.max_col, other.max_col),
    )
