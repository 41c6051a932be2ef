"""Files that take the place of others when they are complete."""

from __future__ import annotations

import errno
import os
import resource
import signal
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest

from mastaba.api.storages import replaced_file
from mastaba_storage.replacing import write_whole


def test_readers_see_the_former_file_until_the_new_one_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b"former")
    with replaced_file(str(path)) as stream:
        stream.write(b"new")
        stream.flush()
        assert path.read_bytes() == b"former"
        (temporary,) = set(os.listdir(tmp_path)) - {"a.json"}
        assert temporary.startswith(".")
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["a.json"]


def test_only_its_owner_reads_it(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with replaced_file(str(tmp_path / "a")) as stream:
            stream.write(b"secret")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600


@pytest.mark.parametrize("error", [OSError, ValueError, KeyboardInterrupt])
def test_after_an_error_the_former_file_stays(error: type[BaseException], tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"former")

    def write() -> None:
        with replaced_file(str(path)) as stream:
            stream.write(b"half")
            raise error

    with pytest.raises(error):
        write()
    assert path.read_bytes() == b"former"
    assert os.listdir(tmp_path) == ["a"]


def test_a_relative_path_is_one_of_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with replaced_file("a") as stream:
        stream.write(b"new")
    assert (tmp_path / "a").read_bytes() == b"new"


def test_a_missing_directory_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), replaced_file(str(tmp_path / "none" / "a")):
        pass


def test_files_of_commands_are_whole_and_have_usual_permissions(tmp_path: Path) -> None:
    path, link = tmp_path / "a", tmp_path / "link"
    link.symlink_to("a")
    before = os.umask(0o027)
    try:
        write_whole(str(link), b"one")
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        path.chmod(0o644)
        write_whole(str(path), b"two")
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert link.is_symlink()
    assert link.read_bytes() == b"two"
    write_whole(os.devnull, b"three")
    assert sorted(os.listdir(tmp_path)) == ["a", "link"]


def test_a_pipe_of_a_command_is_written() -> None:
    """The path of /dev/stdout leads to a pipe, which has none."""
    reading, writing = os.pipe()
    write_whole(f"/proc/self/fd/{writing}", b"whole")
    os.close(writing)
    with open(reading, "rb") as stream:
        assert stream.read() == b"whole"


@pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser gives files away")
def test_the_owner_of_a_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"former")
    path.chmod(0o640)
    os.chown(path, 65534, 12345)
    write_whole(str(path), b"new")
    found = path.stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (65534, 12345, 0o640)


@pytest.mark.parametrize("number", [errno.EPERM, errno.EINVAL])
def test_an_owner_that_cannot_be_set_does_not_keep_a_file_from_being_written(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel answers EINVAL where a user namespace does not contain the owner."""
    asked: list[int] = []

    def refuse(_descriptor: int, owner: int, _group: int) -> None:
        asked.append(owner)
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fchown", refuse)
    path = tmp_path / "a"
    path.write_bytes(b"former")
    path.chmod(0o640)
    write_whole(str(path), b"new")
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert asked == [path.stat().st_uid, -1]
    assert os.listdir(tmp_path) == ["a"]


def test_a_file_in_a_folder_that_cannot_be_written_is_written_in_place() -> None:
    # Other users cannot reach the folders of pytest.
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a")
        path.write_bytes(b"former and longer")
        path.chmod(0o666)
        os.chmod(folder, 0o555)
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                if os.geteuid() == 0:
                    os.setuid(65534)
                write_whole(str(path), b"new")
                with suppress(PermissionError):
                    write_whole(f"{folder}/b", b"new")
                    os._exit(2)
                status = 0
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        os.chmod(folder, 0o755)
        assert path.read_bytes() == b"new"
        assert os.listdir(folder) == ["a"]


@pytest.mark.thorough
def test_a_full_disk_leaves_the_former_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_whole(str(path), b"former")
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        try:
            write_whole(str(path), bytes(5000))
        except OSError:
            os._exit(0)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert path.read_bytes() == b"former"
    assert os.listdir(tmp_path) == ["a"]
