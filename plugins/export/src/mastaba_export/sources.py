"""Where the tiles of an export come from: slabs, or the renderer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import numpy as np

from mastaba.api.catalogue import TileLimits
from mastaba.api.containers import StoredTile
from mastaba.api.storages import ByteRange
from mastaba.errors import ObjectChangedError, ObjectNotFoundError, TileNotFoundError
from mastaba_export.clipping import Clip
from mastaba_export.hilbert import positions
from mastaba_render.api.decoding import read_located

if TYPE_CHECKING:
    from mastaba.api.catalogue import Pyramid
    from mastaba.api.containers import TileIndex, TileReader
    from mastaba_export.payloads import Convert
    from mastaba_export.selection import Area, Selection
    from mastaba_render.api.maps import DerivedTilePublisher

DRAWN_BLOCK: Final = 16
"""Tiles on a side of a block that is drawn at a time, so that its sources are read once."""
ABSENT: Final = "absent"
"""Version of a slab that does not exist."""
UNKNOWN: Final = ""
"""Version of a slab in a storage without versions."""
_PIECE: Final = 8 * 1024 * 1024
ATTEMPTS: Final = 4
"""Maximum reads of a block that is replaced repeatedly."""


class Tile(NamedTuple):
    """A tile and its payload."""

    row: int
    column: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class Batch:
    """The tiles of one unit of work, in the order of the archive.

    Attributes:
        version: of the slab, or `ABSENT`, or `UNKNOWN`.
        read: bytes read from the storage.
        count: number of tiles.
        payload: bytes of their payloads.
        whole: bytes to write instead of tiles; None for tiles.
    """

    tiles: Sequence[Tile]
    version: str
    read: int
    count: int
    payload: int
    whole: bytes | None = None

    @classmethod
    def of(cls, tiles: Sequence[Tile], version: str, read: int) -> Batch:
        """Return the batch of some tiles."""
        return cls(tiles, version, read, len(tiles), sum(len(tile.payload) for tile in tiles))


class TileSource(Protocol):
    """The tiles of one level, in blocks. Its methods may run in several threads.

    Attributes:
        height, width: of a block, in tiles.
    """

    height: int
    width: int

    def read(self, row: int, column: int) -> Batch:
        """Return the selected tiles of a block.

        Raises:
            SlabFormatError, StorageError: they cannot be read.
        """


@dataclass(frozen=True, slots=True, eq=False)
class StoredTiles:
    """Stored tiles; a block is a slab.

    Attributes:
        reader: of the level.
        selection: the tiles of the export.
        order: of the Hilbert curve through the tiles of the level.
        convert: of payloads; None if they stay as they are.
        clip: what is outside of the area gets no data; None for whole tiles.
    """

    reader: TileReader
    selection: Selection
    order: int
    convert: Convert | None = None
    clip: Clip | None = None

    @property
    def height(self) -> int:
        return self.reader.level.tiles_per_height

    @property
    def width(self) -> int:
        return self.reader.level.tiles_per_width

    def places(self, row: int, column: int) -> list[tuple[int, int]]:
        """Return rows and columns of the selected tiles of a slab, in the order of archives."""
        return _ordered(self.selection, self._block(row, column), self.order)

    def clipped(self, area: Area, pyramid: Pyramid) -> StoredTiles:
        """Return the tiles without what is outside of an area."""
        return replace(self, clip=Clip(area, self.reader.level.matrix, pyramid))

    def read(self, row: int, column: int) -> Batch:
        return self._current(row, column, self._read)

    def _current(self, row: int, column: int, read: Callable[[int, int], Batch]) -> Batch:
        """Return what is read of a slab, of the version that it has now.

        A file that was opened before is still read after it has been replaced.
        """
        for _ in range(ATTEMPTS - 1):
            with suppress(ObjectChangedError):
                batch = read(row, column)
                is_remote = self.reader.storage.is_remote
                if is_remote or batch.version == self.current_version(row, column):
                    return batch
            self.forget(row, column)
        return read(row, column)

    def _read(self, row: int, column: int) -> Batch:
        places = self.places(row, column)
        located = self.reader.locate_all(places)
        payloads = read_located(located)
        tiles = []
        size = 0
        for (tile_row, tile_column), payload in zip(places, payloads, strict=True):
            if payload is not None:
                size += len(payload)
                made = payload
                if self.clip is not None:
                    made = self.clip(tile_row, tile_column, made)
                if self.convert is not None:
                    made = self.convert(made)
                tiles.append(Tile(tile_row, tile_column, made))
        known = next((tile for tile in located if tile is not None), None)
        version = self.version(row, column) if known is None else text_of(known.index)
        return Batch.of(tiles, version, size)

    def index(self, row: int, column: int) -> TileIndex | None:
        """Return the index of a slab, or None if there is no slab."""
        slab, _ = self.reader.place_of(row * self.height, column * self.width)
        return self.reader.index(slab)

    def version(self, row: int, column: int) -> str:
        """Return the version of a slab as far as it is known without another read."""
        index = self.index(row, column)
        return ABSENT if index is None else text_of(index)

    def current_version(self, row: int, column: int) -> str:
        """Return the version that a slab has now."""
        index = self.index(row, column)
        if index is None:
            return ABSENT
        try:
            return index.storage.stat(index.key).version or UNKNOWN
        except ObjectNotFoundError:
            return ABSENT

    def has_version(self, row: int, column: int, version: str) -> bool:
        """Return whether a slab has a version, without its index.

        It is false also for slabs that are links: `current_version` follows them.
        """
        slab, _ = self.reader.place_of(row * self.height, column * self.width)
        try:
            return self.reader.storage.stat(self.reader.key_of(slab)).version == version
        except ObjectNotFoundError:
            return version == ABSENT

    def forget(self, row: int, column: int) -> None:
        """Remove the index of a slab from the cache."""
        slab, _ = self.reader.place_of(row * self.height, column * self.width)
        index = self.reader.index(slab)
        if index is not None:
            self.reader.forget(slab, index)

    def sizes(self, row: int, column: int) -> list[int]:
        """Return the bytes of the selected tiles of a slab that are stored, in their order."""
        if self.reader.is_masked:
            located = self.reader.locate_all(self.places(row, column))
            # Other kinds of tiles are made when they are read.
            return [
                tile.length if type(tile) is StoredTile else len(tile.read())
                for tile in located
                if tile is not None
            ]
        index = self.index(row, column)
        if index is None:
            return []
        height, width = self.height, self.width
        numbers = [
            (tile_row % height) * width + tile_column % width
            for tile_row, tile_column in self.places(row, column)
        ]
        return [place[1] for place in index.tiles(numbers) if place is not None]

    def all_sizes(self, row: int, column: int) -> list[int]:
        """Return the bytes of all tiles of a slab, also of those outside of the level."""
        index = self.index(row, column)
        found = [] if index is None else index.tiles(range(self.height * self.width))
        return [place[1] for place in found if place is not None]

    def is_whole(self, row: int, column: int) -> bool:
        """Return whether a slab is copied: all tiles that the level may have are selected."""
        if self.clip is not None or self.reader.is_masked:
            return False
        inside = self._block(row, column).intersection(self.reader.level.limits)
        if inside is None:
            return True
        count = (inside.max_row - inside.min_row + 1) * (inside.max_col - inside.min_col + 1)
        return len(self.selection.inside(inside)[0]) == count

    def slab(self, row: int, column: int) -> Batch:
        """Return a slab as it is.

        Raises:
            SlabFormatError, StorageError: it cannot be read, or is replaced again and again.
        """
        return self._current(row, column, self._slab)

    def _slab(self, row: int, column: int) -> Batch:
        index = self.index(row, column)
        if index is None:
            return Batch.of((), ABSENT, 0)
        size = index.storage.stat(index.key).size
        parts = [
            index.storage.read(index.key, ByteRange(start, _PIECE), index.version).data
            for start in range(0, size, _PIECE)
        ]
        data = b"".join(parts)
        sizes = self.sizes(row, column)
        return Batch((), text_of(index), len(data), len(sizes), sum(sizes), data)

    def _block(self, row: int, column: int) -> TileLimits:
        return _block(row, column, self.height, self.width)


@dataclass(frozen=True, slots=True, eq=False)
class ClippedMasks(StoredTiles):
    """The masks of clipped tiles. A cut tile without a stored mask, which is all data, gets one.

    Attributes:
        image: the stored tiles that are clipped, whole.
        full: a mask of which all is data.
    """

    image: StoredTiles | None = None
    full: bytes = b""

    def sizes(self, row: int, column: int) -> list[int]:
        """Return the bytes of the masks of a slab, about: an edge may cut no pixel off."""
        found = StoredTiles.sizes(self, row, column)
        assert self.clip is not None
        block = self._block(row, column)
        crossed = self.clip.crossed(block)
        if not crossed.any():
            return found
        missing = self._missing(row, column)
        cut = [one for one in missing if crossed[one[0] - block.min_row, one[1] - block.min_col]]
        return found + [len(self.full)] * len(cut)

    def _read(self, row: int, column: int) -> Batch:
        assert self.clip is not None
        batch = StoredTiles._read(self, row, column)
        added = [Tile(*place, self.clip(*place, self.full)) for place in self._missing(row, column)]
        cut = [tile for tile in added if tile.payload is not self.full]
        return Batch.of([*batch.tiles, *cut], batch.version, batch.read)

    def _missing(self, row: int, column: int) -> list[tuple[int, int]]:
        """Return the tiles of a slab that are stored without a mask."""
        assert self.image is not None
        places = self.places(row, column)
        found = self.reader.locate_all(places), self.image.reader.locate_all(places)
        return [
            place
            for place, mask, tile in zip(places, *found, strict=True)
            if mask is None and tile is not None
        ]


@dataclass(frozen=True, slots=True, eq=False)
class DrawnTiles:
    """Tiles that are drawn from the slabs of a layer.

    Attributes:
        publisher: draws them.
        selection, order: as for `StoredTiles`.
    """

    publisher: DerivedTilePublisher
    selection: Selection
    order: int
    height: int = DRAWN_BLOCK
    width: int = DRAWN_BLOCK

    def places(self, row: int, column: int) -> list[tuple[int, int]]:
        """Return rows and columns of the tiles of a block, in the order of archives."""
        block = _block(row, column, self.height, self.width)
        return _ordered(self.selection, block, self.order)

    def read(self, row: int, column: int) -> Batch:
        tiles = []
        for tile_row, tile_column in self.places(row, column):
            payload = self.tile(tile_row, tile_column)
            if payload is not None:
                tiles.append(Tile(tile_row, tile_column, payload))
        return Batch.of(tiles, UNKNOWN, sum(len(tile.payload) for tile in tiles))

    def tile(self, row: int, column: int) -> bytes | None:
        """Return a tile, or None where there is no data."""
        try:
            wanted = self.publisher.map_request(row, column)
            prepared = self.publisher.prepare(wanted)
        except TileNotFoundError:
            return None
        image = prepared.draw()
        if image.valid is not None and not image.valid.any():
            return None
        return self.publisher.encoded(image, wanted)


def _block(row: int, column: int, height: int, width: int) -> TileLimits:
    top, left = row * height, column * width
    return TileLimits(top, top + height - 1, left, left + width - 1)


def _ordered(selection: Selection, block: TileLimits, order: int) -> list[tuple[int, int]]:
    """Return rows and columns of the selected tiles of a block, along a Hilbert curve."""
    rows, columns = selection.inside(block)
    along = np.argsort(positions(columns, rows, order), kind="stable")
    return list(zip(rows[along].tolist(), columns[along].tolist(), strict=True))


def text_of(index: TileIndex) -> str:
    """Return the version of a slab."""
    return index.version or UNKNOWN
