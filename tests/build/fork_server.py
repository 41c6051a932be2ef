"""Commands in processes that are forked from one that has only imported their modules.

The start of an interpreter with GDAL and NumPy takes most of the time of a small build. The process
of the tests cannot fork them itself: a fork after GDAL has run can block for ever.
"""

from __future__ import annotations

import gc
import json
import os
import pkgutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NoReturn, TextIO

from tests.forked import become_new, exit_with_main

import mastaba_build
from mastaba.plugins.manager import Plugins

REPOSITORY = Path(__file__).parents[2]


class Running:
    """A command that runs.

    Attributes:
        pid: of its process.
        output: its standard output, which ends with the process.
    """

    def __init__(self, server: ForkServer, pid: int, output: TextIO) -> None:
        self.pid = pid
        self.output = output
        self._server = server
        self._status: int | None = None

    def wait(self) -> int:
        """Return the exit status; for a signal its negative number."""
        if self._status is None:
            self._status = self._server.wait(self.pid)
        return self._status

    def kill(self) -> None:
        """Kill the process, also one that is stopped, and wait for its end."""
        if self._status is None:
            os.kill(self.pid, signal.SIGKILL)
            self.wait()


class ForkServer:
    """A process that runs commands.

    Args:
        modules: to import besides those of the builder.
    """

    def __init__(self, *modules: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from tests.build.fork_server import serve; serve()", *modules],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a ``mastaba`` command to its end, with this working directory and environment."""
        with TemporaryDirectory() as folder:
            status = self.wait(self._start(words, folder))
            output, errors = ((Path(folder) / name).read_text() for name in ("1", "2"))
        return subprocess.CompletedProcess(words, status, output, errors)

    @contextmanager
    def running(self, *words: str) -> Iterator[Running]:
        """Run a ``mastaba`` command until the end of the context, when it is killed."""
        with TemporaryDirectory() as folder:
            pipe = Path(folder) / "1"
            os.mkfifo(pipe)
            pid = self._start(words, folder)
            with pipe.open() as output:
                process = Running(self, pid, output)
                try:
                    yield process
                finally:
                    process.kill()

    def wait(self, pid: int) -> int:
        """Return the exit status of a command when it has ended."""
        return self._ask(pid)

    def close(self) -> None:
        """End the process."""
        self._process.communicate()

    def _start(self, words: Sequence[str], folder: str) -> int:
        return self._ask([words, folder, str(Path.cwd()), dict(os.environ)])

    def _ask(self, request: object) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


def serve() -> None:
    """Start the commands that standard input contains, and wait for those whose pid it contains."""
    Plugins()
    for module in pkgutil.walk_packages(mastaba_build.__path__, "mastaba_build."):
        # Dask is not needed by most commands, and takes longest.
        if not module.name.endswith("dask_engine"):
            import_module(module.name)
    for name in sys.argv[1:]:
        import_module(name)
    gc.freeze()
    for line in sys.stdin:
        request = json.loads(line)
        if isinstance(request, int):
            answer = os.waitstatus_to_exitcode(os.waitpid(request, 0)[1])
        else:
            answer = os.fork()
            if answer == 0:
                _run(*request)
        print(answer, flush=True)


def _run(words: list[str], folder: str, directory: str, environment: dict[str, str]) -> NoReturn:
    def prepare() -> None:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number in (1, 2):
            os.dup2(os.open(f"{folder}/{number}", os.O_WRONLY | os.O_CREAT), number)
        os.environ.clear()
        become_new(environment)
        os.chdir(directory)

    exit_with_main(words, prepare)
