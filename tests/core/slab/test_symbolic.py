from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from mastaba.containers.index_cache import IndexCache
from mastaba.errors import AccessDeniedError, SlabFormatError, StorageUnavailableError
from mastaba.slab.layout import PathLayout, PrefixLayout
from mastaba.slab.reader import LevelReader
from mastaba_render.plan import read_tiles
from mastaba_storage.base import ByteRange, ObjectRead, Storage
from mastaba_storage.file import FileStorage
from mastaba_writer.slab_names import slab_path
from mastaba_writer.slab_writer import build_slab


class Folder(FileStorage):
    """A folder used as a container of objects; records reads."""

    is_remote = True
    container_field: ClassVar[str | None] = "folder"

    def __init__(self, root: Path, container: str, reads: list[str]) -> None:
        super().__init__(container)
        self._root = root
        self._reads = reads

    def read(
        self, key: str, byte_range: ByteRange | None = None, version: str | None = None
    ) -> ObjectRead:
        self._reads.append(f"{self.container}/{key}")
        return super().read(str(self._root / self.container / key), byte_range, version)


def slab(generation: int) -> bytes:
    tiles = [f"tile {number} of {generation}".encode() for number in range(4)]
    return build_slab(list(tiles), format="TIFF_PBF_MVT", tiles_per_width=2, tiles_per_height=2)


class Objects:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.reads: list[str] = []
        self.open: Callable[[str], Storage] = lambda name: Folder(self.root, name, self.reads)

    def put(self, name: str, data: bytes) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(".new")
        fresh.write_bytes(data)
        fresh.rename(path)

    def reader(self) -> LevelReader:
        level: Any = SimpleNamespace(tiles_per_width=2, tiles_per_height=2)
        return LevelReader(
            level,
            PrefixLayout("P/DATA_3"),
            Folder(self.root, "maps", self.reads),
            IndexCache(10, 300),
            lambda name: self.open(name),
        )


@pytest.fixture
def objects(tmp_path: Path) -> Objects:
    objects = Objects(tmp_path)
    objects.put("archive/old/DATA_3_0_0", slab(1))
    objects.put("maps/P/DATA_3_0_0", b"SYMLINK#archive/old/DATA_3_0_0")
    return objects


def test_a_symbolic_object_needs_one_extra_read_once(objects: Objects) -> None:
    reader = objects.reader()
    tile = reader.locate(1, 0)
    assert tile is not None
    assert tile.read() == b"tile 2 of 1"
    target = "archive/old/DATA_3_0_0"
    assert objects.reads == ["maps/P/DATA_3_0_0", target, target]
    objects.reads.clear()
    assert read_tiles(reader, [(0, 0), (1, 1)]) == [b"tile 0 of 1", b"tile 3 of 1"]
    assert objects.reads == [target]


def test_a_replaced_target_and_a_changed_link_are_followed(objects: Objects) -> None:
    reader = objects.reader()
    tile = reader.locate(0, 0)
    assert tile is not None
    objects.put("archive/old/DATA_3_0_0", slab(2))
    tile.index.storage.close()  # otherwise the old file would stay open and be read
    assert tile.read() == b"tile 0 of 2"
    objects.put("maps/P/DATA_3_0_0", b"SYMLINK#archive/new")
    objects.put("archive/new", slab(3))
    (objects.root / "archive/old/DATA_3_0_0").unlink()
    reader.locate(0, 0)
    tile.index.storage.close()
    assert read_tiles(reader, [(0, 0)]) == [b"tile 0 of 3"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"SYMLINK#archive/gone", "archive/gone.*does not exist"),
        (b"SYMLINK#nowhere/at/all", "nowhere/at/all.*does not exist"),
        (b"SYMLINK#archive", "container/name"),
        (b"SYMLINK#archive/", "container/name"),
        (b"SYMLINK#/name", "container/name"),
        (b"SYMLINK#", "container/name"),
        (b"SYMLINK#archive/empty", "is empty"),
        (b"SYMLINK#maps/P/DATA_3_0_0", "chains"),
        (b"SYMLINK#archive/short", "archive.*short|short.*shorter"),
        (b"SYMLINK#\xff\xfe/x", "does not exist"),
        (b"symlink#archive/old/DATA_3_0_0", "shorter than its header"),
        (b"II*\0", "shorter than its header"),
    ],
)
def test_a_symbolic_object_that_cannot_be_followed_is_reported(
    objects: Objects, content: bytes, message: str
) -> None:
    objects.put("archive/empty", b"")
    objects.put("archive/short", b"II*\0 truncated")
    objects.put("maps/P/DATA_3_0_0", content)
    with pytest.raises(SlabFormatError, match=message):
        objects.reader().locate(0, 0)


@pytest.mark.parametrize("kind", [AccessDeniedError, StorageUnavailableError])
def test_an_unreachable_target_is_reported_with_the_symbolic_object(
    objects: Objects, kind: type[Exception]
) -> None:
    def refuse(name: str) -> Storage:
        raise kind("because")

    objects.open = refuse
    with pytest.raises(kind, match=r"maps/P/DATA_3_0_0 points to .*archive/old.*because"):
        objects.reader().locate(0, 0)


def test_an_unknown_container_is_reported(objects: Objects) -> None:
    def refuse(name: str) -> Storage:
        raise ValueError(f"no such cluster in {name}")

    objects.open = refuse
    with pytest.raises(SlabFormatError, match="no such cluster in archive"):
        objects.reader().locate(0, 0)


def test_files_are_not_followed(tmp_path: Path) -> None:
    path = tmp_path / slab_path(0, 0)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"SYMLINK#" + str(tmp_path / "target").encode())
    level: Any = SimpleNamespace(tiles_per_width=2, tiles_per_height=2)
    reader = LevelReader(level, PathLayout(str(tmp_path), 2), FileStorage(), IndexCache(9, 300))
    with pytest.raises(SlabFormatError, match="shorter than its header"):
        reader.locate(0, 0)
