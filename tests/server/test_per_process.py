import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from mastaba_server.threads.per_process import PerProcess, ThreadPool

forks = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")


def in_child(check: object) -> bool:
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if callable(check) and check() else 1
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_results_are_in_the_order_of_the_items() -> None:
    pool = ThreadPool(3, "test")
    assert pool.map(lambda item: item * 2, range(50)) == [item * 2 for item in range(50)]
    assert pool.map(lambda item: item, []) == []


def test_items_are_processed_in_parallel() -> None:
    meeting = threading.Barrier(4)
    ThreadPool(3, "test").map(lambda _: meeting.wait(60), range(4))


def test_first_error_in_the_order_of_the_items_is_raised() -> None:
    def fail(item: int) -> int:
        if item in (3, 7):
            raise ValueError(item)
        return item

    pool = ThreadPool(2, "test")
    with pytest.raises(ValueError, match="3"):
        pool.map(fail, range(10))
    assert pool.map(lambda item: item, range(3)) == [0, 1, 2]


def test_a_pool_that_is_busy_cannot_block_a_request() -> None:
    pool = ThreadPool(2, "test")
    begun, release = threading.Semaphore(0), threading.Event()

    def block(_item: int) -> bool:
        begun.release()
        return release.wait(60)

    blocker = threading.Thread(target=pool.map, args=(block, range(5)))
    blocker.start()
    for _ in range(3):  # both threads of the pool, and the one that takes part
        begun.acquire()
    try:
        assert pool.map(lambda item: item, range(5)) == [0, 1, 2, 3, 4]
    finally:
        release.set()
        blocker.join()


def test_items_may_use_the_pool_themselves() -> None:
    pool = ThreadPool(2, "test")
    nested = pool.map(lambda item: sum(pool.map(lambda part: part, range(item))), range(8))
    assert nested == [sum(range(item)) for item in range(8)]


@forks
def test_a_child_process_has_its_own_threads() -> None:
    pool = ThreadPool(2, "test")
    expected = pool.map(lambda item: item, range(4))
    assert in_child(lambda: pool.map(lambda item: item, range(4)) == expected)
    assert pool.map(lambda item: item, range(4)) == expected


def test_many_threads_create_one_value() -> None:
    made: list[object] = []

    def make() -> object:
        made.append(object())
        return made[-1]

    value = PerProcess(make)
    with ThreadPoolExecutor(8) as threads:
        assert len(set(threads.map(lambda _: id(value.get()), range(100)))) == 1
    assert len(made) == 1


def test_failed_creation_is_tried_again() -> None:
    outcomes = iter([OSError("not yet"), None])

    def make() -> str:
        error = next(outcomes)
        if error:
            raise error
        return "made"

    value = PerProcess(make)
    with pytest.raises(OSError, match="not yet"):
        value.get()
    assert value.get() == "made"


@forks
def test_a_value_is_released_before_a_fork_and_created_again_on_both_sides() -> None:
    value = PerProcess(lambda: [os.getpid()])
    first = value.get()
    assert in_child(lambda: value.get() == [os.getpid()])
    assert value.get() == first
    assert value.get() is not first


@forks
def test_a_lock_held_during_a_fork_is_free_in_the_child() -> None:
    entered, release = threading.Event(), threading.Event()

    def make() -> int:
        entered.set()
        release.wait(60)
        return os.getpid()

    value = PerProcess(make)
    thread = threading.Thread(target=value.get)
    thread.start()
    entered.wait(60)

    def in_the_child() -> bool:
        release.set()
        return value.get() == os.getpid()

    try:
        assert in_child(in_the_child)
    finally:
        release.set()
        thread.join()
