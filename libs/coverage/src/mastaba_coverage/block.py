"""A block of stored tiles of one level: their sizes and versions, and their bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from mastaba.api.catalogue import TileLimits
from mastaba.api.slabs import StoredTile
from mastaba.api.web import check_wanted
from mastaba.errors import ObjectChangedError
from mastaba_coverage.errors import CoverageTooLargeError
from mastaba_render.api.decoding import read_located

if TYPE_CHECKING:
    from mastaba.api.slabs import LevelReader, SlabIndex

_AT_A_TIME: Final = 64
"""Slab indices that are read together; remote storages read them in parallel."""

Place = tuple[int, int]
"""Row and column of a tile in its matrix."""


class TileBlock:
    """The stored tiles in a range of rows and columns.

    Only slab indices are read when it is created. It keeps them, so all its tiles are from the
    versions of that moment.

    Args:
        reader: reader of the level.
        tiles: the range; it may reach beyond the limits of the level.
        most: number of slabs that may be looked up.
        around: number of columns after which the same tiles follow again; 0 if they do not.

    Attributes:
        tiles: as given.
        sizes: bytes of each tile, 0 where none is stored; shape (rows, columns), int64.
        versions: a text for each slab, which changes with it; None for a slab in a storage without
            versions.
        modified: when one of the slabs was last modified, Unix seconds; None if a storage does not
            say it.

    Raises:
        CoverageTooLargeError: the range has more slabs than allowed.
        SlabFormatError, StorageError: an index cannot be read.
    """

    def __init__(self, reader: LevelReader, tiles: TileLimits, most: int, around: int = 0) -> None:
        self.tiles = tiles
        self._reader = reader
        self._around = around
        level = reader.level
        self._shape = level.tiles_per_height, level.tiles_per_width
        shape = tiles.max_row - tiles.min_row + 1, tiles.max_col - tiles.min_col + 1
        self.sizes: npt.NDArray[np.int64] = np.zeros(shape, np.int64)
        self.versions: list[str | None] = []
        self.modified: float | None = 0.0
        self._indices: dict[tuple[int, int], SlabIndex] = {}
        for shift in {0, around}:
            moved = replace(tiles, min_col=tiles.min_col - shift, max_col=tiles.max_col - shift)
            inside = moved.intersection(level.limits)
            if inside is not None:
                self._look_up(inside, most - len(self.versions), shift)

    def read(self, places: Sequence[Place]) -> list[bytes]:
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
                raise ObjectChangedError(
                    f"slab {index.name} was replaced during a download", key=index.key
                )
            payloads.append(payload)
        return payloads

    def forget(self) -> None:
        """Remove the indices of the block from the cache, because some are outdated."""
        for place, index in self._indices.items():
            height, width = self._shape
            slab, _ = self._reader.place_of(place[1] * height, place[0] * width)
            self._reader.forget(slab, index)

    def has(self, place: Place) -> bool:
        """Return whether a tile is stored; False outside the block."""
        row, col = place[0] - self.tiles.min_row, place[1] - self.tiles.min_col
        rows, columns = self.sizes.shape
        return 0 <= row < rows and 0 <= col < columns and bool(self.sizes[row, col])

    def _look_up(self, inside: TileLimits, most: int, shift: int) -> None:
        """Look up stored tiles whose columns are less by a shift than those of the range."""
        slabs = self._slabs(inside)
        if len(slabs) > most:
            raise CoverageTooLargeError(len(slabs), most, "slabs")
        for start in range(0, len(slabs), _AT_A_TIME):
            check_wanted()
            group = slabs[start : start + _AT_A_TIME]
            # Reads the indices that are not cached, in parallel if that is worth it.
            self._reader.locate_all([(part.min_row, part.min_col) for part in group])
            for part in group:
                self._add(part, shift)

    def _slabs(self, inside: TileLimits) -> list[TileLimits]:
        """Return the part of the range in each slab."""
        height, width = self._shape
        return [
            TileLimits(
                max(inside.min_row, row * height),
                min(inside.max_row, row * height + height - 1),
                max(inside.min_col, col * width),
                min(inside.max_col, col * width + width - 1),
            )
            for row in range(inside.min_row // height, inside.max_row // height + 1)
            for col in range(inside.min_col // width, inside.max_col // width + 1)
        ]

    def _add(self, part: TileLimits, shift: int) -> None:
        reader = self._reader
        slab, _ = reader.place_of(part.min_row, part.min_col)
        index = reader.index(slab)
        if index is None:
            self.versions.append(f"{reader.key_of(slab)} is absent")
            return
        self.versions.append(index.version and f"{index.key} {index.version}")
        self._indices[slab[1:]] = index
        if self.modified is not None:
            time = index.modified
            self.modified = None if time is None else max(time, self.modified)
        places = list(_places(part))
        found = index.tiles([reader.place_of(*place)[1] for place in places])
        sizes = [0 if entry is None else entry[1] for entry in found]
        tiles = self.tiles
        self.sizes[
            part.min_row - tiles.min_row : part.max_row - tiles.min_row + 1,
            part.min_col + shift - tiles.min_col : part.max_col + shift - tiles.min_col + 1,
        ] = np.reshape(sizes, (part.max_row - part.min_row + 1, -1))

    def _located(self, place: Place) -> StoredTile:
        row, col = place
        is_again = 0 < self._around <= col
        slab, number = self._reader.place_of(row, col - self._around if is_again else col)
        index = self._indices[slab[1:]]
        entry = index.tile(number)
        assert entry is not None
        return StoredTile(self._reader, slab, index, number, entry)


def _places(limits: TileLimits) -> Iterator[Place]:
    for row in range(limits.min_row, limits.max_row + 1):
        for col in range(limits.min_col, limits.max_col + 1):
            yield row, col
