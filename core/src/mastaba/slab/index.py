"""The index of a slab: offset and size of each of its tiles (slab.md section 1)."""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct, error
from typing import ClassVar, Final

from mastaba.containers.tile_index import TileIndex
from mastaba.errors import SlabFormatError
from mastaba_storage.base import Storage

HEADER_SIZE: Final = 2048
"""Bytes of the header of a slab, before its index."""
MAX_TILE_SIZE: Final = 64 * 1024 * 1024
"""Bytes. A larger tile is treated as damage before any memory is allocated for it."""

_TIFF_MAGIC = b"II*\0"
_NUMBER = Struct("<I").unpack_from
_PAIR = Struct("<II").unpack_from
_MOST_PACKED = 1024
"""Tiles. Packing the index of a larger slab would delay the requests that wait for it."""


def index_length(tile_count: int) -> int:
    """Return the size of header and index in bytes, which are read together."""
    return HEADER_SIZE + 8 * tile_count


class SlabIndex(TileIndex):
    """Offsets and sizes of the tiles in one version of one slab.

    Storage and key are those of the slab; for a symbolic object, those of its target.
    """

    word: ClassVar[str] = "slab"
    __slots__ = ("_table", "_width")

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
        table = data[HEADER_SIZE : index_length(tile_count)]
        packed = _packed(table, tile_count) if tile_count <= _MOST_PACKED else b""
        self._table = packed or table
        self._width = len(packed) // (tile_count + 1)  # bytes of a number; 0 if not packed

    @property
    def nbytes(self) -> int:
        """Bytes of offsets and sizes, half as many or less if they are packed."""
        return len(self._table)

    def tile(self, number: int) -> tuple[int, int] | None:
        """Return the offset and size of a tile, or None if the slab does not contain it.

        Raises:
            SlabFormatError: the entry is invalid.
        """
        table, width = self._table, self._width
        if width:
            if width == 3:
                pair = int.from_bytes(table[3 * number : 3 * number + 6], "little")
                begin, following = pair & 0xFFFFFF, pair >> 24
            else:
                begin, following = _PAIR(table, 4 * number)
            offset = begin & ~15
            size = (following & ~15) - (begin & 15) - offset
            return (offset, size) if size else None
        (offset,) = _NUMBER(table, 4 * number)
        (size,) = _NUMBER(table, len(table) // 2 + 4 * number)
        if size == 0:
            return None
        if offset < HEADER_SIZE + len(table) or size > MAX_TILE_SIZE:
            raise SlabFormatError(
                f"slab {self.name}: tile {number} has offset {offset} and size {size}"
            )
        return offset, size

    def tiles(self, numbers: Iterable[int]) -> list[tuple[int, int] | None]:
        return [self.tile(number) for number in numbers]


def _packed(table: bytes, tile_count: int) -> bytes:
    """Return an index in fewer bytes, if the tiles are stored as by the reference program.

    That is in the order of their numbers, each at the next multiple of 16. The result has a number
    for each tile: its offset, plus the 0 to 15 bytes between its end and the next tile; and a last
    number, the end of all. Numbers have 3 bytes in slabs below 16 MiB, else 4. The result is empty
    if an entry is invalid, or tiles are stored otherwise.
    """
    numbers = Struct(f"<{tile_count}I")
    offsets, sizes = numbers.unpack_from(table), numbers.unpack_from(table, 4 * tile_count)
    end = index_length(tile_count)
    place = next((offset for offset, size in zip(offsets, sizes, strict=True) if size), 16 * end)
    if place % 16 or place < end or max(sizes) > MAX_TILE_SIZE:
        return b""
    packed = []
    for offset, size in zip(offsets, sizes, strict=True):
        begin = place
        if size:
            if offset != begin:
                return b""
            place = (begin + size + 15) & ~15
        packed.append(place - size)
    try:
        found = Struct(f"<{tile_count + 1}I").pack(*packed, place)
    except error:
        return b""  # a damaged index, with an end beyond 4 GiB
    if place >= 1 << 24:
        return found
    short = bytearray(3 * tile_count + 3)
    short[::3], short[1::3], short[2::3] = found[::4], found[1::4], found[2::4]
    return bytes(short)
