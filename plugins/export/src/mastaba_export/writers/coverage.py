"""One raster: GeoTIFF or COG, every part of which can be made on its own."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from mastaba.errors import ObjectChangedError
from mastaba_export.errors import DataChangedError
from mastaba_export.plan import Unit
from mastaba_export.sources import UNKNOWN, Batch
from mastaba_export.writers.base import FileWriter

if TYPE_CHECKING:
    from pathlib import Path

    from mastaba_export.journal import Journal
    from mastaba_export.plan import ExportPlan

_PART: Final = 16 * 1024 * 1024
"""Bytes of a unit of work."""
_CHANGED: Final = "the data changed while it was exported; remove the output and export it again"


class CoverageWriter(FileWriter):
    """Writes a raster; a unit of work is a part of the plan's file."""

    def __init__(self, plan: ExportPlan, part: Path, journal: Journal) -> None:
        super().__init__(plan, part, journal)
        self._answer = plan.answer()

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
