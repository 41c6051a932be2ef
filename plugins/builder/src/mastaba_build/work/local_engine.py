"""Worker processes on this machine."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Future
from typing import TYPE_CHECKING, Any

from mastaba_build.config.configuration import Configuration
from mastaba_build.plan.plan import Plan
from mastaba_build.work.worker import Job

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

_MEMORY = 300
"""MiB that a worker needs at most; tests/build/test_memory.py checks it."""
_TILES_OF_PROCESS = 500
"""Tiles that take as long as the start of a process, about 1.3 s of processor time."""
_LIBRARY_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def processors() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processes(configuration: Configuration, plan: Plan | None = None) -> int:
    """Return how many processes compute slabs on this machine, at least one.

    Args:
        plan: a small one gets fewer processes, unless the user has stated their number: a process
            takes longer to start than it saves.
    """
    wanted = configuration.workers or processors()
    if plan is not None and configuration.workers is None:
        wanted = max(1, min(wanted, _most_tiles(plan) // _TILES_OF_PROCESS))
    if configuration.memory is None:
        return wanted
    return max(1, min(wanted, configuration.memory // _MEMORY))


def _most_tiles(plan: Plan) -> int:
    """Return an upper limit of the tiles of a plan that contain data."""
    return sum(
        (level.limits.max_row - level.limits.min_row + 1)
        * (level.limits.max_col - level.limits.min_col + 1)
        for level in plan.levels
    )


class LocalEngine:
    """Processes with one task each: a process that is killed costs its slab only.

    Processes are spawned: a fork after GDAL has run can block for ever. One worker is this process.
    """

    lost: tuple[type[BaseException], ...] = (BrokenExecutor,)

    def __init__(self, workers: int | None = None) -> None:
        self.slots = workers or processors()
        self._idle: deque[ProcessPoolExecutor] = deque()
        self._pools: set[ProcessPoolExecutor] = set()

    def check(self, plan: Plan, job: Job) -> None:
        """Do nothing: the workers are as this process."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Future[Any]:
        if self.slots == 1:
            return _called(function, *arguments)
        pool = self._idle.popleft() if self._idle else self._new_pool()
        try:
            future = pool.submit(function, *arguments)
        except BrokenExecutor:
            self._pools.discard(pool)
            pool = self._new_pool()
            future = pool.submit(function, *arguments)
        future.add_done_callback(lambda _: self._idle.append(pool))
        return future

    def close(self) -> None:
        for pool in self._pools:
            pool.shutdown(cancel_futures=True)

    def _new_pool(self) -> ProcessPoolExecutor:
        # Imported here: small builds start no process.
        from concurrent.futures import ProcessPoolExecutor
        from multiprocessing import get_context

        for name in _LIBRARY_THREADS:
            os.environ.setdefault(name, "1")
        pool = ProcessPoolExecutor(1, get_context("spawn"), _exit_with_parent)
        self._pools.add(pool)
        return pool


def _called(function: Callable[..., Any], *arguments: Any) -> Future[Any]:
    future: Future[Any] = Future()
    try:
        future.set_result(function(*arguments))
    except Exception as error:  # noqa: BLE001 - the future has it
        future.set_exception(error)
    return future


def _exit_with_parent() -> None:
    """Let this process exit when the builder does, also if it is killed."""
    from multiprocessing import parent_process
    from multiprocessing.connection import wait

    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
