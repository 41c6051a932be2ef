"""Workers on other machines: network and mount namespaces (root and iproute2)."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path

import pytest
from tests.build.clusters import Cluster
from tests.build.ground import checksums, grid, noise, write_raster
from tests.build.machines import IS_POSSIBLE, Machine, linked
from tests.fork_server import ForkServer

from mastaba_build.plan.plan import Plan
from mastaba_build.work.build import build
from mastaba_build.work.reports import Reports

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(not IS_POSSIBLE, reason="needs root, ip and unshare"),
]
WORDS = ("--name", "map", "--format", "jpg", "--slab", "2x2", "--top", "9")


@pytest.fixture
def machines() -> Iterator[list[Machine]]:
    with linked(2) as found:
        yield found


@pytest.fixture
def cluster(tmp_path: Path, fork_server: ForkServer) -> Iterator[Cluster]:
    pytest.importorskip("distributed")
    (tmp_path / "cluster").mkdir()
    with Cluster(fork_server, tmp_path / "cluster", host="0.0.0.0") as started:
        yield started


@pytest.fixture
def ortho(tmp_path: Path) -> Path:
    (tmp_path / "sources").mkdir()
    return write_raster(
        tmp_path / "sources/ortho.tif", noise(3, 1500, 1800), grid(9e5, 65e5, 5), "EPSG:2154"
    )


def test_a_machine_that_disappears_costs_nothing_but_time(
    ortho: Path,
    tmp_path: Path,
    cluster: Cluster,
    fork_server: ForkServer,
    machines: list[Machine],
    plan_of: Callable[..., Plan],
) -> None:
    one = plan_of(ortho, output=str(tmp_path / "one"), format="jpg", slab=[2, 2], top="9")
    assert build(one, Reports(StringIO(), StringIO()))
    for machine in machines:
        address = f"tcp://{machine.here}:{cluster.port}"
        cluster.add_worker_in(machine.command, address, "--host", machine.there)
    words = [ortho, "--output", tmp_path / "out", *WORDS, "--json"]
    engine = f"dask:tcp://127.0.0.1:{cluster.port}"
    done = fork_server.run(
        "build", *words, "--engine", engine, after=8, by=machines[0].disconnection
    )
    assert done.returncode == 0, done.stderr
    assert checksums(tmp_path / "out") == checksums(tmp_path / "one")


def test_a_machine_that_does_not_see_a_directory_is_refused(
    ortho: Path,
    tmp_path: Path,
    cluster: Cluster,
    command: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    address = f"tcp://127.0.0.1:{cluster.port}"
    for hidden, message in (
        (ortho.parent, "ortho.tif: cannot be opened"),
        (tmp_path / "work", "the work directory must be shared"),
        (tmp_path / "out", "the output must be shared"),
    ):
        hidden.mkdir(exist_ok=True)
        hide = f'mount -t tmpfs none "{hidden}" && exec "$@"'
        cluster.add_worker_in(("unshare", "--mount", "sh", "-c", hide, "sh"), address)
        words = [ortho, "--output", tmp_path / "out", "--work", tmp_path / "work", *WORDS]
        refused = command(*words, "--engine", f"dask:{address}")
        assert refused.returncode in (1, 2)
        assert message in refused.stderr, refused.stderr
        assert "Traceback" not in refused.stderr
        assert not (tmp_path / "out/map.json").exists()
        worker = cluster.workers.pop()
        worker.kill()
        worker.wait()
