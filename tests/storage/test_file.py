"""The built-in driver FILE, beyond the common contract of drivers (storage.md section 4)."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from weakref import WeakSet

import pytest

from mastaba_server.descriptors import DESCRIPTORS
from mastaba_storage import file
from mastaba_storage.base import ByteRange
from mastaba_storage.errors import (
    ObjectChangedError,
    ObjectNotFoundError,
    StorageError,
    StorageUnavailableError,
)
from mastaba_storage.file import FileStorage


@pytest.fixture
def count_open_files(tmp_path: Path) -> Callable[[], int]:
    """Return a function that counts the open files of the test's own folder.

    Descriptors of earlier tests may be closed at any moment, with the objects that hold them.
    """

    def count() -> int:
        count = 0
        for descriptor in os.listdir("/proc/self/fd"):
            # That with which the folder is listed is closed by now.
            with suppress(FileNotFoundError):
                count += os.readlink(f"/proc/self/fd/{descriptor}").startswith(f"{tmp_path}/")
        return count

    return count


@pytest.fixture
def storage() -> FileStorage:
    return FileStorage(open_files=4)


def test_no_more_files_stay_open_than_allowed(
    storage: FileStorage, tmp_path: Path, count_open_files: Callable[[], int]
) -> None:
    before = count_open_files()
    for number in range(20):
        path = tmp_path / str(number)
        path.write_bytes(b"0123456789")
        assert storage.read(str(path), ByteRange(2, 3)).data == b"234"
    assert count_open_files() == before + 4

    storage.close()
    assert count_open_files() == before
    storage.close()


def test_file_read_as_a_whole_does_not_stay_open(
    storage: FileStorage, tmp_path: Path, count_open_files: Callable[[], int]
) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    before = count_open_files()

    assert storage.read(str(tmp_path / "a")).data == b"abc"
    assert storage.stat(str(tmp_path / "a")).size == 3
    assert storage.exists(str(tmp_path / "a"))
    assert count_open_files() == before


def test_refused_file_does_not_stay_open(
    storage: FileStorage, tmp_path: Path, count_open_files: Callable[[], int]
) -> None:
    os.mkfifo(tmp_path / "pipe")
    before = count_open_files()

    with pytest.raises(StorageUnavailableError):
        storage.read(str(tmp_path / "pipe"), ByteRange(0, 1))
    assert count_open_files() == before


def test_version_of_a_replaced_file_is_refused(storage: FileStorage, tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"one")
    version = storage.read(str(path), ByteRange(0, 3)).version
    storage.close()
    path.write_bytes(b"other")

    with pytest.raises(ObjectChangedError, match="a"):
        storage.read(str(path), ByteRange(0, 3), version)


def test_old_version_of_a_file_modified_in_place_is_refused(
    storage: FileStorage, tmp_path: Path
) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"one")
    version = storage.read(str(path), ByteRange(0, 3)).version
    path.write_bytes(b"longer")

    with pytest.raises(ObjectChangedError):
        storage.read(str(path), ByteRange(0, 3), version)
    assert storage.read(str(path), ByteRange(0, 9)).data == b"longer"


@pytest.fixture
def examined(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The descriptors of files that are examined from now on."""
    fstat, descriptors = os.fstat, []

    def noted(descriptor: int) -> os.stat_result:
        descriptors.append(descriptor)
        return fstat(descriptor)

    monkeypatch.setattr(os, "fstat", noted)
    return descriptors


def written_long_ago(path: Path, content: bytes, second: int = 0) -> None:
    with path.open("r+b" if path.exists() else "wb") as stream:
        stream.write(content)
    os.utime(path, (second, second))


def test_file_that_is_not_being_written_is_examined_once_in_a_while(
    storage: FileStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, examined: list[int]
) -> None:
    now = 1000.0
    monkeypatch.setattr(file, "monotonic", lambda: now)
    path = tmp_path / "a"
    written_long_ago(path, b"one")
    version = storage.read(str(path), ByteRange(0, 3)).version
    examined.clear()

    for _ in range(5):
        assert storage.read(str(path), ByteRange(0, 3), version).data == b"one"
    assert not examined

    now += 0.11
    assert storage.read(str(path), ByteRange(0, 3), version).data == b"one"
    assert len(examined) == 1

    written_long_ago(path, b"two", 1)
    now += 0.11
    with pytest.raises(ObjectChangedError):
        storage.read(str(path), ByteRange(0, 3), version)


def test_file_that_may_still_be_written_is_examined_at_every_read(
    storage: FileStorage, tmp_path: Path, examined: list[int]
) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"one")
    os.utime(path, (2**32, 2**32))  # in the future
    version = storage.read(str(path), ByteRange(0, 3)).version
    examined.clear()

    for _ in range(5):
        storage.read(str(path), ByteRange(0, 3), version)
    assert len(examined) == 5


def test_file_that_became_shorter_is_refused_although_it_is_trusted(
    storage: FileStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file, "monotonic", lambda: 1000.0)
    path = tmp_path / "a"
    written_long_ago(path, b"0123456789")
    version = storage.read(str(path), ByteRange(0, 3)).version
    os.truncate(path, 5)

    with pytest.raises(ObjectChangedError):
        storage.read(str(path), ByteRange(3, 3), version)


