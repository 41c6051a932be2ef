"""Directories of an archive: which tile is where (PMTiles 3, section 4).

A directory is decoded and checked as a whole, column by column, so a lookup is a bisection. Nothing
is allocated by a number that the archive states before the bytes that it needs were counted.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from dataclasses import dataclass
from typing import Any, Final

from mastaba.errors import ContainerFormatError

try:
    import numpy as np
except ImportError:  # a server of stored tiles needs no arrays
    np = None  # type: ignore[assignment]

MAX_COMPRESSED: Final = 8 * 1024 * 1024
MAX_INFLATED: Final = 64 * 1024 * 1024
MAX_TILE: Final = 64 * 1024 * 1024
_MAX_ENTRIES: Final = 4_000_000
_MAX_RUN: Final = (1 << 32) - 1
_MAX_NUMBER: Final = 1 << 64
_AT_A_TIME: Final = 1 << 20
"""Bytes that are decoded together."""
_FEW: Final = 64
"""Entries for which arrays are not worth their overhead."""


@dataclass(frozen=True, slots=True)
class Frame:
    """What the entries of a directory must stay in.

    Attributes:
        first: the lowest number of a tile.
        end: behind the highest number of a tile.
        tiles: bytes of the section of tiles.
        leaves: bytes of the section of leaf directories.
    """

    first: int
    end: int
    tiles: int
    leaves: int


class Directory:
    """Entries in the order of their tile numbers.

    Attributes:
        ids: number of the first tile.
        runs: how many tiles in succession have the same bytes; 0 if the entry is a leaf directory.
        offsets: in the section of tiles, or of leaf directories.
        lengths: bytes.
    """

    __slots__ = ("ids", "lengths", "offsets", "runs")

    def __init__(
        self, ids: array[int], runs: array[int], offsets: array[int], lengths: array[int]
    ) -> None:
        self.ids = ids
        self.runs = runs
        self.offsets = offsets
        self.lengths = lengths

    @property
    def nbytes(self) -> int:
        """Bytes of the columns."""
        columns = self.ids, self.runs, self.offsets, self.lengths
        return sum(column.itemsize * len(column) for column in columns)

    def find(self, number: int) -> int | None:
        """Return the position of the entry that covers a tile or leads to it, or None."""
        position = bisect_right(self.ids, number) - 1
        if position < 0:
            return None
        run = self.runs[position]
        return position if not run or number - self.ids[position] < run else None

    def end_of(self, position: int, end: int) -> int:
        """Return the number behind the tiles of a leaf; ``end`` is that of the directory."""
        return self.ids[position + 1] if position + 1 < len(self.ids) else end


def parse_directory(data: bytes, frame: Frame) -> Directory:
    """Return a directory from its uncompressed bytes.

    Raises:
        ContainerFormatError: it is not a directory, or one of its entries is not in the frame.
    """
    count, _ = _varint(data, 0)
    if not 0 < count <= _MAX_ENTRIES:
        raise ContainerFormatError(f"a directory has {count:,} entries")
    if len(data) < 4 * count + 1:
        raise ContainerFormatError(f"a directory of {count:,} entries has {len(data)} bytes")
    if np is None or count < _FEW:
        return _in_turn(data, count, frame)
    return _by_columns(data, count, frame)


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """Return a number below 2^64, and the position after it."""
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(data):
            break
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            if value < _MAX_NUMBER:
                return value, position
            break
    raise ContainerFormatError("a directory contains a number that is cut off or too large")


def _in_turn(data: bytes, count: int, frame: Frame) -> Directory:
    """As `parse_directory`, one entry after another."""
    values, position = array("Q"), 0
    for _ in range(4 * count + 1):
        value, position = _varint(data, position)
        values.append(value)
    if position != len(data):
        raise ContainerFormatError("a directory has bytes behind its entries")
    steps, runs, lengths, places = (values[1 + i * count : 1 + (i + 1) * count] for i in range(4))
    ids, offsets = array("Q"), array("Q")
    number = end = 0
    covered = frame.first
    for index in range(count):
        step, run, length, place = steps[index], runs[index], lengths[index], places[index]
        if index and not step:
            raise _disordered()
        number += step
        offset = place - 1 if place else end
        if not covered <= number < frame.end:
            raise _outside()
        if place == 0 and not index:
            raise ContainerFormatError("the first entry of a directory has no offset")
        _check_entry(run, length, offset, frame)
        # A leaf covers one number at least.
        covered = number + max(run, 1)
        end = offset + length
        ids.append(number)
        offsets.append(offset)
    if covered > frame.end:
        raise _outside()
    return Directory(ids, array("I", runs), offsets, array("I", lengths))


def _check_entry(run: int, length: int, offset: int, frame: Frame) -> None:
    section, most = (frame.tiles, MAX_TILE) if run else (frame.leaves, MAX_COMPRESSED)
    if not 0 < length <= most or run > _MAX_RUN or offset + length > section:
        raise _misplaced()


def _by_columns(data: bytes, count: int, frame: Frame) -> Directory:
    """As `parse_directory`, with arrays."""
    values = _numbers(data, 4 * count + 1)[1:]
    steps, runs, lengths, places = (values[i * count : (i + 1) * count] for i in range(4))
    if not steps[1:].all():
        raise _disordered()
    # A sum beyond 64 bits wraps, and is then lower than the one before.
    ids = np.cumsum(steps, dtype=np.uint64)
    if bool((ids[1:] <= ids[:-1]).any()) or ids[0] < frame.first or ids[-1] >= frame.end:
        raise _outside()
    is_leaf = runs == 0
    most = np.where(is_leaf, np.uint64(MAX_COMPRESSED), np.uint64(MAX_TILE))
    if not lengths.all() or bool((lengths > most).any()) or int(runs.max()) > _MAX_RUN:
        raise _misplaced()
    # All are now below 2^63, so that these sums are exact.
    if bool((ids[:-1] + runs[:-1] > ids[1:]).any()) or int(ids[-1]) + int(runs[-1]) > frame.end:
        raise _outside()
    offsets = _offsets(places, lengths, max(frame.tiles, frame.leaves))
    section = np.where(is_leaf, np.uint64(frame.leaves), np.uint64(frame.tiles))
    if bool((offsets + lengths > section).any()):
        raise _misplaced()
    return Directory(
        array("Q", ids.tobytes()),
        array("I", runs.astype(np.uint32).tobytes()),
        array("Q", offsets.tobytes()),
        array("I", lengths.astype(np.uint32).tobytes()),
    )


def _offsets(places: Any, lengths: Any, largest: int) -> Any:
    """Return offsets from the stored ones, where 0 means behind the entry before."""
    if not places[0]:
        raise ContainerFormatError("the first entry of a directory has no offset")
    if int(places.max()) > largest + 1:
        raise _misplaced()
    before = np.cumsum(lengths, dtype=np.uint64) - lengths
    # The last entry with an offset of its own, for each entry.
    last = np.where(places != 0, np.arange(len(places)), 0)
    last = np.maximum.accumulate(last)
    return places[last] - np.uint64(1) + (before - before[last])


def _numbers(data: bytes, count: int) -> Any:
    """Return exactly ``count`` numbers of 7 bits a byte as uint64, decoded piece by piece."""
    content = np.frombuffer(data, np.uint8)
    if int(np.count_nonzero(content < 128)) != count or content[-1] >= 128:
        raise ContainerFormatError(f"a directory does not consist of {count:,} numbers")
    values = np.empty(count, np.uint64)
    done = start = 0
    while start < len(content):
        piece = content[start : start + _AT_A_TIME]
        ends = np.flatnonzero(piece < 128)
        if not len(ends):
            raise ContainerFormatError("a directory contains a number that is too large")
        starts = np.empty_like(ends)
        starts[0], starts[1:] = 0, ends[:-1] + 1
        sizes = ends - starts + 1
        longest = int(sizes.max())
        if longest > 10 or (longest == 10 and bool((piece[ends[sizes == 10]] > 1).any())):
            raise ContainerFormatError("a directory contains a number that is too large")
        found = (piece[starts] & 127).astype(np.uint64)
        for place in range(1, longest):
            (longer,) = np.nonzero(sizes > place)
            digits = (piece[starts[longer] + place] & 127).astype(np.uint64)
            found[longer] |= digits << np.uint64(7 * place)
        values[done : done + len(found)] = found
        done += len(found)
        start += int(ends[-1]) + 1
    return values


def _disordered() -> ContainerFormatError:
    return ContainerFormatError("the entries of a directory are not in the order of their tiles")


def _outside() -> ContainerFormatError:
    return ContainerFormatError("a directory contains tiles that cannot be in it")


def _misplaced() -> ContainerFormatError:
    return ContainerFormatError("an entry of a directory is empty, too large or outside the file")
