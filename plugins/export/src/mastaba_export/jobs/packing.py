"""Exports that are many files, as one ZIP file."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final
from zipfile import ZIP_STORED, ZipFile, ZipInfo

_OF_THIS_MACHINE: Final = (".list", ".layer.json")
"""Ends of documents that contain paths of this machine."""


def pack(tree: Path, path: Path, note: Callable[[], object]) -> None:
    """Write the files of a directory to a ZIP file, which gets its name when it is complete.

    They are not compressed: tiles are already. Documents with paths of this machine are left out.

    Args:
        note: called before each file; its errors end the work.

    Raises:
        OSError: a file cannot be read or written.
    """
    part = path.with_name(f"{path.name}.part")
    with ZipFile(part, "w", ZIP_STORED) as archive:
        for file in _files(tree):
            note()
            name = file.relative_to(tree).as_posix()
            # Without the time, so that equal exports are equal files.
            entry = ZipInfo(name)
            entry.external_attr = 0o644 << 16
            entry.file_size = file.stat().st_size
            with file.open("rb") as source, archive.open(entry, "w") as sink:
                shutil.copyfileobj(source, sink, 1 << 20)
    with part.open("rb+") as written:
        os.fsync(written.fileno())
    part.replace(path)


def _files(tree: Path) -> Iterator[Path]:
    for folder, directories, names in os.walk(tree):
        directories.sort()
        for name in sorted(names):
            if not (Path(folder) == tree and name.endswith(_OF_THIS_MACHINE)):
                yield Path(folder, name)
