"""Tiles of one level in a container: from indices to bytes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import count
from typing import Any, ClassVar, Final, Protocol, Self

from mastaba.containers.index_cache import IndexCache
from mastaba.containers.tile_index import TileIndex, full_name
from mastaba.errors import MastabaError, ObjectChangedError, ObjectNotFoundError, SlabFormatError
from mastaba.model.pyramid import Level
from mastaba_server import cancellation
from mastaba_server.threads.per_process import ThreadPool
from mastaba_storage.base import ByteRange, Storage

BlockKey = tuple[Hashable, int, int]
"""Key of a block in the index cache: location of the level, block column, block row."""

Delivery = Callable[[bytes], bytes]
"""Converts one stored tile to a response body."""

READS: Final = ThreadPool(32, "mastaba-read")
"""The threads that run the reads of one request in parallel."""

STALE_INDEX: Final = (ObjectChangedError, ObjectNotFoundError, SlabFormatError)
"""Errors of reading a tile if its object does not match the cached index."""

_ATTEMPTS: Final = 24
"""Maximum reads of a tile whose object is replaced repeatedly; if it is damaged or absent, two."""


class StoredTile:
    """One tile listed in the index of its block; its bytes are read only on request.

    Attributes:
        reader: reader of the level.
        slab: key of its block in the index cache.
        index: index of one version of the block.
        number: number of the tile in the block.
        offset: first byte in the object.
        length: bytes.
        is_addressable: whether its bytes are that range, so that it may be read together with
            others; otherwise only by `read`.
        is_delivered: whether `read` returns the body of a response, which `TileReader.deliver`
            must not change.
    """

    is_addressable: ClassVar[bool] = True
    is_delivered: ClassVar[bool] = False
    __slots__ = ("index", "length", "number", "offset", "reader", "slab")

    def __init__(
        self,
        reader: TileReader,
        slab: BlockKey,
        index: TileIndex,
        number: int,
        place: tuple[int, int],
    ) -> None:
        self.reader = reader
        self.slab = slab
        self.index = index
        self.number = number
        self.offset, self.length = place

    @property
    def version(self) -> str | None:
        """Opaque text that changes with the bytes; None if the storage has no versions."""
        version = self.index.version
        return None if version is None else f"{version}-{self.offset:x}-{self.length:x}"

    @property
    def modified(self) -> float | None:
        """Time of change of the object in Unix seconds, or None."""
        return self.index.modified

    @property
    def identity(self) -> Hashable:
        """A key for caches: equal only for equal bytes if the storage has versions."""
        return self.index.identity, self.offset, self.length

    def read(self) -> bytes:
        """Return the stored bytes, from the same version of the object as its index.

        If the object was replaced after its index was read, the index is read again. The tile,
        `version` and `modified` are then those of the new version.

        Raises:
            ObjectNotFoundError: the object, or this tile in it, no longer exists.
            SlabFormatError: the object is damaged.
            StorageError: the object cannot be read.
        """
        for attempt in count(1):
            try:
                return self._read()
            except STALE_INDEX as error:
                if not again([self], error, attempt):
                    raise ObjectNotFoundError(
                        f"{self.index.described} no longer contains tile {self.number}",
                        key=self.index.key,
                    ) from error
        raise AssertionError("unreachable: the last attempt returns or raises")

    def move_to(self, index: TileIndex) -> bool:
        """Become the same tile of another version; return False if it is absent there.

        Raises:
            SlabFormatError: the object is damaged.
        """
        place = index.tile(self.number)
        if place is None:
            return False
        self.index = index
        self.offset, self.length = place
        return True

    def confirm(self) -> None:
        """Make sure that the tile is of a version that was current when its index was cached.

        Needed before `version` and `modified` are used for a tile from `TileReader.expect` that
        has not been read.

        Raises:
            ObjectNotFoundError, SlabFormatError, StorageError: as `read`.
        """

    def forget_index(self) -> None:
        """Remove the index of this tile from the cache, because the object is damaged.

        A cached index would hide a repair of the object until its validity ends.
        """
        self.reader.forget(self.slab, self.index)

    def whole(self, data: bytes) -> bytes:
        """Return the bytes that were read for this tile.

        Raises:
            SlabFormatError: the object ends before the tile.
        """
        if len(data) != self.length:
            raise SlabFormatError(
                f"{self.index.described}: tile {self.number} at {self.offset} should have "
                f"{self.length} bytes, the {self.index.word} ends after {len(data)} of them"
            )
        return data

    def _read(self) -> bytes:
        index = self.index
        place = ByteRange(self.offset, self.length)
        data = index.storage.read(index.key, place, index.version).data
        return data if len(data) == self.length else self.whole(data)


def may_retry(error: MastabaError, attempt: int) -> bool:
    """Return whether to read again after so many errors; the last is one of `STALE_INDEX`.

    Raises:
        ClientGoneError, OverloadedError: the response is no longer wanted.
    """
    cancellation.check()
    # A changed object may change again; a damaged or absent one stays so.
    return attempt < (_ATTEMPTS if isinstance(error, ObjectChangedError) else 2)


def again(tiles: Sequence[StoredTile], error: MastabaError, attempt: int) -> list[StoredTile]:
    """Move tiles whose object does not match its index to the current version of the object.

    The only place that reads an index again.

    Args:
        tiles: of one version of one block.
        error: one of `STALE_INDEX`, from reading the tiles or their entries in the index.
        attempt: number of failed attempts, from 1.

    Returns:
        The tiles to read again; none if the object, or the tiles in it, no longer exist.

    Raises:
        ObjectChangedError: the error, if the object has changed in every attempt.
        SlabFormatError: the object is still damaged. Its index is no longer cached.
        StorageError: the object cannot be read again.
    """
    first = tiles[0]
    if not may_retry(error, attempt):
        first.forget_index()
        if isinstance(error, ObjectNotFoundError):
            return []
        raise error
    try:
        # The version that another thread has read may be gone again.
        index = first.reader.refresh(first.slab, first.index, alone=attempt > 3)
    except ObjectNotFoundError:
        return []
    try:
        return [tile for tile in tiles if tile.move_to(index)]
    except ObjectChangedError as changed:
        # An index that reads only now what it needs.
        first.reader.forget(first.slab, index)
        return again(tiles, changed, attempt + 1)
    except SlabFormatError:
        first.reader.forget(first.slab, index)
        raise


class Decoder(Protocol):
    """Decodes the tiles of a level."""

    @property
    def nbytes(self) -> int:
        """Size of one decoded tile in bytes."""

    def decode(self, payload: bytes) -> Any:
        """Return the pixels of a tile: shape (rows, columns, channels), read-only.

        Their dtype is that of the pyramid's format, uint8 or float32; values are finite or NaN.

        Raises:
            SlabFormatError: the payload is damaged.
        """


class TileReader(ABC):
    """Finds and reads the tiles of one level.

    Args:
        level: the level.
        storage: storage of its tiles.
        indices: the cache shared by all levels of its kind of containers.
        location: first part of the keys of its blocks: what distinguishes them from those of
            other levels. Not needed by readers with their own `place_of`.

    Attributes:
        level, storage: as given.
        is_masked: whether its objects contain more than may be shown, so that they must be read
            through its tiles only.
        has_slabs: whether its blocks are slabs, which contain payloads in the format of the pyramid
            only, so that they may be copied.
        tile_class: class of its tiles.
        deliver: converts a payload to a body in the format of the pyramid; it raises
            `SlabFormatError` if it cannot. None if stored tiles are sent as they are (with the
            TIFF header that the format needs).
        type_of: returns the media type of a payload that tile services send as it is stored, not
            converted by `deliver`, though other tiles have other types; None if all have that of
            the pyramid's format.
        coding: HTTP content coding of payloads, which `deliver` removes; empty for gzip and none.
        requires_coding: whether nothing installed can remove the coding: other clients are refused.
        etag_suffix: changes with everything that `deliver` depends on.
        decoder: decodes payloads for maps; None if they are in the format of the pyramid.
    """

    is_masked: bool = False
    has_slabs: bool = False
    tile_class: ClassVar[type[StoredTile]] = StoredTile
    deliver: Delivery | None = None
    type_of: Callable[[bytes], str] | None = None
    coding: str = ""
    requires_coding: bool = False
    etag_suffix: str = ""
    decoder: Decoder | None = None
    __slots__ = ("_data", "_height", "_indices", "_width", "level", "storage")

    def __init__(
        self, level: Level, storage: Storage, indices: IndexCache, location: Hashable = None
    ) -> None:
        self.level = level
        self.storage = storage
        self._indices = indices
        self._data = location
        self._width = level.tiles_per_width
        self._height = level.tiles_per_height

    def place_of(self, tile_row: int, tile_col: int) -> tuple[BlockKey, int]:
        """Return the block that contains a tile, and the number of the tile in it.

        By default, blocks have the size that the level says.
        """
        slab_col, col = divmod(tile_col, self._width)
        slab_row, row = divmod(tile_row, self._height)
        return (self._data, slab_col, slab_row), row * self._width + col

    @property
    def masks(self) -> TileReader | None:
        """Reader of the mask slabs of the level: TIFF_ZIP_UINT8 of one channel, 0 is nodata.

        None if there are none, or if only a part of the level is shown.
        """
        return None

    @abstractmethod
    def key_of(self, slab: BlockKey) -> str:
        """Return the key in the storage of the object that contains a block, if it exists."""

    @abstractmethod
    def _load(self, slab: BlockKey) -> TileIndex:
        """Read the index of a block.

        After an `ObjectChangedError` it is called again, and must then read everything again that
        it read of the earlier version of the object.

        Raises:
            ObjectNotFoundError: no tile of the block can exist.
            SlabFormatError, StorageError: the index cannot be read.
        """

    @abstractmethod
    def moved(self, storage: Storage, indices: IndexCache) -> Self:
        """Return a reader of the same tiles with another storage and cache."""

    def locate(self, tile_row: int, tile_col: int) -> StoredTile | None:
        """Return the tile at these indices, or None if none is stored there.

        The caller has checked the limits of the level. The storage is read once if the index is
        not cached, otherwise not at all.

        Raises:
            SlabFormatError: the object is damaged; the message names it.
            StorageError: the object cannot be read; an absent slab gives None, not an error.
        """
        slab, number = self.place_of(tile_row, tile_col)
        index = self._indices.peek(slab) or self.index(slab)
        return None if index is None else self.stored_tile(slab, index, number)

    def locate_all(self, tiles: Sequence[tuple[int, int]]) -> list[StoredTile | None]:
        """Return tiles (row, column) in the given order, as `locate` does for one.

        Indices that are not cached are read, in parallel if the storage is remote. All tiles of a
        block are from one version of it.
        """
        slabs: dict[BlockKey, dict[int, int]] = {}
        for position, (row, col) in enumerate(tiles):
            slab, number = self.place_of(row, col)
            slabs.setdefault(slab, {})[position] = number
        indices: dict[BlockKey, TileIndex | None] = {}
        unknown: list[BlockKey] = []
        for slab in slabs:
            indices[slab] = self._indices.peek(slab)
            if indices[slab] is None:
                unknown.append(slab)
        read = READS.map if self.storage.is_remote else map
        indices.update(zip(unknown, read(self.index, unknown), strict=True))
        places: list[tuple[BlockKey, TileIndex, Sequence[tuple[int, int] | None]]] = []
        for slab, index in indices.items():
            if index is None:
                continue
            numbers = slabs[slab].values()
            try:
                places.append((slab, index, index.tiles(numbers)))
            except SlabFormatError:
                for number in numbers:
                    self.stored_tile(slab, index, number)  # raises if the slab is still damaged
                # It has been repaired or removed meanwhile: take all tiles from its new index.
                return self.locate_all(tiles)
        found: list[StoredTile | None] = [None] * len(tiles)
        for slab, index, in_slab in places:
            for (position, number), place in zip(slabs[slab].items(), in_slab, strict=True):
                if place is not None:
                    found[position] = self.tile_class(self, slab, index, number, place)
        return found

    def expect(self, tile_row: int, tile_col: int) -> StoredTile | None:
        """Return a tile to be read next, as `locate` does, often without reading its index.

        It may be outdated: `StoredTile.read` then moves it to the current version. Before its
        version is used, call `StoredTile.read` or `StoredTile.confirm`.

        Raises the errors of `locate`.
        """
        return self.locate(tile_row, tile_col)

    def known(self, tile_row: int, tile_col: int) -> StoredTile | None:
        """Return a tile that is found without reading anything, as `expect` does, or else None.

        If `TileIndex.tile` may read, override this.
        """
        slab, number = self.place_of(tile_row, tile_col)
        index = self._indices.peek(slab)
        return None if index is None else self.stored_tile(slab, index, number)

    def stored_tile(self, slab: BlockKey, index: TileIndex, number: int) -> StoredTile | None:
        """Return a tile of a block by its number, or None if the block does not contain it.

        If the entry is damaged, the index is read again once: the object may have been repaired
        since. An index that is still damaged is not cached.

        Raises:
            SlabFormatError: the object is damaged.
            StorageError: the object cannot be read again.
        """
        try:
            place = index.tile(number)
        except SlabFormatError as error:
            tile = self.tile_class(self, slab, index, number, (0, 0))
            return tile if again([tile], error, 1) else None
        return None if place is None else self.tile_class(self, slab, index, number, place)

    def name_of(self, slab: BlockKey) -> str:
        """Return the full name of the object that contains a block, for messages."""
        return full_name(self.storage, self.key_of(slab))

    def index(self, slab: BlockKey) -> TileIndex | None:
        """Return the index of a block, or None if it is absent. Raises the errors of `locate`."""
        try:
            return self._read_index(slab)
        except ObjectNotFoundError:
            return None

    def keep(self, slab: BlockKey, index: TileIndex) -> None:
        """Cache an index that proved to be current."""
        self._indices.put(slab, index)

    def forget(self, slab: BlockKey, index: TileIndex) -> None:
        """Remove an index from the cache, unless a newer one has replaced it."""
        self._indices.drop(slab, index)

    def refresh(self, slab: BlockKey, stale: TileIndex, *, alone: bool = False) -> TileIndex:
        """Replace an index that proved to be outdated; return the current one.

        Args:
            alone: whether this thread must read the index itself. It can then also read the tiles
                of that version from a local file, however often the file is replaced.
        """
        self._indices.drop(slab, stale)
        if not alone:
            return self._read_index(slab)
        index = self._load(slab)
        self._indices.put(slab, index)
        return index

    def _read_index(self, slab: BlockKey) -> TileIndex:
        # Threads that wait for the read of another one count as reads too.
        room = getattr(self.storage, "room", None)
        waiting = nullcontext if room is None else partial(room.read, self.key_of(slab))
        return self._indices.get(slab, lambda: self._load(slab), waiting)
