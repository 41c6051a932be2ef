"""Open storages, one per container (storage.md section 8)."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar, Self

import pytest

from mastaba.errors import ObjectNotFoundError, StorageUnavailableError, UnknownPluginError
from mastaba.storage_pool import StoragePool
from mastaba_storage.environment import Environment
from mastaba_storage.file import FileStorage
from mastaba_storage.path import ResourcePath


class Vault(FileStorage):
    """Records which containers are opened and closed, and fails while `is_down`."""

    name = "vault"
    container_field: ClassVar[str | None] = "vault_name"
    opened: ClassVar[list[str]] = []
    closed: ClassVar[list[str]] = []
    is_down: ClassVar[bool] = False

    @classmethod
    def open(cls, container: str, environment: Environment) -> Self:
        if cls.is_down:
            raise StorageUnavailableError("the vault does not answer")
        cls.opened.append(container)
        return cls(container)

    def close(self) -> None:
        self.closed.append(self.container)


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[StoragePool]:
    monkeypatch.setattr(Vault, "opened", [])
    monkeypatch.setattr(Vault, "closed", [])
    pool = StoragePool({"file": FileStorage, "vault": Vault}, Environment({}))
    yield pool
    pool.close()


def test_container_is_opened_once(pool: StoragePool) -> None:
    first = pool.open("vault", "a")
    assert pool.open("vault", "a") is first
    assert pool.open("vault", "b") is not first
    assert Vault.opened == ["a", "b"]
    assert pool.counts() == {"vault": 2}


def test_container_opened_by_many_threads_is_one_storage(pool: StoragePool) -> None:
    with ThreadPoolExecutor(8) as threads:
        found = set(threads.map(lambda _: id(pool.open("vault", "a")), range(64)))

    assert len(found) == 1
    assert len(Vault.opened) - len(Vault.closed) == 1


def test_failed_connection_is_not_cached(
    pool: StoragePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Vault, "is_down", True)
    with pytest.raises(StorageUnavailableError):
        pool.open("vault", "a")
    assert pool.counts() == {}

    monkeypatch.setattr(Vault, "is_down", False)
    assert pool.open("vault", "a").container == "a"


def test_unknown_driver_is_reported_with_the_known_ones_and_the_package(pool: StoragePool) -> None:
    with pytest.raises(UnknownPluginError, match=r"'s3'.*file, vault.*mastaba-storage-s3"):
        pool.open("s3", "bucket")


def test_closing_a_pool_closes_every_storage(pool: StoragePool) -> None:
    pool.open("vault", "a")
    pool.open("vault", "b")

    pool.close()
    pool.close()
    assert sorted(Vault.closed) == ["a", "b"]
    assert pool.counts() == {}


def test_whole_object_is_read_and_an_empty_one_counts_as_absent(
    pool: StoragePool, tmp_path: Path
) -> None:
    (tmp_path / "full").write_bytes(b"x")
    (tmp_path / "empty").touch()

    assert pool.read_full(ResourcePath.parse(str(tmp_path / "full"))) == b"x"
    for name in ("empty", "absent"):
        with pytest.raises(ObjectNotFoundError, match=name):
            pool.read_full(ResourcePath.parse(str(tmp_path / name)))
