"""Heads of large files, kept in a directory so that not every range plans its file again."""

from __future__ import annotations

import json
import mmap
import os
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from mastaba_coverage.block import TileBlock

_MOST: Final = 1024**3
"""Bytes of all heads."""
_VALIDITY: Final = 300.0
"""Seconds after which a head is made again: slabs that no range touches may have changed."""
_ALIGNED: Final = 8
_SUFFIX: Final = ".head"


@dataclass(frozen=True, slots=True, eq=False)
class SavedHead:
    """What is known of a file before its first tile is read.

    Attributes:
        version: its ETag, without quotes.
        head: bytes before the first tile.
        sizes: of the stored tiles of each image; int64.
        digests: of the versions of slabs of each image; uint8.
    """

    version: str
    head: memoryview
    sizes: Sequence[npt.NDArray[np.int64]]
    digests: Sequence[npt.NDArray[np.uint8]]


class HeadCache:
    """Heads in files of one directory, which only this user may write.

    The files used least recently are removed. What cannot be written is made again each time.

    Args:
        directory: is created when it is needed; None for one of the user among temporary files.
        most: bytes of all files.
        validity: seconds after which a head is made again.
    """

    def __init__(
        self,
        directory: Path | None = None,
        most: int = _MOST,
        validity: float = _VALIDITY,
    ) -> None:
        self._directory = directory
        self._most = most
        self._validity = validity

    def find(self, key: str) -> SavedHead | None:
        """Return a head that is still valid, or None."""
        try:
            directory = self._opened()
            path = directory / f"{key}{_SUFFIX}"
            with path.open("rb") as file:
                status = os.fstat(file.fileno())
                if not 0 <= time.time() - status.st_mtime < self._validity:
                    return None
                data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
            # The time of change says when it was made, that of access when it was last used.
            os.utime(path, (time.time(), status.st_mtime))
            return _parsed(data)
        except (OSError, ValueError, KeyError):
            return None

    def save(self, key: str, version: str, head: bytes, blocks: Sequence[TileBlock]) -> None:
        """Write a head, if it can be written."""
        arrays: list[npt.NDArray[Any]] = [np.frombuffer(head, np.uint8)]
        for block in blocks:
            arrays += [block.sizes.reshape(-1), block.digests.reshape(-1)]
        lengths = [array.nbytes for array in arrays]
        first = json.dumps({"version": version, "lengths": lengths}).encode() + b"\n"
        first = first[:-1].ljust(-(-len(first) // _ALIGNED) * _ALIGNED - 1) + b"\n"
        with suppress(OSError):
            directory = self._opened()
            with tempfile.NamedTemporaryFile(dir=directory, delete=False) as file:
                try:
                    file.write(first)
                    for array in arrays:
                        file.write(np.ascontiguousarray(array).tobytes())
                        file.write(bytes(-array.nbytes % _ALIGNED))
                    file.flush()
                    Path(file.name).rename(directory / f"{key}{_SUFFIX}")
                except BaseException:
                    Path(file.name).unlink(missing_ok=True)
                    raise
            self._shrink(directory)

    def drop(self, key: str) -> None:
        """Remove a head that proved to be outdated."""
        with suppress(OSError):
            (self._opened() / f"{key}{_SUFFIX}").unlink(missing_ok=True)

    def _opened(self) -> Path:
        directory = self._directory
        if directory is None:
            directory = Path(tempfile.gettempdir()) / f"mastaba-coverages-{os.getuid()}"
        directory.mkdir(mode=0o700, exist_ok=True)
        status = directory.lstat()
        # Others must not be able to say what a file contains.
        if status.st_uid != os.getuid() or status.st_mode & 0o077 or directory.is_symlink():
            raise PermissionError(f"others may write to {directory}")
        return directory

    def _shrink(self, directory: Path) -> None:
        found = [(path, path.stat()) for path in directory.iterdir()]
        total = sum(status.st_size for _, status in found)
        for path, status in sorted(found, key=lambda item: item[1].st_atime):
            if total <= self._most:
                return
            path.unlink(missing_ok=True)
            total -= status.st_size


def _parsed(data: memoryview) -> SavedHead:
    """Return the head in a file.

    Raises:
        ValueError, KeyError: the file is not complete.
    """
    first = bytes(data[:65536]).index(b"\n") + 1
    described = json.loads(bytes(data[:first]))
    parts: list[memoryview] = []
    position = first
    for length in described["lengths"]:
        part = data[position : position + length]
        if len(part) != length:
            raise ValueError("the file is too short")
        parts.append(part)
        position += length + -length % _ALIGNED
    return SavedHead(
        described["version"],
        parts[0],
        [np.frombuffer(part, np.int64) for part in parts[1::2]],
        [np.frombuffer(part, np.uint8) for part in parts[2::2]],
    )
