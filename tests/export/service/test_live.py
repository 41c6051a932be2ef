"""Real servers and workers: kills, fairness, full disks, and a client of another project."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sqlite3
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.export.service.conftest import export_installation
from tests.forked import run as mastaba
from tests.live.processes import Command, Mastaba, changed, free_port, wait_until

from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import web_mercator

pytestmark = [pytest.mark.live, pytest.mark.thorough]

SIDE = 32
"""Tiles in a row of the large layer, which has one slab for each of 4 × 4 tiles."""
LARGE = {"layer": "LARGE", "format": "mbtiles"}


def _tile(level: str, row: int, col: int) -> Any:
    random = np.random.default_rng(row * 1000 + col)
    return random.integers(0, 255, (256, 256, 1), np.uint8)


@pytest.fixture(scope="session")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the descriptor of a pyramid of 64 MB that cannot be compressed."""
    return write_pyramid(
        tmp_path_factory.mktemp("large"),
        "LARGE",
        tile_matrix_set=web_mercator(),
        format="TIFF_PNG_UINT8",
        channels=1,
        levels=[LevelPlan("6", 0, SIDE - 1, 0, SIDE - 1)],
        tile=_tile,
        tiles_per_width=4,
        tiles_per_height=4,
    )


class Running:
    """A server and its workers."""

    def __init__(self, folder: Path, large: Path, stack: ExitStack, **settings: Any) -> None:
        self.folder = folder
        self.directory = Path(settings.get("directory", folder / "export"))
        self._stack = stack
        port = free_port()
        self.url = f"http://127.0.0.1:{port}/export"
        server_json = write_installation(
            folder,
            layers={"LARGE": layer_document(large, export={"enabled": True})},
            services=["export", "metrics"],
            public_url=f"http://127.0.0.1:{port}",
            services_overrides={
                "export": {
                    "enabled": True,
                    "directory": str(self.directory),
                    "heartbeat": 1.0,
                    "owner_header": "X-Owner",
                    **settings,
                }
            },
        )
        self.server_json = changed(
            server_json,
            folder / "live.json",
            workers=1,
            logger={"output": "standard_error", "level": "info"},
        )
        self.server = stack.enter_context(Mastaba(self.server_json, folder, http=port))
        self.workers = 0

    def start_worker(self) -> Command:
        self.workers += 1
        words = ["export-worker", "-f", self.server_json]
        return self._stack.enter_context(Command(f"worker{self.workers}", words, self.folder))

    def ask(self, path: str, method: str = "GET", body: Any = None, owner: str = "a") -> Any:
        url = path if path.startswith("http") else f"{self.url}{path}"
        data = None if body is None else json.dumps(body).encode()
        headers = {"X-Owner": owner, "Content-Type": "application/json"}
        request = urllib.request.Request(url, data, headers, method=method)
        try:
            with urllib.request.urlopen(request) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            return json.load(error)

    def order(self, inputs: Mapping[str, Any] = LARGE, owner: str = "a") -> str:
        path = "/processes/export-tiles/execution"
        job = self.ask(path, "POST", {"inputs": inputs}, owner)
        assert job["status"] == "accepted", job
        return f"/jobs/{job['jobID']}"

    def status(self, job: str) -> Any:
        return self.ask(job)

    def wait_for(self, job: str, condition: Callable[[Any], bool]) -> Any:
        wait_until(lambda: condition(self.status(job)))
        return self.status(job)

    def wait_until_running(self, job: str, progress: int = 5) -> None:
        self.wait_for(job, lambda s: s["status"] == "running" and s["progress"] >= progress)

    def wait_until_successful(self, job: str) -> Any:
        status = self.wait_for(job, lambda s: s["status"] not in ("accepted", "running"))
        assert status["status"] == "successful", status
        return status

    def file(self, job: str) -> bytes:
        result = self.ask(f"{job}/results")["result"]
        with urllib.request.urlopen(result["href"]) as response:
            data: bytes = response.read()
        return data

    def rows(self, statement: str, *values: str) -> list[Any]:
        """Return what the queue says."""
        with sqlite3.connect(self.directory / "queue.sqlite") as database:
            return database.execute(statement, values).fetchall()

    def files_of(self, job: str) -> list[str]:
        folder = self.directory / job.removeprefix("/")
        return sorted(os.listdir(folder)) if folder.exists() else []


