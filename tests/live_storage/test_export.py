"""Exports into real object stores: uploaded in parts, killed, resumed, and whole or absent."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.export.ground import opened, planned, write_world
from tests.export.service.conftest import Exports, open_exports
from tests.export.service.test_remote_results import check_results_are_objects
from tests.live_storage.test_build import Place, in_ceph, in_s3, in_swift, place

from mastaba.api.storages import ByteRange
from mastaba.api.writable_storages import WritableStorage
from mastaba.plugins.manager import Plugins
from mastaba_export.object_store import ObjectTarget
from mastaba_export.verify import verify

__all__ = ["Place", "in_ceph", "in_s3", "in_swift", "open_exports", "place"]

_PIECE = 8 * 1024 * 1024


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A layer of images of about 115 MB."""
    return write_world(tmp_path_factory.mktemp("world"), size=70_000)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    found = tmp_path / "work"
    found.mkdir()
    return found


def command(server: Path, work: Path, output: str, *more: str) -> list[str]:
    words = ["export", "IMAGES", output, "-f", str(server), "--work", str(work), *more]
    return [sys.executable, "-m", "mastaba", *words]


def store_of(output: str) -> Iterator[tuple[WritableStorage, str]]:
    target = ObjectTarget.parse(output, Plugins().storages.__getitem__)
    storage = target.open()
    try:
        yield storage, target.key
    finally:
        storage.close()


def downloaded(output: str, path: Path) -> Path:
    """Return a file with the bytes of an object."""
    for storage, key in store_of(output):
        size = storage.stat(key).size
        with path.open("wb") as file:
            for start in range(0, size, _PIECE):
                file.write(storage.read(key, ByteRange(start, _PIECE)).data)
    return path


def exists(output: str) -> bool:
    return any(storage.exists(key) for storage, key in store_of(output))


@pytest.mark.parametrize("place", ["in_s3", "in_swift"], indirect=True)
@pytest.mark.parametrize("format", ["pmtiles", "mbtiles"])
def test_an_archive_is_an_object(
    place: str, server: Path, work: Path, tmp_path: Path, format: str
) -> None:
    output = f"{place}/deep/map.{format}"
    done = subprocess.run(
        command(server, work, output), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{output}: ")
    assert list(work.iterdir()) == []
    found = downloaded(output, tmp_path / f"map.{format}")
    # So it was uploaded in parts.
    assert found.stat().st_size > 96e6
    verify(planned(opened(server), "IMAGES", format), found, deep=True)


@pytest.mark.parametrize("place", ["in_s3", "in_swift"], indirect=True)
def test_a_killed_export_is_resumed(place: str, server: Path, work: Path, tmp_path: Path) -> None:
    output = f"{place}/killed.pmtiles"
    words = command(server, work, output, "--resume")
    for wait in (3.0, 4.0):
        # At this rate, it needs more than both together.
        with subprocess.Popen([*words, "--rate", "12"], stdout=subprocess.DEVNULL) as process:
            until = time.monotonic() + wait
            while process.poll() is None and time.monotonic() < until:
                time.sleep(0.05)
            process.kill()
        assert process.returncode == -signal.SIGKILL
        assert not exists(output)
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert list(work.iterdir()) == []
    found = downloaded(output, tmp_path / "map.pmtiles")
    verify(planned(opened(server), "IMAGES", "pmtiles"), found, deep=True)


def test_an_object_without_parts_is_small(
    in_ceph: Place, server: Path, work: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    output, variables = in_ceph
    for name, text in variables.items():
        monkeypatch.setenv(name, text)
    large = subprocess.run(
        command(server, work, f"{output}/large.pmtiles"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert large.returncode == 1
    assert "write it to a file" in large.stderr
    assert list(work.iterdir()) == []
    small = subprocess.run(
        command(server, work, f"{output}/small.pmtiles", "--zoom", "5-6"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert small.returncode == 0, small.stderr
    found = downloaded(f"{output}/small.pmtiles", tmp_path / "map.pmtiles")
    verify(planned(opened(server), "IMAGES", "pmtiles", zoom=[5, 6]), found, deep=True)


@pytest.mark.parametrize("place", ["in_s3", "in_swift"], indirect=True)
def test_results_of_jobs_are_objects(place: str, open_exports: Callable[..., Exports]) -> None:
    exports = open_exports(results=f"{place}/results")
    for storage, key in store_of(f"{place}/results/x"):
        check_results_are_objects(exports, storage, key.removesuffix("x"))
