"""Where slabs are computed does not change a byte; a worker that dies costs its slab only."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from tests.build.clusters import Cluster
from tests.build.conftest import built, plan_in
from tests.build.ground import checksums, grid, noise, write_raster
from tests.fork_server import ForkServer

from mastaba_build.errors import PlanError
from mastaba_build.plan.plan import Plan
from mastaba_build.work.build import build
from mastaba_build.work.engine import ExecutorEngine
from mastaba_build.work.engines import engine_of
from mastaba_build.work.local_engine import LocalEngine
from mastaba_build.work.reports import Reports

PlanOf = Callable[..., Plan]
Command = Callable[..., subprocess.CompletedProcess[str]]
WORDS = ("--name", "map", "--format", "jpg", "--slab", "2x2", "--top", "10")


@pytest.fixture
def ortho(tmp_path: Path) -> Path:
    return write_ortho(tmp_path)


def write_ortho(folder: Path) -> Path:
    pixels = noise(3, 900, 1100)
    return write_raster(folder / "ortho.tif", pixels, grid(900000, 6500000, 5), "EPSG:2154")


@pytest.fixture
def plan(ortho: Path, tmp_path: Path, plan_of: PlanOf) -> Plan:
    return plan_of(ortho, output=str(tmp_path / "out"), format="jpg", slab=[2, 2], top="10")


@pytest.fixture(scope="module")
def in_one_process(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a build in this process."""
    folder = tmp_path_factory.mktemp("one")
    built(plan_in(folder, write_ortho(folder), format="jpg", slab=[2, 2], top="10"))
    return checksums(folder / "out")


@pytest.fixture
def cluster(tmp_path: Path, fork_server: ForkServer) -> Iterator[Cluster]:
    pytest.importorskip("distributed")
    (tmp_path / "cluster").mkdir()
    with Cluster(fork_server, tmp_path / "cluster") as started:
        yield started


@pytest.mark.thorough
def test_a_killed_dask_worker_costs_nothing_but_time(
    ortho: Path,
    tmp_path: Path,
    cluster: Cluster,
    fork_server: ForkServer,
    in_one_process: dict[str, bytes],
) -> None:
    cluster.add_worker()
    cluster.add_worker()
    words = [ortho, "--output", tmp_path / "out", *WORDS, "--json"]
    engine = f"dask:{cluster.scheduler_file}"
    kill = ["kill", "-9", cluster.workers[0].pid]
    done = fork_server.run("build", *words, "--engine", engine, after=4, by=kill)
    assert done.returncode == 0, done.stderr
    assert checksums(tmp_path / "out") == in_one_process
    slabs = done.stdout.count('"event": "slab"')
    assert slabs == len(list((tmp_path / "out/map").rglob("*.tif")))
    assert not (tmp_path / "out/.map.work").exists()


@pytest.mark.thorough
def test_without_its_scheduler_a_build_stops_and_resumes_here(
    ortho: Path,
    tmp_path: Path,
    cluster: Cluster,
    fork_server: ForkServer,
    command: Command,
    in_one_process: dict[str, bytes],
) -> None:
    cluster.add_worker()
    words = [ortho, "--output", tmp_path / "out", *WORDS, "--json"]
    engine = f"dask:{cluster.scheduler_file}"
    kill = ["kill", "-9", cluster.scheduler.pid, cluster.workers[0].pid]
    stopped = fork_server.run("build", *words, "--engine", engine, after=3, by=kill)
    assert stopped.returncode == 1, stopped.stderr
    assert "the same command resumes the build" in stopped.stderr
    assert "Traceback" not in stopped.stderr
    assert not (tmp_path / "out/map.json").exists()
    resumed = command(*words, "--workers", "1")
    assert resumed.returncode == 0, resumed.stderr
    assert '"kept": 0' not in resumed.stdout
    assert checksums(tmp_path / "out") == in_one_process


@pytest.mark.thorough
def test_a_cluster_that_does_not_fit_is_refused_before_the_build(
    ortho: Path, tmp_path: Path, cluster: Cluster, command: Command
) -> None:
    other = tmp_path / "packages/mastaba_build-9.9.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: mastaba-build\nVersion: 9.9\n")
    cluster.add_worker()
    cluster.add_worker({"PYTHONPATH": str(other.parent)})
    cluster.await_workers()
    words = [ortho, "--output", tmp_path / "out", *WORDS]
    engine = f"dask:{cluster.scheduler_file}"
    refused = command(*words, "--engine", engine)
    assert refused.returncode == 2
    assert "has mastaba-build 9.9 instead of" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert not list((tmp_path / "out/map").rglob("*"))


def test_a_scheduler_that_cannot_be_reached_is_named(
    ortho: Path, tmp_path: Path, plan_of: PlanOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed")
    timeouts = pytest.importorskip("dask.config").config["distributed"]["comm"]["timeouts"]
    monkeypatch.setitem(timeouts, "connect", "1s")
    (tmp_path / "empty.json").write_text("{}")
    for engine, message in (
        ("dask:tcp://127.0.0.1:1", "cannot connect to the Dask scheduler at tcp://127.0.0.1:1"),
        ("dask:nonsense://1", "cannot connect"),
        (f"dask:{tmp_path / 'none.json'}", "is not a scheduler file"),
        (f"dask:{tmp_path / 'empty.json'}", "is not a scheduler file"),
    ):
        with pytest.raises(PlanError, match=message):
            engine_of(plan_of(ortho, engine=engine))
    with pytest.raises(PlanError, match="engine"):
        plan_of(ortho, engine="ray:1")


@pytest.mark.thorough
def test_any_executor_gives_the_same_bytes(plan: Plan, in_one_process: dict[str, bytes]) -> None:
    with ThreadPoolExecutor(3) as executor:
        assert build(plan, Reports(StringIO(), StringIO()), engine=ExecutorEngine(executor, 6))
    assert checksums(plan.configuration.output.directory) == in_one_process


class _Counting(LocalEngine):
    submitted = 0

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Future[Any]:
        self.submitted += 1
        return super().submit(function, *arguments)


@pytest.mark.thorough
def test_a_killed_process_costs_its_slab_only(plan: Plan, in_one_process: dict[str, bytes]) -> None:
    reports = Reports(StringIO(), StringIO())
    killed: list[int] = []
    slabs = 0

    def kill_one(*_: object) -> None:
        nonlocal slabs
        slabs += 1
        if slabs in (3, 7):
            killed.append(multiprocessing.active_children()[0].pid or 0)
            os.kill(killed[-1], signal.SIGKILL)

    reports.slab = kill_one  # type: ignore[method-assign]
    engine = _Counting(2)
    assert build(plan, reports, engine=engine)
    engine.close()
    assert len(set(killed)) == 2
    assert engine.submitted <= slabs + 2
    assert checksums(plan.configuration.output.directory) == in_one_process


def test_workers_that_do_not_see_a_source_are_refused(plan: Plan, ortho: Path) -> None:
    ortho.unlink()
    with ThreadPoolExecutor(1) as executor:
        engine = ExecutorEngine(executor, 1)
        with pytest.raises(Exception, match=r"ortho\.tif: cannot be opened"):
            build(plan, Reports(StringIO(), StringIO()), engine=engine)
    assert not list(plan.configuration.output.directory.rglob("*.tif"))
