"""Dask clusters of real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pkgutil import walk_packages
from types import MappingProxyType, TracebackType
from typing import Self

from tests.fork_server import Forked, ForkServer

import mastaba_build

_ONE_THREAD = {"OMP_NUM_THREADS": "1"}
_NOTHING: Mapping[str, str] = MappingProxyType({})
_ALONE = ("--nthreads", "1", "--no-nanny", "--no-dashboard")


class Cluster:
    """A Dask scheduler, and workers of one thread that are not restarted when they die.

    Args:
        host: address on which the scheduler listens.

    Attributes:
        scheduler_file: for ``--engine dask:FILE`` and for workers.
        scheduler, workers: their processes.
    """

    def __init__(self, fork_server: ForkServer, directory: Path, host: str = "127.0.0.1") -> None:
        self._fork_server = fork_server
        self.scheduler_file = directory / "scheduler.json"
        self._directory = directory
        self.workers: list[Forked | subprocess.Popen[bytes]] = []
        self.scheduler = self._start(
            "scheduler",
            *("--host", host, "--port", "0", "--no-dashboard"),
            *("--scheduler-file", str(self.scheduler_file)),
        )
        deadline = time.monotonic() + 120
        while not self.scheduler_file.exists() or not self.scheduler_file.stat().st_size:
            assert self.scheduler.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)

    @property
    def port(self) -> int:
        """The port of the scheduler."""
        address = json.loads(self.scheduler_file.read_text())["address"]
        return int(address.rpartition(":")[2])

    def add_worker(self, variables: Mapping[str, str] = _NOTHING) -> None:
        """Start a worker with environment variables of its own."""
        file = ["--scheduler-file", str(self.scheduler_file)]
        self.workers.append(self._start("worker", *_ALONE, *file, variables=variables))

    def await_workers(self) -> None:
        """Return when all workers are known to the scheduler."""
        log = self._directory / "worker.log"
        deadline = time.monotonic() + 120
        while log.read_text().count("Registered to:") < len(self.workers):
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)

    def add_worker_in(
        self,
        prefix: Sequence[str],
        address: str,
        *words: str,
        variables: Mapping[str, str] = _NOTHING,
    ) -> None:
        """Start a worker by another command, as ``ip netns exec NAME``.

        Args:
            address: of the scheduler, as this worker sees it.
        """
        program = (sys.executable, "-m", "distributed.cli.dask_worker")
        with (self._directory / "worker.log").open("ab") as log:
            self.workers.append(
                subprocess.Popen(
                    [*prefix, *program, address, *_ALONE, *words],
                    cwd=self._directory,
                    env={**os.environ, **_ONE_THREAD, **variables},
                    stdout=log,
                    stderr=log,
                )
            )

    def _start(self, role: str, *words: str, variables: Mapping[str, str] = _NOTHING) -> Forked:
        log = self._directory / f"{role}.log"
        log.touch()
        return self._fork_server.start(
            "tests.build.clusters:dask",
            *(role, words),
            outputs=[log, log],
            directory=self._directory,
            variables={**os.environ, **_ONE_THREAD, **variables},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for process in (*self.workers, self.scheduler):
            process.kill()
        for process in (*self.workers, self.scheduler):
            process.wait()


def fork_builds(*modules: str) -> ForkServer:
    """Return a process that forks builds, schedulers and workers.

    Args:
        modules: to import besides those of the builder and of Dask.
    """
    found = [module.name for module in walk_packages(mastaba_build.__path__, "mastaba_build.")]
    has_dask = find_spec("distributed") is not None
    programs = [f"distributed.cli.dask_{role}" for role in ("scheduler", "worker")]
    names = [name for name in (*found, *programs) if has_dask or "dask" not in name]
    return ForkServer(*names, *modules)


def dask(role: str, words: Sequence[str]) -> int:
    """Run a scheduler or a worker."""
    if "PYTHONPATH" in os.environ:
        sys.path[:0] = os.environ["PYTHONPATH"].split(os.pathsep)
    import_module(f"distributed.cli.dask_{role}").main(words)
    return 0