def test_equal_copies_have_equal_versions(storage: FileStorage, tmp_path: Path) -> None:
    versions = []
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(b"same")
        os.utime(tmp_path / name, ns=(0, 1_700_000_000_123_456_789))
        versions.append(storage.stat(str(tmp_path / name)).version)
    assert versions[0] == versions[1]


def test_stat_and_read_agree_on_version_and_time(storage: FileStorage, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    stat, read = storage.stat(str(tmp_path / "a")), storage.read(str(tmp_path / "a"))
    assert (stat.version, stat.modified) == (read.version, read.modified)


@pytest.mark.parametrize("name", ["nothing", "a/b", "nul\0"])
def test_names_that_cannot_be_files_are_not_found(
    name: str, storage: FileStorage, tmp_path: Path
) -> None:
    (tmp_path / "a").write_bytes(b"x")
    key = str(tmp_path / name)

    assert not storage.exists(key)
    with pytest.raises(ObjectNotFoundError):
        storage.read(key)
    with pytest.raises(ObjectNotFoundError):
        storage.stat(key)


def test_directory_does_not_count_as_a_file(storage: FileStorage, tmp_path: Path) -> None:
    assert not storage.exists(str(tmp_path))
    with pytest.raises(ObjectNotFoundError):
        storage.stat(str(tmp_path))
    with pytest.raises(StorageUnavailableError, match="regular"):
        storage.read(str(tmp_path))


def test_name_that_is_too_long_is_an_error_that_names_it(storage: FileStorage) -> None:
    with pytest.raises(StorageUnavailableError) as caught:
        storage.read("/tmp/" + "x" * 300)
    assert "xxx" in str(caught.value)
    assert caught.value.key.startswith("/tmp/")


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_open_file_is_read_in_a_child_process(storage: FileStorage, tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"0123456789")
    version = storage.read(str(path), ByteRange(0, 1)).version
    reading, writing = os.pipe()

    child = os.fork()
    if child == 0:
        try:
            os.write(writing, storage.read(str(path), ByteRange(3, 4), version).data)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert storage.read(str(path), ByteRange(3, 4), version).data == b"3456"
    assert os.read(reading, 10) == b"3456"
    os.close(reading)
    os.close(writing)


def test_more_threads_than_open_files_read_correct_bytes(
    storage: FileStorage, tmp_path: Path
) -> None:
    paths = [tmp_path / str(number) for number in range(16)]
    for number, path in enumerate(paths):
        path.write_bytes(bytes([number]) * 100)

    def read(turn: int) -> bool:
        number = turn % 16
        key = str(paths[number])
        version = storage.read(key, ByteRange(0, 10)).version
        return storage.read(key, ByteRange(50, 50), version).data == bytes([number]) * 50

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(read, range(1600)))


def test_huge_file_is_not_read_as_a_whole(storage: FileStorage, tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.truncate(1 << 40)

    with pytest.raises(StorageError, match="too large"):
        storage.read(str(path))
    assert storage.read(str(path), ByteRange(5, 2)).data == b"\0\0"


@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """What sets the limit of file descriptors for a test, which has them for itself."""
    monkeypatch.setattr(DESCRIPTORS, "_files", WeakSet())
    # Not that of the process: other tests have files open.
    return lambda limit: monkeypatch.setattr("mastaba_server.descriptors._limit", lambda: limit)


def read_files(storage: FileStorage, folder: Path, count: int) -> None:
    for number in range(count):
        path = folder / str(number)
        path.write_bytes(b"0123456789")
        storage.read(str(path), ByteRange(2, 3))


def test_as_many_files_stay_open_as_the_process_may_have(
    tmp_path: Path, count_open_files: Callable[[], int], limited: Callable[[int], None]
) -> None:
    limited(2000)
    storage = FileStorage()
    read_files(storage, tmp_path, 900)
    assert count_open_files() == 2000 - 256 - 1024

    # Servers raise their limit after the first reads.
    limited(3000)
    read_files(storage, tmp_path, 900)
    assert count_open_files() == 900


def test_connections_take_descriptors_from_open_files(
    tmp_path: Path,
    count_open_files: Callable[[], int],
    limited: Callable[[int], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(DESCRIPTORS, "room", DESCRIPTORS.room)
    limited(3000)
    storage = FileStorage()
    read_files(storage, tmp_path, 900)

    DESCRIPTORS.leave_room(1025)
    assert count_open_files() == 3000 - 256 - 2050
    assert storage.read(str(tmp_path / "0"), ByteRange(2, 3)).data == b"234"

    # However many connections there are.
    DESCRIPTORS.leave_room(9000)
    assert count_open_files() == 512


def test_few_descriptors_are_shared(
    tmp_path: Path, count_open_files: Callable[[], int], limited: Callable[[int], None]
) -> None:
    limited(200)
    storage = FileStorage()
    read_files(storage, tmp_path, 150)
    assert count_open_files() == 100


def test_several_storages_share_the_descriptors(
    tmp_path: Path, count_open_files: Callable[[], int], limited: Callable[[int], None]
) -> None:
    limited(3000)
    storage = FileStorage()
    read_files(storage, tmp_path, 900)

    other = FileStorage()
    assert count_open_files() == (3000 - 256 - 1024) // 2
    del other
    read_files(storage, tmp_path, 900)
    assert count_open_files() == 900
