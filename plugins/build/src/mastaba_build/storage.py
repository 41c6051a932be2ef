"""Writing of slabs and documents: whole objects, atomically."""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol


class WritableStorage(Protocol):
    """Where a pyramid is written. A serving process has no such object."""

    def write(self, key: str, data: bytes | bytearray, *, is_final: bool = True) -> str:
        """Write a whole object and return its MD5; readers see the old or the new one.

        Args:
            is_final: False for intermediate data, which may be lost when the machine fails and
                needs no MD5.

        Raises:
            OSError: it cannot be written.
        """

    def delete(self, key: str) -> None:
        """Delete an object, if it exists."""

    def size(self, key: str) -> int | None:
        """Return the size of an object in bytes; None if it does not exist."""

    def read(self, key: str) -> bytes:
        """Return an object.

        Raises:
            OSError: it cannot be read.
        """

    def list(self, prefix: str) -> Iterator[str]:
        """Yield the keys of the objects below a prefix."""


class FileWriter:
    """Writes files below a directory: under a temporary name, synchronised, then renamed."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def write(self, key: str, data: bytes | bytearray, *, is_final: bool = True) -> str:
        path = self._root / key
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(temporary, "xb") as stream:
                stream.write(data)
                stream.flush()
                if is_final:
                    os.fsync(stream.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        return hashlib.md5(data, usedforsecurity=False).hexdigest() if is_final else ""

    def delete(self, key: str) -> None:
        (self._root / key).unlink(missing_ok=True)

    def size(self, key: str) -> int | None:
        try:
            return (self._root / key).stat().st_size
        except OSError:
            return None

    def read(self, key: str) -> bytes:
        return (self._root / key).read_bytes()

    def list(self, prefix: str) -> Iterator[str]:
        for folder, _, names in os.walk(self._root / prefix):
            for name in names:
                yield os.path.relpath(os.path.join(folder, name), self._root)
