"""The index of a slab: offset and size of each of its tiles (slab.md section 1)."""

from __future__ import annotations

import sys
from array import array
from typing import Final

from mastaba.errors import SlabFormatError
from mastaba.storage.base import Storage

HEADER_SIZE: Final = 2048
MAX_TILE_SIZE: Final = 64 * 1024 * 1024
"""Bytes; a larger tile is taken for damage, before anything is allocated for it."""

_TIFF_MAGIC = b"II*\0"


def index_length(tile_count: int) -> int:
    """Return the bytes of header and index together: what one read must bring."""
    return HEADER_SIZE + 8 * tile_count


class SlabIndex:
    """Offsets and sizes of the tiles of one generation of one slab.

    Attributes:
        storage: where the slab lies; of a symbolic object, where its target lies.
        key: name of the slab in its storage; of a symbolic object, of its target.
        version: generation of the slab, see `mastaba.storage.ObjectStat`.
        modified: Unix seconds, or None.
    """

    __slots__ = ("_tile_count", "_values", "key", "modified", "storage", "version")

    def __init__(
        self,
        data: bytes,
        tile_count: int,
        *,
        storage: Storage,
        key: str,
        version: str | None = None,
        modified: float | None = None,
    ) -> None:
        """Read an index from the first bytes of a slab.

        Raises:
            SlabFormatError: the bytes are too few, or do not begin like a slab.
        """
        self.storage = storage
        self.key = key
        self.version = version
        self.modified = modified
        if len(data) < index_length(tile_count):
            raise SlabFormatError(
                f"slab {self.name}: {len(data)} bytes, shorter than its header and index "
                f"({index_length(tile_count)} bytes)"
            )
        if not data.startswith(_TIFF_MAGIC):
            raise SlabFormatError(f"slab {self.name}: does not begin with a slab header")
        values = array("I", data[HEADER_SIZE : index_length(tile_count)])
        if sys.byteorder == "big":
            values.byteswap()
        self._values = values
        self._tile_count = tile_count

    @property
    def name(self) -> str:
        """Where the slab lies, for messages."""
        return f"{self.storage.full_name}/{self.key}" if self.storage.container else self.key

    @property
    def nbytes(self) -> int:
        """Bytes of offsets and sizes."""
        return 8 * self._tile_count

    def tile(self, number: int) -> tuple[int, int] | None:
        """Return offset and size of a tile, or None when the slab does not hold it.

        Raises:
            SlabFormatError: the entry cannot be that of a tile.
        """
        size = self._values[self._tile_count + number]
        if size == 0:
            return None
        offset = self._values[number]
        if offset < index_length(self._tile_count) or size > MAX_TILE_SIZE:
            raise SlabFormatError(
                f"slab {self.name}: tile {number} has offset {offset} and size {size}"
            )
        return offset, size
