"""Identities of files: texts that change with their size or their time."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Origin:
    """A file, directory or pyramid that is imported or joined.

    Attributes:
        path: as the user named it.
        identity: changes with it.
    """

    path: str
    identity: str


def identity_of_files(files: Iterable[str]) -> str:
    """Return a text that changes with the size or the time of one of the files.

    Names of which no local file exists are left out.
    """
    known = []
    for file in sorted(set(files)):
        try:
            status = os.stat(file)
        except OSError:
            continue
        known.append((file, status.st_size, status.st_mtime_ns))
    return hashlib.sha256(repr(known).encode()).hexdigest()
