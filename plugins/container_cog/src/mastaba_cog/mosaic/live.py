"""A table as it is now: looked at from time to time, and swapped as a whole."""

from __future__ import annotations

import hashlib
import logging
import os
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import ClassVar, Final

from mastaba.api.catalogue import BoundingBox
from mastaba.api.containers import IndexCache, TileIndex
from mastaba.api.storages import ByteRange, ResourcePath, Storage
from mastaba.errors import ContainerFormatError, MastabaError
from mastaba_cog.errors import CogError
from mastaba_cog.mosaic.formats import LARGEST, rows_of
from mastaba_cog.mosaic.members import Kind, Member, Members, Opened
from mastaba_cog.mosaic.painting import Recipe
from mastaba_cog.mosaic.table import Table, Wanted, table_of

logger: Final = logging.getLogger("mastaba")

MOST_KNOWN: Final = 1024
"""Tiles that are found again without the table. Each may keep a file that is not open otherwise."""
_WAITING: Final = 0.5
"""Seconds that a request waits for a changed table; it then uses the one before."""
_SILENCE: Final = 60.0
"""Seconds between two lines about absent files."""


@dataclass(frozen=True, slots=True)
class TableSource:
    """Where a table is, and how it is read.

    Attributes:
        path: of the table.
        wanted: how its rows are read.
        allowed: other storages that rows may name.
    """

    path: ResourcePath
    wanted: Wanted
    allowed: Collection[str]

    def read(self, storage: Storage) -> tuple[bytes, str, float | None]:
        """Return the bytes of the table, its version or digest, and when it was changed.

        Raises:
            ContainerFormatError: it is too large.
            StorageError: it cannot be read.
        """
        stat = storage.stat(self.path.key)
        if stat.size > LARGEST:
            raise ContainerFormatError(
                f"the table has {stat.size} bytes, more than {LARGEST}", "divide it"
            )
        place = ByteRange(0, stat.size)
        read = storage.read(self.path.key, place, stat.version)
        version = read.version or hashlib.blake2b(read.data, digest_size=12).hexdigest()
        return read.data, version, read.modified


class MosaicIndex(TileIndex):
    """One version of a table, with the versions of its files. All tiles share it.

    Args:
        table: in the CRS of the tile matrix set.
        options: digest of everything that pixels depend on, beside the files.
    """

    word: ClassVar[str] = "mosaic"
    __slots__ = ("options", "table")

    def __init__(self, storage: Storage, key: str, table: Table, options: str) -> None:
        super().__init__(storage, key, table.version, None)
        # Other options make other pixels of the same files.
        self.identity = storage.full_name, f"{key}#{options}", table.version
        self.table = table
        self.options = options

    @property
    def nbytes(self) -> int:
        return self.table.boxes.nbytes + self.table.index.nbytes

    def tile(self, number: int) -> tuple[int, int] | None:
        raise NotImplementedError("a tile of a mosaic is found by its reader")

    def renewed(self) -> MosaicIndex:
        """Return an equal one, because a file was replaced."""
        return MosaicIndex(self.storage, self.key, self.table, self.options)


@dataclass(frozen=True, slots=True)
class KnownTile:
    """A tile that is sent as it is stored, as it was found.

    Attributes:
        index: of the table.
        seen: all files that were asked for it.
        recipe: how it is made.
    """

    index: MosaicIndex
    seen: Sequence[Opened]
    recipe: Recipe


