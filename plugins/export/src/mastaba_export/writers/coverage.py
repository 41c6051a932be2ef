"""One raster: GeoTIFF or COG, copied and uncompressed, or compressed anew."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from mastaba.errors import ObjectChangedError
from mastaba_coverage import Answer, CompressedFile
from mastaba_export.errors import DataChangedError
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
_SIZE: Final = np.dtype("<u4")
"""Bytes of a tile in a file of entries."""
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

    The sizes of its tiles are in a second file until the end, when its head is written.
    """

    def __init__(
        self, plan: ExportPlan, part: Path, journal: Journal, file: CompressedFile
    ) -> None:
        self.reserved = file.reserved
        super().__init__(plan, part, journal)
        self._whole = file
        self._sizes = EntryFile(part, _SIZE)
        self._fetched: dict[int, list[int]] = {}

    def start(self) -> None:
        super().start()
        self._sizes.start()

    def restore(self, state: Mapping[str, Any]) -> None:
        if state["version"] != self._whole.version:
            raise DataChangedError(_CHANGED)
        super().restore(state)
        self._sizes.restore(state["entries"])

    @property
    def count(self) -> int:
        return self._whole.count

    def unit(self, number: int) -> Unit:
        return Unit(0, number, 0)

    def fetch(self, unit: Unit) -> Batch:
        try:
            data, sizes = self._whole.part(unit.row)
        except ObjectChangedError:
            raise DataChangedError(_CHANGED) from None
        self._fetched[unit.row] = sizes
        return Batch((), UNKNOWN, len(data), sum(map(bool, sizes)), len(data), data)

    def add(self, unit: Unit, batch: Batch) -> None:
        assert batch.whole is not None
        self.append(batch.whole)
        self._sizes.add(self._fetched.pop(unit.row))

    def sync(self) -> dict[str, Any]:
        state = {**super().sync(), "version": self._whole.version}
        return {**state, "entries": self._sizes.sync()}

    def finish(self, changed: Sequence[str]) -> None:
        self.write_at(self._whole.head(self._sizes.read().tolist()), 0)
        os.fsync(self._file)

    def clean(self) -> None:
        self._sizes.clean()

    def close(self) -> None:
        super().close()
        self._sizes.close()
