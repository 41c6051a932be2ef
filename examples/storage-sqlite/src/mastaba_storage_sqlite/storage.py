"""Objects in the table ``objects (key, version, data)``; SQLite reads columns after data slowly."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Self

from mastaba import errors
from mastaba.api.storages import MAX_WHOLE, ByteRange, Environment, ObjectRead, ObjectStat, Storage


class SqliteStorage(Storage):
    name = "sqlite"
    container_field = "database_name"
    is_remote = False  # a read is a system call, not a round trip
    _uri: str

    @classmethod
    def open(cls, container: str, environment: Environment) -> Self:
        directory = environment.text("SQLITE_DIRECTORY")
        if not directory:
            raise errors.AccessDeniedError("set MASTABA_SQLITE_DIRECTORY")
        storage, file = cls(container), Path(directory, f"{container}.sqlite").absolute()
        if not file.is_file():
            raise errors.StorageUnavailableError(f"there is no SQLite file {file}")
        storage._uri = f"{file.as_uri()}?mode=ro"
        return storage

    def read(
        self, key: str, byte_range: ByteRange | None = None, version: str | None = None
    ) -> ObjectRead:
        where: Any = {"storage": self.full_name, "key": key}
        with self._object(key) as (blob, found):
            if version not in (None, found):
                raise errors.ObjectChangedError(f"{key} was replaced", **where)
            size = len(blob)
            if byte_range is None and size > MAX_WHOLE:
                raise errors.StorageError(f"{key} is too large to be read as a whole", **where)
            offset, length = byte_range or (0, size)
            blob.seek(min(offset, size))
            return ObjectRead(blob.read(min(length, size)), found)

    def stat(self, key: str) -> ObjectStat:
        with self._object(key) as (blob, found):
            return ObjectStat(len(blob), found)

    @contextmanager
    def _object(self, key: str) -> Iterator[tuple[sqlite3.Blob, str]]:
        where: Any = {"storage": self.full_name, "key": key}
        try:  # a connection for each read is cheap, and safe in threads and after a fork
            with closing(sqlite3.connect(self._uri, uri=True)) as db:
                db.execute("BEGIN")  # both statements see the same state
                row = db.execute("SELECT rowid, version FROM objects WHERE key=?", [key]).fetchone()
                if row is None:
                    raise errors.ObjectNotFoundError(f"there is no {key}", **where)
                with db.blobopen("objects", "data", row[0], readonly=True) as blob:
                    yield blob, row[1]
        except sqlite3.Error as error:
            raise errors.StorageUnavailableError(f"cannot read {key}: {error}", **where) from error
