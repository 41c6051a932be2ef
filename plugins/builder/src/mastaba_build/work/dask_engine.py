"""Workers of a Dask cluster, joined by the address of its scheduler."""

from __future__ import annotations

import importlib.metadata
import json
import logging
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from pathlib import Path
from typing import Any

from distributed import Client
from distributed.scheduler import KilledWorker

from mastaba_build.errors import BuildError, PlanError
from mastaba_build.plan.plan import Plan
from mastaba_build.work.engine import probing
from mastaba_build.work.worker import Job, probe

_FIRST_WORKER = 60
_TASKS_PER_THREAD = 2
_COUNTED_EVERY = 5.0


class DaskEngine:
    """A Dask cluster.

    Workers may join and leave during a build. Dask gives the slab of a worker that died to another.

    Args:
        address: of the scheduler, as ``tcp://host:8786``; or the path of its scheduler file.

    Raises:
        PlanError: the scheduler cannot be reached, or has no workers.
    """

    lost: tuple[type[BaseException], ...] = (KilledWorker,)

    def __init__(self, address: str) -> None:
        self._address = address
        for name in ("distributed", "distributed.client", "tornado.application", "asyncio"):
            # Errors of the client are reported by the build; its log has a traceback for each.
            logging.getLogger(name).setLevel(logging.CRITICAL)
        try:
            self._client: Any = Client(_scheduler(address), set_as_default=False)
        except (OSError, ValueError) as error:
            raise PlanError(
                f"cannot connect to the Dask scheduler at {address}: {_first_line(error)}"
            ) from None
        try:
            self._client.wait_for_workers(1, timeout=_FIRST_WORKER)
        except TimeoutError:
            self._client.close()
            raise PlanError(f"the Dask scheduler at {address} has no workers; start some") from None
        self._executor = self._client.get_executor(pure=False)
        self._slots = 1
        self._counted = 0.0

    @property
    def slots(self) -> int:
        if time.monotonic() > self._counted + _COUNTED_EVERY:
            threads = sum(self._call(self._client.nthreads).values())
            self._slots = max(1, _TASKS_PER_THREAD * threads)
            self._counted = time.monotonic()
        return self._slots

    def check(self, plan: Plan, job: Job) -> None:
        # This function exists on every worker, also on those without mastaba-build.
        self._on_all(importlib.metadata.version, "mastaba-build")
        with probing(plan, job) as name:
            self._on_all(probe, job, name)

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Future[Any]:
        future: Future[Any] = self._call(self._executor.submit, function, *arguments)
        return future

    def close(self) -> None:
        self._executor.shutdown(wait=False)
        self._client.close()

    def _on_all(self, function: Callable[..., Any], *arguments: Any) -> None:
        answers = self._call(self._client.run, function, *arguments, on_error="return")
        for worker, answer in answers.items():
            if isinstance(answer, importlib.metadata.PackageNotFoundError):
                raise PlanError(
                    f"Dask worker {worker} does not have mastaba-build; install it there"
                )
            if isinstance(answer, Exception):
                raise PlanError(f"Dask worker {worker} {_first_line(answer)}")

    def _call(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        try:
            return function(*arguments, **named)
        except (OSError, RuntimeError, CancelledError) as error:
            raise BuildError(
                f"the Dask scheduler at {self._address} does not respond ({_first_line(error)}); "
                "the same command resumes the build"
            ) from None


def _scheduler(address: str) -> str:
    """Return the address of a scheduler, from its file if one is given."""
    if not address.endswith(".json"):
        return address
    try:
        return str(json.loads(Path(address).read_text("utf-8"))["address"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PlanError(
            f"{address} is not a scheduler file of Dask ({error}); start the scheduler with "
            "--scheduler-file"
        ) from None


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
