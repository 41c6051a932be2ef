"""Workers on other machines that write to an object store."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.build.clusters import Cluster
from tests.build.ground import grid, noise, write_raster
from tests.build.machines import IS_POSSIBLE, linked
from tests.fork_server import ForkServer
from tests.live_storage.bad_network import BadNetwork
from tests.live_storage.conftest import Store, s3_writer
from tests.live_storage.test_build import chosen, tiles


@pytest.mark.skipif(not IS_POSSIBLE, reason="needs root, ip and unshare")
def test_workers_write_to_s3_over_a_bad_network(
    mastaba: ForkServer, rgw: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed")
    s3_writer(rgw, "engines")
    for name, text in chosen(rgw, "_S3_").items():
        monkeypatch.setenv(name, text)
    source = write_raster(
        tmp_path / "ortho.tif", noise(3, 900, 1100), grid(900000, 6500000, 5), "EPSG:2154"
    )
    words = ("build", str(source), "--slab", "2x2", "--format", "jpg", "--name", "ortho")
    alone = mastaba.run(*words, "--output", str(tmp_path / "files"), "--workers", "1")
    assert alone.returncode == 0, alone.stderr
    (tmp_path / "cluster").mkdir()
    url = str(rgw.variables["MASTABA_S3_URL"])
    with (
        BadNetwork(url) as network,
        linked(2) as machines,
        Cluster(mastaba, tmp_path / "cluster", host="0.0.0.0") as cluster,
    ):
        wait = {"MASTABA_OBJECT_ATTEMPTS_WAIT": "0"}
        for machine in machines:
            place = {"MASTABA_S3_URL": f"http://{machine.here}:{network.port}", **wait}
            scheduler = f"tcp://{machine.here}:{cluster.port}"
            cluster.add_worker_in(
                machine.command, scheduler, "--host", machine.there, variables=place
            )
        built = mastaba.run(
            *(*words, "--output", "s3://engines/maps", "--work", str(tmp_path / "work")),
            *("--server", str(tmp_path / "server")),
            *("--engine", f"dask:tcp://127.0.0.1:{cluster.port}"),
        )
        assert built.returncode == 0, built.stderr
        assert network.failures > 0
    in_s3 = tiles(tmp_path / "server/server.json")
    assert len(in_s3) > 50
    assert in_s3 == tiles(tmp_path / "files/server/server.json")
