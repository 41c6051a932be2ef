"""Builds in this process and by the command."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from tests.build.clusters import fork_builds
from tests.build.ground import MASTABA
from tests.fork_server import ForkServer

from mastaba_build.config.access import Access
from mastaba_build.config.configuration import configuration_of
from mastaba_build.plan.plan import Plan, make_plan
from mastaba_build.work.build import build
from mastaba_build.work.reports import Reports

Build = Callable[..., Path]


def plan_in(folder: Path, *sources: Path | dict[str, Any], name: str = "map", **more: Any) -> Plan:
    """Return a plan of sources and options, whose output is in a folder."""
    listed = [{"path": str(one)} if isinstance(one, Path) else one for one in sources]
    # Slabs of the usual size would consist of nodata, except for a few tiles. Without the fast
    # encoder, compression would take most of the time.
    values = {
        "output": str(folder / "out"),
        "workers": 1,
        "slab": [2, 2],
        "encoder": "isal",
        "provenance": False,
        **more,
    }
    access = values.pop("access", Access())
    given = {key: value for key, value in values.items() if value is not None}
    document = {"name": name, "sources": listed, **given}
    return make_plan(configuration_of(document, "test", access=access))


def built(plan: Plan) -> Path:
    """Build a plan in this process and return the descriptor."""
    errors = StringIO()
    assert build(plan, Reports(StringIO(), errors)), errors.getvalue()
    return Path(plan.configuration.output.path(f"{plan.configuration.name}.json"))


@pytest.fixture
def plan_of(tmp_path: Path) -> Callable[..., Plan]:
    """Return a function that makes a plan of sources and options."""
    return partial(plan_in, tmp_path)


@pytest.fixture
def build_of(plan_of: Callable[..., Plan]) -> Build:
    """Return a function that builds sources in this process and returns the descriptor."""
    return lambda *sources, **options: built(plan_of(*sources, **options))


@pytest.fixture(scope="session")
def fork_server() -> Iterator[ForkServer]:
    """Return a process that forks builds."""
    server = fork_builds()
    yield server
    server.close()


@pytest.fixture
def command(fork_server: ForkServer) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return a function that runs ``mastaba build``; with options of `run`, in a new process.

    There is one worker by default.
    """

    def run(*words: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
        if "--workers" not in words:
            # Each worker of several starts an interpreter, which costs more than a small build.
            words += ("--workers", "1")
        if not options:
            return fork_server.run("build", *words)
        return subprocess.run(
            [*MASTABA, "build", *map(str, words)],
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
            **options,
        )

    return run
