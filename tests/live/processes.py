"""Processes that the live tests start, and end by their identifiers."""

from __future__ import annotations

import atexit
import http.client
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import pytest
from tests.fork_server import COMMAND, Forked, ForkServer
from tests.support.ports import free_port as free_port

REPOSITORY = Path(__file__).resolve().parents[2]
SHARED_DATA = REPOSITORY.parent / "shared" / "data"
WEB_USER = "www-data"

# Nothing here is slow: a test that waits this long would wait for ever.
PATIENCE = 120.0

_MODULES = (
    *("mastaba.site.epoch", "mastaba_render.engine", "mastaba_ogcapi.service"),
    *("mastaba_tms.service", "mastaba_wms.service", "mastaba_wmts.service"),
)
"""What a server imports when it opens an installation."""

running: list[Process] = []
"""Those whose logs belong into the report of a failure."""


class Process:
    """A server in a process group of its own. A context manager that stops it."""

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        folder: Path,
        *,
        cwd: Path | None = None,
        stdin: int | socket.socket = subprocess.DEVNULL,
    ) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        self._process = self._start([str(word) for word in command], cwd, stdin)
        running.append(self)

    def _start(
        self, command: list[str], cwd: Path | None, stdin: int | socket.socket
    ) -> subprocess.Popen[bytes] | Forked:
        with self.log.open("ab") as stream:
            return subprocess.Popen(
                command,
                stdin=stdin,
                stdout=stream,
                stderr=stream,
                cwd=cwd,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def children(self) -> list[int]:
        """Process identifiers of its children."""
        path = Path(f"/proc/{self.pid}/task/{self.pid}/children")
        return [int(word) for word in path.read_text(encoding="ascii").split()]

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def wait(self) -> int:
        """Wait for its end; returns its exit status."""
        return self._process.wait(PATIENCE)

    def wait_for(self, ready: Callable[[], bool]) -> Self:
        """Wait until it is ready, which it must become before it ends."""

        def ready_or_gone() -> bool:
            return ready() or self._process.poll() is not None

        try:
            wait_until(ready_or_gone)
            assert self._process.poll() is None, f"{self.name} has ended:\n{self.tail()}"
        except BaseException:
            self.stop()
            raise
        return self

    def tail(self, lines: int = 80) -> str:
        """The end of its log; empty if its folder has been removed."""
        if not self.log.exists():
            return ""
        text = self.log.read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    def stop(self) -> None:
        if self in running:
            running.remove(self)
        if self._process.poll() is None:
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(PATIENCE)
        # Also what its descendants may have left behind.
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


@cache
def _commands() -> ForkServer:
    """Return the process that forks commands."""
    server = ForkServer(*_MODULES)
    atexit.register(server.close)
    return server


class Command(Process):
    """A command of ``mastaba`` that does not end by itself.

    It is forked: the start of an interpreter takes longer than all that follows.
    """

    def _start(
        self, command: list[str], cwd: Path | None, stdin: int | socket.socket
    ) -> subprocess.Popen[bytes] | Forked:
        self.log.touch()
        outputs = [self.log, self.log]
        return _commands().start(COMMAND, command, outputs=outputs, directory=cwd, in_session=True)


class Mastaba(Command):
    """The server itself, from the environment of the tests."""

    def __init__(
        self,
        server_json: Path,
        folder: Path,
        *,
        http: int | None = None,
        cwd: Path | None = None,
        is_new: bool = False,
    ) -> None:
        """Start the server.

        Args:
            is_new: in an interpreter of its own, so sets have another order than in others.
        """
        self._is_new = is_new
        document = json.loads(server_json.read_text(encoding="utf-8"))
        self.port: str = document["port"]
        self.workers: int = document["workers"]
        words: list[str | Path] = ["-f", server_json]
        if http is not None:
            self.port = f"127.0.0.1:{http}"
            words += ["--http", self.port]
        super().__init__(server_json.stem, words, folder, cwd=cwd)
        self.wait_for(self._is_up)

    def _start(
        self, command: list[str], cwd: Path | None, stdin: int | socket.socket
    ) -> subprocess.Popen[bytes] | Forked:
        if not self._is_new:
            return super()._start(command, cwd, stdin)
        return Process._start(self, [sys.executable, "-m", "mastaba", *command], cwd, stdin)

    def _is_up(self) -> bool:
        # With `follow` there is one process more.
        return accepts(self.port) and len(self.children()) >= self.workers


def changed(server_json: Path, copy: Path, **changes: Any) -> Path:
    """Write a copy of a server.json with other values; two workers by default."""
    document = json.loads(server_json.read_text(encoding="utf-8"))
    logger = {"output": "standard_output", "level": "warn"}
    document.update({"workers": 2, "threads": 2, "logger": logger, **changes})
    copy.write_text(json.dumps(document), encoding="utf-8")
    return copy


def accepts(port: str) -> bool:
    """Return whether a program listens there: ``host:port``, or the path of a Unix socket."""
    host, colon, number = port.rpartition(":")
    family = socket.AF_INET if colon else socket.AF_UNIX
    with socket.socket(family) as sock:
        try:
            sock.connect((host, int(number)) if colon else port)
        except OSError:
            return False
    return True


def answers(url: str) -> bool:
    """Tell whether an HTTP server answers there, whatever it says."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=PATIENCE)
    try:
        connection.request("GET", "/")
        connection.getresponse().read()
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
    return True


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "the condition was not met in time"
        time.sleep(0.02)


def program(name: str, package: str) -> str:
    """The path of a program; skips the test when it is not installed."""
    path = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
    if path is None:
        pytest.skip(f"{name} is missing: install the Debian package {package} (make live)")
    return path


def is_root() -> bool:
    """Whether the web servers run their workers as another user than the tests."""
    if os.geteuid() != 0:
        return False
    try:
        pwd.getpwnam(WEB_USER)
    except KeyError:
        pytest.skip(f"there is no user {WEB_USER}, as whom web servers run on Debian")
    return True


@contextmanager
def public_folder() -> Iterator[Path]:
    """A temporary folder that other users can read, unlike those of pytest."""
    with tempfile.TemporaryDirectory(prefix="mastaba-live-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


def render(template: str, values: Mapping[str, object]) -> str:
    """Replace ``@name@``: the other signs have a meaning in the files of web servers."""
    for name, value in values.items():
        template = template.replace(f"@{name}@", str(value))
    return template
