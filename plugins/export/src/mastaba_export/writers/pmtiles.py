"""PMTiles 3, written in one pass: tiles first, directories and metadata last.

The first 16 KiB are reserved for the header and the root directory.
"""

from __future__ import annotations

import gzip
import json
import os
import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from mastaba_export.hilbert import first_number, positions
from mastaba_export.writers.base import FileWriter
from mastaba_export.writers.dedup import Seen
from mastaba_export.writers.entry_file import EntryFile
from mastaba_export.writers.metadata import bounds_of, described

if TYPE_CHECKING:
    from mastaba_export.journal import Journal
    from mastaba_export.plan import ExportPlan, Unit
    from mastaba_export.sources import Batch

_RESERVED: Final = 16384
_HEADER: Final = 127
_MOST_ROOT: Final = _RESERVED - _HEADER
_LARGEST_ROOT: Final = 16384
"""Entries; more would hardly fit."""
_LEAF: Final = 4096
"""Entries of a leaf; more if the root would be too large."""
_ENTRY: Final = np.dtype([("number", "<u8"), ("offset", "<u8"), ("length", "<u4"), ("run", "<u4")])
_TYPES: Final = {"pbf": 1, "png": 2, "jpg": 3, "webp": 4}
_NONE, _GZIP = 1, 2

_PART: Final = 65_536
"""Entries that are read together."""

Entries = npt.NDArray[np.void]
ReadEntries = Callable[[int, int], Entries]
"""Returns as many entries from a number on, or as there are."""


class _Counts(NamedTuple):
    """What the header says about all entries.

    Attributes:
        is_sorted: whether their numbers ascend.
        tiles: that they are for.
        contents: different ones.
    """

    is_sorted: bool
    tiles: int
    contents: int


