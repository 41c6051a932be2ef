"""Indices of a level from the index store and from index packs, which may be outdated."""

from __future__ import annotations

from collections.abc import Callable

from mastaba.errors import MastabaError, ObjectNotFoundError, StorageError
from mastaba.slab.index import HEADER_SIZE, SlabIndex
from mastaba.slab.index_pack import IndexRecord
from mastaba.slab.index_store import IndexStore
from mastaba.slab.layout import SlabLayout
from mastaba.slab.symbolic import SIGNATURE
from mastaba.storage.base import ObjectRead, Storage

_HEADER = b"II*\0".ljust(HEADER_SIZE, b"\0")


class StoredIndices:
    """The indices of one level that the store contains, and those in its index packs.

    Args:
        store: shared by all levels.
        name: location of the slabs.
        tile_count: tiles of a slab.
        storage: storage of the slabs.
        layout: keys of the slabs.
        packs: keys of the packs; None if there are none.
        open_container: as for `LevelReader`.
    """

    def __init__(
        self,
        store: IndexStore,
        name: str,
        tile_count: int,
        storage: Storage,
        layout: SlabLayout,
        packs: SlabLayout | None,
        open_container: Callable[[str], Storage] | None,
    ) -> None:
        # With packs, files of the store that were made without them are not used.
        self._level = store.level(f"{name}/{packs!r}", tile_count)
        self._tile_count = tile_count
        self._storage = storage
        self._layout = layout
        self._packs = packs
        self._open_container = open_container

    def get(self, slab_col: int, slab_row: int) -> SlabIndex | None:
        """Return the index of a slab, or None if it is unknown.

        The first request for one of the slabs in a pack reads the pack.
        """
        record = self._level.get(slab_col, slab_row)
        if record is None and self._fetch(slab_col, slab_row):
            record = self._level.get(slab_col, slab_row)
        if record is None:
            return None
        storage, key = self._storage, self._layout.key(slab_col, slab_row)
        if record.target:
            try:
                # Tiles of the target only show that the target has not changed.
                if storage.stat(key).version != record.link_version or not self._open_container:
                    return None
                container, _, key = record.target.partition("/")
                storage = self._open_container(container)
            except (MastabaError, ValueError):
                return None
        return SlabIndex(
            _HEADER + record.index_bytes,
            self._tile_count,
            storage=storage,
            key=key,
            version=record.version,
            modified=record.modified,
        )

    def put(
        self, slab_col: int, slab_row: int, read: ObjectRead, link: ObjectRead | None = None
    ) -> None:
        """Store an index.

        Args:
            read: header and index of the slab.
            link: the symbolic object that leads to the slab, if there is one.
        """
        if read.version is None or (link is not None and link.version is None):
            return
        record = IndexRecord(
            read.version,
            read.modified,
            read.data[HEADER_SIZE : HEADER_SIZE + 8 * self._tile_count],
            "" if link is None else link.data[len(SIGNATURE) :].decode("utf-8", "replace"),
            "" if link is None else link.version or "",
        )
        self._level.put(slab_col, slab_row, record)

    def _fetch(self, slab_col: int, slab_row: int) -> bool:
        """Store the pack of a slab; return False if there is none, or it was stored before."""
        pack = self._level.layout.pack_of(slab_col, slab_row)
        if self._packs is None or self._level.has_pack(pack):
            return False
        try:
            data = self._storage.read(self._packs.key(*pack)).data
        except ObjectNotFoundError:
            data = b""
        except StorageError:
            return False
        self._level.adopt(pack, data)
        return bool(data)