@pytest.fixture
def run(tmp_path: Path, large: Path) -> Iterator[Callable[..., Running]]:
    with ExitStack() as stack:
        yield lambda **settings: Running(tmp_path, large, stack, **settings)


def worker_of(job: str, running: Running) -> int:
    """Return the process that runs a job."""
    statement = "SELECT worker FROM jobs WHERE id = ?"
    ((name,),) = running.rows(statement, job.rpartition("/")[2])
    return int(name.partition("-")[0])


def rows(data: bytes, folder: Path) -> set[tuple[Any, ...]]:
    """Return all tiles of an MBTiles file."""
    path = folder / "read.mbtiles"
    path.write_bytes(data)
    with sqlite3.connect(path) as database:
        found = set(
            database.execute("SELECT zoom_level, tile_column, tile_row, tile_data FROM tiles")
        )
    path.unlink()
    return found


def test_killed_worker_is_followed_by_another(run: Callable[..., Running]) -> None:
    """The job is resumed, and its result is the same as that of an undisturbed one."""
    running = run(rate=8)
    first = running.start_worker()
    job = running.order()
    running.wait_until_running(job, 20)
    os.kill(first.pid, signal.SIGKILL)
    killed_at = running.status(job)["progress"]
    running.start_worker()
    status = running.wait_until_successful(job)
    assert killed_at >= 20
    assert status["started"] < status["finished"]
    undisturbed = running.order()
    running.wait_until_successful(undisturbed)
    found = rows(running.file(job), running.folder)
    assert len(found) == SIDE * SIDE
    assert found == rows(running.file(undisturbed), running.folder)
    assert "the worker of the job" in (running.folder / "worker2.log").read_text()


def test_stopped_worker_gives_its_job_to_another(run: Callable[..., Running]) -> None:
    running = run(rate=8, heartbeat=600)
    first = running.start_worker()
    job = running.order()
    running.wait_until_running(job, 10)
    first.send(signal.SIGTERM)
    assert first.wait() == 0
    assert running.status(job)["status"] == "accepted"
    running.start_worker()
    # Without the death of the first one, no one waits for silence.
    running.wait_until_successful(job)


def test_three_owners_are_served_in_turn(run: Callable[..., Running]) -> None:
    # Read at this rate, the jobs take equally long.
    running = run(per_owner={"waiting": 10}, rate=20, heartbeat=600)
    owners = "abc"
    jobs = {
        running.order({**LARGE, "bbox": [-175, 50, -100, 80]}, owner): owner
        for owner in owners
        for _ in range(10)
    }
    for _ in range(2):
        running.start_worker()
    for job in jobs:
        running.wait_until_successful(job)
    begun: Counter[str] = Counter()
    for (identifier,) in running.rows("SELECT id FROM jobs ORDER BY started"):
        begun[jobs[f"/jobs/{identifier}"]] += 1
        assert max(begun.values()) - min(begun[owner] for owner in owners) <= 1, begun
    assert begun == dict.fromkeys(owners, 10)


def test_dismissal_of_a_running_job_leaves_no_file(run: Callable[..., Running]) -> None:
    running = run(rate=8)
    running.start_worker()
    job = running.order()
    running.wait_until_running(job)
    assert running.files_of(job)
    assert running.ask(job, "DELETE")["status"] == "dismissed"
    wait_until(lambda: not (running.directory / job[1:]).exists())
    # The worker does the next one.
    small = running.order({**LARGE, "bbox": [-175, 60, -150, 80]})
    running.wait_until_successful(small)
    assert not (running.directory / job[1:]).exists()


