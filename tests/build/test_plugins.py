"""A build uses the plugins of its command line, and no others, wherever its slabs are computed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
from tests.build.clusters import Cluster
from tests.build.conftest import plan_in
from tests.build.ground import grid, noise, write_raster
from tests.fork_server import ForkServer

from mastaba_build.config.access import Access
from mastaba_build.errors import PlanError
from mastaba_build.plugins import PluginSet
from mastaba_build.work.build import build
from mastaba_build.work.reports import Reports

PLUGIN = """
import os
from mastaba import hookimpl
from tests.conformance.shelf import ShelfStorage

with open(os.path.join({folder!r}, "loaded"), "a") as file:
    file.write(f"{{os.getpid()}}\\n")


class Attic(ShelfStorage):
    name = "attic"
    container_field = "attic_name"
    writer = "mastaba_plugin_attic:Attic"

    @classmethod
    def open(cls, container, environment):
        return cls(os.path.join({folder!r}, container))

    @classmethod
    def resolve_container(cls, container, beside):
        return os.path.basename(container)


@hookimpl
def register_storages():
    return [Attic]
"""
WORDS = ("--format", "raw", "--top", "14", "--slab", "2x2")


@pytest.fixture
def plugins(tmp_path: Path) -> Path:
    """A directory with two plugins: a storage driver, and one that cannot be imported."""
    folder = tmp_path / "plugins"
    folder.mkdir()
    (tmp_path / "attic/box").mkdir(parents=True)
    (folder / "attic.py").write_text(PLUGIN.format(folder=str(tmp_path / "attic")))
    (folder / "broken.py").write_text("raise RuntimeError\n")
    return folder


@pytest.fixture
def source(tmp_path: Path) -> Path:
    pixels = noise(1, 400, 400)
    return write_raster(tmp_path / "a.tif", pixels, grid(900000, 6500000, 5), "EPSG:2154")


@pytest.fixture(params=["processes", "dask"])
def engine(
    request: pytest.FixtureRequest, tmp_path: Path, plugins: Path, fork_server: ForkServer
) -> Iterator[list[str]]:
    """Options of a build that computes slabs in other processes.

    Those of Dask have other plugins in their environment.
    """
    if request.param == "processes":
        yield ["--workers", "2"]
        return
    pytest.importorskip("distributed")
    (tmp_path / "cluster").mkdir()
    with Cluster(fork_server, tmp_path / "cluster") as cluster:
        cluster.add_worker({"MASTABA_BLOCKED_PLUGINS": "attic"})
        cluster.await_workers()
        yield ["--engine", f"dask:{cluster.scheduler_file}"]


@pytest.mark.thorough
def test_workers_load_the_plugins_of_the_command_line(
    tmp_path: Path, plugins: Path, source: Path, fork_server: ForkServer, engine: list[str]
) -> None:
    given = ["--plugins", os.path.relpath(plugins), "--block", "broken"]
    work = ["--work", tmp_path / "work", "--server", tmp_path / "server", *WORDS, *engine]
    first = fork_server.run(*given, "build", source, "--output", "attic://box/maps", *work)
    assert first.returncode == 0, first.stderr
    again = ["attic://box/maps/a.json", "--output", tmp_path / "out", "--name", "b"]
    second = fork_server.run(*given, "build", *again, "--work", tmp_path / "work2", *work[2:])
    assert second.returncode == 0, second.stderr
    assert (tmp_path / "out/b.json").exists()
    processes = (tmp_path / "attic/loaded").read_text().split()
    assert len(processes) == len(set(processes)) >= 3, "a process loads the plugins once"


def test_blocked_plugins_are_not_used(
    tmp_path: Path, plugins: Path, source: Path, fork_server: ForkServer
) -> None:
    given = ["--plugins", plugins, "--block", "broken"]
    words = [*WORDS, "--workers", "1", "--server", tmp_path / "server"]
    done = fork_server.run(*given, "build", source, "--output", "attic://box/maps", *words)
    assert done.returncode == 0, done.stderr
    again = ["build", "attic://box/maps/a.json", "--output", tmp_path / "out", *words]
    blocked = fork_server.run(*given, "--block", "attic", *again)
    assert blocked.returncode == 2
    assert "attic://box/maps/a.json" in blocked.stderr
    assert fork_server.run(*given, *again).returncode == 0


def test_services_of_blocked_plugins_are_not_enabled(
    tmp_path: Path, source: Path, fork_server: ForkServer
) -> None:
    words = [*WORDS, "--workers", "1", "--output", tmp_path / "out"]
    done = fork_server.run("--block", "wmts", "build", source, *words)
    assert done.returncode == 0, done.stderr
    services = json.loads((tmp_path / "out/server/services.json").read_text())
    assert "wms" in services
    assert "wmts" not in services


@pytest.mark.parametrize("action", ["join", "head"])
def test_a_pyramid_is_changed_with_the_plugins_of_the_command_line(
    tmp_path: Path,
    plugins: Path,
    source: Path,
    fork_server: ForkServer,
    action: str,
) -> None:
    given = ["--plugins", plugins, "--block", "broken"]
    output = ["--output", "attic://box/maps", "--workers", "1"]
    more = [*WORDS, "--server", tmp_path / "server"]
    assert fork_server.run(*given, "build", source, *output, *more).returncode == 0
    (tmp_path / "attic/loaded").unlink()
    words = ["join", "attic://box/maps/a.json", "--name", "b"]
    if action == "head":
        words = ["head", "a", "--from", "15"]
    done = fork_server.run(*given, "pyramid", *words, *output)
    assert done.returncode == 0, done.stderr
    assert len((tmp_path / "attic/loaded").read_text().split()) == 1


@pytest.mark.thorough
def test_workers_without_the_directory_of_plugins_are_refused_before_the_build(
    tmp_path: Path, plugins: Path, source: Path, fork_server: ForkServer
) -> None:
    pytest.importorskip("distributed")
    (tmp_path / "cluster").mkdir()
    with Cluster(fork_server, tmp_path / "cluster") as cluster:
        cluster.add_worker()
        cluster.await_workers()
        engine = f"dask:{cluster.scheduler_file}"
        plan = plan_in(
            tmp_path,
            source,
            engine=engine,
            access=Access(plugins=PluginSet(frozenset(), str(plugins))),
        )
        plugins.rename(tmp_path / "elsewhere")
        with pytest.raises(PlanError, match=r"directory of plugins .* must be shared by all"):
            build(plan, Reports(StringIO(), StringIO()))
    assert not list((tmp_path / "out").rglob("*.tif"))
