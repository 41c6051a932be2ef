"""Index packs: the indices of neighbouring slabs in one object (docs/storage/index-packs.md).

The bytes are the same in an object store, where tools write packs, and in the index store of a
server (`mastaba_index_store`), where entries are added.
"""

from __future__ import annotations

import math
import struct
import sys
import zlib
from array import array
from collections.abc import Mapping
from itertools import accumulate
from typing import Final, NamedTuple

from mastaba_writer.slab_writer import HEADER_SIZE

__all__ = [
    "ENTRY_LENGTH",
    "HEADER_LENGTH",
    "NO_LEVEL",
    "IndexRecord",
    "PackLayout",
    "decode_record",
    "encode_index",
    "encode_record",
    "entry_of",
    "is_pack",
    "join_record",
    "make_pack",
    "pack_entry",
    "read_pack",
    "split_record",
]

NO_LEVEL: Final = bytes(16)
"""Level in the header of a pack that is not in an index store."""

_HEADER: Final = struct.Struct("<8sHHIII16s20xI")
_MAGIC: Final = b"MASTABA\x1a"
_VERSION: Final = 1
_ENTRY: Final = struct.Struct("<II")
_RECORD: Final = struct.Struct("<II")
_PLACE: Final = struct.Struct("<II")
_TEXTS: Final = struct.Struct("<BBHd")
_PACKED: Final = struct.Struct("<BI")
_MAX_TILES: Final = 1 << 20
_MAX_SIDE: Final = 64
_GROUP: Final = 256
_FITTED, _SIZES, _WHOLE = range(3)


class IndexRecord(NamedTuple):
    """The index of one version of a slab.

    Attributes:
        version: of the object that contains the tiles.
        modified: its time of change in Unix seconds, or None.
        index_bytes: offsets, then sizes, as in the slab.
        target: container and key of that object, as in a symbolic object; empty if the slab itself
            contains the tiles.
        link_version: version of the symbolic object; empty if there is none.
    """

    version: str
    modified: float | None
    index_bytes: bytes
    target: str = ""
    link_version: str = ""


class PackLayout(NamedTuple):
    """Positions in the packs of a level.

    Attributes:
        tile_count: tiles of a slab.
        side: columns, and rows, of slabs in a pack.
    """

    tile_count: int
    side: int

    @classmethod
    def of(cls, tile_count: int) -> PackLayout:
        """Return the layout: packs of 64 x 64 slabs, or fewer if these have many tiles."""
        side = _MAX_SIDE
        while side > 1 and side * side * tile_count > _MAX_TILES:
            side //= 2
        return cls(tile_count, side)

    @property
    def start(self) -> int:
        """Offset of the first record."""
        return _HEADER.size + _ENTRY.size * self.side * self.side

    @property
    def max_record(self) -> int:
        """Bytes of the largest record."""
        return 8 * self.tile_count + 70_000

    def pack_of(self, slab_col: int, slab_row: int) -> tuple[int, int]:
        """Return the column and row of the pack that contains a slab."""
        return slab_col // self.side, slab_row // self.side

    def entry_offset(self, slab_col: int, slab_row: int) -> int:
        """Return the offset of the directory entry of a slab."""
        slot = slab_row % self.side * self.side + slab_col % self.side
        return _HEADER.size + _ENTRY.size * slot

    def header(self, pack: tuple[int, int], level: bytes = NO_LEVEL) -> bytes:
        """Return the header of a pack."""
        fields = _MAGIC, _VERSION, self.side, self.tile_count, *pack, level
        head = _HEADER.pack(*fields, 0)[:-4]
        return head + struct.pack("<I", zlib.crc32(head))


HEADER_LENGTH: Final = _HEADER.size
ENTRY_LENGTH: Final = _ENTRY.size


def pack_entry(offset: int, capacity: int) -> bytes:
    """Return a directory entry: where a record is, and the bytes reserved for it."""
    return _ENTRY.pack(offset, capacity)


