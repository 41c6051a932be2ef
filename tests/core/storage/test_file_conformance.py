import os
from pathlib import Path

import pytest

from mastaba.environment import Environment
from mastaba.storage.file import FileStorage
from mastaba_conformance.storage import ObjectWriter, StorageTests


class Files:
    def put(self, key: str, data: bytes) -> None:
        path = Path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(f"{key}.new")
        fresh.write_bytes(data)
        os.replace(fresh, path)

    def delete(self, key: str) -> None:
        os.unlink(key)


class TestFileStorage(StorageTests):
    keys_are_paths = True
    forks_while_reading = True

    @pytest.fixture
    def storage(self) -> FileStorage:
        return FileStorage.open("", Environment({}))

    @pytest.fixture
    def writer(self) -> ObjectWriter:
        return Files()

    @pytest.fixture
    def prefix(self, tmp_path: Path) -> str:
        return f"{tmp_path}/"
