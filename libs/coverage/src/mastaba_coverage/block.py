"""A block of stored tiles of one level: their sizes and versions, and their bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from mastaba.api.catalogue import TileLimits
from mastaba.api.web import check_wanted
from mastaba.errors import ObjectChangedError, SlabFormatError, StorageError
from mastaba_coverage.errors import CoverageTooLargeError
from mastaba_render.api.decoding import read_located

if TYPE_CHECKING:
    from mastaba.api.containers import StoredTile, TileIndex, TileReader

_AT_A_TIME: Final = 64
"""Slab indices that are read together; remote storages read them in parallel."""
_DIGEST: Final = 8

TileIndices = tuple[int, int]
"""Row and column of a tile in its matrix."""


class SlabRange(NamedTuple):
    """Slabs of a block.

    Attributes:
        inside: the tiles in them.
        shift: what is added to their columns in the block.
        first: number of the first slab.
        rows, columns: of slabs in their matrix.
    """

    inside: TileLimits
    shift: int
    first: int
    rows: range
    columns: range


class TileBlock:
    """The stored tiles in a range of rows and columns.

    All its tiles are from the versions of slabs that it was looked up with.

    Args:
        reader: reader of the level.
        tiles: the range; it may reach beyond the limits of the level.
        around: number of columns after which the same tiles follow again; 0 if they do not.

    Attributes:
        tiles: as given.
        sizes: bytes of each tile, 0 where none is stored; shape (rows, columns), int64.
        digests: of the versions of slabs; shape (slabs, 8), uint8.
        has_versions: whether all slabs are in storages with versions.
        modified: when one of the slabs was last modified, Unix seconds; None if a storage does not
            say it, or if the block is restored.
    """

    def __init__(self, reader: TileReader, tiles: TileLimits, around: int) -> None:
        self.tiles = tiles
        self._reader = reader
        self._around = around
        self._shape = self.shape_of(reader)
        self._parts = list(self._find_parts())
        shape = tiles.max_row - tiles.min_row + 1, tiles.max_col - tiles.min_col + 1
        self.sizes: npt.NDArray[np.int64] = np.zeros(shape, np.int64)
        self.digests: npt.NDArray[np.uint8] = np.zeros((self.slabs, _DIGEST), np.uint8)
        self.has_versions = True
        self.modified: float | None = 0.0
        self._indices: dict[tuple[int, int], TileIndex] = {}
        self._is_restored = False

    @classmethod
    def look_up(
        cls, reader: TileReader, tiles: TileLimits, most: int, around: int = 0
    ) -> TileBlock:
        """Return a block whose slab indices have been read.

        Args:
            most: number of slabs that may be looked up.

        Raises:
            CoverageTooLargeError: the range has more slabs than allowed.
            SlabFormatError, StorageError: an index cannot be read.
        """
        block = cls(reader, tiles, around)
        if block.slabs > most:
            raise CoverageTooLargeError(block.slabs, most, "slabs")
        for part in block._parts:
            block._look_up(part)
        return block

    @classmethod
    def restored(
        cls,
        reader: TileReader,
        tiles: TileLimits,
        around: int,
        sizes: npt.NDArray[np.int64],
        digests: npt.NDArray[np.uint8],
    ) -> TileBlock:
        """Return a block whose sizes and versions are known; indices are read when needed."""
        block = cls(reader, tiles, around)
        block.sizes = sizes.reshape(block.sizes.shape)
        block.digests = digests.reshape(block.digests.shape)
        block.modified = None
        block._is_restored = True
        return block

    def touched(
        self,
        top: npt.NDArray[np.int64],
        bottom: npt.NDArray[np.int64],
        left: npt.NDArray[np.int64],
        right: npt.NDArray[np.int64],
    ) -> npt.NDArray[np.bool_]:
        """Return whether a tile is stored in ranges of rows and of columns of the matrix.

        Args:
            top, bottom: first and last row of each range; shape (n,).
            left, right: first and last column of each range; shape (m,).

        Returns:
            For each pair of ranges; shape (n, m).
        """
        rows, columns = self.sizes.shape
        # Numbers of stored tiles above and left of each place.
        counts = np.zeros((rows + 1, columns + 1), np.int64)
        counts[1:, 1:] = (self.sizes > 0).cumsum(0).cumsum(1)
        start = np.clip(top - self.tiles.min_row, 0, rows)[:, np.newaxis]
        stop = np.clip(bottom + 1 - self.tiles.min_row, 0, rows)[:, np.newaxis]
        first = np.clip(left - self.tiles.min_col, 0, columns)
        after = np.clip(right + 1 - self.tiles.min_col, 0, columns)
        found: npt.NDArray[np.int64] = (
            counts[stop, after] - counts[start, after] - counts[stop, first] + counts[start, first]
        )
        return found > 0

    @staticmethod
    def shape_of(reader: TileReader) -> tuple[int, int]:
        """Return the rows and columns of tiles in a slab."""
        return reader.level.tiles_per_height, reader.level.tiles_per_width

    @property
    def slabs(self) -> int:
        """Number of slabs, whether or not they exist."""
        return sum(len(part.rows) * len(part.columns) for part in self._parts)

    @property
    def is_remote(self) -> bool:
        """Whether reading waits for another machine."""
        return self._reader.storage.is_remote

    def read(self, places: Sequence[TileIndices]) -> list[bytes]:
        """Return the bytes of stored tiles, in the given order.

        Raises:
            ObjectChangedError: a slab has another version than the block.
            SlabFormatError, StorageError: a tile cannot be read.
        """
        located = [self._located(place) for place in places]
        planned = [tile.index for tile in located]
        found = read_located(located)
        payloads: list[bytes] = []
        for tile, index, payload in zip(located, planned, found, strict=True):
            if payload is None or tile.index is not index:
                raise changed(index.name, index.key)
            payloads.append(payload)
        return payloads

    def forget(self) -> None:
        """Remove the indices of the block from the cache, because some are outdated."""
        height, width = self._shape
        for part in self._parts:
            for row in part.rows:
                for col in part.columns:
                    slab, _ = self._reader.place_of(row * height, col * width)
                    index = self._indices.get(slab[1:])
                    if index is None and self._is_restored:
                        # The cache may have it from another answer.
                        with suppress(SlabFormatError, StorageError):
                            index = self._reader.index(slab)
                    if index is not None:
                        self._reader.forget(slab, index)

    def has(self, place: TileIndices) -> bool:
        """Return whether a tile is stored; False outside the block."""
        row, col = place[0] - self.tiles.min_row, place[1] - self.tiles.min_col
        rows, columns = self.sizes.shape
        return 0 <= row < rows and 0 <= col < columns and bool(self.sizes[row, col])

    def _find_parts(self) -> Iterator[SlabRange]:
        height, width = self._shape
        first = 0
        for shift in sorted({0, self._around}):
            tiles = self.tiles
            moved = replace(tiles, min_col=tiles.min_col - shift, max_col=tiles.max_col - shift)
            inside = moved.intersection(self._reader.level.limits)
            if inside is not None:
                rows = range(inside.min_row // height, inside.max_row // height + 1)
                columns = range(inside.min_col // width, inside.max_col // width + 1)
                yield SlabRange(inside, shift, first, rows, columns)
                first += len(rows) * len(columns)

    def _look_up(self, part: SlabRange) -> None:
        height, width = self._shape
        slabs = [(row, col) for row in part.rows for col in part.columns]
        for start in range(0, len(slabs), _AT_A_TIME):
            check_wanted()
            group = slabs[start : start + _AT_A_TIME]
            # Reads the indices that are not cached, in parallel if that is worth it.
            self._reader.locate_all([(row * height, col * width) for row, col in group])
            for number, (row, col) in enumerate(group, start):
                self._add(self._limits_in(part, row, col), part.shift, part.first + number)

    def _limits_in(self, part: SlabRange, row: int, col: int) -> TileLimits:
        """Return the tiles of a slab that are in a part."""
        height, width = self._shape
        return TileLimits(
            max(part.inside.min_row, row * height),
            min(part.inside.max_row, row * height + height - 1),
            max(part.inside.min_col, col * width),
            min(part.inside.max_col, col * width + width - 1),
        )

    def _add(self, limits: TileLimits, shift: int, number: int) -> None:
        """Add the tiles of one slab."""
        reader = self._reader
        slab, _ = reader.place_of(limits.min_row, limits.min_col)
        index = reader.index(slab)
        if index is None:
            self.digests[number] = digest_of(f"{reader.key_of(slab)} is absent")
            return
        if index.version is None:
            self.has_versions = False
        else:
            self.digests[number] = digest_of(text_of(index))
        self._indices[slab[1:]] = index
        self._note_time(index.modified)
        places = list(places_in(limits))
        found = index.tiles([reader.place_of(*place)[1] for place in places])
        self._set_sizes(limits, shift, [0 if entry is None else entry[1] for entry in found])

    def _set_sizes(self, limits: TileLimits, shift: int, sizes: Sequence[int]) -> None:
        tiles = self.tiles
        self.sizes[
            limits.min_row - tiles.min_row : limits.max_row - tiles.min_row + 1,
            limits.min_col + shift - tiles.min_col : limits.max_col + shift - tiles.min_col + 1,
        ] = np.reshape(sizes, (limits.max_row - limits.min_row + 1, -1))

    def _note_time(self, time: float | None) -> None:
        if self.modified is not None:
            self.modified = None if time is None else max(time, self.modified)

    def _located(self, place: TileIndices) -> StoredTile:
        row, col = place
        is_again = 0 < self._around <= col
        slab, number = self._reader.place_of(row, col - self._around if is_again else col)
        index = self._indices.get(slab[1:])
        if index is None:
            index = self._index(row, col)
        tile = self._reader.stored_tile(slab, index, number)
        assert tile is not None
        return tile

    def _index(self, row: int, col: int) -> TileIndex:
        """Read the index of the slab of a tile in a restored block."""
        shift = self._around if 0 < self._around <= col else 0
        reader, (height, width) = self._reader, self._shape
        slab, _ = reader.place_of(row, col - shift)
        part = next(one for one in self._parts if one.shift == shift)
        number = part.first + part.rows.index(row // height) * len(part.columns)
        number += part.columns.index((col - shift) // width)
        index = reader.index(slab)
        text = "" if index is None else text_of(index)
        if index is None or digest_of(text).tobytes() != self.digests[number].tobytes():
            raise changed(reader.name_of(slab), reader.key_of(slab))
        self._indices[slab[1:]] = index
        return index


def changed(name: str, key: str) -> ObjectChangedError:
    """Return the error for a slab that has another version than its block."""
    return ObjectChangedError(f"slab {name} was replaced during a download", key=key)


def digest_of(text: str) -> npt.NDArray[np.uint8]:
    """Return the digest of the version of a slab; shape (8,)."""
    return np.frombuffer(blake2b(text.encode(), digest_size=_DIGEST).digest(), np.uint8)


def text_of(index: TileIndex) -> str:
    """Return a text that changes with the version of a slab."""
    return f"{index.key} {index.version}"


def places_in(limits: TileLimits) -> Iterator[TileIndices]:
    """Yield rows and columns of tiles, row by row."""
    for row in range(limits.min_row, limits.max_row + 1):
        for col in range(limits.min_col, limits.max_col + 1):
            yield row, col
