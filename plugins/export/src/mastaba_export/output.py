"""Where an export is written: the output, what is unfinished, and what is left of it."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mastaba_export.errors import DestinationError
from mastaba_export.journal import Journal
from mastaba_export.object_store import abandon
from mastaba_export.writers.base import synchronise

if TYPE_CHECKING:
    from mastaba_export.object_store import ObjectTarget
    from mastaba_export.plan import ExportPlan


def discard(destination: str | Path, target: ObjectTarget | None = None) -> None:
    """Remove what an unfinished export has left, also of its upload to an object store.

    Raises:
        DestinationError: another process is writing it, or the upload cannot be removed.
    """
    path = Path(str(destination).rstrip("/"))
    known = path.with_name(f"{path.name}.journal")
    if target is not None and known.exists():
        with Journal(known) as journal:
            abandon(target, path.with_name(f"{path.name}.part"), journal)
    slabs = path.with_suffix("")
    if path.suffix == ".json" and path.with_name(f"{path.name}.journal").exists():
        shutil.rmtree(slabs, ignore_errors=True)
    for end in (".part", ".part.entries", ".part-wal", ".part-shm", ".journal", ".journal-journal"):
        one = path.with_name(path.name + end)
        if one.is_dir():
            shutil.rmtree(one)
        else:
            one.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Output:
    """Where an export is written."""

    path: Path
    part: Path
    journal: Path
    slabs: Path | None

    @classmethod
    def of(cls, plan: ExportPlan, destination: str | Path) -> Output:
        path = Path(str(destination).rstrip("/") or ".")
        if not path.name or path.name == "..":
            raise DestinationError(f"{destination} is not the name of an output")
        part = path.with_name(f"{path.name}.part")
        slabs = path.with_suffix("") if plan.format == "pyramid" else None
        if slabs is not None and (path.suffix != ".json" or slabs.name.split() != [slabs.name]):
            raise DestinationError("the name of a pyramid is NAME.json, without white space")
        return cls(path, part, path.with_name(f"{path.name}.journal"), slabs)

    def prepare(self, *, resume: bool) -> None:
        """Check that the output can be written.

        Raises:
            DestinationError: it cannot.
        """
        if not self.path.parent.is_dir():
            raise DestinationError(f"there is no directory {self.path.parent}")
        is_ours = self.journal.exists()
        if is_ours and not resume:
            raise DestinationError(
                f"{self.part} is left from an interrupted export; go on with --resume, or remove "
                f"it and {self.journal.name}"
            )
        if os.path.lexists(self.part) and not is_ours:
            raise DestinationError(f"{self.part} exists; remove it, or choose another name")
        if self.slabs is not None and not is_ours and os.path.lexists(self.slabs):
            raise DestinationError(
                f"{self.slabs}, for the slabs, exists; remove it, or choose another name"
            )
        if os.path.lexists(self.path) and not (is_ours and not self.part.exists()):
            raise DestinationError(f"{self.path} exists; remove it, or choose another name")

    def publish(self) -> None:
        """Give the output its name."""
        if os.path.lexists(self.path):
            raise DestinationError(f"{self.path} exists now; remove it, and resume the export")
        os.rename(self.part, self.path)
        synchronise(self.path.parent)
