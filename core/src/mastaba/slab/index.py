"""The index of a slab: offset and size of each of its tiles (slab.md section 1)."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable
from typing import ClassVar, Final

from mastaba.containers.tile_index import TileIndex
from mastaba.errors import SlabFormatError
from mastaba_storage.base import Storage

HEADER_SIZE: Final = 2048
"""Bytes of the header of a slab, before its index."""
MAX_TILE_SIZE: Final = 64 * 1024 * 1024
"""Bytes. A larger tile is treated as damage before any memory is allocated for it."""

_TIFF_MAGIC = b"II*\0"


def index_length(tile_count: int) -> int:
    """Return the size of header and index in bytes, which are read together."""
    return HEADER_SIZE + 8 * tile_count


class SlabIndex(TileIndex):
    """Offsets and sizes of the tiles in one version of one slab.

    Storage and key are those of the slab; for a symbolic object, those of its target.
    """

    word: ClassVar[str] = "slab"
    __slots__ = ("_end", "_offsets", "_sizes")

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
            SlabFormatError: the data is too short, or does not begin with a slab header.
        """
        super().__init__(storage, key, version, modified)
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
        self._offsets, self._sizes = values[:tile_count], values[tile_count:]
        self._end = index_length(tile_count)

    @property
    def nbytes(self) -> int:
        """Bytes of offsets and sizes."""
        return 8 * len(self._sizes)

    def tile(self, number: int) -> tuple[int, int] | None:
        """Return the offset and size of a tile, or None if the slab does not contain it.

        Raises:
            SlabFormatError: the entry is invalid.
        """
        size = self._sizes[number]
        if size == 0:
            return None
        offset = self._offsets[number]
        if offset < self._end or size > MAX_TILE_SIZE:
            raise SlabFormatError(
                f"slab {self.name}: tile {number} has offset {offset} and size {size}"
            )
        return offset, size

    def tiles(self, numbers: Iterable[int]) -> list[tuple[int, int] | None]:
        return [self.tile(number) for number in numbers]
