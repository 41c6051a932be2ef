"""Tiny installations whose slabs all tests of a process share. To write them takes most time."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from mastaba_conformance import tiny_installation as written

folders: list[Path] = []
"""The folder of the slabs, which a fixture gives."""

States = dict[str, tuple[int, int, int]]

_known: States = {}
"""The state of each shared slab, by path."""


def tiny_installation(directory: Path, **options: Any) -> Path:
    """Write a tiny installation for a test that does not change slabs; it may change the rest."""
    return written.tiny_installation(directory, slabs_of=_slabs(), **options)


@cache
def _slabs() -> Path:
    """Write the installation whose slabs all others share, and return its folder."""
    (folder,) = folders
    written.tiny_installation(folder)
    for path in folder.rglob("*"):
        path.chmod(0o555 if path.is_dir() else 0o444)
    _known.update(_states())
    return folder


def changed_slabs() -> list[str]:
    """Return the shared slabs that have been changed, added or removed since the last call."""
    now = _states() if _known else {}
    changed = sorted(path for path in now | _known if now.get(path) != _known.get(path))
    _known.clear()
    _known.update(now)
    return changed


def _states() -> States:
    """Return inode, size and time of change of all files and folders."""
    found = {}
    for path in folders[0].rglob("*"):
        status = path.stat()
        found[str(path)] = (status.st_ino, status.st_size, status.st_mtime_ns)
    return found
