"""The index store of a node: indices from its files and from index packs, perhaps outdated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final, Self

from mastaba.api.slabs import (
    HEADER_SIZE,
    SIGNATURE,
    IndexStore,
    LevelSlabs,
    SlabIndex,
    StoredIndices,
)
from mastaba.api.storages import ObjectRead
from mastaba.errors import MastabaError, ObjectNotFoundError, StorageError
from mastaba_index_store.files import PackDirectory
from mastaba_writer.index_packs import IndexRecord

_HEADER: Final = b"II*\0".ljust(HEADER_SIZE, b"\0")


class DiskStore(IndexStore):
    """A store in a directory on a local disk."""

    name: ClassVar[str] = "disk"

    def __init__(self, directory: PackDirectory) -> None:
        self._directory = directory

    @classmethod
    def open(cls, settings: Mapping[str, Any]) -> Self:
        if "directory" not in settings:
            raise ValueError("its directory is missing")
        return cls(PackDirectory(settings["directory"], 1024**2 * settings["mebibytes"]))

    def level(self, slabs: LevelSlabs) -> StoredIndices:
        return _LevelIndices(self._directory, slabs)


class _LevelIndices(StoredIndices):
    def __init__(self, directory: PackDirectory, slabs: LevelSlabs) -> None:
        # With packs, files that were made without them are not used.
        self._files = directory.level(f"{slabs.name}/{slabs.packs!r}", slabs.tile_count)
        self._slabs = slabs

    def get(self, slab_col: int, slab_row: int) -> SlabIndex | None:
        # The first request for one of the slabs in a pack reads the pack.
        record = self._files.get(slab_col, slab_row)
        if record is None and self._fetch(slab_col, slab_row):
            record = self._files.get(slab_col, slab_row)
        if record is None:
            return None
        storage, key = self._slabs.storage, self._slabs.layout.key(slab_col, slab_row)
        if record.target:
            try:
                # Tiles of the target only show that the target has not changed.
                is_same = storage.stat(key).version == record.link_version
                if not is_same or self._slabs.open_container is None:
                    return None
                container, _, key = record.target.partition("/")
                storage = self._slabs.open_container(container)
            except (MastabaError, ValueError):
                return None
        return SlabIndex(
            _HEADER + record.index_bytes,
            self._slabs.tile_count,
            storage=storage,
            key=key,
            version=record.version,
            modified=record.modified,
        )

    def put(
        self, slab_col: int, slab_row: int, read: ObjectRead, link: ObjectRead | None = None
    ) -> None:
        if read.version is None or (link is not None and link.version is None):
            return
        record = IndexRecord(
            read.version,
            read.modified,
            read.data[HEADER_SIZE : HEADER_SIZE + 8 * self._slabs.tile_count],
            "" if link is None else link.data[len(SIGNATURE) :].decode("utf-8", "replace"),
            "" if link is None else link.version or "",
        )
        self._files.put(slab_col, slab_row, record)

    def _fetch(self, slab_col: int, slab_row: int) -> bool:
        """Store the pack of a slab; return False if there is none, or it was stored before."""
        pack = self._files.layout.pack_of(slab_col, slab_row)
        if self._slabs.packs is None or self._files.has_pack(pack):
            return False
        try:
            data = self._slabs.storage.read(self._slabs.packs.key(*pack)).data
        except ObjectNotFoundError:
            data = b""
        except StorageError:
            return False
        self._files.adopt(pack, data)
        return bool(data)
