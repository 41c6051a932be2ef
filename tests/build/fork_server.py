"""Commands in processes that are forked from one that has only imported their modules.

The start of an interpreter with GDAL and NumPy takes most of the time of a small build. The process
of the tests cannot fork them itself: a fork after GDAL has run can block for ever.
"""

from __future__ import annotations

import gc
import json
import os
import pkgutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NoReturn

from tests.forked import become_new, exit_with_main

import mastaba_build
from mastaba.plugins.manager import Plugins

REPOSITORY = Path(__file__).parents[2]


class ForkServer:
    """A process that runs commands, one at a time."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from tests.build.fork_server import serve; serve()"],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a ``mastaba`` command to its end, with this working directory and environment."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with TemporaryDirectory() as folder:
            request = [words, folder, str(Path.cwd()), dict(os.environ)]
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            status = int(self._process.stdout.readline())
            output, errors = ((Path(folder) / name).read_text() for name in ("1", "2"))
        return subprocess.CompletedProcess(words, status, output, errors)

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def serve() -> None:
    """Run the commands that standard input contains, and write their exit statuses."""
    Plugins()
    for module in pkgutil.walk_packages(mastaba_build.__path__, "mastaba_build."):
        # Dask is not needed by most commands, and takes longest.
        if not module.name.endswith("dask_engine"):
            import_module(module.name)
    gc.freeze()
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _run(*json.loads(line))
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(status, flush=True)


def _run(words: list[str], folder: str, directory: str, environment: dict[str, str]) -> NoReturn:
    def prepare() -> None:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number in (1, 2):
            os.dup2(os.open(f"{folder}/{number}", os.O_WRONLY | os.O_CREAT), number)
        os.environ.clear()
        become_new(environment)
        os.chdir(directory)

    exit_with_main(words, prepare)
