"""The table of worker threads, shared by processes."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

import pytest

from mastaba_server.processes.scoreboard import Scoreboard, WorkerStatus


def in_child(action: Callable[[], None]) -> tuple[int, Callable[[], None]]:
    """Fork a process that does something and waits; returns it and what ends it."""
    ready_read, ready_write = os.pipe()
    end_read, end_write = os.pipe()
    pid = os.fork()
    if not pid:
        action()
        os.write(ready_write, b"x")
        os.read(end_read, 1)
        os._exit(0)
    os.read(ready_read, 1)

    def end() -> None:
        os.write(end_write, b"x")
        os.waitpid(pid, 0)
        for descriptor in (ready_read, ready_write, end_read, end_write):
            os.close(descriptor)

    return pid, end


def test_nothing_is_bound_at_first() -> None:
    board = Scoreboard(2, 3)
    assert board.rows() == []
    board.end(board.begin())
    assert board.rows() == []


def test_states_of_a_row() -> None:
    board = Scoreboard(2, 2)
    board.bind_worker(1)
    assert [(row.identifier, row.pid, row.status) for row in board.rows()] == [
        (3, os.getpid(), WorkerStatus.PENDING),
        (4, os.getpid(), WorkerStatus.PENDING),
    ]
    before = int(time.time())
    begun = board.begin()
    row = board.rows()[0]
    assert (row.status, row.count, row.duration) == (WorkerStatus.RUNNING, 0, 0)
    assert before <= row.time <= time.time()
    board.end(begun)
    row = board.rows()[0]
    assert (row.status, row.count) == (WorkerStatus.AVAILABLE, 1)
    assert row.duration > 0
    assert board.rows()[1].status == WorkerStatus.PENDING
    assert board.rows()[1].time == 0


def test_requests_beyond_the_rows_do_not_fail() -> None:
    board = Scoreboard(1, 3)
    board.bind_worker(0)
    running = [board.begin() for _ in range(5)]
    assert [row.status for row in board.rows()] == [WorkerStatus.RUNNING] * 3
    for row in running:
        board.end(row)
    assert [row.count for row in board.rows()] == [1] * 3


def test_threads_that_end_take_no_row_with_them() -> None:
    """HTTP ends threads that have nothing to do, and begins others."""
    board = Scoreboard(1, 2)
    board.bind_worker(0)
    for _ in range(10):
        thread = threading.Thread(target=lambda: board.end(board.begin()))
        thread.start()
        thread.join()
    assert sum(row.count for row in board.rows()) == 10


def test_rows_of_maps_are_shown_once_they_are_used() -> None:
    board = Scoreboard(1, 1, maps=3)
    board.bind_worker(0)
    assert len(board.rows()) == 1
    first, second = board.begin(), board.begin()
    assert [row.identifier for row in board.rows()] == [1, 2]
    board.end(first)
    board.end(second)
    assert [row.count for row in board.rows()] == [1, 1]


def test_signs_of_life() -> None:
    board = Scoreboard(2, 2)
    board.bind_worker(1)
    assert (board.ticks(1), board.silence(1)) == (0, 0.0)
    board.tick()
    assert (board.ticks(0), board.ticks(1)) == (0, 1)
    first, second = board.begin(), board.begin()
    time.sleep(0.2)
    second.latest = latest = time.monotonic()
    assert board.silence(1) >= 0.2
    board.end(first)
    assert board.silence(1) <= time.monotonic() - latest
    board.end(second)
    assert board.silence(1) == 0.0
    assert (board.ticks(7), board.silence(7)) == (0, 0.0)


@pytest.mark.parametrize("index", [-1, 1, 100])
def test_a_worker_without_rows_does_not_fail(index: int) -> None:
    board = Scoreboard(1, 1)
    board.bind_worker(index)
    board.end(board.begin())
    assert board.rows() == []


def test_workers_are_seen_by_other_processes_while_they_live() -> None:
    board = Scoreboard(2, 1)

    def serve() -> None:
        board.bind_worker(1)
        board.begin()

    pid, end = in_child(serve)
    rows = board.rows()
    assert [(row.identifier, row.pid, row.status) for row in rows] == [
        (2, pid, WorkerStatus.RUNNING)
    ]
    end()
    assert board.rows() == []


def test_a_successor_starts_with_clear_rows() -> None:
    board = Scoreboard(1, 2)

    def serve() -> None:
        board.bind_worker(0)
        board.end(board.begin())

    _, end = in_child(serve)
    end()
    pid, end = in_child(lambda: board.bind_worker(0))
    assert [(row.pid, row.status, row.count) for row in board.rows()] == [
        (pid, WorkerStatus.PENDING, 0)
    ] * 2
    end()
