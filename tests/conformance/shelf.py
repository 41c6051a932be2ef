"""A driver that passes all conformance tests, from which wrong ones are made by one change."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar, Self

from mastaba.errors import (
    AccessDeniedError,
    ObjectChangedError,
    ObjectNotFoundError,
    StorageError,
    StorageUnavailableError,
)
from mastaba_storage.base import MAX_WHOLE, ByteRange, ObjectRead, ObjectStat
from mastaba_storage.environment import Environment
from mastaba_storage.writable import WritableStorage

_VERSION = 32
"""Bytes of the version, with which each file starts."""
_ZEROS = bytes(1 << 20)
_KEY = ".key"
_REFUSING, _SILENT = ".refusing", ".silent"


class ShelfStorage(WritableStorage):
    """One file per object in a folder, named by the hash of its key; written as a whole."""

    name = "shelf"
    container_field: ClassVar[str | None] = "shelf_name"
    writer: ClassVar[str | None] = "tests.conformance.shelf:ShelfStorage"

    @classmethod
    def open(cls, container: str, environment: Environment) -> Self:
        return cls(container)

    def read(
        self, key: str, byte_range: ByteRange | None = None, version: str | None = None
    ) -> ObjectRead:
        descriptor = self._opened(key)
        try:
            size, found, modified = self._facts(descriptor)
            self.check_version(key, found, version)
            if byte_range is None:
                if size > MAX_WHOLE:
                    raise self.error(StorageError, key, "is too large to be read whole")
                byte_range = ByteRange(0, size)
            offset, length = byte_range
            length = max(0, min(length, size - offset))
            data = os.pread(descriptor, length, offset + _VERSION) if length else b""
            return ObjectRead(data, found, modified)
        finally:
            os.close(descriptor)

    def stat(self, key: str) -> ObjectStat:
        descriptor = self._opened(key)
        try:
            return ObjectStat(*self._facts(descriptor))
        finally:
            os.close(descriptor)

    def put(self, key: str, data: bytes) -> None:
        self.write(key, data)

    def write(self, key: str, data: bytes, *, only_if_absent: bool = False) -> str:
        path, version = self.path(key), uuid.uuid4().hex
        fresh = f"{path}.{uuid.uuid4().hex}"
        Path(f"{path}{_KEY}").write_text(key)
        with open(fresh, "wb") as file:
            file.write(version.encode())
            # Objects beyond the limit of whole reads consist of zeros, which need no space.
            for start in range(0, len(data), len(_ZEROS)):
                part = data[start : start + len(_ZEROS)]
                if part == _ZEROS:
                    file.seek(len(part), os.SEEK_CUR)
                else:
                    file.write(part)
            file.truncate()
        if only_if_absent:
            try:
                os.link(fresh, path)
            finally:
                os.unlink(fresh)
        else:
            os.replace(fresh, path)
        return version

    def delete(self, key: str) -> None:
        Path(self.path(key)).unlink(missing_ok=True)
        Path(f"{self.path(key)}{_KEY}").unlink(missing_ok=True)

    def list(self, prefix: str) -> Iterator[str]:
        for path in Path(self.container).glob(f"*{_KEY}"):
            if path.read_text().startswith(prefix):
                yield path.read_text()

    most_parts = 1000

    def begin_parts(self, key: str) -> str:
        upload = uuid.uuid4().hex
        os.mkdir(os.path.join(self.container, upload))
        return upload

    def write_part(self, key: str, upload: str, number: int, data: bytes) -> str:
        Path(self.container, upload, str(number)).write_bytes(data)
        return hashlib.sha256(data).hexdigest()

    def complete_parts(self, key: str, upload: str, parts: Sequence[str]) -> str:
        folder = Path(self.container, upload)
        found = [(folder / str(number)).read_bytes() for number in range(1, len(parts) + 1)]
        if [hashlib.sha256(data).hexdigest() for data in found] != list(parts):
            raise self.error(StorageError, key, "has other parts")
        version = self.write(key, b"".join(found))
        self.abandon_parts(key, upload)
        return version

    def abandon_parts(self, key: str, upload: str) -> None:
        shutil.rmtree(Path(self.container, upload), ignore_errors=True)

    def path(self, key: str) -> str:
        return os.path.join(self.container, hashlib.sha256(key.encode()).hexdigest())

    def error(self, kind: type[StorageError], key: str, what: str) -> StorageError:
        return kind(f"{self.full_name}: {key} {what}", storage=self.full_name, key=key)

    def check_version(self, key: str, found: str, wanted: str | None) -> None:
        if wanted is not None and found != wanted:
            raise self.error(ObjectChangedError, key, "was replaced")

    def _opened(self, key: str) -> int:
        if os.path.exists(os.path.join(self.container, _SILENT)):
            time.sleep(0.01)
            raise self.error(StorageUnavailableError, key, "is not answered in time")
        if os.path.exists(os.path.join(self.container, _REFUSING)):
            raise self.error(AccessDeniedError, key, "may not be read")
        try:
            return os.open(self.path(key), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError as error:
            # Without the folder, nothing is known about its objects.
            if not os.path.isdir(self.container):
                kind: type[StorageError] = StorageUnavailableError
                raise self.error(kind, key, "cannot be read") from error
            raise self.error(ObjectNotFoundError, key, "does not exist") from error

    def _facts(self, descriptor: int) -> tuple[int, str, float]:
        facts = os.fstat(descriptor)
        version = os.pread(descriptor, _VERSION, 0).decode()
        return facts.st_size - _VERSION, version, facts.st_mtime


def refusing(folder: Path) -> str:
    """Return a container that refuses all reads."""
    (folder / _REFUSING).touch()
    return str(folder)


def silent(folder: Path) -> str:
    """Return a container that does not answer."""
    (folder / _SILENT).touch()
    return str(folder)


@contextmanager
def gone(folder: Path) -> Iterator[None]:
    """Move a container out of reach for a time."""
    hidden = folder.rename(f"{folder}-gone")
    try:
        yield
    finally:
        hidden.rename(folder)
