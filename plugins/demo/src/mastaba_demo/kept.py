"""Files of the installation that people have edited: they are kept."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

_RECORD: Final = ".written.json"
"""Name of the file with the digests of the files as they were written."""


def write_unless_edited(directory: Path, write: Callable[[Path], object]) -> list[Path]:
    """Write files into a directory, except those that were edited since they were last written.

    A file that exists without a record of what was written counts as edited if it differs.

    Args:
        directory: of the files.
        write: writes all files into a directory inside this one. They may contain its path.

    Returns:
        the edited files, which are as they were.

    Raises:
        OSError: a file cannot be read or written.
    """
    directory = directory.resolve()
    record = _record(directory)
    kept = []
    with TemporaryDirectory(dir=directory, prefix=".new-") as name:
        new = Path(name)
        write(new)
        for source in sorted(path for path in new.rglob("*") if path.is_file()):
            relative = str(source.relative_to(new))
            content = source.read_bytes().replace(f"/{new.name}".encode(), b"")
            target, digest = directory / relative, hashlib.sha256(content).hexdigest()
            present = target.read_bytes() if target.exists() else None
            if present is not None and hashlib.sha256(present).hexdigest() not in (
                digest,
                record.get(relative),
            ):
                kept.append(target)
                continue
            if present != content:
                source.write_bytes(content)
                target.parent.mkdir(exist_ok=True)
                os.replace(source, target)
            record[relative] = digest
        (new / _RECORD).write_text(json.dumps(record, indent=2), encoding="utf-8")
        os.replace(new / _RECORD, directory / _RECORD)
    return kept


def _record(directory: Path) -> dict[str, str]:
    """Return the digests of the files as they were written; none if they are not known."""
    try:
        found: dict[str, str] = json.loads((directory / _RECORD).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return found
