"""Files on a file system that stops answering: a real one, of FUSE."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fuse import HangingMount, mounted
from tests.hanging import Served
from tests.tiny import tiny_installation

from mastaba.errors import ObjectNotFoundError, StorageUnavailableError
from mastaba.storage_pool import StoragePool
from mastaba_conformance.tiny_installation import tiny_installation as written_installation
from mastaba_server.threads import mounts
from mastaba_server.threads.mounts import distant_mount
from mastaba_storage.base import ByteRange
from mastaba_storage.environment import Environment
from mastaba_storage.file import FileStorage
from mastaba_storage.managed import ManagedStorage
from mastaba_storage.path import ResourcePath


def pool(**variables: str) -> StoragePool:
    given = {f"MASTABA_{name}": text for name, text in variables.items()}
    return StoragePool({"file": FileStorage}, Environment(given))


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[HangingMount]:
    source = tmp_path / "source"
    source.mkdir()
    (source / "a").write_bytes(b"content")
    with mounted(source, tmp_path / "mount") as mount:
        yield mount


def test_read_of_a_hanging_file_system_is_given_up(mount: HangingMount) -> None:
    storages = pool(OBJECT_READ_TIMEOUT="1", OBJECT_BREAKER_FAILURES="4")
    key = str(mount.path / "a")
    storage = storages.open_path(ResourcePath("file", "", key))
    read = storage.read(key, ByteRange(0, 3))
    assert read.data == b"con"
    mount.hang()
    reads = (
        lambda: storage.read(key, ByteRange(0, 3), read.version),
        lambda: storage.read(key),
        lambda: storage.stat(key),
        lambda: storage.exists(f"{key}b"),
    )
    for ask in reads:
        with pytest.raises(StorageUnavailableError, match="no answer within 1 seconds"):
            ask()
    assert storage.is_suspended
    mount.go_on()
    storages.close()


def test_file_system_that_answers_again_is_read_again(mount: HangingMount) -> None:
    storages = pool(OBJECT_READ_TIMEOUT="4", OBJECT_BREAKER_FAILURES="0")
    key = str(mount.path / "a")
    storage = storages.open_path(ResourcePath("file", "", key))
    mount.hang()
    with pytest.raises(StorageUnavailableError):
        storage.read(key)
    mount.go_on()
    assert storage.read(key).data == b"content"
    with pytest.raises(ObjectNotFoundError):
        storage.read(f"{key}b")
    storages.close()


def test_mount_is_found_without_touching_it(mount: HangingMount, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(mount.path)
    (tmp_path / "relative").symlink_to("link/deep")
    (tmp_path / "loop").symlink_to("loop")
    mount.hang()
    inside = (
        mount.path,
        mount.path / "a/b",
        tmp_path / "link/x",
        tmp_path / "relative",
        tmp_path / "source/../link",
    )
    for path in inside:
        assert distant_mount(str(path)) == str(mount.path), path
    for path in (tmp_path / "source/a", tmp_path / "loop/a", tmp_path / "mounted", Path("/")):
        assert distant_mount(str(path)) is None, path
    mount.go_on()


def test_kinds_of_file_systems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = {
        "nfs": True,
        "nfs4": True,
        "cifs": True,
        "fuse": True,
        "fuse.s3fs": True,
        "ext4": False,
        "overlay": False,
        "fusectl": False,
        "tmpfs": False,
    }
    lines = [
        f"{number} 1 0:{number} / /a\\040{kind} rw - {kind} from rw\n"
        for number, kind in enumerate(kinds)
    ]
    table = tmp_path / "mountinfo"
    # The second file system hides the first.
    table.write_text("".join(lines) + "9 1 0:9 / /a\\040nfs rw shared:7 - xfs /dev/x rw\n")
    monkeypatch.setattr(mounts, "_TABLE", str(table))
    mounts._mounts.cache_clear()
    found = {kind: distant_mount(f"/a {kind}/b") == f"/a {kind}" for kind in kinds}
    mounts._mounts.cache_clear()
    assert found == kinds | {"nfs": False}


def test_local_files_are_read_as_before(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"content")
    storages = pool()
    storage = storages.open_path(ResourcePath("file", "", str(tmp_path / "a")))
    assert type(storage) is FileStorage
    assert storage is storages.open("file", "")
    storages.close()


TILE = "/tms/1.0.0/S/3/4/2.jpg"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Served, HangingMount]]:
    """A server with nine layers on local files, and one, S, on a file system that can hang."""
    source = tmp_path / "source"
    source.mkdir()
    written_installation(source)
    point = tmp_path / "mount"
    with mounted(source / "pyramids", point) as mount:
        server_json = tiny_installation(tmp_path / "i")
        document = json.loads((tmp_path / "i/layers/RGB_JPG.json").read_text("utf-8"))
        document["pyramids"][0]["path"] = str(point / "RGB_JPG.json")
        layer = tmp_path / "i/layers/S.json"
        layer.write_text(json.dumps(document), "utf-8")
        with (tmp_path / "i/layers.txt").open("a") as file:
            file.write(f"{layer}\n")
        variables = {"MASTABA_OBJECT_READ_TIMEOUT": "4", "MASTABA_OBJECT_BREAKER_FAILURES": "3"}
        served = Served(server_json, variables, "serves 10 layers")
        yield served, mount
        mount.go_on()
        served.close()


def test_the_rest_is_served_while_a_file_system_hangs(served: tuple[Served, HangingMount]) -> None:
    server, mount = served
    assert server.ask(TILE).status == 200
    mount.hang()
    pending = [server.start(TILE) for _ in range(3)]
    assert server.report("/live") == {"status": "OK"}
    assert server.ask("/tms/1.0.0/RGB_JPG/3/4/2.jpg").status == 200
    assert [answer.result().status for answer in pending] == [503] * 3
    assert server.report("/ready")["reasons"] == ["a storage does not answer: file"]
    assert server.ask(TILE).status == 503
    assert server.ask("/tms/1.0.0/RGB_JPG/3/4/2.jpg").status == 200


@pytest.mark.thorough
def test_a_server_stops_while_a_file_system_hangs(served: tuple[Served, HangingMount]) -> None:
    server, mount = served
    assert server.ask(TILE).status == 200
    mount.hang()
    assert server.ask(TILE).status == 503
    server.close()
    assert server.process.returncode == 0
    assert "does not exit" in server.log.read_text("utf-8")


def test_reads_are_managed(mount: HangingMount) -> None:
    storages = pool()
    key = str(mount.path / "a")
    assert isinstance(storages.open_path(ResourcePath("file", "", key)), ManagedStorage)
    assert storages.read_full(ResourcePath("file", "", key)) == b"content"
    storages.close()
