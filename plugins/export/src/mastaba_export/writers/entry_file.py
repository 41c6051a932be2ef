"""Entries in a second file beside an output, needed until the output is complete."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mastaba_export.errors import DestinationError


class EntryFile:
    """Entries of one dtype, in the file ``OUT.part.entries``.

    Args:
        part: path of the output while it is written.
        dtype: of an entry.
    """

    def __init__(self, part: Path, dtype: np.dtype[Any]) -> None:
        self._path = part.with_name(f"{part.name}.entries")
        self._dtype = dtype
        self._file = -1
        self._new: list[Any] = []

    def start(self) -> None:
        """Begin without entries."""
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o666)

    def restore(self, count: int) -> None:
        """Go on after the first ``count`` entries.

        Raises:
            DestinationError: the file does not have them.
        """
        size = count * self._dtype.itemsize
        # A shorter file would be filled with entries of zeros.
        if not self._path.exists() or self._path.stat().st_size < size:
            raise DestinationError(
                f"{self._path.name} is missing, or shorter than its journal says; remove what is "
                "left of the export, and begin again"
            )
        self._file = os.open(self._path, os.O_RDWR)
        os.ftruncate(self._file, size)
        os.lseek(self._file, 0, os.SEEK_END)

    def add(self, entries: Sequence[Any]) -> None:
        """Note entries; `sync` writes them."""
        self._new += entries

    def sync(self) -> int:
        """Bring all entries to the disk; return their number."""
        data = memoryview(np.array(self._new, self._dtype).tobytes())
        while data:
            data = data[os.write(self._file, data) :]
        self._new.clear()
        os.fsync(self._file)
        return os.fstat(self._file).st_size // self._dtype.itemsize

    def read(self, first: int = 0, count: int | None = None) -> npt.NDArray[Any]:
        """Return entries that are on the disk, as an array of the dtype.

        Args:
            first: number of the first one.
            count: how many, if there are as many; None for all others.
        """
        start = first * self._dtype.itemsize
        size = os.fstat(self._file).st_size - start
        if count is not None:
            size = min(size, count * self._dtype.itemsize)
        data = os.pread(self._file, size, start) if size > 0 else b""
        return np.frombuffer(data, self._dtype)

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def clean(self) -> None:
        """Remove the file."""
        self._path.unlink(missing_ok=True)