def test_result_that_expires_is_read_to_its_end(run: Callable[..., Running]) -> None:
    running = run(keep=10 / 3600)
    running.start_worker()
    job = running.order()
    running.wait_until_successful(job)
    result = running.ask(f"{job}/results")["result"]
    with urllib.request.urlopen(result["href"]) as response:
        head = response.read(1000)
        wait_until(lambda: running.ask(job)["status"] == 404)
        # Any order removes what has expired.
        running.order({**LARGE, "bbox": [-175, 60, -150, 80]})
        assert running.files_of(job) == []
        assert running.ask(job)["status"] == 404
        assert len(head) + len(response.read()) == result["length"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Return the folder of a file system of 300 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, b"size=300m"):
        pytest.skip(f"no file system can be mounted here: {os.strerror(ctypes.get_errno())}")
    try:
        yield folder
    finally:
        libc.umount2(os.fsencode(folder), 2)


def test_full_disk(run: Callable[..., Running], small_disk: Path) -> None:
    running = run(directory=str(small_disk / "export"), rate=20)
    part = {**LARGE, "bbox": [-180, 60, -90, 86]}
    job = running.order(part)
    # Another program fills the disk before the job begins.
    filler = small_disk / "filler"
    with filler.open("wb") as stream:
        os.posix_fallocate(stream.fileno(), 0, 270 * 1024**2)
    refused = running.ask("/processes/export-tiles/execution", "POST", {"inputs": LARGE})
    assert refused["status"] == 507
    running.start_worker()
    status = running.wait_for(job, lambda s: s["status"] == "failed")
    assert "full" in status["message"]
    assert str(small_disk) not in json.dumps(status)
    wait_until(lambda: running.files_of(job) == [])
    filler.unlink()
    running.wait_until_successful(running.order(part))


def test_server_starts_its_workers(run: Callable[..., Running]) -> None:
    """They are not the processes that answer requests, give way, and end with the server."""
    running = run(workers=1, rate=8, heartbeat=600)
    job = running.order()
    running.wait_until_running(job)
    pid = worker_of(job, running)
    assert pid in running.server.children()
    assert len(running.server.children()) == 2
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    assert int(fields[16]) >= 10
    limits = Path(f"/proc/{pid}/limits").read_text().splitlines()
    (data,) = [line for line in limits if line.startswith("Max data size")]
    assert "unlimited" not in data
    # A reload replaces it, and the job goes on at once.
    running.server.send(signal.SIGHUP)
    wait_until(lambda: not Path(f"/proc/{pid}").exists())
    running.wait_until_successful(job)
    text = urllib.request.urlopen(running.url.replace("/export", "/metrics")).read().decode()
    assert 'mastaba_export_jobs{kind="successful"} 1.0' in text
    assert 'mastaba_export_bytes{kind="successful"}' in text
    another = running.order()
    running.wait_until_running(another)
    running.server.send(signal.SIGTERM)
    assert running.server.wait() == 0


def test_owslib(run: Callable[..., Running]) -> None:
    from owslib.ogcapi.processes import Processes

    running = run(workers=1)
    client = Processes(running.url)
    assert client.conformance()["conformsTo"]
    assert client.api()["openapi"].startswith("3.0")
    assert [item["id"] for item in client.processes()] == ["export-coverage", "export-tiles"]
    process = client.process("export-tiles")
    assert process["inputs"]["layer"]["schema"]["enum"] == ["LARGE"]
    inputs = {"layer": "LARGE", "bbox": [-175, 60, -150, 80]}
    job = client.execute("export-tiles", inputs, async_=True)
    location = client.response_headers["Location"]
    assert location.endswith(job["jobID"])
    running.wait_until_successful(f"/jobs/{job['jobID']}")
    with pytest.raises(RuntimeError, match="no layer NONE"):
        client.execute("export-tiles", {"layer": "NONE"}, async_=True)
    # Without async_, it prefers an answer at once, which is not offered.
    assert client.execute("export-coverage", {"layer": "LARGE"})["status"] == "accepted"


def test_check_command_says_what_is_exported(tmp_path: Path) -> None:
    server_json = export_installation(tmp_path)
    done = mastaba("check", "-f", str(server_json))
    assert done.returncode == 0, done.stderr
    assert "8 layers can be exported" in done.stdout
    assert not (tmp_path / "export").exists()
