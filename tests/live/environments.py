"""Fresh virtual environments with wheels of our distributions, made by uv."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.live.installations import SYSTEM_PYTHON, cache_folder, projects, state_of_sources
from tests.live.processes import REPOSITORY

# By the hook of the backend (PEP 517).
_BUILD = """
import os, sys
from hatchling.build import build_wheel
target, *folders = sys.argv[1:]
for folder in folders:
    os.chdir(folder)
    build_wheel(target)
"""


@dataclass(frozen=True)
class Environment:
    """A virtual environment.

    Attributes:
        folder: of the environment.
        wheels: folder with a wheel of each distribution of ``core``, ``libs`` and ``plugins``.
    """

    folder: Path
    wheels: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin/python"

    def install(self, *requirements: str | Path, lowest: bool = False) -> None:
        """Install distributions; our own ones come from the wheels.

        Args:
            requirements: names, paths of wheels, or options of ``uv pip install``.
            lowest: take the lowest versions that these requirements allow.
        """
        resolution = "lowest-direct" if lowest else "highest"
        options = ["--find-links", self.wheels, "--resolution", resolution]
        # Other wheels of the same version and path may be in the cache of uv.
        for wheel in self.wheels.glob("*.whl"):
            options += ["--refresh-package", wheel.name.partition("-")[0].replace("_", "-")]
        run(_uv(), "pip", "install", "-q", "-p", self.python, *options, *requirements)

    def uninstall(self, *names: str) -> None:
        """Remove distributions."""
        run(_uv(), "pip", "uninstall", "-q", "-p", self.python, *names)

    def wheel(self, distribution: str) -> Path:
        """Return the wheel of one of our distributions."""
        (found,) = self.wheels.glob(f"{distribution.replace('-', '_')}-[0-9]*.whl")
        return found

    def versions(self) -> dict[str, str]:
        """Return the version of each library that is installed, without our distributions."""
        lines = run(_uv(), "pip", "freeze", "-p", self.python).splitlines()
        found = dict(line.split("==") for line in lines if "==" in line)
        return {name: text for name, text in found.items() if not name.startswith("mastaba")}

    def run(self, *command: str | Path, cwd: Path | None = None) -> str:
        """Run a program of the environment, without anything else on its path.

        Compiled modules are kept outside the environment: the next one at the same path compiles
        only what differs.
        """
        program, *arguments = command
        return run(
            self.folder / "bin" / program,
            *arguments,
            cwd=cwd,
            PYTHONPYCACHEPREFIX=str(cache_folder() / "bytecode"),
        )


def create(folder: Path, python: str | Path = sys.executable) -> Environment:
    """Create an environment with nothing in it, in place of any at the same path."""
    # uv clears nothing but environments, and one that a killed test left incomplete is none.
    shutil.rmtree(folder, ignore_errors=True)
    run(_uv(), "venv", "-q", "--python", python, folder)
    return Environment(folder, wheels())


def program_for_web_users() -> Path:
    """The command ``mastaba`` in an environment that every user can read, with all plugins.

    Made once for each state of the sources; skips the test when that is not possible.
    """
    if not SYSTEM_PYTHON.exists():
        pytest.skip(f"there is no {SYSTEM_PYTHON}")
    check = "import sys; sys.exit(sys.version_info < (3, 11))"
    if subprocess.run([SYSTEM_PYTHON, "-c", check], stderr=subprocess.DEVNULL).returncode:
        pytest.skip(f"{SYSTEM_PYTHON} is older than 3.11")
    folder = cache_folder() / "for-web-users"
    stamp, state = folder / "stamp", state_of_sources()
    with _locked("for-web-users"):
        if not (stamp.exists() and stamp.read_text(encoding="ascii") == state):
            environment = create(folder, SYSTEM_PYTHON)
            # Other users cannot write compiled modules, so they are part of the environment.
            environment.install("--compile-bytecode", *sorted(environment.wheels.glob("*.whl")))
            stamp.write_text(state, encoding="ascii")
    return folder / "bin/mastaba"


def wheels() -> Path:
    """Return a folder with the wheels of all distributions, built once for each state."""
    folder = cache_folder() / "all-wheels"
    folder.mkdir(parents=True, exist_ok=True)
    stamp, state = folder / "stamp", state_of_sources()
    with _locked("all-wheels"):
        if not (stamp.exists() and stamp.read_text(encoding="ascii") == state):
            shutil.rmtree(folder)
            plain = []
            for project in projects():
                if (project.parent / "hatch_build.py").exists():
                    run(_uv(), "build", "-q", "--wheel", "-o", folder, project.parent)
                else:
                    plain.append(project.parent)
            # The environment of the workspace has the build backend. An environment or a process
            # for each build would take most of the time.
            run(sys.executable, "-c", _BUILD, folder, *plain)
            stamp.write_text(state, encoding="ascii")
    return folder


@contextmanager
def _locked(name: str) -> Iterator[None]:
    """Let one process of tests at a time make what several use."""
    with (cache_folder() / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _uv() -> Path:
    program = Path(sys.executable).parent / "uv"
    if not program.exists():
        pytest.skip("uv is missing: pip install uv")
    return program


def run(*command: str | Path, cwd: Path | None = None, **variables: str) -> str:
    """Return the output of a program, which must succeed."""
    hidden = ("PYTHONPATH", "VIRTUAL_ENV", "MASTABA_")
    inherited = {name: text for name, text in os.environ.items() if not name.startswith(hidden)}
    done = subprocess.run(
        [str(word) for word in command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=cwd or REPOSITORY,
        env=inherited | variables,
        # Other users shall be able to read what is written.
        umask=0o022,
    )
    assert done.returncode == 0, f"{command}:\n{done.stdout}"
    return done.stdout
