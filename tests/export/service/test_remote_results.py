"""Results of jobs in an object store: served with ranges, and removed."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Self

import pytest
from tests.conformance.shelf import ShelfStorage
from tests.export.service.conftest import Exports

import mastaba
from mastaba.errors import ConfigurationError, ObjectNotFoundError, StorageUnavailableError
from mastaba.plugins.manager import Plugins
from mastaba_export import object_store
from mastaba_export.errors import WriteError
from mastaba_export.jobs import exporting, worker
from mastaba_export.jobs.job import State
from mastaba_export.jobs.queue import Queue
from mastaba_export.jobs.refusals import QueueError
from mastaba_export.journal import Journal
from mastaba_storage.environment import Environment

LAYER = {"layer": "RGB_PNG", "format": "pmtiles"}


class Bucket(ShelfStorage):
    """A folder below another one, because names of containers have no slashes."""

    name = "bucket"
    root: ClassVar[Path]
    writer: ClassVar[str | None] = "tests.export.service.test_remote_results:Bucket"

    @classmethod
    def open(cls, container: str, environment: Environment) -> Self:
        return cls(str(cls.root / container))


class BucketPlugin:
    @mastaba.hookimpl
    def register_storages(self) -> list[type]:
        return [Bucket]


@pytest.fixture
def bucket(tmp_path: Path) -> Bucket:
    Bucket.root = tmp_path
    (tmp_path / "ours").mkdir()
    return Bucket(str(tmp_path / "ours"))


@pytest.fixture
def exports(open_exports: Callable[..., Exports], bucket: Bucket) -> Exports:
    plugins = Plugins(extra={"bucket": BucketPlugin()})
    return open_exports(plugins, results="bucket://ours/results")


def test_results_are_objects(exports: Exports, bucket: Bucket) -> None:
    check_results_are_objects(exports, bucket, "results/")


def check_results_are_objects(exports: Exports, storage: Any, prefix: str) -> None:
    """Order a job, read its file, and remove it."""
    job = exports.done(LAYER)
    identifier = job[-32:]
    key = f"{prefix}{identifier}/RGB_PNG.pmtiles"
    # Swift lists the parts of an object too.
    listed = [one for one in storage.list(f"{prefix}{identifier}/") if ".parts/" not in one]
    assert listed == [key]
    assert {one.name for one in Path(exports.settings.directory, "jobs", identifier).iterdir()} == {
        "lock"
    }
    path = exports.file(job)
    whole = exports.client.get(path)
    assert whole.data.startswith(b"PMTiles")
    assert whole.data == storage.read(key).data
    part = exports.client.get(
        path, headers={"Range": "bytes=7-99", "If-Range": whole.headers["ETag"]}
    )
    assert (part.status_code, part.data) == (206, whole.data[7:100])
    assert part.headers["ETag"] == whole.headers["ETag"]
    assert exports.client.delete(job).status_code == 200
    assert exports.client.get(path).status_code == 404
    # A worker removes it, because a server does not write to storages.
    exports.worker._cleaned = float("-inf")
    assert not exports.worker.run_one()
    assert list(storage.list(f"{prefix}{identifier}/")) == []
    assert exports.results_left() == []


def test_zip_files_are_objects(exports: Exports, bucket: Bucket) -> None:
    job = exports.done({"layer": "RGB_PNG", "format": "dir"})
    key = f"results/{job[-32:]}/RGB_PNG.zip"
    assert exports.client.get(exports.file(job)).data == bucket.read(key).data
    folder = Path(exports.settings.directory, "jobs", job[-32:])
    assert {one.name for one in folder.iterdir()} == {"lock"}


def test_a_worker_that_died_after_the_upload(exports: Exports, bucket: Bucket) -> None:
    job = exports.ordered(LAYER)
    claimed = exports.queue.claim("w")
    assert claimed is not None
    perform = exports.worker._perform
    folder = Path(exports.settings.directory, "jobs", job[-32:])
    folder.mkdir(parents=True)
    (file,) = perform(claimed, str(folder), lambda *_: None)
    version = bucket.stat(f"results/{job[-32:]}/{file.name}").version
    assert list(perform(claimed, str(folder), lambda *_: None)) == [file]
    assert bucket.stat(f"results/{job[-32:]}/{file.name}").version == version


def full(*_: object) -> Any:
    raise QueueError("the disk is full") from OSError(errno.ENOSPC, "No space left")


def unwritten(*_: object) -> Any:
    raise WriteError("the output cannot be written") from OSError(errno.ENOSPC, "No space left")


def silent(*_: object) -> Any:
    raise StorageUnavailableError("the store does not answer")


@pytest.mark.parametrize("form", ["pmtiles", "mbtiles", "dir"])
@pytest.mark.parametrize("has_parts", [True, False])
def test_a_full_disk_gets_room_while_the_store_does_not_answer(
    exports: Exports, form: str, has_parts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MASTABA_OBJECT_WRITE_ATTEMPTS", "1")
    monkeypatch.setattr(worker, "_PAUSE", 0.0)
    if not has_parts:
        monkeypatch.setattr(Bucket, "most_parts", 0)
    job = exports.ordered({"layer": "RGB_PNG", "format": form})
    folder = Path(exports.settings.directory, "jobs", job[-32:])
    with monkeypatch.context() as broken:
        # The last moment: all is written, but not yet one object.
        broken.setattr(object_store.Upload, "complete", unwritten)
        broken.setattr(Queue, "fail", full)
        for name in ("list", "abandon_parts"):
            broken.setattr(Bucket, name, silent)
        with pytest.raises(QueueError):
            exports.worker.run_one()
        journals = [one.name for one in folder.iterdir() if ".journal" in one.name]
        assert {one.name for one in folder.iterdir()} == {"lock", *journals}
        assert sum(one.stat().st_size for one in folder.iterdir()) < 100_000
        # The next worker waits for the store, if it has parts there.
        running = exports.queue.job(job[-32:])
        assert running is not None
        assert exports.queue.give_back(running)
        if has_parts:
            assert exports.worker.run_one()
            waiting = exports.queue.job(job[-32:])
            assert waiting is not None
            assert (waiting.state, waiting.attempts) == (State.ACCEPTED, 1)
    assert exports.worker.run_one()
    assert exports.client.get(job).get_json()["status"] == "successful"
    plain = exports.done({"layer": "RGB_PNG", "format": form})
    assert (
        exports.client.get(exports.file(job)).data == exports.client.get(exports.file(plain)).data
    )
    # Parts that nobody will complete are removed.
    assert not any(one.is_dir() for one in Path(Bucket.root, "ours").iterdir())


@pytest.mark.parametrize("form", ["pmtiles", "dir"])
@pytest.mark.parametrize("name", ["open", "stat", "begin_parts", "write_part", "complete_parts"])
def test_a_job_is_tried_again_when_the_store_does_not_answer(
    exports: Exports, bucket: Bucket, form: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MASTABA_OBJECT_WRITE_ATTEMPTS", "1")
    monkeypatch.setattr(worker, "_PAUSE", 0.0)
    job = exports.ordered({"layer": "RGB_PNG", "format": form})
    with monkeypatch.context() as broken:
        broken.setattr(Bucket, name, silent)
        assert exports.worker.run_one()
    waiting = exports.queue.job(job[-32:])
    assert waiting is not None
    assert (waiting.state, waiting.attempts) == (State.ACCEPTED, 1)
    assert exports.worker.run_one()
    assert exports.client.get(job).get_json()["status"] == "successful"


@pytest.mark.parametrize("form", ["pmtiles", "dir"])
@pytest.mark.parametrize("name", ["write_part", "complete_parts"])
def test_a_job_begins_anew_when_the_store_has_removed_its_upload(
    exports: Exports, bucket: Bucket, form: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "_PAUSE", 0.0)
    job = exports.ordered({"layer": "RGB_PNG", "format": form})

    def unknown(self: Bucket, key: str, *_: object) -> Any:
        raise self.error(ObjectNotFoundError, key, "has no such upload")

    with monkeypatch.context() as broken:
        broken.setattr(Bucket, name, unknown)
        assert exports.worker.run_one()
    waiting = exports.queue.job(job[-32:])
    assert waiting is not None
    assert (waiting.state, waiting.attempts) == (State.ACCEPTED, 1)
    folder = Path(exports.settings.directory, "jobs", job[-32:])
    assert {one.name for one in folder.iterdir()} <= {"lock", "tree"}
    assert exports.worker.run_one()
    assert exports.client.get(job).get_json()["status"] == "successful"
    plain = exports.done({"layer": "RGB_PNG", "format": form})
    assert (
        exports.client.get(exports.file(job)).data == exports.client.get(exports.file(plain)).data
    )


@pytest.mark.parametrize("is_there", [True, False], ids=["there", "not there"])
def test_files_are_removed_while_an_object_is_completed(
    exports: Exports, bucket: Bucket, is_there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer of the store is lost: whether the object is complete is known later."""
    monkeypatch.setenv("MASTABA_OBJECT_WRITE_ATTEMPTS", "1")
    job = exports.ordered(LAYER)
    complete, abandon = object_store.Upload.complete, Bucket.abandon_parts

    def lost(upload: object_store.Upload) -> int:
        if is_there:
            with monkeypatch.context() as working:
                working.setattr(Bucket, "abandon_parts", abandon)
                complete(upload)
        else:
            upload._journal.commit({"completing": True})
        return unwritten()

    with monkeypatch.context() as broken:
        broken.setattr(object_store.Upload, "complete", lost)
        broken.setattr(Queue, "fail", full)
        broken.setattr(Bucket, "list", silent)
        broken.setattr(Bucket, "abandon_parts", silent)
        with pytest.raises(QueueError):
            exports.worker.run_one()
    folder = Path(exports.settings.directory, "jobs", job[-32:])
    assert {one.name for one in folder.iterdir()} == {"lock", "RGB_PNG.pmtiles.journal"}
    running = exports.queue.job(job[-32:])
    assert running is not None
    assert exports.queue.give_back(running)
    assert exports.worker.run_one()
    assert exports.client.get(job).get_json()["status"] == "successful"
    assert exports.client.get(exports.file(job)).data.startswith(b"PMTiles")


