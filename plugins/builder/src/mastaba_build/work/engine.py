"""Engines: where slabs are computed. The coordinator is the same for all of them."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import contextmanager
from typing import Any, Protocol

from mastaba_build.errors import BuildError
from mastaba_build.output.storage import OutputStore
from mastaba_build.plan.plan import Plan
from mastaba_build.work.worker import Job, probe


class Engine(Protocol):
    """Workers, in the words of `concurrent.futures`.

    Attributes:
        lost: exceptions of a future which mean that its worker died; the slab is built again.
    """

    lost: tuple[type[BaseException], ...]

    @property
    def slots(self) -> int:
        """Number of tasks to submit before the first one is done."""

    def check(self, plan: Plan, job: Job) -> None:
        """Check that the workers can build a plan.

        Raises:
            BuildError: one cannot, or there is none.
        """

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Future[Any]:
        """Call a function in a worker.

        Raises:
            BuildError: the engine cannot be reached any more.
        """

    def close(self) -> None:
        """Cancel the tasks and release the workers."""


class ExecutorEngine:
    """Any executor of `concurrent.futures`, for example ``mpi4py.futures.MPIPoolExecutor()``.

    The caller shuts the executor down.

    Args:
        executor: its workers have ``mastaba-build`` and see the sources, the work directory and
            the output under the same paths.
        slots: tasks to keep in flight, for example twice the number of workers.
    """

    lost: tuple[type[BaseException], ...] = (BrokenExecutor,)

    def __init__(self, executor: Executor, slots: int) -> None:
        self._executor = executor
        self.slots = slots
        self._futures: set[Future[Any]] = set()

    def check(self, plan: Plan, job: Job) -> None:
        with probing(plan, job) as name:
            self.submit(probe, job, name).result()

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Future[Any]:
        try:
            future = self._executor.submit(function, *arguments)
        except BrokenExecutor as error:
            raise BuildError(f"the executor has failed: {error}") from None
        self._futures.add(future)
        future.add_done_callback(self._futures.discard)
        return future

    def close(self) -> None:
        for future in list(self._futures):
            future.cancel()


@contextmanager
def probing(plan: Plan, job: Job) -> Iterator[str]:
    """Write a file for the probes of workers, yield its name, and remove all files of that name.

    Raises:
        BuildError: what the workers wrote is not visible here.
    """
    name = f".probe.{secrets.token_hex(4)}.tmp"  # such names are also removed after a kill
    output = plan.configuration.output
    work, target = OutputStore.of_directory(job.work), output.open().below(plan.root)
    work.write(name, b"probe")
    try:
        yield name
        if target.stat(name) is None:
            raise BuildError(f"workers write to another {output}; the output must be shared")
    finally:
        work.delete(name)
        target.delete(name)
        target.remove_empty("")
        target.close()