def entry_of(data: bytes, layout: PackLayout) -> tuple[int, int] | None:
    """Return offset and capacity in a directory entry; None if it names no record."""
    if len(data) != _ENTRY.size:
        return None
    offset, capacity = _ENTRY.unpack(data)
    is_valid = offset >= layout.start and _RECORD.size <= capacity <= layout.max_record
    return (offset, capacity) if is_valid else None


def make_pack(
    layout: PackLayout, pack: tuple[int, int], records: Mapping[tuple[int, int], bytes]
) -> bytes:
    """Return a pack.

    Args:
        pack: its column and row.
        records: from `encode_record`, by slab column and row.
    """
    data = bytearray(layout.header(pack)).ljust(layout.start, b"\0")
    for (slab_col, slab_row), record in sorted(records.items()):
        at = layout.entry_offset(slab_col, slab_row)
        data[at : at + _ENTRY.size] = _ENTRY.pack(len(data), len(record))
        data += record
    return bytes(data)


def is_pack(data: bytes, layout: PackLayout, pack: tuple[int, int]) -> bool:
    """Return whether bytes begin with the header and directory of a pack outside of a store."""
    return len(data) >= layout.start and data.startswith(layout.header(pack))


def read_pack(
    data: bytes, layout: PackLayout, pack: tuple[int, int]
) -> dict[tuple[int, int], IndexRecord]:
    """Return the undamaged records of a pack, as `split_record`, by slab column and row."""
    if not is_pack(data, layout, pack):
        return {}
    records = {}
    for slab_row in range(pack[1] * layout.side, (pack[1] + 1) * layout.side):
        for slab_col in range(pack[0] * layout.side, (pack[0] + 1) * layout.side):
            at = layout.entry_offset(slab_col, slab_row)
            entry = entry_of(data[at : at + ENTRY_LENGTH], layout)
            if entry is not None:
                offset, capacity = entry
                record = split_record(data[offset : offset + capacity], slab_col, slab_row)
                if record is not None:
                    records[slab_col, slab_row] = record
    return records


def encode_record(slab_col: int, slab_row: int, record: IndexRecord) -> bytes | None:
    """Return the bytes of a record; None if a text in it is too long."""
    index = encode_index(record.index_bytes)
    return join_record(slab_col, slab_row, record._replace(index_bytes=index))


def decode_record(
    data: bytes, slab_col: int, slab_row: int, layout: PackLayout
) -> IndexRecord | None:
    """Return a record, or None if it is damaged or that of another slab.

    Args:
        data: begins with the record.
    """
    record = split_record(data, slab_col, slab_row)
    if record is None:
        return None
    try:
        index = _decoded_index(record.index_bytes, layout.tile_count)
    except (struct.error, ValueError, OverflowError, zlib.error):
        return None
    return record._replace(index_bytes=index)


def join_record(slab_col: int, slab_row: int, record: IndexRecord) -> bytes | None:
    """Return the bytes of a record with an encoded index; None if a text in it is too long."""
    texts = [text.encode() for text in (record.version, record.link_version, record.target)]
    if not texts[0] or len(texts[0]) > 255 or len(texts[1]) > 255 or len(texts[2]) > 65535:
        return None
    modified = math.nan if record.modified is None else record.modified
    body = b"".join((_TEXTS.pack(*map(len, texts), modified), *texts, record.index_bytes))
    return _RECORD.pack(len(body), _checksum(slab_col, slab_row, body)) + body


def split_record(data: bytes, slab_col: int, slab_row: int) -> IndexRecord | None:
    """Return a record whose index stays encoded; None if it is damaged or that of another slab.

    Args:
        data: begins with the record.
    """
    try:
        length, checksum = _RECORD.unpack_from(data)
        body = data[_RECORD.size : _RECORD.size + length]
        if len(body) != length or checksum != _checksum(slab_col, slab_row, body):
            return None
        *lengths, modified = _TEXTS.unpack_from(body)
        texts, at = [], _TEXTS.size
        for size in lengths:
            texts.append(body[at : at + size].decode())
            at += size
    except (struct.error, ValueError):
        return None
    version, link_version, target = texts
    time = modified if math.isfinite(modified) else None
    return IndexRecord(version, time, body[at:], target, link_version)


