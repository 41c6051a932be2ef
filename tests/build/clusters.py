"""Dask clusters of real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Self

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

    def __init__(self, directory: Path, host: str = "127.0.0.1") -> None:
        self.scheduler_file = directory / "scheduler.json"
        self._directory = directory
        self.workers: list[subprocess.Popen[bytes]] = []
        self.scheduler = self._start(
            "scheduler",
            *("--host", host, "--port", "0", "--no-dashboard"),
            *("--scheduler-file", str(self.scheduler_file)),
        )
        deadline = time.monotonic() + 60
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
        deadline = time.monotonic() + 60
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
        words = (address, *_ALONE, *words)
        self.workers.append(self._start("worker", *words, prefix=prefix, variables=variables))

    def _start(
        self,
        role: str,
        *words: str,
        prefix: Sequence[str] = (),
        variables: Mapping[str, str] = _NOTHING,
    ) -> subprocess.Popen[bytes]:
        command = [*prefix, sys.executable, "-m", f"distributed.cli.dask_{role}"]
        with (self._directory / f"{role}.log").open("ab") as log:
            return subprocess.Popen(
                [*command, *words],
                cwd=self._directory,
                env={**os.environ, "OMP_NUM_THREADS": "1", **variables},
                stdout=log,
                stderr=log,
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
