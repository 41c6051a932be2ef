"""The queue: fairness, limits, workers that die, ends of jobs."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mastaba_export.jobs.job import Job, Order, ResultFile, State
from mastaba_export.jobs.queue import ATTEMPTS, Queue
from mastaba_export.jobs.refusals import FullError, QueueError, TooManyError
from mastaba_export.jobs.settings import JobSettings, Limits

ROOM = 10**9
HOUR = 3600.0

MakeQueue = Callable[..., Queue]


class Clock:
    """Seconds that only pass when a test says so."""

    now = 1_000_000.0

    def __call__(self) -> float:
        self.now += 0.001
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def make_queue(tmp_path: Path, clock: Clock) -> MakeQueue:
    def make(**settings: object) -> Queue:
        known = JobSettings(directory=str(tmp_path / "export"), keep=HOUR)
        return Queue(replace(known, **settings), clock)  # type: ignore[arg-type]

    return make


def order(owner: str = "a", size: int = 100) -> Order:
    return Order(owner, "export-tiles", "LAYER", {"layer": "LAYER"}, "p", {"bytes": size}, size)


def claimed(queue: Queue, worker: str = "w") -> Job:
    job = queue.claim(worker)
    assert job is not None
    return job


def test_job_is_what_was_ordered(make_queue: MakeQueue) -> None:
    queue = make_queue()
    submitted = queue.submit(order(), ROOM)
    assert queue.job(submitted.id) == submitted
    assert submitted.state is State.ACCEPTED
    assert len({queue.submit(order(str(number)), ROOM).id for number in range(20)}) == 20
    assert all(len(job.id) == 32 for job in queue.jobs_of("1", 10))


def test_jobs_of_another_owner_are_not_listed(make_queue: MakeQueue) -> None:
    queue = make_queue()
    first, _, third = (queue.submit(order(owner), ROOM) for owner in "aba")
    assert [job.id for job in queue.jobs_of("a", 10)] == [third.id, first.id]
    assert [job.id for job in queue.jobs_of("a", 1, 1)] == [first.id]


def test_owners_take_turns(make_queue: MakeQueue) -> None:
    queue = make_queue(waiting=10)
    # One of them comes first, with all of its jobs.
    for owner in "aaaaaaaaaabbbbbbbbbbcccccccccc":
        queue.submit(order(owner), ROOM)
    running: list[Job] = []
    done: Counter[str] = Counter()
    for _ in range(30):
        while len(running) < 2 and (job := queue.claim("w")) is not None:
            running.append(job)
        job = running.pop(0)
        assert queue.succeed(job, [])
        done[job.order.owner] += 1
        if done.total() <= 27:
            assert max(done.values()) - min(done[owner] for owner in "abc") <= 1, done
    assert done == {"a": 10, "b": 10, "c": 10}


def test_an_owner_has_no_more_running_jobs_than_allowed(make_queue: MakeQueue) -> None:
    queue = make_queue(running=2)
    for _ in range(3):
        queue.submit(order(), ROOM)
    first = claimed(queue)
    claimed(queue)
    assert queue.claim("w") is None
    queue.succeed(first, [])
    claimed(queue)


def test_waiting_jobs_are_limited(make_queue: MakeQueue) -> None:
    queue = make_queue(waiting=2, limits=Limits(waiting=3))
    queue.submit(order("a"), ROOM)
    queue.submit(order("a"), ROOM)
    with pytest.raises(TooManyError, match="you have 2 waiting jobs, and the limit is 2") as error:
        queue.submit(order("a"), ROOM)
    assert error.value.details == {"waiting": 2, "limit": 2}
    assert error.value.retry_after > 0
    queue.submit(order("b"), ROOM)
    with pytest.raises(TooManyError, match="the server has 3"):
        queue.submit(order("c"), ROOM)
    claimed(queue)
    queue.submit(order("c"), ROOM)
    assert queue.counts()[State.ACCEPTED] == (3, 300)


def test_room_counts_results_and_expected_bytes(make_queue: MakeQueue, clock: Clock) -> None:
    queue = make_queue(running=3)
    queue.submit(order(size=300), 1000)
    done = claimed(queue)
    queue.succeed(done, [ResultFile("x.tif", "image/tiff", 500)])
    queue.submit(order(size=300), 1000)
    clock.now += 600
    with pytest.raises(FullError) as error:
        queue.submit(order(size=201), 1000)
    assert error.value.details == {"bytes": 201, "taken": 800, "limit": 1000}
    # When the result expires, there may be room.
    assert error.value.retry_after == pytest.approx(HOUR - 600, abs=2)
    queue.submit(order(size=200), 1000)


def test_job_of_a_dead_worker_is_given_to_another(make_queue: MakeQueue, clock: Clock) -> None:
    queue = make_queue()
    queue.beat("one")
    queue.beat("two")
    queue.submit(order(), ROOM)
    job = claimed(queue, "one")
    assert queue.progress(job, 40, 12345)
    clock.now += 119
    assert queue.abandoned() == []
    queue.beat("two")
    clock.now += 2
    (abandoned,) = queue.abandoned()
    assert (abandoned.id, abandoned.progress, abandoned.checkpoint) == (job.id, 40, 12345)
    assert queue.try_again(abandoned, "its worker died")
    assert queue.abandoned() == []
    again = claimed(queue, "two")
    assert (again.id, again.attempts, again.started) == (job.id, 1, job.started)
    # The first one was only slow. It has lost the job, and must not touch it.
    assert not queue.progress(job, 41, 0)
    assert not queue.succeed(job, [])
    assert not queue.fail(job, "x", 500)
    assert not queue.give_back(job)
    assert queue.succeed(again, [ResultFile("x", "image/tiff", 7)])


def test_job_that_kills_its_workers_fails(make_queue: MakeQueue) -> None:
    queue = make_queue()
    submitted = queue.submit(order(), ROOM)
    for number in range(ATTEMPTS):
        job = claimed(queue, str(number))
        assert queue.try_again(job, "its worker died") == (number < ATTEMPTS - 1)
    found = queue.job(submitted.id)
    assert found is not None
    assert (found.state, found.status) == (State.FAILED, 500)
    assert found.message == "its worker died, after 3 attempts"


def test_job_that_is_given_back_costs_no_attempt(make_queue: MakeQueue) -> None:
    queue = make_queue()
    queue.submit(order(), ROOM)
    for number in range(2 * ATTEMPTS):
        job = claimed(queue, str(number))
        assert job.attempts == 0
        assert queue.give_back(job)


def test_dismissed_job_is_lost_to_its_worker(make_queue: MakeQueue) -> None:
    queue = make_queue()
    submitted = queue.submit(order(), ROOM)
    job = claimed(queue)
    assert not queue.dismiss(submitted), "it runs by now"
    assert queue.dismiss(job)
    assert not queue.progress(job, 1, 1)
    found = queue.job(job.id)
    assert found is not None
    assert (found.state, found.worker) == (State.DISMISSED, "")
    assert queue.unfinished() == set()


def test_jobs_expire(make_queue: MakeQueue, clock: Clock) -> None:
    queue = make_queue(running=5)
    for number in range(5):
        queue.submit(order(str(number)), ROOM)
    successful, failed, dismissed, running = (claimed(queue) for _ in range(4))
    queue.succeed(successful, [])
    queue.fail(failed, "x", 400)
    queue.dismiss(dismissed)
    clock.now += HOUR - 1
    assert queue.expire(ROOM) == []
    clock.now += 2
    assert set(queue.expire(ROOM)) == {successful.id, failed.id, dismissed.id}
    assert queue.job(successful.id) is None
    assert running.id in queue.unfinished()
    assert len(queue.unfinished()) == 2


def test_oldest_results_beyond_the_limit_expire_first(make_queue: MakeQueue) -> None:
    queue = make_queue(running=3)
    for _ in range(3):
        queue.submit(order(), ROOM)
    jobs = [claimed(queue) for _ in range(3)]
    # The order of the ends counts.
    for job in (jobs[1], jobs[0], jobs[2]):
        queue.succeed(job, [ResultFile("x", "image/tiff", 100)])
    assert queue.expire(300) == []
    assert queue.expire(299) == [jobs[1].id]
    assert queue.expire(100) == [jobs[0].id]


def test_a_job_is_claimed_once(make_queue: MakeQueue, tmp_path: Path) -> None:
    queues = [make_queue(running=100, waiting=100) for _ in range(4)]
    for number in range(40):
        queues[0].submit(order(str(number % 7)), ROOM)
    found: list[str] = []

    def claim(queue: Queue) -> None:
        while (job := queue.claim("w")) is not None:
            found.append(job.id)

    threads = [threading.Thread(target=claim, args=(queue,)) for queue in queues]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == len(set(found)) == 40


def test_queue_survives_its_process(make_queue: MakeQueue) -> None:
    queue = make_queue()
    job = queue.submit(order(), ROOM)
    queue.close()
    assert make_queue().job(job.id) == job


def test_unusable_database_is_reported(make_queue: MakeQueue, tmp_path: Path) -> None:
    (tmp_path / "export").mkdir()
    (tmp_path / "export/queue.sqlite").write_bytes(b"not a database" * 100)
    with pytest.raises(QueueError, match="cannot be used"):
        make_queue().submit(order(), ROOM)


def test_database_of_another_version_is_refused(make_queue: MakeQueue, tmp_path: Path) -> None:
    import sqlite3

    (tmp_path / "export").mkdir()
    with sqlite3.connect(tmp_path / "export/queue.sqlite") as database:
        database.execute("PRAGMA user_version = 7")
    database.close()
    with pytest.raises(QueueError, match="version 7"):
        make_queue().counts()
