"""Directories of a TIFF or BigTIFF file, found with few reads of bounded size.

Values are read only if something needs them: the places of tiles may take gigabytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from mastaba_cog.errors import CONVERT, CogError, NotTiffError, damaged

HEAD: Final = 32 * 1024
"""Bytes of the first read. GDAL writes all directories of a COG into the first 16 KiB."""

LARGEST_FILE: Final = 2**62
"""Bytes. No place in a file is behind this one, so that systems can read at every place."""

_READS: Final = 3
"""Reads after the first one."""
_LONGEST: Final = 1024 * 1024
"""Bytes of one read."""
_MOST_DIRECTORIES: Final = 64
_MOST_ENTRIES: Final = 512
"""Entries of one directory; usual are about 20."""

_FORMATS: Final = {
    1: "B",
    2: "s",
    3: "H",
    4: "I",
    5: "II",
    6: "b",
    7: "s",
    8: "h",
    9: "i",
    10: "ii",
    11: "f",
    12: "d",
    13: "I",
    16: "Q",
    17: "q",
    18: "Q",
}
"""By number of the type, as in `struct`."""
_SIZES: Final = {kind: struct.calcsize(f"<{code}") for kind, code in _FORMATS.items()}

Fetch = Callable[[int, int], bytes]
"""Reads some bytes: offset and length. The result is shorter at the end of the file."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a directory.

    Attributes:
        kind: number of the type.
        count: number of values.
        offset: first byte of the values in the file.
    """

    kind: int
    count: int
    offset: int

    @property
    def size(self) -> int:
        """Bytes of one value."""
        return _SIZES.get(self.kind, 1)

    @property
    def length(self) -> int:
        """Bytes of all values."""
        return self.count * self.size


Directory = Mapping[int, Entry]
"""Entries by tag."""


class Bytes:
    """The parts of a file that have been read.

    Args:
        head: its first bytes.
        fetch: reads others; called 3 times at most.
    """

    def __init__(self, head: bytes, fetch: Fetch) -> None:
        self._parts = [(0, head)]
        self._fetch = fetch
        self._left = _READS

    @property
    def nbytes(self) -> int:
        """Bytes of all parts."""
        return sum(len(data) for _, data in self._parts)

    def get(self, offset: int, length: int, ahead: int = 0) -> bytes:
        """Return some bytes.

        Args:
            ahead: bytes that are read with them if a read is needed.

        Raises:
            CogError: the file ends before them, or more reads are needed than are allowed.
        """
        found = self.known(offset, length)
        if found is not None:
            return found
        if offset + length > LARGEST_FILE:
            raise damaged(f"a value is at {offset}")
        if length > _LONGEST:
            raise CogError(f"a value at {offset} has {length} bytes", CONVERT)
        if not self._left:
            raise CogError("its directories are far apart", CONVERT)
        self._left -= 1
        data = self._fetch(offset, max(length, ahead))
        if len(data) < length:
            raise damaged(f"the file ends before byte {offset + length}")
        self._parts.append((offset, data))
        return data[:length]

    def known(self, offset: int, length: int) -> bytes | None:
        """Return some bytes if they have been read already."""
        for start, data in self._parts:
            if start <= offset and offset + length <= start + len(data):
                return data[offset - start : offset - start + length]
        return None

    def span(self, wanted: Iterable[tuple[int, int]]) -> None:
        """Read ranges that are still unknown, together if they are close."""
        missing = sorted(
            (offset, length) for offset, length in wanted if self.known(offset, length) is None
        )
        while missing:
            first = missing[0][0]
            near = [place for place in missing if sum(place) - first <= _LONGEST]
            if not near:
                raise CogError(f"a value at {first} has {missing[0][1]} bytes", CONVERT)
            self.get(first, max(map(sum, near)) - first)
            missing = missing[len(near) :]


@dataclass(frozen=True, slots=True)
class Tiff:
    """The directories of a file.

    Attributes:
        order: ``<`` or ``>``, as in `struct`.
        is_big: whether it is a BigTIFF.
        directories: in the order of the file.
        data: what has been read of it.
        structure: what the writer says about the order of the file, by key.
    """

    order: str
    is_big: bool
    directories: tuple[Directory, ...]
    data: Bytes
    structure: Mapping[str, str]

    def numbers(self, entry: Entry) -> tuple[float, ...]:
        """Return the values of an entry of numbers.

        Raises:
            CogError: they are not numbers, or cannot be read.
        """
        code = _FORMATS.get(entry.kind, "s")
        if code == "s" or len(code) > 1:
            raise damaged(f"a value at {entry.offset} has the type {entry.kind}")
        data = self.data.get(entry.offset, entry.length)
        return struct.unpack(f"{self.order}{entry.count}{code}", data)

    def raw(self, entry: Entry) -> bytes:
        """Return the bytes of an entry. Raises the errors of `numbers`."""
        return self.data.get(entry.offset, entry.length)


def is_tiff(head: bytes) -> bool:
    """Return whether bytes are the beginning of a TIFF or BigTIFF file."""
    return head[:4] in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")


def read_tiff(head: bytes, fetch: Fetch, wanted: Iterable[int], longest: int) -> Tiff:
    """Return the directories of a file.

    Args:
        head: its first `HEAD` bytes, or all of them.
        fetch: reads others.
        wanted: the tags whose values are read too.
        longest: bytes. Longer values are not read.

    Raises:
        CogError: it is not a TIFF, or breaks its rules.
    """
    if not is_tiff(head) or len(head) < 8:
        raise NotTiffError(head[:16])
    order = "<" if head[:2] == b"II" else ">"
    is_big = 43 in head[2:4]
    if is_big:
        if len(head) < 16:
            raise damaged("the file ends in its header")
        size, zero, position = struct.unpack_from(f"{order}HHQ", head, 4)
        if (size, zero) != (8, 0):
            raise damaged("the header of the BigTIFF is invalid")
    else:
        (position,) = struct.unpack_from(f"{order}I", head, 4)
    data = Bytes(head, fetch)
    directories: list[Directory] = []
    seen: set[int] = set()
    while position:
        if position in seen:
            raise damaged(f"the directory at {position} follows itself")
        if len(directories) == _MOST_DIRECTORIES:
            raise CogError(f"it has more than {_MOST_DIRECTORIES} directories", CONVERT)
        seen.add(position)
        directory, position = _directory(data, position, order, is_big=is_big)
        directories.append(directory)
    if not directories:
        raise damaged("it has no directory")
    tags = frozenset(wanted)
    data.span(
        (entry.offset, entry.length)
        for directory in directories
        for tag, entry in directory.items()
        if tag in tags and entry.length <= longest
    )
    return Tiff(order, is_big, tuple(directories), data, _structure(head, is_big=is_big))


def _directory(
    data: Bytes, position: int, order: str, *, is_big: bool
) -> tuple[dict[int, Entry], int]:
    """Return the entries of a directory, and the position of the next one or 0."""
    width, each, inline = (8, 20, 8) if is_big else (2, 12, 4)
    number = data.get(position, width, ahead=HEAD)
    (count,) = struct.unpack(f"{order}{'Q' if is_big else 'H'}", number)
    if not 0 < count <= _MOST_ENTRIES:
        raise damaged(f"the directory at {position} has {count} entries")
    link = 8 if is_big else 4
    packed = data.get(position + width, each * count + link, ahead=HEAD)
    entries: dict[int, Entry] = {}
    for start in range(0, each * count, each):
        tag, kind, values = struct.unpack_from(f"{order}HH{'Q' if is_big else 'I'}", packed, start)
        entry = Entry(kind, values, position + width + start + each - inline)
        if entry.length > inline:
            code = f"{order}{'Q' if is_big else 'I'}"
            (offset,) = struct.unpack_from(code, packed, start + each - inline)
            entry = Entry(kind, values, offset)
        entries.setdefault(tag, entry)
    (following,) = struct.unpack_from(f"{order}{'Q' if is_big else 'I'}", packed, each * count)
    return entries, following


def _structure(head: bytes, *, is_big: bool) -> dict[str, str]:
    """Return the keys that GDAL writes before the first directory."""
    start = 16 if is_big else 8
    name = b"GDAL_STRUCTURAL_METADATA_SIZE="
    line = head[start : start + 43]
    if not line.startswith(name) or not line[30:36].isdigit():
        return {}
    text = head[start + 43 : start + 43 + int(line[30:36])].decode("ascii", "replace")
    pairs = (row.partition("=") for row in text.splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}