class PMTilesWriter(FileWriter):
    """Writes PMTiles. The entries are in a second file, ``….entries``, until the end."""

    reserved = _RESERVED

    def __init__(self, plan: ExportPlan, part: Path, journal: Journal) -> None:
        super().__init__(plan, part, journal)
        self._entries = EntryFile(part, _ENTRY)
        self._seen = Seen(journal, everything=plan.request.dedup == "all")
        self._last: tuple[int, int, int, int] | None = None

    def start(self) -> None:
        super().start()
        self._entries.start()

    def restore(self, state: Mapping[str, Any]) -> None:
        super().restore(state)
        self._entries.restore(state["entries"])
        self._last = tuple(state["last"]) if state["last"] else None
        self._seen.restore()

    def add(self, unit: Unit, batch: Batch) -> None:
        if not batch.tiles:
            return
        zoom = self.plan.levels[unit.level].zoom
        columns = np.array([tile.column for tile in batch.tiles])
        rows = np.array([tile.row for tile in batch.tiles])
        numbers = (positions(columns, rows, zoom) + first_number(zoom)).tolist()
        for number, tile in zip(numbers, batch.tiles, strict=True):
            payload = tile.payload
            digest, place = self._seen.find(payload)
            if place is None:
                place = self.append(payload) - _RESERVED
                self._seen.add(digest, len(payload), place)
            self._note(number, place, len(payload))

    def _note(self, number: int, offset: int, length: int) -> None:
        last = self._last
        if last is not None:
            if last[1:3] == (offset, length) and number == last[0] + last[3]:
                self._last = (*last[:3], last[3] + 1)
                return
            self._entries.add([last])
        self._last = number, offset, length, 1

    def sync(self) -> dict[str, Any]:
        state = super().sync()
        count = self._entries.sync()
        self._seen.sync()
        return {**state, "entries": count, "last": self._last}

    def finish(self, changed: Sequence[str]) -> None:
        if self._last is not None:
            self._entries.add([self._last])
        count = self._entries.sync()
        found = _counted(self._entries.read, count)
        read = self._entries.read if found.is_sorted else _sorted(self._entries.read())
        data_length = self.position - _RESERVED
        root, leaves = _directories(read, count)
        leaf_offset = self.append(leaves) if leaves else self.position
        text = json.dumps(described(self.plan, changed), ensure_ascii=False, sort_keys=True)
        metadata = gzip.compress(text.encode(), mtime=0)
        metadata_offset = self.append(metadata)
        header = self._header(
            (_HEADER, len(root)),
            (metadata_offset, len(metadata)),
            (leaf_offset, len(leaves)),
            (_RESERVED, data_length),
            (found.tiles, count, found.contents),
            (_zoom(int(read(0, 1)["number"][0])), _zoom(int(read(count - 1, 1)["number"][0]))),
            # In the order of their numbers, tiles have been written in this order too.
            clustered=found.is_sorted,
        )
        self.write_at((header + root).ljust(_RESERVED, b"\0"), 0)
        os.fsync(self._file)
        self._entries.close()

    def clean(self) -> None:
        """Remove the second file."""
        self._entries.clean()

    def close(self) -> None:
        super().close()
        self._entries.close()

    def _header(
        self,
        root: tuple[int, int],
        metadata: tuple[int, int],
        leaves: tuple[int, int],
        data: tuple[int, int],
        counts: tuple[int, int, int],
        zooms: tuple[int, int],
        *,
        clustered: bool,
    ) -> bytes:
        assert self.plan.kind is not None
        kind = _TYPES[self.plan.kind.extension]
        is_gzip = kind == _TYPES["pbf"] and self.plan.request.tile_compression == "gzip"
        box = bounds_of(self.plan)
        corners = [round(value * 1e7) for value in (box.xmin, box.ymin, box.xmax, box.ymax)]
        centre = round((box.xmin + box.xmax) * 5e6), round((box.ymin + box.ymax) * 5e6)
        return struct.pack(
            "<7sB8Q3QBBBBBB4iB2i",
            *(b"PMTiles", 3, *root, *metadata, *leaves, *data, *counts),
            *(clustered, _GZIP, _GZIP if is_gzip else _NONE, kind, *zooms),
            *(*corners, sum(zooms) // 2, *centre),
        )


def _zoom(number: int) -> int:
    """Return the zoom of a tile number."""
    return ((3 * number + 1).bit_length() - 1) // 2


def _counted(read: ReadEntries, count: int) -> _Counts:
    """Return what a header says about entries in the order in which they were written."""
    is_sorted, tiles, contents = True, 0, 0
    number = offset = -1
    for first in range(0, count, _PART):
        part = read(first, _PART)
        numbers, offsets = part["number"].astype(np.int64), part["offset"].astype(np.int64)
        is_sorted &= bool((np.diff(numbers, prepend=number) > 0).all())
        # What is written for the first time is behind everything before it.
        furthest = np.maximum.accumulate(np.concatenate([[offset], offsets]))
        contents += int((offsets > furthest[:-1]).sum())
        tiles += int(part["run"].sum())
        number, offset = int(numbers[-1]), int(furthest[-1])
    return _Counts(is_sorted, tiles, contents)


def _sorted(entries: Entries) -> ReadEntries:
    """Return a function that reads entries in the order of their numbers."""
    entries = entries[np.argsort(entries["number"], kind="stable")]
    return lambda first, count: entries[first : first + count]


def _directories(read: ReadEntries, count: int) -> tuple[bytes, bytes]:
    """Return the root directory and all leaves. Not all entries are in memory at a time."""
    if count <= _LARGEST_ROOT:
        root = _directory_of(read(0, count))
        if len(root) <= _MOST_ROOT:
            return root, b""
    size = _LEAF
    while True:
        leaves, first_numbers = [], []
        for start in range(0, count, size):
            part = read(start, size)
            leaves.append(_directory_of(part))
            first_numbers.append(part["number"][0])
        lengths = np.array([len(leaf) for leaf in leaves], np.uint64)
        offsets = np.cumsum(lengths) - lengths
        numbers = np.array(first_numbers, np.uint64)
        root = _directory(numbers, np.zeros(len(numbers), np.uint64), lengths, offsets)
        if len(root) <= _MOST_ROOT:
            return root, b"".join(leaves)
        size *= 2


def _directory_of(entries: Entries) -> bytes:
    return _directory(entries["number"], entries["run"], entries["length"], entries["offset"])


def _directory(
    numbers: npt.NDArray[Any],
    runs: npt.NDArray[Any],
    lengths: npt.NDArray[Any],
    offsets: npt.NDArray[Any],
) -> bytes:
    """Return a directory, compressed."""
    numbers, offsets = numbers.astype(np.uint64), offsets.astype(np.uint64)
    lengths = lengths.astype(np.uint64)
    steps = np.diff(numbers, prepend=np.uint64(0))
    places = offsets + np.uint64(1)
    follows = np.zeros(len(numbers), np.bool_)
    follows[1:] = offsets[1:] == offsets[:-1] + lengths[:-1]
    places[follows] = 0
    values = np.concatenate([[np.uint64(len(numbers))], steps, runs, lengths, places])
    return gzip.compress(_varints(values.astype(np.uint64)), mtime=0)


def _varints(values: npt.NDArray[np.uint64]) -> bytes:
    """Return numbers in 7 bits a byte, the lowest first."""
    digits = np.empty((len(values), 10), np.uint8)
    rest = values.copy()
    for place in range(10):
        digits[:, place] = (rest & np.uint64(127)).astype(np.uint8) | 128
        rest >>= np.uint64(7)
    sizes = np.ones(len(values), np.int64)
    for place in range(1, 10):
        sizes += values >= np.uint64(1 << 7 * place)
    digits[np.arange(len(values)), sizes - 1] &= 127
    return digits[np.arange(10) < sizes[:, np.newaxis]].tobytes()
