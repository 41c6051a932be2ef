import sqlite3
import uuid
from pathlib import Path

import pytest

from mastaba.api.storages import Environment
from mastaba.errors import AccessDeniedError, StorageUnavailableError
from mastaba_conformance.storage import StorageTests
from mastaba_storage_sqlite.storage import SqliteStorage

TABLE = "CREATE TABLE objects (key TEXT PRIMARY KEY, version TEXT NOT NULL, data BLOB NOT NULL)"


class Writer:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._run(TABLE)

    def put(self, key: str, data: bytes) -> None:
        self._run("INSERT OR REPLACE INTO objects VALUES (?, ?, ?)", key, uuid.uuid4().hex, data)

    def delete(self, key: str) -> None:
        self._run("DELETE FROM objects WHERE key = ?", key)

    def _run(self, statement: str, *values: object) -> None:
        connection = sqlite3.connect(self._path)
        with connection:
            connection.execute(statement, values)
        connection.close()


class TestSqliteStorage(StorageTests):
    @pytest.fixture
    def writer(self, tmp_path):
        return Writer(tmp_path / "maps.sqlite")

    @pytest.fixture
    def storage(self, writer, tmp_path):
        return SqliteStorage.open("maps", Environment({"MASTABA_SQLITE_DIRECTORY": str(tmp_path)}))

    @pytest.fixture
    def prefix(self):
        return "ortho/"


def test_missing_variable_is_reported():
    with pytest.raises(AccessDeniedError, match="MASTABA_SQLITE_DIRECTORY"):
        SqliteStorage.open("maps", Environment({}))


def test_absent_file_is_a_failure(tmp_path):
    with pytest.raises(StorageUnavailableError, match="maps"):
        SqliteStorage.open("maps", Environment({"MASTABA_SQLITE_DIRECTORY": str(tmp_path)}))
