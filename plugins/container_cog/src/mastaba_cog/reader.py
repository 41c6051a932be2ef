"""Tiles of one level of a GeoTIFF."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import ClassVar, Final, Self, TypeVar

from mastaba.api.containers import (
    BlockKey,
    IndexCache,
    Level,
    StoredTile,
    TileIndex,
    TileReader,
    may_retry,
)
from mastaba.api.storages import ByteRange, ObjectRead, Storage
from mastaba.errors import (
    ContainerFormatError,
    ObjectChangedError,
    ObjectNotFoundError,
    SlabFormatError,
    StorageUnavailableError,
)
from mastaba_cog import images
from mastaba_cog.conversion import framed
from mastaba_cog.directories import HEAD
from mastaba_cog.errors import CogError
from mastaba_cog.image_tags import read_geotiff
from mastaba_cog.images import Found, GeoTiff, comparable
from mastaba_cog.index import CogIndex, first_numbers, read_parts
from mastaba_cog.pictures import complete_jpeg, components_of_jpeg

_FRAMES: Final = frozenset((b"\xff\xc0", b"\xff\xc1", b"\xff\xc2"))

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class File:
    """A file as it was when it was opened.

    Attributes:
        key: of the object.
        geotiff: its images, `comparable` to those of a file that replaces it.
        options: digest of everything that pixels depend on, beside the file.
        ignores_masks: whether masks are not used.
    """

    key: str
    geotiff: GeoTiff
    options: str
    ignores_masks: bool


@dataclass(frozen=True, slots=True)
class Grid:
    """Where an image is in its matrix.

    Attributes:
        image: number of the image.
        first: number of its first tile.
        row, col: of its first tile.
        is_framed: whether payloads have several parts, for a converter.
    """

    image: int
    first: int
    row: int
    col: int
    is_framed: bool


def read_head(
    storage: Storage, key: str, known: ObjectRead | None = None
) -> tuple[GeoTiff, Found, ObjectRead]:
    """Return the images of a file, what is known of its present version, and its first bytes.

    Args:
        known: first bytes that need not be read.

    Raises:
        CogError: it cannot be published.
        StorageError: it cannot be read.
    """
    read = known or storage.read(key, ByteRange(0, HEAD))

    def fetch(offset: int, length: int) -> bytes:
        return storage.read(key, ByteRange(offset, length), read.version).data

    return *read_geotiff(read.data, fetch), read


class CogTile(StoredTile):
    """A tile in one range of the file: all bands, and the mask."""

    __slots__ = ()

    def read_once(self) -> bytes:
        """Return the payload of the version of `index`, and of no other one.

        Raises:
            ObjectChangedError, ObjectNotFoundError, SlabFormatError: the file is another one now.
            StorageError: it cannot be read.
        """
        return self._read()

    def whole(self, data: bytes) -> bytes:
        return self._payload(self._index.split(self.number, super().whole(data)))

    def _read(self) -> bytes:
        index = self.index
        place = ByteRange(self.offset, self.length)
        return self.whole(index.storage.read(index.key, place, index.version).data)

    @property
    def _index(self) -> CogIndex:
        assert isinstance(self.index, CogIndex)
        return self.index

    def _payload(self, parts: list[bytes]) -> bytes:
        assert isinstance(self.reader, CogReader)
        return self.reader.payload(self._index, self.number, parts)


class PlainTile(CogTile):
    """A tile of one part, which is the whole range."""

    __slots__ = ()
    reader: CogReader

    def whole(self, data: bytes) -> bytes:
        # In another version of the file, the range may contain more.
        if len(data) != self.length or not self._index.is_plain(self.number):
            return super().whole(data)
        return self._payload([data])

    def _read(self) -> bytes:
        index = self.index
        place = ByteRange(self.offset, self.length)
        data = index.storage.read(index.key, place, index.version).data
        return self.reader.stored(index, data) or self.whole(data)


class ScatteredTile(CogTile):
    """A tile whose bands, or whose mask, are far apart in the file."""

    is_addressable: ClassVar[bool] = False
    __slots__ = ()

    def _read(self) -> bytes:
        index = self._index
        places = index.parts(self.number)
        if places is None:
            raise ObjectNotFoundError(f"{index.name} has no tile {self.number}", key=index.key)
        wanted = [ByteRange(*place) for place in places if place is not None]
        read = iter(read_parts(index, wanted))
        parts = [b"" if place is None else next(read) for place in places]
        if any(place and len(part) != place[1] for place, part in zip(places, parts, strict=True)):
            raise SlabFormatError(f"{index.name} ends inside tile {self.number}")
        return self._payload(parts)


class CogReader(TileReader):
    """Finds and reads the tiles of one image. All images of a file share one index."""

    tile_class: ClassVar[type[StoredTile]] = CogTile

    def __init__(
        self, level: Level, storage: Storage, indices: IndexCache, *, file: File, grid: Grid
    ) -> None:
        super().__init__(level, storage, indices)
        self._file = file
        self._grid = grid
        self._image = file.geotiff.images[grid.image]
        # Of the last JPEG tile: its index, its start with the frame, and what precedes its rest.
        self._start: tuple[object, bytes, bytes] = (None, b"", b"")
        self._block: BlockKey = (f"{storage.full_name}/{file.key}#{file.options}", 0, 0)

    def moved(self, storage: Storage, indices: IndexCache) -> Self:
        found = type(self)(self.level, storage, indices, file=self._file, grid=self._grid)
        found.deliver, found.decoder = self.deliver, self.decoder
        found.etag_suffix = self.etag_suffix
        return found

    def place_of(self, tile_row: int, tile_col: int) -> tuple[BlockKey, int]:
        grid = self._grid
        inside = (tile_row - grid.row) * self._image.across + tile_col - grid.col
        return self._block, grid.first + inside

    def key_of(self, slab: BlockKey) -> str:
        return self._file.key

    def locate(self, tile_row: int, tile_col: int) -> StoredTile | None:
        # As `TileReader.locate` for the usual case: fewer calls for each tile.
        index = self._indices.peek(self._block)
        if isinstance(index, CogIndex):
            grid = self._grid
            inside = (tile_row - grid.row) * self._image.across + tile_col - grid.col
            place = index.plain(grid.image, inside)
            if place is not None:
                return PlainTile(self, self._block, index, grid.first + inside, place)
        return self._in_one_version(lambda: super(CogReader, self).locate(tile_row, tile_col))

    def locate_all(self, tiles: Sequence[tuple[int, int]]) -> list[StoredTile | None]:
        return self._in_one_version(lambda: super(CogReader, self).locate_all(tiles))

    def known(self, tile_row: int, tile_col: int) -> StoredTile | None:
        block, number = self.place_of(tile_row, tile_col)
        index = self._indices.peek(block)
        if not isinstance(index, CogIndex) or not index.is_known(number):
            return None
        return self.stored_tile(block, index, number)

    def stored(self, index: TileIndex, data: bytes) -> bytes | None:
        """Return the payload of a JPEG tile that begins as the one before; None for others.

        Args:
            data: the one part of the tile.
        """
        known, start, before = self._start
        if known is not index or not data.startswith(start):
            return None
        return before + data[2:]

    def payload(self, index: CogIndex, number: int, parts: list[bytes]) -> bytes:
        """Return what is published, or converted, of the stored parts of a tile.

        Raises:
            SlabFormatError: it is not in the format that the file says.
        """
        image, grid = self._image, self._grid
        stored = parts[0]
        if image.compression == images.JPEG:
            tables = index.tables(grid.image)
            parts[: image.planes] = [
                part and _complete(part, tables, image.photometric, image.bands)
                for part in parts[: image.planes]
            ]
            if parts[0] and not image.is_planar and not grid.is_framed:
                self._note_start(index, stored, parts[0])
        if not grid.is_framed:
            return parts[0]
        row, col = divmod(number - grid.first, image.across)
        return framed(
            parts,
            min(image.tile_width, image.width - col * image.tile_width),
            min(image.tile_height, image.height - row * image.tile_height),
        )

    def _note_start(self, index: CogIndex, stored: bytes, complete: bytes) -> None:
        """Keep what has been found out about a tile, for those that begin alike."""
        (length,) = struct.unpack_from(">H", stored, 4)
        if stored[2:4] in _FRAMES:
            before = complete[: len(complete) - len(stored) + 2]
            self._start = index, stored[: 4 + length], before

    def _in_one_version(self, find: Callable[[], T]) -> T:
        """Find tiles; if the file is replaced while its arrays are read, start again."""
        for attempt in count(1):
            try:
                return find()
            except ObjectChangedError as error:
                index = self._indices.peek(self._block)
                if index is not None:
                    self.forget(self._block, index)
                if not may_retry(error, attempt):
                    raise
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _load(self, slab: BlockKey) -> CogIndex:
        storage, key = self.storage, self._file.key
        try:
            geotiff, found, read = read_head(storage, key)
        except CogError as error:
            raise ContainerFormatError(f"{key}: {error}") from error
        except ObjectNotFoundError as error:
            # Its tiles are unknown, not absent.
            raise StorageUnavailableError(
                f"{key} is gone", storage=storage.full_name, key=key, answered=True
            ) from error
        geotiff = comparable(geotiff, ignores_masks=self._file.ignores_masks)
        if geotiff != self._file.geotiff:
            raise StorageUnavailableError(
                f"{key} was replaced by a file of another grid or type: reload to publish it",
                storage=storage.full_name,
                key=key,
                answered=True,
            )
        options = self._file.options
        return CogIndex(geotiff, found, storage, key, read.version, read.modified, options)


class ScatteredReader(CogReader):
    """Reads tiles whose parts are far apart."""

    tile_class: ClassVar[type[StoredTile]] = ScatteredTile


def numbered(geotiff: GeoTiff, image: int, row: int, col: int, *, is_framed: bool) -> Grid:
    """Return where an image is in its matrix."""
    return Grid(image, first_numbers(geotiff)[image], row, col, is_framed)


def _complete(tile: bytes, tables: bytes, photometric: int, bands: int) -> bytes:
    is_rgb = False
    if bands == 3:
        identifiers, is_full = components_of_jpeg(tile)
        named = identifiers == b"RGB"
        if photometric == images.YCBCR and named:
            raise SlabFormatError("a tile has red, green and blue, not YCbCr as the file says")
        if photometric == images.RGB:
            if not is_full:
                raise SlabFormatError("a tile in RGB has components of different sizes")
            is_rgb = not named
    return complete_jpeg(tile, tables, is_rgb=is_rgb)
