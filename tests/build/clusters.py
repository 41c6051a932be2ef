"""Dask clusters of real processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self


class Cluster:
    """A Dask scheduler, and workers of one thread that are not restarted when they die.

    Attributes:
        scheduler_file: for ``--engine dask:FILE`` and for workers.
        scheduler, workers: their processes.
    """

    def __init__(self, directory: Path) -> None:
        self.scheduler_file = directory / "scheduler.json"
        self._directory = directory
        self.workers: list[subprocess.Popen[bytes]] = []
        self.scheduler = self._start(
            "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", variables={}
        )
        deadline = time.monotonic() + 60
        while not self.scheduler_file.exists() or not self.scheduler_file.stat().st_size:
            assert self.scheduler.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)

    def add_worker(self, variables: Mapping[str, str] | None = None) -> None:
        """Start a worker with environment variables of its own."""
        words = ["--nthreads", "1", "--no-nanny", "--no-dashboard"]
        self.workers.append(self._start("worker", *words, variables=variables or {}))

    def _start(
        self, role: str, *words: str, variables: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.dask_{role}"]
        with (self._directory / f"{role}.log").open("ab") as log:
            return subprocess.Popen(
                [*command, "--scheduler-file", str(self.scheduler_file), *words],
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
