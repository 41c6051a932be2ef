"""One raster: GeoTIFF or COG, copied and uncompressed, or compressed again."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from mastaba.errors import ObjectChangedError
from mastaba_coverage import Answer, CompressedFile
from mastaba_export.errors import DataChangedError, DestinationError
from mastaba_export.plan import Unit
from mastaba_export.sources import UNKNOWN, Batch
from mastaba_export.writers.base import FileWriter
from mastaba_export.writers.entry_file import EntryFile

if TYPE_CHECKING:
    from pathlib import Path

    from mastaba_export.journal import Journal
    from mastaba_export.plan import ExportPlan

_PART: Final = 16 * 1024 * 1024
"""Bytes of a unit of work."""
_ENTRY: Final = np.dtype([("size", "<u4"), ("checksum", "<u4")])
"""A tile that is written, also of a mask: its bytes, 0 if it is left out, and their CRC-32."""
_CHECKED: Final = 64 * 1024 * 1024
"""Bytes before the end of an interrupted output that are compared with their checksums."""
_CHANGED: Final = "the data changed while it was exported; remove the output and export it again"


def coverage_writer(plan: ExportPlan, part: Path, journal: Journal) -> FileWriter:
    """Return the writer of a raster. The indices of its slabs are read.

    Raises:
        ExportTooLargeError: it has too many tiles.
        SlabFormatError, StorageError: an index cannot be read.
    """
    file = plan.file()
    if isinstance(file, CompressedFile):
        return CompressedWriter(plan, part, journal, file)
    return CoverageWriter(plan, part, journal, file)


class CoverageWriter(FileWriter):
    """Writes a raster every part of which can be made on its own; a unit of work is such a part."""

    def __init__(self, plan: ExportPlan, part: Path, journal: Journal, answer: Answer) -> None:
        super().__init__(plan, part, journal)
        self._answer = answer

    @property
    def count(self) -> int:
        return -(-self._answer.size // _PART)

    def unit(self, number: int) -> Unit:
        return Unit(0, number, 0)

    def tiles_of(self, unit: Unit) -> int:
        return 1

    def restore(self, state: Mapping[str, Any]) -> None:
        if state["version"] != self._answer.version:
            raise DataChangedError(_CHANGED)
        super().restore(state)

    def fetch(self, unit: Unit) -> Batch:
        size = self._answer.size
        start, end = unit.row * _PART, min((unit.row + 1) * _PART, size)
        try:
            data = b"".join(self._answer.pieces(start, end))
        except ObjectChangedError:
            raise DataChangedError(_CHANGED) from None
        # The tiles cannot be told apart here; all count when the last part is there.
        count = self.plan.tiles if end == size else 0
        return Batch((), UNKNOWN, len(data), count, len(data), data)

    def add(self, unit: Unit, batch: Batch) -> None:
        assert batch.whole is not None
        self.append(batch.whole)

    def sync(self) -> dict[str, Any]:
        return {**super().sync(), "version": self._answer.version}

    def finish(self, changed: Sequence[str]) -> None:
        os.fsync(self._file)


class CompressedWriter(FileWriter):
    """Writes a raster that is compressed; a unit of work is a part of its file.

    The same pixels may be compressed into other bytes the next time. So what is written is kept,
    with its sizes and checksums in a second file until the end, when its head is written.
    """

    def __init__(
        self, plan: ExportPlan, part: Path, journal: Journal, file: CompressedFile
    ) -> None:
        self.reserved = file.reserved
        super().__init__(plan, part, journal)
        self._whole = file
        self._entries = EntryFile(part, _ENTRY)

    def start(self) -> None:
        super().start()
        self._entries.start()

    def restore(self, state: Mapping[str, Any]) -> None:
        if state["version"] != self._whole.version:
            raise DataChangedError(_CHANGED)
        super().restore(state)
        self._entries.restore(state["entries"])
        self._check_end()

    @property
    def count(self) -> int:
        return self._whole.count

    def unit(self, number: int) -> Unit:
        return Unit(0, number, 0)

    def tiles_of(self, unit: Unit) -> int:
        return 1

    def fetch(self, unit: Unit) -> Batch:
        try:
            data, sizes = self._whole.part(unit.row)
        except ObjectChangedError:
            raise DataChangedError(_CHANGED) from None
        count = sum(map(bool, sizes[:: 1 + self._whole.plan.has_mask]))
        return Batch((), UNKNOWN, len(data), count, len(data), data)

    def add(self, unit: Unit, batch: Batch) -> None:
        assert batch.whole is not None
        self.append(batch.whole)
        self._entries.add(list(_entries_of(batch.whole, self._whole.present(unit.row))))

    def sync(self) -> dict[str, Any]:
        state = {**super().sync(), "version": self._whole.version}
        return {**state, "entries": self._entries.sync()}

    def finish(self, changed: Sequence[str]) -> None:
        self.write_at(self._whole.head(self._entries.read()["size"]), 0)
        os.fsync(self._file)

    def clean(self) -> None:
        self._entries.clean()

    def close(self) -> None:
        super().close()
        self._entries.close()

    def _check_end(self) -> None:
        """Compare the last tiles of an interrupted output with their checksums.

        Raises:
            DestinationError: they differ.
        """
        end = self.position
        for size, checksum in self._entries.read()[::-1].tolist():
            if self.position - end > _CHECKED or end - size - 8 < self.kept_from:
                return
            if size:
                end -= size + 8
                tile = os.pread(self._file, size, end + 4) if end >= self.reserved else b""
                if zlib.crc32(tile) != checksum:
                    raise DestinationError(
                        f"{self.part.name} is not as its journal says; remove both and begin again"
                    )


def _entries_of(data: bytes, present: Sequence[bool]) -> Iterator[tuple[int, int]]:
    """Yield size and checksum of each tile of a part of a file."""
    start, view = 0, memoryview(data)
    for is_there in present:
        size = int.from_bytes(view[start : start + 4], "little") if is_there else 0
        yield size, zlib.crc32(view[start + 4 : start + 4 + size]) if is_there else 0
        start += size + 8 if is_there else 0
