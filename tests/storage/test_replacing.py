"""Files that take the place of others when they are complete."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from mastaba.api.storages import replaced_file


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