def _checksum(slab_col: int, slab_row: int, body: bytes) -> int:
    return zlib.crc32(body, zlib.crc32(_PLACE.pack(slab_col, slab_row)))


def encode_index(index: bytes) -> bytes:
    """Return a shorter form of an index (offsets, then sizes, as in the slab).

    Writers align each tile to the next multiple of 16, so that the offsets follow from the sizes.
    An absent tile needs no offset.
    """
    half = len(index) // 2
    offsets, sizes = _array(index[:half]), _array(index[half:])
    fitting = zip(offsets, _offsets(sizes), sizes, strict=True)
    if any(size and offset != expected for offset, expected, size in fitting):
        return bytes([_WHOLE]) + zlib.compress(index, 9)
    fitted = bytes([_FITTED]) + _fitted(sizes)
    deflated = bytes([_SIZES]) + zlib.compress(index[half:], 9)
    return min(fitted, deflated, key=len)


def _decoded_index(data: bytes, tile_count: int) -> bytes:
    """Return offsets and sizes. Raises ValueError, struct.error or zlib.error if it is damaged."""
    kind, length = data[:1], 4 * tile_count
    if kind == bytes([_WHOLE]):
        return _inflated(data[1:], 2 * length)
    if kind == bytes([_FITTED]):
        sizes = _unfitted(data[1:], tile_count)
    elif kind == bytes([_SIZES]):
        sizes = _array(_inflated(data[1:], length))
    else:
        raise ValueError("unknown form of an index")
    return _bytes(array("I", _offsets(sizes))) + _bytes(sizes)


def _inflated(data: bytes, length: int) -> bytes:
    found = zlib.decompressobj().decompress(data, length + 1)
    if len(found) != length:
        raise ValueError("an index has another length")
    return found


def _fitted(sizes: array[int]) -> bytes:
    """Return the lowest size, and the differences from it in as few bits as the largest needs."""
    lowest = min(sizes)
    width = (max(sizes) - lowest).bit_length()
    parts = [_PACKED.pack(width, lowest)]
    # Groups, because shifting one long integer takes quadratic time.
    for start in range(0, len(sizes), _GROUP):
        group = sizes[start : start + _GROUP]
        value = 0
        for size in reversed(group):
            value = value << width | size - lowest
        parts.append(value.to_bytes((width * len(group) + 7) // 8, "little"))
    return b"".join(parts)


def _unfitted(data: bytes, tile_count: int) -> array[int]:
    width, lowest = _PACKED.unpack_from(data)
    sizes, at, mask = array("I"), _PACKED.size, (1 << width) - 1
    for start in range(0, tile_count, _GROUP):
        count = min(_GROUP, tile_count - start)
        length = (width * count + 7) // 8
        value = int.from_bytes(data[at : at + length], "little")
        at += length
        sizes.extend([lowest + (value >> k & mask) for k in range(0, width * count, width or 1)])
        if not width:
            sizes.extend([lowest] * count)
    if at != len(data):
        raise ValueError("an index has another length")
    return sizes


def _offsets(sizes: array[int]) -> list[int]:
    """Return the offsets of tiles that are stored one after the other, as writers do."""
    first = HEADER_SIZE + 8 * len(sizes)
    ends = accumulate(sizes, lambda at, size: at + size + 15 & ~15, initial=first)
    return list(ends)[:-1]


def _array(data: bytes) -> array[int]:
    values = array("I", data)
    if sys.byteorder == "big":
        values.byteswap()
    return values


def _bytes(values: array[int]) -> bytes:
    if sys.byteorder == "big":
        values = values[:]
        values.byteswap()
    return values.tobytes()