class Mosaic:
    """What all levels of a mosaic share.

    Args:
        source: of the table.
        storage: of the table.
        index: of the table as it was loaded.
        members: the files.
        limits: box of the published levels, in the CRS of the set.
        refresh: seconds after which the table is looked at again.
        skips: whether files that are absent, or do not fit, are left out.

    Attributes:
        index, members: as given; replaced if the table, or a file, has changed.
        known: tiles that are found again without the table, by level, row and column; at most
            `MOST_KNOWN`.
        fault: why the present table cannot be used; the one before is. Empty if it can.
        report: called after `fault` has changed.
    """

    def __init__(
        self,
        source: TableSource,
        storage: Storage,
        index: MosaicIndex,
        members: Members,
        limits: BoundingBox,
        refresh: float,
        *,
        skips: bool,
    ) -> None:
        self.index = index
        self.members = members
        self.known: dict[tuple[str, int, int], KnownTile] = {}
        self.fault = ""
        self.report: Callable[[], None] = lambda: None
        self._source = source
        self._storage = storage
        self._limits = limits
        self._refresh = refresh
        self._skips = skips
        self._due = monotonic() + refresh
        self._looking = 0
        self._silent_until = 0.0
        self._opener, self._first = members.open_storage, storage
        self._moved: tuple[Storage, IndexCache, Mosaic] | None = None

    @property
    def kind(self) -> Kind:
        """What all files have in common."""
        return self.members.kind

    def moved(self, storage: Storage, indices: IndexCache) -> Mosaic:
        """Return the same mosaic with another storage; the same one for all levels."""
        known = self._moved
        if known is not None and known[0] is storage and known[1] is indices:
            return known[2]
        open_first, first = self._opener, self._first

        def open_storage(path: ResourcePath) -> Storage:
            found = open_first(path)
            return storage if found is first else found

        index = MosaicIndex(storage, self.index.key, self.index.table, self.index.options)
        found = Mosaic(
            self._source,
            storage,
            index,
            self.members.again(open_storage),
            self._limits,
            self._refresh,
            skips=self._skips,
        )
        # However often it is moved, nothing of those in between is needed.
        found._opener, found._first = open_first, first
        self._moved = storage, indices, found
        return found

    def current(self) -> MosaicIndex:
        """Return the present table; if it is time, look whether it has changed."""
        if monotonic() >= self._due and self._looking != os.getpid():
            self._looking = os.getpid()
            self._due = monotonic() + self._refresh
            # A large table takes longer than a request should.
            thread = threading.Thread(target=self._look, name="mosaic-table", daemon=True)
            thread.start()
            thread.join(_WAITING)
        return self.index

    def member(self, row: int, index: MosaicIndex) -> Member | None:
        """Return the file of a row; None if it is to be left out.

        Raises:
            ContainerFormatError: it does not fit the others.
            StorageError: it cannot be read; also if it is absent.
        """
        try:
            return self.members.get(index.table, row)
        except MastabaError as error:
            is_absent = isinstance(error, ContainerFormatError) or getattr(error, "answered", False)
            if not (self._skips and is_absent):
                raise
            if monotonic() >= self._silent_until:
                self._silent_until = monotonic() + _SILENCE
                logger.warning("a file of the mosaic %s is left out: %s", index.name, error)
            return None

    def keep(self, place: tuple[str, int, int], tile: KnownTile) -> None:
        """Find a tile again without the table, until it or a file of the tile changes."""
        if len(self.known) >= MOST_KNOWN:
            self.known = {}
        self.known[place] = tile

    def renew(self, index: MosaicIndex) -> None:
        """Make sure that tiles found from now on are not mixed with those of an index."""
        if self.index is index:
            self.index = index.renewed()

    def _look(self) -> None:
        try:
            fault = self._changed()
        finally:
            self._looking = 0
        if fault != self.fault:
            self.fault = fault
            if fault:
                logger.error(
                    "the table %s cannot be used, the one before stays in use: %s",
                    self.index.name,
                    fault,
                )
            self.report()

    def _changed(self) -> str:
        """Swap the table if it has changed; return why it cannot be used."""
        known = self.index.table
        try:
            stat = self._storage.stat(self._source.path.key)
            if stat.version is not None and stat.version == known.version:
                return ""
            data, version, modified = self._source.read(self._storage)
            if version == known.version:
                return ""
            rows = rows_of(data, self._source.wanted)
            path, allowed = self._source.path, self._source.allowed
            crs, locate = self.kind.crs, self.members.locate
            table = table_of(rows, path, allowed, crs, version, modified, locate)
        except (MastabaError, CogError) as error:
            return str(error)
        except MemoryError:
            return "it does not fit into memory"
        index = self.index
        self.index = MosaicIndex(self._storage, index.key, table, index.options)
        xmin, ymin, xmax, ymax = table.extent
        box = self._limits
        if xmin < box.xmin or ymin < box.ymin or xmax > box.xmax or ymax > box.ymax:
            logger.warning(
                "the table %s has files outside of the published limits: reload to publish them",
                index.name,
            )
        return ""
