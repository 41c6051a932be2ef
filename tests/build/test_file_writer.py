"""The writer of files, by the conformance tests of drivers; files that are never half written."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from mastaba_build.errors import OutputError
from mastaba_build.output.storage import FileWriter, OutputStore
from mastaba_conformance.storage.writes import WriteTests
from mastaba_storage.environment import Environment


class Files:
    def put(self, key: str, data: bytes) -> None:
        Path(key).parent.mkdir(parents=True, exist_ok=True)
        Path(key).write_bytes(data)

    def delete(self, key: str) -> None:
        Path(key).unlink()


class TestFileWriter(WriteTests):
    keys_are_paths = True

    @pytest.fixture
    def writer(self) -> Files:
        return Files()

    @pytest.fixture
    def storage(self) -> FileWriter:
        return FileWriter.open("", Environment({}))

    @pytest.fixture
    def writable(self) -> FileWriter:
        return FileWriter.open("", Environment({}))

    @pytest.fixture
    def prefix(self, tmp_path: Path) -> str:
        return f"{tmp_path}/"


def test_links_are_relative_and_replace(tmp_path: Path) -> None:
    store = OutputStore.of_directory(tmp_path)
    store.write("a/DATA/1/00.tif", b"old")
    store.write("b/DATA/1/00.tif", b"own")
    store.link("b/DATA/1/00.tif", "a/DATA/1/00.tif")
    assert os.readlink(tmp_path / "b/DATA/1/00.tif") == "../../../a/DATA/1/00.tif"
    assert store.read("b/DATA/1/00.tif") == b"old"
    # A write replaces the link, and not what it leads to.
    store.write("b/DATA/1/00.tif", b"new")
    assert store.read("a/DATA/1/00.tif") == b"old"
    assert not list(tmp_path.rglob("*.tmp"))


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"")
    store = OutputStore.of_directory(tmp_path)
    with pytest.raises(OutputError, match="a: is not a directory"):
        store.write("a/b", b"", only_if_absent=True)
    with pytest.raises(OutputError, match=r"a/b.*: Not a directory"):
        store.read("a/b")


@pytest.mark.thorough
def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    store = OutputStore.of_directory(tmp_path)
    store.write("a", b"old")
    program = (
        "import sys; from pathlib import Path\n"
        "from mastaba_build.output.storage import OutputStore\n"
        "OutputStore.of_directory(Path(sys.argv[1])).write('a', bytes(100_000))"
    )

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))

    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=limit,
    )
    assert "File too large" in done.stderr
    assert store.read("a") == b"old"
    assert os.listdir(tmp_path) == ["a"]
