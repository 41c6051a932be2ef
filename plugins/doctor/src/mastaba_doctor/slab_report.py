"""Inspection of slabs: contents and problems. Not used to serve tiles."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from mastaba.api.catalogue import TILE_FORMATS, TileFormat
from mastaba.api.slabs import HEADER_SIZE, SIGNATURE
from mastaba.api.storages import ByteRange, Storage
from mastaba.errors import SlabFormatError
from mastaba.tooling.slabs import MAX_TILE_SIZE, index_length
from mastaba_doctor.header import SlabHeader

ALIGNMENT: Final = 16
"""The reference writer aligns each tile to a multiple of this number of bytes."""

_MAGIC: Final = 16
_PNG: Final = b"\x89PNG\r\n\x1a\n"
_JPEG: Final = b"\xff\xd8\xff"
_GZIP: Final = b"\x1f\x8b"
_MVT_LAYER: Final = 0x1A
_LZW_CLEAR: Final = 0x80
_WORDS: Final = {1: "RAW", 5: "LZW", 32773: "PKB"}
UNKNOWN: Final = "unknown"


@dataclass(frozen=True, slots=True)
class TileEntry:
    """One entry of an index.

    Attributes:
        number: number of the tile in the slab.
        offset: position in the slab, in bytes.
        size: bytes; 0 for an absent tile.
        content: content type recognised from the first bytes, such as ``jpeg``; empty for an
            absent tile and for a tile outside the slab.
    """

    number: int
    offset: int
    size: int
    content: str = ""

    @property
    def end(self) -> int:
        return self.offset + self.size


@dataclass(slots=True)
class SlabReport:
    """Facts about one slab.

    Attributes:
        name: full name of the object.
        size: bytes.
        link: target ``container/name`` of a symbolic object; None for a slab.
        header: None if it cannot be read.
        entries: all entries of the index; empty if it cannot be read.
        problems: descriptions of problems.
        padding: unused bytes between tiles that only serve alignment.
        gaps: position and length of other unused parts, in bytes.
        trailing: bytes after the last tile.
        shared: number of tiles that share the bytes of an earlier tile.
    """

    name: str
    size: int
    link: str | None = None
    header: SlabHeader | None = None
    entries: tuple[TileEntry, ...] = ()
    problems: list[str] = field(default_factory=list)
    padding: int = 0
    gaps: list[tuple[int, int]] = field(default_factory=list)
    trailing: int = 0
    shared: int = 0

    @property
    def stored(self) -> list[TileEntry]:
        """The entries of stored tiles."""
        return [entry for entry in self.entries if entry.size]

    @property
    def contents(self) -> Counter[str]:
        """Number of tiles by content type."""
        return Counter(entry.content for entry in self.stored if entry.content)

    @property
    def formats(self) -> list[TileFormat]:
        """The possible pyramid formats; several if header and tiles do not distinguish them."""
        return [] if self.header is None else _formats(self.header, self.contents)


def size_mismatch(storage: Storage, key: str, width: int, height: int) -> str | None:
    """Return how the size of a slab differs from its descriptor; None if it does not.

    The header of a vector slab has no size, so only the number of tiles is compared.

    Args:
        width, height: size in the descriptor, in tiles.

    Raises:
        StorageError: the slab cannot be read.
    """
    head = storage.read(key, ByteRange(0, HEADER_SIZE)).data
    if len(head) < HEADER_SIZE or not head.startswith(b"II*\0"):
        return None  # damaged, which is detected elsewhere
    try:
        header = SlabHeader.parse(head)
    except SlabFormatError as error:
        return str(error)
    wide, high = header.tiles_per_width, header.tiles_per_height
    if wide and high:
        if (wide, high) != (width, height):
            return f"the slab has {wide} × {high} tiles, the descriptor says {width} × {height}"
    elif header.tile_count != width * height:
        return f"the slab has {header.tile_count} tiles, the descriptor says {width} × {height}"
    return None


def inspect_slab(storage: Storage, key: str) -> SlabReport:
    """Inspect a slab or a symbolic object. Damage is described in the report.

    Raises:
        ObjectNotFoundError: the object does not exist.
        StorageError: the object cannot be read.
    """
    size = storage.stat(key).size
    report = SlabReport(f"{storage.full_name}/{key}" if storage.is_remote else key, size)
    if size == 0:
        report.problems.append("it is empty and counts as absent")
        return report
    head = storage.read(key, ByteRange(0, HEADER_SIZE)).data
    if head.startswith(SIGNATURE) and size < HEADER_SIZE:
        report.link = head[len(SIGNATURE) :].decode("utf-8", "backslashreplace")
        return report
    try:
        report.header = SlabHeader.parse(head)
    except SlabFormatError as error:
        report.problems.append(str(error))
        return report
    report.problems += report.header.contradictions()
    count = report.header.tile_count
    if index_length(count) > size:
        report.problems.append(
            f"it has {size} bytes, less than header and index of {count} tiles "
            f"({index_length(count)})"
        )
        return report
    values = storage.read(key, ByteRange(HEADER_SIZE, 8 * count)).data
    if len(values) != 8 * count:
        report.problems.append("it was truncated during the read")
        return report
    _read_entries(report, values, storage, key)
    _check_layout(report)
    return report


def _read_entries(report: SlabReport, values: bytes, storage: Storage, key: str) -> None:
    assert report.header is not None
    count = len(values) // 8
    numbers = struct.unpack(f"<{2 * count}I", values)
    places = list(zip(range(count), numbers[:count], numbers[count:], strict=True))
    inside: list[tuple[int, int, int]] = []
    for number, offset, size in places:
        if size and offset < index_length(count):
            report.problems.append(f"tile {number} begins at {offset}, inside header or index")
        elif size and offset + size > report.size:
            report.problems.append(
                f"tile {number} ends at {offset + size}, but the slab ends at {report.size}"
            )
        elif size > MAX_TILE_SIZE:
            report.problems.append(f"tile {number} has {size} bytes, too many for a tile")
        elif size:
            inside.append((number, offset, size))
    ranges = [ByteRange(offset, min(size, _MAGIC)) for _, offset, size in inside]
    reads = storage.read_ranges(key, ranges) if ranges else []
    contents: dict[int, str] = {}
    for (number, _, size), read in zip(inside, reads, strict=True):
        contents[number] = _content(read.data, size, report.header)
        if contents[number] == UNKNOWN:
            report.problems.append(
                f"tile {number} begins with {read.data[:8].hex(' ')} ({size} bytes), which does "
                "not match the header"
            )
    report.entries = tuple(
        TileEntry(number, offset, size, contents.get(number, "")) for number, offset, size in places
    )


def _check_layout(report: SlabReport) -> None:
    """Find gaps between tiles and overlapping tiles."""
    entries = sorted(
        (entry for entry in report.entries if entry.content),
        key=lambda entry: (entry.offset, entry.end),
    )
    position = index_length(len(report.entries))
    last: TileEntry | None = None
    for entry in entries:
        if last is not None and (entry.offset, entry.size) == (last.offset, last.size):
            report.shared += 1
            continue
        if last is not None and entry.offset < position:
            report.problems.append(
                f"the tiles {last.number} and {entry.number} overlap by "
                f"{position - entry.offset} bytes"
            )
        elif entry.offset - position >= ALIGNMENT:
            report.gaps.append((position, entry.offset - position))
        else:
            report.padding += entry.offset - position
        if entry.end >= position:
            position, last = entry.end, entry
    report.trailing = max(0, report.size - position)


def _content(start: bytes, size: int, header: SlabHeader) -> str:
    """Return the content type of a tile, or `UNKNOWN` if it does not match the header."""
    if header.is_vector:
        if start.startswith(_GZIP):
            return "gzip"
        return "mvt" if start[0] == _MVT_LAYER else UNKNOWN
    match header.compression:
        case 1 if size == header.tile_bytes:
            return "raw"
        case 5 if start[0] == _LZW_CLEAR:
            return "lzw"
        case 7 if start.startswith(_JPEG):
            return "jpeg"
        case 8 if start.startswith(_PNG):
            return "png"
        case 8 if _is_zlib(start):
            return "zlib"
        case 32773:
            return "packbits"
    return UNKNOWN


def _is_zlib(start: bytes) -> bool:
    return len(start) > 1 and start[0] & 0x8F == 8 and (start[0] << 8 | start[1]) % 31 == 0


def _formats(header: SlabHeader, contents: Counter[str]) -> list[TileFormat]:
    sample = "FLOAT32" if header.sample_format == 3 else "UINT8"
    names: Sequence[str]
    if header.is_vector:
        names = ("TIFF_PBF_MVT",)
    elif header.compression == 7:
        names = ("TIFF_JPG_UINT8", "TIFF_JPG90_UINT8")
    elif header.compression == 8:
        # Only the tiles distinguish these two.
        kinds = {"png": "TIFF_PNG_UINT8", "zlib": f"TIFF_ZIP_{sample}"}
        names = [name for kind, name in kinds.items() if contents[kind]]
    else:
        names = (f"TIFF_{_WORDS.get(header.compression or 0, '')}_{sample}",)
    return [TILE_FORMATS[name] for name in names if name in TILE_FORMATS]
