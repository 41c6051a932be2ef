"""The documents of a configuration, watched for changes in files and other storages."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from mastaba.config.load import load_catalogue
from mastaba.config.server import load_server
from mastaba.config.source import Source
from mastaba.errors import MastabaError, StorageUnavailableError
from mastaba.storage_pool import StoragePool
from mastaba_documents.faults import Faults
from mastaba_storage.base import ByteRange, ObjectRead, ObjectStat, Storage
from mastaba_storage.environment import Environment
from mastaba_storage.file import FileStorage
from mastaba_storage.path import ResourcePath

PERIOD = 0.01


class Memory(Storage):
    """Objects without versions, with the time of their change, in a storage that may fail."""

    name = "memory"
    container_field = "memory_name"
    is_remote = False  # failed reads are not repeated
    objects: dict[str, tuple[bytes, float]]
    fails = False

    @classmethod
    def open(cls, container: str, environment: Any) -> Memory:
        return cls(container)

    def read(
        self, key: str, byte_range: ByteRange | None = None, version: str | None = None
    ) -> ObjectRead:
        data, modified = self.objects[key]
        return ObjectRead(data, None, modified)

    def stat(self, key: str) -> ObjectStat:
        if Memory.fails:
            raise StorageUnavailableError("gone", storage=self.full_name, key=key)
        data, modified = self.objects[key]
        return ObjectStat(len(data), None, modified)


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> StoragePool:
    monkeypatch.setattr(Memory, "objects", {}, raising=False)
    monkeypatch.setattr(Memory, "fails", False)
    return StoragePool({"file": FileStorage, "memory": Memory}, Environment({}))


def watched(pool: StoragePool, *paths: str) -> Source:
    source = Source()
    for text in paths:
        path = ResourcePath.parse(text)
        try:
            source.read(path, pool.open(path.storage, path.container).read(path.key))
        except MastabaError as error:
            source.failed(path, error)
    return source


class Watch:
    """A source that is watched in a thread."""

    def __init__(self, source: Source, pool: StoragePool) -> None:
        self.reports: list[MastabaError | None] = []
        self._looks = threading.Semaphore(0)
        self.thread = threading.Thread(
            target=source.await_change, args=(pool, PERIOD, self._report), daemon=True
        )
        self.thread.start()

    def _report(self, error: MastabaError | None) -> None:
        self.reports.append(error)
        self._looks.release()

    def await_looks(self, count: int = 2) -> None:
        for _ in range(count):
            self._looks.acquire()


def test_a_changed_file_ends_the_wait(tmp_path: Path, pool: StoragePool) -> None:
    file = tmp_path / "a.json"
    file.write_text("{}")
    watch = Watch(watched(pool, str(file)), pool)
    watch.await_looks(5)
    assert watch.thread.is_alive()
    file.write_text('{"a": 1}')
    watch.thread.join()


@pytest.mark.parametrize("change", ["appears", "disappears", "replaced"])
def test_what_happens_to_a_file_is_noticed(tmp_path: Path, pool: StoragePool, change: str) -> None:
    file, other = tmp_path / "a.json", tmp_path / "b.json"
    if change != "appears":
        file.write_text("{}")
    source = watched(pool, str(file))
    assert not source.has_changed(pool)
    if change == "disappears":
        file.unlink()
    else:
        other.write_text("[]")
        os.utime(other, (1, 1))
        other.rename(file)
    assert source.has_changed(pool)


def test_objects_without_versions_are_compared_by_time_and_size(pool: StoragePool) -> None:
    Memory.objects["a"] = (b"{}", 1.0)
    source = watched(pool, "memory://c/a")
    assert not source.has_changed(pool)
    Memory.objects["a"] = (b"[]", 2.0)
    assert source.has_changed(pool)


def test_a_set_that_is_being_written_is_awaited(tmp_path: Path, pool: StoragePool) -> None:
    """The wait does not end while each look finds other documents."""
    files = [tmp_path / f"{number}.json" for number in range(3)]
    for file in files:
        file.write_text("0")
    source = watched(pool, *map(str, files))
    looks: list[int] = []
    now = Source._versions_now

    def looked(self: Source, pool: StoragePool) -> Any:
        if len(looks) < 6:
            looks.append(1)
            files[len(looks) % 3].write_text("x" * len(looks))
        return now(self, pool)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Source, "_versions_now", looked)
        source.await_change(pool, PERIOD, lambda error: None)
    assert len(looks) == 6


def test_a_storage_that_does_not_answer_is_no_change(pool: StoragePool) -> None:
    Memory.objects["a"] = (b"{}", 1.0)
    watch = Watch(watched(pool, "memory://c/a"), pool)
    watch.await_looks()
    Memory.fails = True
    while watch.reports[-1] is None:
        watch.await_looks(1)
    Memory.fails = False
    while watch.reports[-1] is not None:
        watch.await_looks(1)
    assert watch.thread.is_alive()
    Memory.objects["a"] = (b"{}", 2.0)
    watch.thread.join()


def test_an_unreadable_document_is_compared_from_the_first_look_on(pool: StoragePool) -> None:
    Memory.objects["a"] = (b"{}", 1.0)
    source = Source()
    source.failed(ResourcePath.parse("memory://c/a"), StorageUnavailableError("gone"))
    assert not source.has_changed(pool)
    watch = Watch(source, pool)
    watch.await_looks()
    Memory.objects["a"] = (b"{}", 2.0)
    watch.thread.join()


def test_all_documents_of_an_installation_are_watched(installation: Any) -> None:
    source, faults = Source(), Faults()
    installation.write()
    server = load_server("server.json", installation.plugins, faults)
    catalogue = load_catalogue(server, installation.plugins, Environment({}), faults, source=source)
    for name in installation.documents:
        path = installation.directory / name
        before = path.stat()
        document = json.dumps("another") if name.endswith(".json") else "another"
        assert not source.has_changed(catalogue.storages)
        text = path.read_bytes()
        path.write_text(document)
        # server.json is not read from a storage; its reader watches it.
        assert source.has_changed(catalogue.storages) == (name != "server.json"), name
        path.write_bytes(text)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
