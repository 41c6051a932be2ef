import os
from pathlib import Path

import pytest

from mastaba_conformance.storage import ObjectWriter, StorageTests
from mastaba_conformance.storage.kit import StorageKit
from mastaba_conformance.storage.sequences import SequenceTests
from mastaba_storage.environment import Environment
from mastaba_storage.file import FileStorage


class Files:
    def put(self, key: str, data: bytes) -> None:
        path = Path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        # A name of 255 characters has no room for a suffix.
        fresh = path.with_name(".new")
        fresh.write_bytes(data)
        os.replace(fresh, path)

    def delete(self, key: str) -> None:
        os.unlink(key)


class Fixtures(StorageKit):
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


class TestFileStorage(Fixtures, StorageTests):
    thorough = ("test_any_sequence_of_operations", "test_fork_while_other_threads_read")


class TestFewSequences(Fixtures, SequenceTests):
    examples = 3
