"""Programs in processes that are forked from one that has only imported their modules.

The start of an interpreter with GDAL, NumPy and Dask takes most of the time of a small build. The
process of the tests cannot fork them itself: a fork after GDAL has run can block for ever.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pkgutil import walk_packages
from tempfile import TemporaryDirectory
from typing import Any, NoReturn, TextIO

from tests.forked import become_new, exit_with

import mastaba_build
from mastaba.commands.main import main
from mastaba.plugins import manager
from mastaba_build.work.reports import Reports

REPOSITORY = Path(__file__).parents[2]


class ForkServer:
    """A process that forks others.

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

    def run(
        self, *words: object, after: int = 0, by: Sequence[object] = ()
    ) -> subprocess.CompletedProcess[str]:
        """Run a ``mastaba`` command to its end, with this working directory and environment.

        Args:
            after: number of slabs; when the command has reported them, it waits for a program. So
                there are slabs left on a machine of any speed.
            by: this program and its arguments.
        """
        command = list(map(str, words))
        with TemporaryDirectory() as folder:
            outputs = [Path(folder, name) for name in ("1", "2")]
            arguments = [command, after, list(map(str, by))]
            process = self.start("mastaba", *arguments, outputs=outputs, directory=Path.cwd())
            status = process.wait()
            output, errors = (path.read_text() for path in outputs)
        return subprocess.CompletedProcess(command, status, output, errors)

    @contextmanager
    def running(self, *words: str) -> Iterator[Forked]:
        """Run a ``mastaba`` command until the end of the context, when it is killed.

        Its standard output ends with the process.
        """
        with TemporaryDirectory() as folder:
            outputs = [Path(folder, name) for name in ("1", "2")]
            os.mkfifo(outputs[0])
            process = self.start("mastaba", words, 0, [], outputs=outputs, directory=Path.cwd())
            with outputs[0].open() as output:
                process.output = output
                try:
                    yield process
                finally:
                    process.kill()

    def start(
        self,
        program: str,
        *arguments: Any,
        outputs: Sequence[Path],
        directory: Path,
        variables: Mapping[str, str] = os.environ,
    ) -> Forked:
        """Start a program: ``mastaba`` or ``dask``.

        Args:
            outputs: files to which its standard output and error are appended.
            directory: its working directory.
            variables: its environment.
        """
        paths = list(map(str, outputs))
        pid = self.ask("start", paths, str(directory), dict(variables), program, arguments)
        assert pid is not None
        return Forked(self, pid)

    def ask(self, *request: Any) -> int | None:
        """Send a request, and return the response."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        found: int | None = json.loads(self._process.stdout.readline())
        return found

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


class Forked:
    """A forked process, with some of the methods of `subprocess.Popen`.

    Attributes:
        output: its standard output, which ends with the process; only if it is `running`.
    """

    output: TextIO

    def __init__(self, server: ForkServer, pid: int) -> None:
        self._server = server
        self._status: int | None = None
        self.pid = pid

    def poll(self) -> int | None:
        return self._wait(os.WNOHANG)

    def wait(self) -> int:
        status = self._wait(0)
        assert status is not None
        return status

    def kill(self) -> None:
        """Kill the process, also one that is stopped, and wait for its end."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)
            self.wait()

    def _wait(self, options: int) -> int | None:
        if self._status is None:
            self._status = self._server.ask("wait", self.pid, options)
        return self._status


def serve() -> None:
    """Execute the requests that standard input contains, and write the responses."""
    # Each process would search all installed distributions.
    found = list(manager.installed())
    manager.installed = lambda: iter(found)
    # The parser of each command needs the modules of all.
    with redirect_stdout(None), suppress(SystemExit):
        main(["--help"])
    modules = [module.name for module in walk_packages(mastaba_build.__path__, "mastaba_build.")]
    programs = [f"distributed.cli.dask_{role}" for role in ("scheduler", "worker")]
    has_dask = find_spec("distributed") is not None
    for name in [*modules, *programs, *sys.argv[1:]]:
        if has_dask or "dask" not in name:
            import_module(name)
    gc.freeze()
    for line in sys.stdin:
        kind, *request = json.loads(line)
        response = _fork(*request) if kind == "start" else _wait(*request)
        print(json.dumps(response), flush=True)


def _fork(*request: Any) -> int:
    child = os.fork()
    if child == 0:
        _run(*request)
    return child


def _wait(child: int, options: int) -> int | None:
    ended, status = os.waitpid(child, options)
    return os.waitstatus_to_exitcode(status) if ended else None


def _run(
    outputs: Sequence[str],
    directory: str,
    variables: Mapping[str, str],
    program: str,
    arguments: Sequence[Any],
) -> NoReturn:
    def prepare() -> None:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number, path in enumerate(outputs, 1):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
        os.environ.clear()
        become_new(variables)
        os.chdir(directory)

    exit_with(partial(_mastaba if program == "mastaba" else _dask, *arguments), prepare)


def _mastaba(words: Sequence[str], after: int, by: Sequence[str]) -> int:
    slab = Reports.slab
    slabs = 0

    def reported(*arguments: Any) -> None:
        nonlocal slabs
        slab(*arguments)
        slabs += 1
        if slabs == after:
            subprocess.run(by, check=True)

    Reports.slab = reported  # type: ignore[method-assign]
    return main(words)


def _dask(role: str, words: Sequence[str]) -> int:
    if "PYTHONPATH" in os.environ:
        sys.path[:0] = os.environ["PYTHONPATH"].split(os.pathsep)
    import_module(f"distributed.cli.dask_{role}").main(words)
    return 0
