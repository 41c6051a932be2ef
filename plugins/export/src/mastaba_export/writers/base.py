"""Base class of writers: an output that grows, and can be cut back to what was noted last."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mastaba.api.catalogue import TileLimits
from mastaba_export.errors import DestinationError

if TYPE_CHECKING:
    from mastaba_export.journal import Journal
    from mastaba_export.plan import ExportPlan, Unit
    from mastaba_export.sources import Batch


def synchronise(path: Path) -> None:
    """Bring a file, or the names in a directory, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Writer(ABC):
    """Writes one archive. All methods but `fetch` are called by one thread.

    Args:
        plan: of the export.
        part: path of the output while it is written.
        journal: for what must be known after a kill.

    Attributes:
        plan, part, journal: as given.
        first_made: what is there from the start of an export on.
        makes_directory: whether that is a directory.
        kept_from: first byte of the output that is still on the disk; those before are uploaded.
        should_stop: asked by `finish` if it takes long.
    """

    kept_from = 0
    makes_directory = False
    should_stop: Callable[[], bool] | None = None

    def __init__(self, plan: ExportPlan, part: Path, journal: Journal) -> None:
        self.plan = plan
        self.part = self.first_made = part
        self.journal = journal

    @abstractmethod
    def start(self) -> None:
        """Begin a new output; one of an earlier export is replaced."""

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state that `sync` has returned.

        Raises:
            DestinationError: the output is not as it was.
        """
        made = self.first_made
        if not (made.is_dir() if self.makes_directory else made.exists()):
            raise DestinationError(
                f"{made.name} of the interrupted export is missing; remove its journal and begin "
                "again"
            )

    @property
    def count(self) -> int:
        """Number of units of work."""
        return self.plan.count

    def unit(self, number: int) -> Unit:
        """Return a unit of work by its number."""
        return self.plan.unit(number)

    def tiles_of(self, unit: Unit) -> int:
        """Return how many tiles a unit may have, or 1 where all units have about the same size."""
        level = self.plan.levels[unit.level]
        height, width = level.source.height, level.source.width
        top, left = unit.row * height, unit.column * width
        block = TileLimits(top, top + height - 1, left, left + width - 1)
        return len(level.selection.inside(block)[0])

    def undo(self, units: Iterable[Unit]) -> None:  # noqa: B027 - files are cut back
        """Remove what was written of some units after the last call of `sync`."""

    def fetch(self, unit: Unit) -> Batch:
        """Return what `add` needs of a unit. Called in several threads.

        Raises:
            SlabFormatError, StorageError: it cannot be read.
        """
        return self.plan.levels[unit.level].source.read(unit.row, unit.column)

    @abstractmethod
    def add(self, unit: Unit, batch: Batch) -> None:
        """Write a unit."""

    @abstractmethod
    def sync(self) -> dict[str, Any]:
        """Bring everything to the disk; return the state, as values of JSON."""

    @abstractmethod
    def finish(self, changed: Sequence[str]) -> None:
        """Complete the output.

        It may be killed and, after `restore` with the last state, be called again.

        Args:
            changed: slabs that were replaced after some of their tiles had been written.

        Raises:
            InterruptedExportError: ``should_stop`` returned true.
        """

    def final(self) -> tuple[int, int]:
        """Return the bytes of the output that no longer change, after `sync`: first and end."""
        return 0, 0

    def size(self, path: Path) -> int:
        """Return the bytes of the output, which has its name now."""
        return path.stat().st_size

    def clean(self) -> None:  # noqa: B027 - most writers leave nothing
        """Remove what was needed beside the output, which has its name now."""

    def close(self) -> None:  # noqa: B027 - some writers keep no file open
        """Close the files of the output."""


class FileWriter(Writer):
    """A writer of one file, which begins with reserved bytes and grows at its end."""

    reserved = 0

    def __init__(self, plan: ExportPlan, part: Path, journal: Journal) -> None:
        super().__init__(plan, part, journal)
        self._file = -1
        self.position = self.reserved

    def start(self) -> None:
        self._file = os.open(self.part, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o666)
        os.ftruncate(self._file, self.reserved)

    def restore(self, state: Mapping[str, Any]) -> None:
        super().restore(state)
        self._file = os.open(self.part, os.O_RDWR)
        self.position = int(state["position"])
        if os.fstat(self._file).st_size < self.position:
            raise DestinationError(
                f"{self.part.name} is shorter than its journal says; remove both and begin again"
            )
        os.ftruncate(self._file, self.position)

    def append(self, data: bytes) -> int:
        """Write bytes at the end; return their position."""
        place = self.position
        self.write_at(data, place)
        self.position += len(data)
        return place

    def write_at(self, data: bytes | memoryview, place: int) -> None:
        """Write bytes at a position."""
        view = memoryview(data)
        while view:
            done = os.pwrite(self._file, view, place)
            view, place = view[done:], place + done

    def sync(self) -> dict[str, Any]:
        os.fsync(self._file)
        return {"position": self.position}

    def final(self) -> tuple[int, int]:
        return self.reserved, self.position

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
