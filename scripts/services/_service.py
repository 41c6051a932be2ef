"""Shared code of the scripts in this folder: folders, ports, processes and packages.

A service uses one folder (by default ``.run/NAME`` in the repository) for its configuration, data,
logs and a file that lists its processes. It listens on free ports.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
RUN = REPOSITORY / ".run"


class ServiceError(Exception):
    """An error that is reported to the user in one line."""


class Service:
    """A folder and the processes that run in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self._file = self.folder / "service.json"
        self._state: dict[str, Any] = {"processes": {}, "variables": {}}
        if self._file.exists():
            self._state = json.loads(self._file.read_text())

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables for clients."""
        found: dict[str, str] = self._state["variables"]
        return found

    def create(self) -> None:
        if self._file.exists():
            raise ServiceError(f"{self.folder} is in use: run down first")
        self.folder.mkdir(parents=True, exist_ok=True)
        self._save()

    def tell(self, variables: Mapping[str, object]) -> None:
        """Add variables to the output of `env`."""
        self.variables.update({name: str(value) for name, value in variables.items()})
        self._save()

    def start(
        self, name: str, command: Sequence[object], environment: Mapping[str, str] | None = None
    ) -> None:
        """Start a process that outlives this script; its output goes to NAME.log."""
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
            )
        self._state["processes"][name] = [process.pid, _started(process.pid)]
        self._save()

    def wait(self, name: str, condition: Callable[[], bool], seconds: float = 240) -> None:
        """Wait until a process is ready.

        Raises:
            ServiceError: it exited or is not ready in time; with the end of its log.
        """
        end = time.monotonic() + seconds
        while not condition():
            if not self._alive(name) or time.monotonic() > end:
                raise ServiceError(f"{name} did not become ready:\n{self._tail(name)}")
            time.sleep(0.05)

    def down(self) -> None:
        """Kill the processes and remove the folder; the data is not needed."""
        for name in reversed(self._state["processes"]):
            if self._alive(name):
                os.kill(self._state["processes"][name][0], signal.SIGKILL)
        end = time.monotonic() + 10
        while any(map(self._alive, self._state["processes"])) and time.monotonic() < end:
            time.sleep(0.05)
        shutil.rmtree(self.folder, ignore_errors=True)

    def stop(self, name: str) -> None:
        """Kill one process."""
        if self._alive(name):
            os.kill(self._state["processes"][name][0], signal.SIGKILL)

    def _alive(self, name: str) -> bool:
        # If the start time differs, the pid now belongs to another process.
        pid, started = self._state["processes"].get(name, (0, None))
        return pid > 0 and started is not None and _started(pid) == started

    def _tail(self, name: str) -> str:
        path = self.folder / f"{name}.log"
        return "\n".join(path.read_text(errors="replace").splitlines()[-20:])

    def _save(self) -> None:
        self._file.write_text(json.dumps(self._state, indent=1))


def _started(pid: int) -> str | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else fields[19]


def run(*command: object, stdin: str | None = None, environment: Mapping[str, str] = {}) -> str:
    """Run a command and return its output.

    Raises:
        ServiceError: it fails; with its output.
    """
    done = subprocess.run(
        [str(part) for part in command],
        input=stdin,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )
    if done.returncode:
        shown = shlex.join(map(str, command))
        raise ServiceError(f"{shown} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [opened.getsockname()[1] for opened in sockets]
    for opened in sockets:
        opened.close()
    return ports


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def answers(url: str) -> bool:
    """Return whether a server answers, with any status."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        opener.open(url, timeout=3).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


def install_packages(*packages: str) -> None:
    """Install missing Debian packages from the list in scripts/install-debian-packages."""
    run(REPOSITORY / "scripts/install-debian-packages", *packages)


def install_environment(folder: Path, requirements: Iterable[str]) -> None:
    """Create a virtual environment with some distributions, unless it exists."""
    wanted = list(requirements)
    stamp = folder / "installed"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if stamp.exists() and stamp.read_text().split() == wanted:
            return
        run(sys.executable, "-m", "venv", "--clear", folder)
        pip = (folder / "bin/pip", "install", "-q", "--disable-pip-version-check")
        run(*pip, "--retries", "5", *wanted)
        stamp.write_text("\n".join(wanted))


def main(
    name: str,
    about: str,
    *,
    install: Callable[[], None],
    up: Callable[[Service], None],
    down: Callable[[Service], None] = Service.down,
    folder: Path | None = None,
) -> None:
    """Run the command line of one script."""
    parser = argparse.ArgumentParser(prog=f"scripts/services/{name}", description=about)
    parser.add_argument("action", choices=("install", "up", "env", "down"))
    parser.add_argument(
        "folder", type=Path, nargs="?", default=folder or RUN / name, help="default: %(default)s"
    )
    arguments = parser.parse_args()
    service = Service(arguments.folder)
    try:
        if arguments.action == "install":
            install()
        elif arguments.action == "up":
            up(service)
        elif arguments.action == "env":
            for variable, value in service.variables.items():
                print(f"export {variable}={shlex.quote(value)}")
        else:
            down(service)
    except ServiceError as failure:
        print(failure, file=sys.stderr)
        sys.exit(1)
