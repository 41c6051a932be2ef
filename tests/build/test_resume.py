"""Workers, order and kills do not change a byte."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from io import StringIO
from pathlib import Path

import pytest
from tests.build.conftest import built, plan_in
from tests.build.ground import checksums, grid, noise, write_raster
from tests.fork_server import STOPS_IT, ForkServer
from tests.sizes import only_full

from mastaba_build.plan.plan import Plan
from mastaba_build.pyramid.journal import Journal
from mastaba_build.work.build import build
from mastaba_build.work.engine import ExecutorEngine
from mastaba_build.work.reports import Reports

WORKERS = 2
OPTIONS = {"format": "jpg", "slab": [1, 1]}


@pytest.fixture
def ortho(tmp_path: Path) -> Path:
    return write_ortho(tmp_path)


def write_ortho(folder: Path) -> Path:
    pixels = noise(3, 750, 900)
    return write_raster(folder / "ortho.tif", pixels, grid(900000, 6500000, 5), "EPSG:2154")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a build in this process that nothing stops."""
    folder = tmp_path_factory.mktemp("undisturbed")
    built(plan_in(folder, write_ortho(folder), **OPTIONS))
    return checksums(folder / "out")


@pytest.mark.thorough
def test_workers_and_order_do_not_change_a_byte(
    ortho: Path, tmp_path: Path, plan_of: Callable[..., Plan], undisturbed: dict[str, bytes]
) -> None:
    found = [undisturbed]  # by one worker
    with ThreadPoolExecutor(5) as executor:
        for workers, engine in ((2, None), (5, ExecutorEngine(executor, 5))):
            output = tmp_path / f"out{workers}"
            plan = plan_of(ortho, output=str(output), **{**OPTIONS, "workers": workers})
            generator = random.Random(7)
            shuffled = (lambda _, g=generator: g.randbytes(8)) if engine else None
            assert build(plan, Reports(StringIO(), StringIO()), engine=engine, order=shuffled)
            found.append(checksums(output))
    assert len(found[0]) > 40
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("kills", [pytest.param(2, marks=pytest.mark.thorough), *only_full(8)])
def test_killed_builds_resume_to_the_same_bytes(
    ortho: Path,
    tmp_path: Path,
    fork_server: ForkServer,
    undisturbed: dict[str, bytes],
    kills: int,
) -> None:
    output = tmp_path / "killed"
    words = [
        *("build", str(ortho), "--name", "map", "--output", str(output), "--json"),
        *("--format", "jpg", "--slab", "1x1", "--workers", str(WORKERS)),
    ]
    generator = random.Random(3)
    total = sum(name.endswith(".tif") for name in undisturbed)
    before: dict[Path, int] = {}
    for number in range(kills):
        with fork_server.running(*words) as process:
            # All kills find something to do. The first line is the plan.
            for _ in range(1 + generator.randint(0, total // kills // 2)):
                process.output.readline()
            time.sleep(generator.random() / kills / 5)
        status = process.wait()
        if number and status == 0:
            break  # it was faster than this process, on a busy machine
        assert status == -signal.SIGKILL
        assert not (output / "map.json").exists()
        after = slab_files(output)
        assert made_again(before, after) <= WORKERS
        before = after
    else:
        final = fork_server.run(*words)
        assert final.returncode == 0, final.stderr
    assert made_again(before, slab_files(output)) <= WORKERS
    assert checksums(output) == undisturbed
    # Another process may write a lock, so the next builds remove what is left of it later on.
    assert not [path for path in output.rglob("*.tmp") if ".lock." not in path.name]
    assert not (output / ".map.work").exists()


def slab_files(output: Path) -> dict[Path, int]:
    """Return the file of each slab; a slab that is written again is another file."""
    return {path: path.stat().st_ino for path in (output / "map").rglob("*.tif")}


def made_again(before: dict[Path, int], after: dict[Path, int]) -> int:
    """Return how many slabs were written although they were there."""
    return sum(after[path] != file for path, file in before.items())


@pytest.mark.thorough
def test_a_damaged_slab_and_a_lost_quarter_are_built_again(
    ortho: Path, plan_of: Callable[..., Plan], undisturbed: dict[str, bytes]
) -> None:
    plan = plan_of(ortho, **OPTIONS)
    reports = Reports(StringIO(), StringIO())
    seen = 0

    class StoppedError(Exception):
        pass

    def stop_after(*_: object) -> None:
        nonlocal seen
        seen += 1
        if seen == 12:
            raise StoppedError

    reports.slab = stop_after  # type: ignore[method-assign]
    with pytest.raises(StoppedError):
        build(plan, reports)
    output = plan.configuration.output.directory
    journal = Journal(plan.configuration.work_directory)
    assert len(list(journal.rows())) == 12
    journal.close()
    slabs = sorted((output / "map").rglob("*.tif"))
    slabs[0].unlink()
    slabs[1].write_bytes(slabs[1].read_bytes()[:-1])
    quarters = sorted((plan.configuration.work_directory / "quarters").rglob("*_*"))
    quarters[0].unlink()
    assert build(plan, Reports(StringIO(), StringIO()))
    assert checksums(output) == undisturbed


@pytest.mark.thorough
def test_a_quarter_that_is_damaged_meanwhile_is_built_by_the_next_run(
    ortho: Path, plan_of: Callable[..., Plan], undisturbed: dict[str, bytes]
) -> None:
    plan = plan_of(ortho, **OPTIONS)
    errors = StringIO()
    reports = Reports(StringIO(), errors)
    damaged: list[Path] = []

    def damage(*_: object) -> None:
        quarters = [*(plan.configuration.work_directory / "quarters").rglob("[0-9]*_*")]
        if quarters and not damaged:
            damaged.append(quarters[0])
            data = bytearray(quarters[0].read_bytes())
            data[-1] ^= 1
            quarters[0].write_bytes(data)

    reports.slab = damage  # type: ignore[method-assign]
    assert not build(plan, reports)
    assert "is damaged or missing; run the same command again" in errors.getvalue()
    assert build(plan, Reports(StringIO(), StringIO()))
    assert checksums(plan.configuration.output.directory) == undisturbed


def test_a_second_builder_is_refused(
    ortho: Path,
    tmp_path: Path,
    fork_server: ForkServer,
    command: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    output = tmp_path / "out"
    words = ["build", str(ortho), "--output", str(output), "--json", "--slab", "1x1"]
    words += ["--workers", "1"]
    with fork_server.running(*words, after=1, by=STOPS_IT) as first:
        assert any('"event": "slab"' in line for line in first.output)
        os.kill(first.pid, signal.SIGSTOP)
        second = command(*words[1:])
        assert second.returncode == 3
        assert f"process {first.pid} builds this pyramid" in second.stderr
    third = command(*words[1:])
    assert third.returncode == 0
    assert not (output / "ortho.lock").exists()


def test_a_complete_build_is_not_repeated_and_another_needs_replace(
    ortho: Path, tmp_path: Path, command: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    words = [ortho, "--output", tmp_path / "out", "--bottom", "13", "--top", "9"]
    words += ["--slab", "1x1", "--workers", "1"]
    assert command(*words).returncode == 0
    before = hashlib.sha256(repr(checksums(tmp_path / "out")).encode()).digest()
    again = command(*words)
    assert again.returncode == 0
    assert "is complete" in again.stdout
    other = command(*words, "--format", "png")
    assert other.returncode == 2
    assert "--replace" in other.stderr
    assert hashlib.sha256(repr(checksums(tmp_path / "out")).encode()).digest() == before
    assert command(*words, "--format", "png", "--replace").returncode == 0
    assert command(*words[1:3], "--name", "ortho", "--verify", "full").returncode == 0
