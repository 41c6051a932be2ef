"""Tiles of one level of a mosaic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from typing import Any, ClassVar, Final, NamedTuple, Self

import numpy as np

from mastaba.api.catalogue import TileMatrix
from mastaba.api.containers import (
    BlockKey,
    IndexCache,
    Level,
    StoredTile,
    TileIndex,
    TileReader,
    may_retry,
)
from mastaba.api.storages import Storage
from mastaba.errors import (
    MastabaError,
    ObjectChangedError,
    ObjectNotFoundError,
    SlabFormatError,
    StorageUnavailableError,
)
from mastaba_cog.image_readers import StoredDecoder, encoded
from mastaba_cog.mosaic.live import KnownTile, Mosaic, MosaicIndex
from mastaba_cog.mosaic.members import Kind, Member, Opened
from mastaba_cog.mosaic.painting import (
    MOST_IN_MAP,
    MOST_IN_TILE,
    Contribution,
    Pixels,
    Recipe,
    UnknownError,
    painted,
    part_of,
    too_many,
    whole_tile,
)
from mastaba_render.api.resampling import Window
from mastaba_server.threads.per_process import ThreadPool

_STALE: Final = (ObjectChangedError, ObjectNotFoundError, SlabFormatError)
BLOCK: Final = 4
"""Tiles on a side of what is sampled, purged or exported together."""
_EDGE: Final = 1e-3
_PAINTED: Final = b"\0\0\0\0"
"""Precedes pixels that were painted; no picture begins so. Four bytes keep floats aligned."""
_OPENING: Final = ThreadPool(16, "mosaic-open")
"""The threads that open the files of one tile in parallel."""


class MosaicTile(StoredTile):
    """A tile that files of a mosaic make. Its offset is a digest of all that it is made of."""

    is_addressable: ClassVar[bool] = False
    __slots__ = ("place", "recipe")

    def __init__(
        self, reader: MosaicReader, index: MosaicIndex, place: tuple[int, int], recipe: Recipe
    ) -> None:
        block, number = reader.place_of(*place)
        super().__init__(reader, block, index, number, recipe.place)
        self.place = place
        self.recipe = recipe

    @property
    def version(self) -> str | None:
        return super().version if self.recipe.is_versioned else None

    @property
    def modified(self) -> float | None:
        assert isinstance(self.index, MosaicIndex)
        found = self.recipe.modified, self.index.table.modified
        return max((one for one in found if one is not None), default=None)

    def read(self) -> bytes:
        """Return the stored bytes, or painted pixels, of one version of each file."""
        reader = self.reader
        assert isinstance(reader, MosaicReader)
        for attempt in count(1):
            try:
                return reader.payload(self.recipe, self.place)
            except _STALE as error:
                reader.forget_members(self.recipe, error, self.index)
                if not may_retry(error, attempt):
                    if isinstance(error, ObjectNotFoundError):
                        raise StorageUnavailableError(str(error), key=error.key) from error
                    raise
                if not self.move_to(reader.mosaic.current()):
                    raise ObjectNotFoundError(
                        f"{self.index.described} no longer contains tile {self.place}",
                        key=self.index.key,
                    ) from error
        raise AssertionError("unreachable: the last attempt returns or raises")

    def move_to(self, index: TileIndex) -> bool:
        reader = self.reader
        assert isinstance(reader, MosaicReader)
        assert isinstance(index, MosaicIndex)
        recipe = reader.recipe(index, self.place)
        if recipe is None:
            return False
        self.index, self.recipe = index, recipe
        self.offset, self.length = recipe.place
        return True

    def forget_index(self) -> None:
        reader = self.reader
        assert isinstance(reader, MosaicReader)
        reader.forget_members(self.recipe, None, self.index)


class LevelOptions(NamedTuple):
    """What the levels of a mosaic have in common.

    Attributes:
        kernel: for files with other pixels than the level.
        stored: decodes tiles that are sent as they are stored; None if there are none.
        etag_suffix: digest of everything that tiles depend on, beside files and table.
    """

    kernel: str
    stored: StoredDecoder | None
    etag_suffix: str


class _Decoder:
    """Decodes payloads: pixels that were painted, or pictures."""

    def __init__(self, level: Level, kind: Kind, stored: StoredDecoder | None) -> None:
        matrix = level.matrix
        self._shape = matrix.tile_height, matrix.tile_width, kind.channels
        self._dtype = np.dtype("<f4" if kind.is_float else "u1")
        self._stored = stored
        self.nbytes = int(np.prod(self._shape)) * self._dtype.itemsize

    def decode(self, payload: bytes) -> Pixels:
        if payload.startswith(_PAINTED):
            return np.frombuffer(payload, self._dtype, offset=len(_PAINTED)).reshape(self._shape)
        if self._stored is None:
            raise SlabFormatError("a tile is not painted")
        found: Pixels = self._stored.decode(payload)
        return found


def inner_box(matrix: TileMatrix, row: int, col: int) -> tuple[float, float, float, float]:
    """Return the box of a tile without the outermost thousandth of a pixel.

    By rounding errors, a file beside the tile may seem to reach into it.
    """
    edge = _EDGE * matrix.cell_size
    width, height = matrix.tile_width * matrix.cell_size, matrix.tile_height * matrix.cell_size
    x, y = matrix.origin_x + col * width, matrix.origin_y - row * height
    return x + edge, y - height + edge, x + width - edge, y - edge


class MosaicReader(TileReader):
    """Finds and paints the tiles of one level.

    Args:
        mosaic: what all levels share.
        options: of all levels.
    """

    tile_class: ClassVar[type[StoredTile]] = MosaicTile

    def __init__(
        self,
        level: Level,
        storage: Storage,
        indices: IndexCache,
        *,
        mosaic: Mosaic,
        options: LevelOptions,
    ) -> None:
        super().__init__(level, storage, indices)
        self.mosaic = mosaic
        self._options = options
        self._location = f"{mosaic.index.identity[1]}#{level.matrix.id}"
        kind = mosaic.kind
        decoder = _Decoder(level, kind, options.stored)
        self.decoder = decoder
        self.deliver: Callable[[bytes], bytes] | None = self._delivered
        self.etag_suffix = options.etag_suffix

    def moved(self, storage: Storage, indices: IndexCache) -> Self:
        mosaic = self.mosaic.moved(storage, indices)
        return type(self)(self.level, storage, indices, mosaic=mosaic, options=self._options)

    def place_of(self, tile_row: int, tile_col: int) -> tuple[BlockKey, int]:
        block = (self._location, tile_col // BLOCK, tile_row // BLOCK)
        return block, tile_row % BLOCK * BLOCK + tile_col % BLOCK

    def key_of(self, slab: BlockKey) -> str:
        return self.mosaic.index.key

    def index(self, slab: BlockKey) -> TileIndex | None:
        return self.mosaic.current()

    def refresh(self, slab: BlockKey, stale: TileIndex, *, alone: bool = False) -> TileIndex:
        return self.mosaic.current()

    def keep(self, slab: BlockKey, index: TileIndex) -> None:
        """Do nothing: tables are not in the cache of indices."""

    forget = keep

    def locate(self, tile_row: int, tile_col: int) -> StoredTile | None:
        return self._tile(self.mosaic.current(), (tile_row, tile_col))

    def locate_all(self, tiles: Sequence[tuple[int, int]]) -> list[StoredTile | None]:
        """Return tiles as `locate` does, all of one version of the table.

        Raises:
            InvalidParameterError: they need too many files.
        """
        for attempt in count(1):
            found = self._located(tiles)
            if found is not None:
                return found
            described = self.mosaic.index.described
            changed = ObjectChangedError(f"files of {described} change again and again")
            if not may_retry(changed, attempt):
                raise changed
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _located(self, tiles: Sequence[tuple[int, int]]) -> list[StoredTile | None] | None:
        """Return tiles; None if a file was opened in another version meanwhile."""
        index = self.mosaic.current()
        found: list[StoredTile | None] = []
        files: dict[int, Member] = {}
        for place in tiles:
            tile = self._tile(index, place)
            found.append(tile)
            for part in tile.recipe.parts if tile is not None else ():
                if files.setdefault(part.row, part.member).version != part.member.version:
                    return None
            if len(files) > MOST_IN_MAP:
                raise too_many(f"more than {MOST_IN_MAP} files")
        return found

    def known(self, tile_row: int, tile_col: int) -> StoredTile | None:
        with suppress(UnknownError):
            return self._tile(self.mosaic.current(), (tile_row, tile_col), only_known=True)
        return None

    def stored_tile(self, slab: BlockKey, index: TileIndex, number: int) -> StoredTile | None:
        assert isinstance(index, MosaicIndex)
        _, col, row = slab
        down, right = divmod(number, BLOCK)
        return self._tile(index, (row * BLOCK + down, col * BLOCK + right))

    def recipe(
        self, index: MosaicIndex, place: tuple[int, int], *, only_known: bool = False
    ) -> Recipe | None:
        """Return how a tile is made, or None if no file has data there.

        Raises:
            InvalidParameterError: it needs too many files.
            ContainerFormatError: a file does not fit the others.
            StorageError: a file cannot be opened.
        """
        table, matrix, tile = index.table, self.level.matrix, self._window(place)
        rows = table.index.meeting(*inner_box(matrix, *place))[::-1].tolist()
        if not only_known:
            self._open(index, rows)
        parts: list[Contribution] = []
        seen: list[Opened] = []
        is_skipped = False
        todo: Any = None
        for number, row in enumerate(rows):
            if number == MOST_IN_MAP:
                raise too_many(f"more than {MOST_IN_MAP} files at one place")
            levels = table.facts.get(row, {}).get("levels")
            if levels is not None and matrix.id not in levels:
                continue
            member = self._member(index, row, only_known=only_known)
            if member is None:
                is_skipped = True
                continue
            seen.append(self.mosaic.members.opened(table, row, member))
            kernel = self._options.kernel
            part = part_of(row, member, matrix, tile, kernel, only_known=only_known)
            if part is None:
                continue
            if len(parts) == MOST_IN_TILE:
                raise too_many(f"more than {MOST_IN_TILE} files at one place")
            parts.append(part)
            if not (member.is_opaque and part.is_full and part.placement.is_exact):
                continue
            if part.where == tile:
                break
            if todo is None:
                todo = np.ones(tile.shape, np.bool_)
            todo[part.where.counted_from(tile.top, tile.left)] = False
            if not todo.any():
                break
        if not parts:
            return None
        stored = whole_tile(parts[0], tile) if len(parts) == 1 else None
        recipe = Recipe(parts, stored)
        if stored is not None and not is_skipped:
            self.mosaic.keep((matrix.id, *place), KnownTile(index, seen, recipe))
        return recipe

    def payload(self, recipe: Recipe, place: tuple[int, int]) -> bytes:
        """Return the bytes of a tile, in one version of each file.

        Raises:
            ObjectChangedError, ObjectNotFoundError: a file was replaced.
            SlabFormatError: a file is damaged.
            StorageError: a file cannot be read.
        """
        if recipe.stored is not None:
            return recipe.stored.read_once()
        kernel = self._options.kernel
        pixels = painted(recipe, self._window(place), self.mosaic.kind, kernel)
        return _PAINTED + pixels.tobytes()

    def forget_members(self, recipe: Recipe, error: MastabaError | None, index: TileIndex) -> None:
        """Open the files of a tile again for the next one: all, or the one that an error names."""
        assert isinstance(index, MosaicIndex)
        named = getattr(error, "key", "")
        those = [part for part in recipe.parts if part.member.key == named] or recipe.parts
        for part in those:
            self.mosaic.members.forget(index.table, part.row, part.member)
        self.mosaic.renew(index)

    def _load(self, slab: BlockKey) -> TileIndex:
        raise NotImplementedError("tables are not in the cache of indices")

    def _tile(
        self, index: MosaicIndex, place: tuple[int, int], *, only_known: bool = False
    ) -> MosaicTile | None:
        known = self.mosaic.known.get((self.level.matrix.id, *place))
        if known and known.index is index and self.mosaic.members.are_open(known.seen):
            return MosaicTile(self, index, place, known.recipe)
        for attempt in count(1):
            try:
                recipe = self.recipe(index, place, only_known=only_known)
                return None if recipe is None else MosaicTile(self, index, place, recipe)
            except ObjectChangedError as error:
                # A file was replaced while the places of its tiles were read.
                if not may_retry(error, attempt):
                    raise
                self._forget_named(index, place, error)
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _forget_named(
        self, index: MosaicIndex, place: tuple[int, int], error: ObjectChangedError
    ) -> None:
        found = index.table.index.meeting(*inner_box(self.level.matrix, *place))
        for row in found.tolist():
            member = self.mosaic.members.known(index.table, row)
            if member is not None and error.key in ("", member.key):
                self.mosaic.members.forget(index.table, row, member)
        self.mosaic.renew(index)

    def _member(self, index: MosaicIndex, row: int, *, only_known: bool) -> Member | None:
        if not only_known:
            return self.mosaic.member(row, index)
        known = self.mosaic.members.known(index.table, row)
        if known is None:
            raise UnknownError
        return known

    def _open(self, index: MosaicIndex, rows: list[int]) -> None:
        """Open files that are not open yet together, if they are far away."""
        if not self.storage.is_remote:
            return
        members, table = self.mosaic.members, index.table
        unknown = [row for row in rows[:MOST_IN_TILE] if members.known(table, row) is None]

        def open_one(row: int) -> None:
            # Whoever needs it gets the error.
            with suppress(MastabaError):
                members.get(table, row)

        _OPENING.map(open_one, unknown)

    def _window(self, place: tuple[int, int]) -> Window:
        height, width = self.level.matrix.tile_height, self.level.matrix.tile_width
        top, left = place[0] * height, place[1] * width
        return Window(top, top + height, left, left + width)

    def _delivered(self, payload: bytes) -> bytes:
        if not payload.startswith(_PAINTED):
            return payload
        if self.mosaic.kind.is_float:
            return payload[len(_PAINTED) :]
        assert self.decoder is not None
        return encoded(self.decoder.decode(payload), self.mosaic.kind.tile_format)
