"""Programs in processes that are forked from one that has only imported their modules.

The start of an interpreter with GDAL, NumPy and Dask takes most of the time of a small build, and
that of a server most of the time until it answers. The process of the tests cannot fork them
itself: a fork after GDAL has run can block for ever.
"""

from __future__ import annotations

import gc
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn, TextIO

from tests.forked import become_new, exit_with

REPOSITORY = Path(__file__).parents[1]
COMMAND = "tests.fork_server:command"
STOPS_IT = ("sh", "-c", "kill -STOP $PPID")
KILLS_IT = ("sh", "-c", "kill -KILL $PPID")
"""Programs that stop or kill the process that waits for them."""


class ForkServer:
    """A process that forks others.

    Args:
        modules: to import.
        has_commands: import the command line with all plugins too.
    """

    def __init__(self, *modules: str, has_commands: bool = True) -> None:
        program = f"from tests.fork_server import serve; serve({has_commands})"
        self._process = subprocess.Popen(
            [sys.executable, "-c", program, *modules],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._requests = 0

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
            process = self.start(COMMAND, *arguments, outputs=outputs)
            try:
                status = process.wait()
            finally:
                process.kill()
            output, errors = (path.read_text() for path in outputs)
        return subprocess.CompletedProcess(command, status, output, errors)

    @contextmanager
    def running(self, *words: str, after: int = 0, by: Sequence[str] = ()) -> Iterator[Forked]:
        """Run a ``mastaba`` command until the end of the context, when it is killed; see `run`.

        Its standard output ends with the process.
        """
        with self.running_program(COMMAND, words, after, by) as process:
            yield process

    @contextmanager
    def running_program(self, program: str, *arguments: Any) -> Iterator[Forked]:
        """Run a program until the end of the context; see `start` and `running`."""
        with TemporaryDirectory() as folder:
            outputs = [Path(folder, name) for name in ("1", "2")]
            os.mkfifo(outputs[0])
            process = self.start(program, *arguments, outputs=outputs)
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
        directory: Path | None = None,
        variables: Mapping[str, str] = os.environ,
        in_session: bool = False,
    ) -> Forked:
        """Start a program.

        Args:
            program: module and name of a function, ``module:name``. It returns the exit status.
            arguments: of this function, as JSON contains them.
            outputs: files to which its standard output and error are appended.
            directory: its working directory; that of this process by default.
            variables: its environment.
            in_session: give it a session, and so a process group, of its own.
        """
        paths, place = list(map(str, outputs)), str(directory or Path.cwd())
        request = paths, place, dict(variables), in_session, program, arguments
        pid = self.ask("start", *request)
        assert pid is not None
        return Forked(self, pid)

    def ask(self, *request: Any) -> int | None:
        """Send a request, and return the response."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests += 1
        self._process.stdin.write(json.dumps([self._requests, *request]) + "\n")
        self._process.stdin.flush()
        while True:
            number, found = json.loads(self._process.stdout.readline())
            # A test that was interrupted may have left a response.
            if number == self._requests:
                response: int | None = found
                return response

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
        if self._status is None:
            self._status = self._server.ask("wait", self.pid)
        return self._status

    def wait(self, timeout: float | None = None) -> int:
        end = math.inf if timeout is None else time.monotonic() + timeout
        # The server itself never waits: it would keep all others waiting.
        while (status := self.poll()) is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired("mastaba", timeout or 0)
            time.sleep(0.01)
        return status

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the process, also one that is stopped, and wait for its end."""
        # Until its status is known, the number belongs to this process.
        if self._status is None:
            os.kill(self.pid, signal.SIGKILL)
            self.wait()


def serve(has_commands: bool) -> None:
    """Execute the requests that standard input contains, and write the responses."""
    if has_commands:
        _import_commands()
    for name in sys.argv[1:]:
        import_module(name)
    gc.freeze()
    for line in sys.stdin:
        number, kind, *request = json.loads(line)
        response = _fork(*request) if kind == "start" else _wait(*request)
        print(json.dumps([number, response]), flush=True)


def _import_commands() -> None:
    from mastaba.commands.main import main
    from mastaba.plugins import discovery, manager

    # Each process would search all installed distributions.
    found = list(discovery.installed())
    manager.installed = lambda: iter(found)  # type: ignore[attr-defined]
    # The parser of each command needs the modules of all.
    with redirect_stdout(None), suppress(SystemExit):
        main(["--help"])


def _fork(*request: Any) -> int:
    child = os.fork()
    if child == 0:
        _run(*request)
    return child


def _wait(child: int) -> int | None:
    ended, status = os.waitpid(child, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if ended else None


def _run(
    outputs: Sequence[str],
    directory: str,
    variables: Mapping[str, str],
    in_session: bool,
    program: str,
    arguments: Sequence[Any],
) -> NoReturn:
    def prepare() -> None:
        if in_session:
            os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number, path in enumerate(outputs, 1):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
        os.environ.clear()
        become_new(variables)
        os.chdir(directory)

    def run() -> int:
        module, _, name = program.partition(":")
        status: int = getattr(import_module(module), name)(*arguments)
        return status

    exit_with(run, prepare)


def command(words: Sequence[str], after: int = 0, by: Sequence[str] = ()) -> int:
    """Run a ``mastaba`` command; see `ForkServer.run`."""
    from mastaba.commands.main import main

    if after:
        _pause(after, by)
    return main(words)


def _pause(after: int, by: Sequence[str]) -> None:
    """Let a build wait for a program when it has reported so many slabs."""
    from mastaba_build.work.reports import Reports

    slab = Reports.slab
    slabs = 0

    def reported(*arguments: Any) -> None:
        nonlocal slabs
        slab(*arguments)
        slabs += 1
        if slabs == after:
            subprocess.run(by, check=True)

    Reports.slab = reported  # type: ignore[method-assign, assignment]