def test_a_zip_file_that_is_complete_is_not_exported_again(
    exports: Exports, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its file was removed to make room before its journal was."""
    monkeypatch.setenv("MASTABA_OBJECT_WRITE_ATTEMPTS", "1")
    job = exports.ordered({"layer": "RGB_PNG", "format": "dir"})
    complete = object_store.Upload.complete

    def lost(upload: object_store.Upload) -> int:
        complete(upload)
        return unwritten()

    with monkeypatch.context() as broken:
        broken.setattr(object_store.Upload, "complete", lost)
        broken.setattr(Queue, "fail", full)
        broken.setattr(Bucket, "list", silent)
        broken.setattr(Bucket, "abandon_parts", silent)
        with pytest.raises(QueueError):
            exports.worker.run_one()
    folder = Path(exports.settings.directory, "jobs", job[-32:])
    assert {one.name for one in folder.iterdir()} == {"lock", "RGB_PNG.zip.journal"}
    written = bucket.stat(f"results/{job[-32:]}/RGB_PNG.zip")
    running = exports.queue.job(job[-32:])
    assert running is not None
    assert exports.queue.give_back(running)
    with monkeypatch.context() as noted:
        noted.setattr(exporting, "pack", lambda *_: pytest.fail("it is exported again"))
        assert exports.worker.run_one()
    done = exports.queue.job(job[-32:])
    assert done is not None
    assert (done.state, done.files[0].size) == (State.SUCCESSFUL, written.size)
    assert {one.name for one in folder.iterdir()} == {"lock"}


@pytest.mark.parametrize("is_begun", [True, False])
def test_a_store_that_cannot_be_opened_is_tried_again(
    exports: Exports, is_begun: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Swift asks for a token when a container is opened."""
    monkeypatch.setattr(worker, "_PAUSE", 0.0)
    job = exports.ordered(LAYER)
    if is_begun:
        folder = Path(exports.settings.directory, "jobs", job[-32:])
        folder.mkdir(parents=True)
        with Journal(folder / "RGB_PNG.pmtiles.journal") as journal:
            journal.commit({"completing": True})
    with monkeypatch.context() as broken:
        broken.setattr(Bucket, "open", silent)
        assert exports.worker.run_one()
    waiting = exports.queue.job(job[-32:])
    assert waiting is not None
    assert (waiting.state, waiting.attempts) == (State.ACCEPTED, 1)
    assert exports.worker.run_one()
    assert exports.client.get(job).get_json()["status"] == "successful"


def test_places_that_cannot_be_written_are_refused(open_exports: Callable[..., Exports]) -> None:
    with pytest.raises(ConfigurationError, match="results"):
        open_exports(results="none://bucket")
