"""Workers: what becomes of a job, its files, and the disk."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mastaba.errors import StorageUnavailableError
from mastaba_export.errors import (
    DataChangedError,
    DestinationError,
    InvalidRequestError,
    WriteError,
)
from mastaba_export.jobs import results as results_module
from mastaba_export.jobs import worker as worker_module
from mastaba_export.jobs.job import Job, Order, ResultFile, State
from mastaba_export.jobs.queue import Queue
from mastaba_export.jobs.refusals import QueueError
from mastaba_export.jobs.results import HeldError, Results, clean
from mastaba_export.jobs.settings import JobSettings
from mastaba_export.jobs.worker import Report, Worker

ROOM = 10**9
ORDER = Order("a", "export-tiles", "LAYER", {"layer": "LAYER"}, "p", {}, 100)


class Case:
    """A queue with one job, and a worker that does what a test says."""

    def __init__(self, directory: Path) -> None:
        self.settings = JobSettings(directory=str(directory), waiting=100)
        self.queue = Queue(self.settings)
        self.results = Results(self.settings.directory)
        self.identifier = self.queue.submit(ORDER, ROOM).id
        self.folder = Path(self.results.path(self.identifier))

    def run(self, act: Callable[[Path, Report], None]) -> Job:
        """Run the job; returns what it is then."""

        def perform(job: Job, folder: str, report: Report) -> Sequence[ResultFile]:
            (Path(folder) / "x.part").write_bytes(b"half")
            act(Path(folder), report)
            (Path(folder) / "x.part").rename(Path(folder) / "x")
            return [ResultFile("x", "image/tiff", 4)]

        self.worker = Worker(self.queue, perform)
        assert self.worker.run_one()
        return self.job()

    def job(self) -> Job:
        found = self.queue.job(self.identifier)
        assert found is not None
        return found


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path / "export")


def nothing(_folder: Path, _report: Report) -> None: ...


def test_successful_job_keeps_its_files(case: Case) -> None:
    job = case.run(nothing)
    assert (job.state, job.files) == (State.SUCCESSFUL, (ResultFile("x", "image/tiff", 4),))
    assert (case.folder / "x").read_bytes() == b"half"
    clean(case.queue, case.results)
    assert (case.folder / "x").exists()


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (InvalidRequestError("no such level"), 400, "no such level"),
        (DataChangedError("slabs 1/2"), 409, "the data changed"),
        (OSError(errno.ENOSPC, "No space left", "/secret"), 507, "the disk of the results is full"),
        (DestinationError("/secret is in the way"), 500, "the result cannot be written"),
        (WriteError("/secret is full"), 507, "the result cannot be written"),
        (MemoryError(), 507, "more memory"),
        (RuntimeError("/secret"), 500, "internal error"),
    ],
    ids=lambda item: type(item).__name__ if isinstance(item, Exception) else "",
)
def test_failed_job_leaves_no_file(case: Case, error: Exception, status: int, message: str) -> None:
    def act(_folder: Path, _report: Report) -> None:
        raise error

    job = case.run(act)
    assert (job.state, job.status) == (State.FAILED, status)
    assert message in job.message
    assert "secret" not in job.message
    assert not case.folder.exists()


def test_full_disk_behind_an_error_of_the_writer(case: Case) -> None:
    def act(_folder: Path, _report: Report) -> None:
        raise DestinationError("x") from OSError(errno.ENOSPC, "No space left")

    assert case.run(act).status == 507


@pytest.mark.parametrize(
    ("error", "name"),
    [(WriteError("full"), "fail"), (StorageUnavailableError("no answer"), "try_again")],
    ids=["failed", "to be tried again"],
)
def test_full_disk_gets_room_if_the_end_of_a_job_cannot_be_noted(
    case: Case, error: Exception, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "_PAUSE", 0.0)
    is_full = OSError(errno.ENOSPC, "No space left")

    def act(_folder: Path, _report: Report) -> None:
        raise error from is_full

    def broken(*_: object) -> bool:
        raise QueueError("the disk is full") from is_full

    with monkeypatch.context() as full:
        full.setattr(Queue, name, broken)
        with pytest.raises(QueueError):
            case.run(act)
    assert case.job().state is State.RUNNING
    assert not case.folder.exists()
    assert case.queue.give_back(case.job())
    assert case.run(nothing).state is State.SUCCESSFUL


def test_stopped_worker_gives_its_job_back(case: Case) -> None:
    def act(_folder: Path, report: Report) -> None:
        case.worker.stop()
        report(10, 0.5)

    job = case.run(act)
    assert (job.state, job.worker, job.attempts) == (State.ACCEPTED, "", 0)
    # The next worker continues with them.
    assert (case.folder / "x.part").read_bytes() == b"half"
    clean(case.queue, case.results)
    assert case.folder.exists()
    assert case.run(nothing).state is State.SUCCESSFUL


def test_broken_storage_is_tried_again(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "_PAUSE", 0.0)

    def act(_folder: Path, _report: Report) -> None:
        raise StorageUnavailableError("s3://secret does not answer")

    for attempt in (1, 2):
        job = case.run(act)
        assert (job.state, job.attempts) == (State.ACCEPTED, attempt)
        assert case.folder.exists()
    job = case.run(act)
    assert (job.state, job.status) == (State.FAILED, 503)
    assert job.message == "the data cannot be read at the moment, after 3 attempts"
    assert not case.folder.exists()


def test_dismissed_job_leaves_no_file(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    def act(folder: Path, report: Report) -> None:
        report(1, 0.1)
        assert case.queue.dismiss(case.job())
        # Who dismisses it sees that the worker still has its directory.
        assert case.results.is_held(case.identifier)
        report(2, 0.2)
        pytest.fail("the worker goes on")

    monkeypatch.setattr(worker_module, "_IDLE", 0.0)
    job = case.run(act)
    assert job.state is State.DISMISSED
    assert not case.folder.exists()


def test_job_that_another_worker_has_keeps_its_files(case: Case) -> None:
    def act(_folder: Path, _report: Report) -> None:
        assert case.queue.try_again(case.job(), "its worker died")
        assert case.queue.claim("other") is not None

    job = case.run(act)
    assert (job.state, job.worker) == (State.RUNNING, "other")
    assert case.folder.exists()


def test_suspended_worker_keeps_its_job(case: Case) -> None:
    assert case.queue.claim("suspended") is not None
    with case.results.held(case.identifier):
        # It has never sent a sign of life, but it still holds the directory.
        assert len(case.queue.abandoned()) == 1
        assert not Worker(case.queue, lambda *_: ()).run_one()
        assert case.job().worker == "suspended"
    assert Worker(case.queue, lambda *_: ()).run_one()
    assert case.job().state is State.SUCCESSFUL


def test_directory_is_held_once(case: Case) -> None:
    with case.results.held(case.identifier):
        assert case.results.is_held(case.identifier)
        with pytest.raises(HeldError), case.results.held(case.identifier):
            pass
    assert not case.results.is_held(case.identifier)


@pytest.mark.parametrize("free", [0.04, 0.06])
def test_disk_is_not_filled(case: Case, free: float, monkeypatch: pytest.MonkeyPatch) -> None:
    found = os.statvfs("/")
    values: list[Any] = list(found)
    blocks = found.f_blocks
    # f_bavail: what is free when 64 MiB more have been written.
    checked = []

    def statvfs(path: str) -> os.statvfs_result:
        checked.append(path)
        share = 0.5 if len(checked) == 1 else free
        values[4] = int(blocks * share)
        return os.statvfs_result(values)

    monkeypatch.setattr(results_module.os, "statvfs", statvfs)

    def act(_folder: Path, report: Report) -> None:
        for written in range(0, 130 * 1024**2, 1024**2):
            report(written, 0.1)

    job = case.run(act)
    assert job.state is (State.FAILED if free < 0.05 else State.SUCCESSFUL)
    # At the start, and after each 64 MiB.
    assert len(checked) == (2 if free < 0.05 else 3)
    assert job.status == (507 if free < 0.05 else 0)


def test_files_of_unknown_jobs_are_removed(case: Case) -> None:
    orphan = Path(case.results.path("0" * 32))
    orphan.mkdir(parents=True)
    (orphan / "x").touch()
    other = orphan.with_name("not a job")
    other.mkdir()
    clean(case.queue, case.results)
    assert not orphan.exists()
    assert other.exists()


def test_directory_that_cannot_be_made(case: Case) -> None:
    case.folder.parent.write_bytes(b"in the way")
    job = case.run(nothing)
    assert (job.state, job.status) == (State.FAILED, 500)
    assert job.message == "internal error"


def test_job_whose_end_cannot_be_noted_is_continued(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "_IDLE", 0.0)
    seen: list[str] = []

    def perform(job: Job, folder: str, report: Report) -> Sequence[ResultFile]:
        seen.append(job.worker)
        if len(seen) == 1:
            # The disk is full, also for the queue.
            monkeypatch.setattr(Queue, "succeed", broken)
        else:
            case.worker.stop()
        return []

    def broken(*_: object) -> bool:
        monkeypatch.undo()
        raise QueueError("the disk is full")

    settings = replace(case.settings, heartbeat=0.001)
    case.worker = Worker(Queue(settings), perform)
    case.worker.run()
    assert len(set(seen)) == 2
    assert (case.job().state, case.job().attempts) == (State.SUCCESSFUL, 1)
