"""Slabs replaced while they are read: index and tile are always of the same generation."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.sizes import only_full

from mastaba.containers.index_cache import IndexCache
from mastaba.errors import ObjectNotFoundError, SlabFormatError, StorageUnavailableError
from mastaba.model.pyramid import Level
from mastaba.model.tile_matrix_set import TileLimits, TileMatrix
from mastaba.slab.layout import PathLayout
from mastaba.slab.reader import LevelReader
from mastaba_storage.base import ByteRange, ObjectRead
from mastaba_storage.file import FileStorage
from mastaba_writer.slab_writer import build_slab

GENERATIONS = 10
TILES = 16


def make_generation(number: int) -> bytes:
    """Return a slab whose tiles contain their generation and number and differ in size."""
    tiles: list[bytes | None] = [
        f"{number}:{tile};".encode() * (300 + 37 * ((number + tile) % 7)) for tile in range(TILES)
    ]
    return build_slab(tiles, format="TIFF_PBF_MVT", tiles_per_width=4, tiles_per_height=4)


def generation_of(body: bytes, tile: int) -> int:
    """Return the generation of a body, and check that it is complete and of this tile only."""
    word = body[: body.index(b";") + 1]
    number, found = (int(part) for part in word[:-1].split(b":"))
    assert found == tile
    assert body == word * (300 + 37 * ((number + tile) % 7))
    return number


@pytest.fixture
def slab(tmp_path: Path) -> Path:
    path = tmp_path / "00.tif"
    path.write_bytes(make_generation(0))
    return path


def make_reader(slab: Path, indices: IndexCache, storage: FileStorage | None = None) -> LevelReader:
    matrix = TileMatrix("0", 1.0, 0.0, 0.0, 256, 256, 4, 4)
    level = Level(matrix, 4, 4, TileLimits(0, 3, 0, 3))
    return LevelReader(level, PathLayout(str(slab.parent), 0), storage or FileStorage(), indices)


def read(reader: LevelReader, tile: int) -> bytes:
    stored = reader.locate(*divmod(tile, 4))
    assert stored is not None
    return stored.read()


def replace_by_rename(slab: Path, data: bytes) -> None:
    new = slab.with_suffix(".new")
    new.write_bytes(data)
    new.rename(slab)


def replace_in_place(slab: Path, data: bytes) -> None:
    slab.write_bytes(data)
    # Two generations with equal file times could not be distinguished.
    facts = slab.stat()
    os.utime(slab, ns=(facts.st_atime_ns, facts.st_mtime_ns + 1))


@pytest.fixture(params=[0.01, *only_full(0.1)])
def pause(request: pytest.FixtureRequest) -> float:
    """Return the seconds for which each generation is read."""
    return float(request.param)


def run_against_writer(
    slab: Path,
    replace: Callable[[Path, bytes], None],
    pause: float,
    validity: float,
    open_files: int = 512,
) -> tuple[set[int], int]:
    """Replace the slab again and again while threads read.

    Returns:
        The generations that were read completely, and the number of failed reads.
    """
    reader = make_reader(slab, IndexCache(10, validity), FileStorage(open_files=open_files))
    done, found = threading.Event(), []
    attempts = [0] * 4

    def keep_reading(first: int) -> int:
        failed, tile = 0, first
        while not done.is_set():
            tile = (tile + 5) % TILES
            attempts[first] += 1
            try:
                found.append(generation_of(read(reader, tile), tile))
            except (SlabFormatError, ObjectNotFoundError, StorageUnavailableError, AssertionError):
                if replace is replace_by_rename:
                    raise
                failed += 1
        return failed

    with ThreadPoolExecutor(4) as pool:
        readers = [pool.submit(keep_reading, first) for first in range(4)]
        try:
            for number in range(1, GENERATIONS):
                replace(slab, make_generation(number))
                before = attempts.copy()
                done.wait(pause)
                # On a busy machine, the pause may be too short for a whole read.
                while not any(reader.done() for reader in readers) and not any(
                    now > then + 1 for now, then in zip(attempts, before, strict=True)
                ):
                    done.wait(0.001)
        finally:
            done.set()
        failed = sum(future.result() for future in readers)
    return set(found), failed


@pytest.mark.sampled(one_in=4)
@pytest.mark.parametrize(
    ("validity", "open_files"), [(0.0, 512), (0.02, 1), (0.02, 512), (1000.0, 1)]
)
def test_slab_replaced_by_rename_gives_complete_bodies_of_one_generation_and_no_error(
    slab: Path, validity: float, open_files: int, pause: float
) -> None:
    generations, failed = run_against_writer(slab, replace_by_rename, pause, validity, open_files)

    assert generations
    assert failed == 0


def test_without_index_caching_later_generations_are_read(slab: Path, pause: float) -> None:
    generations, _ = run_against_writer(slab, replace_by_rename, pause, validity=0.0)

    assert len(generations) > 1


@pytest.mark.parametrize("validity", [0.0, 1000.0])
def test_slab_rewritten_in_place_never_gives_a_mixed_body(
    slab: Path, validity: float, pause: float
) -> None:
    # A half-written file belongs to neither generation: a read may fail, but must not be wrong.
    generations, _ = run_against_writer(slab, replace_in_place, pause, validity)

    assert len(generations) > 1


def test_slab_rewritten_in_place_is_read_again(slab: Path) -> None:
    reader = make_reader(slab, IndexCache(10, 1000.0))
    assert generation_of(read(reader, 3), 3) == 0

    replace_in_place(slab, make_generation(1))
    assert generation_of(read(reader, 3), 3) == 1


def test_slab_replaced_by_rename_is_served_from_its_open_file_until_the_index_expires(
    slab: Path,
) -> None:
    now = [0.0]
    reader = make_reader(slab, IndexCache(10, 60.0, lambda: now[0]))
    assert generation_of(read(reader, 3), 3) == 0

    replace_by_rename(slab, make_generation(1))
    assert generation_of(read(reader, 5), 5) == 0
    now[0] = 60.0
    assert generation_of(read(reader, 5), 5) == 1


def test_slab_replaced_after_its_file_was_closed_is_read_again(slab: Path) -> None:
    storage = FileStorage(open_files=1)
    reader = make_reader(slab, IndexCache(10, 1000.0), storage)
    stored = reader.locate(0, 3)
    assert stored is not None
    before = stored.version

    replace_by_rename(slab, make_generation(1))
    storage.close()
    assert generation_of(stored.read(), 3) == 1
    assert stored.version != before


class ReplacedStorage(FileStorage):
    """Files that are replaced after each index, and then read by another thread."""

    generation = 0

    def read(
        self, key: str, byte_range: ByteRange | None = None, version: str | None = None
    ) -> ObjectRead:
        found = super().read(key, byte_range, version)
        if version is None:
            self.generation += 1
            replace_by_rename(Path(key), make_generation(self.generation))
            with ThreadPoolExecutor(1) as other:
                other.submit(super().read, key, byte_range).result()
        return found


def test_slab_replaced_after_each_read_of_its_index_gives_no_error(slab: Path) -> None:
    reader = make_reader(slab, IndexCache(10, 0.0), ReplacedStorage())
    for tile in range(TILES):
        generation_of(read(reader, tile), tile)


def test_tile_missing_in_the_next_generation_is_absent(slab: Path) -> None:
    reader = make_reader(slab, IndexCache(10, 1000.0))
    stored = reader.locate(0, 3)
    assert stored is not None
    tiles: list[bytes | None] = [b"x" * 100] * TILES
    tiles[3] = None

    replace_in_place(
        slab, build_slab(tiles, format="TIFF_PBF_MVT", tiles_per_width=4, tiles_per_height=4)
    )
    with pytest.raises(ObjectNotFoundError, match=r"00\.tif"):
        stored.read()
    assert reader.locate(0, 3) is None


def test_file_system_link_is_followed_and_a_new_target_is_found(slab: Path, tmp_path: Path) -> None:
    target, other = tmp_path / "one", tmp_path / "two"
    target.write_bytes(make_generation(1))
    other.write_bytes(make_generation(2))
    slab.unlink()
    slab.symlink_to(target)
    reader = make_reader(slab, IndexCache(10, 0.0))
    assert generation_of(read(reader, 7), 7) == 1

    slab.unlink()
    slab.symlink_to(other)
    assert generation_of(read(reader, 7), 7) == 2


def test_hard_link_is_a_slab(slab: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(make_generation(4))
    slab.unlink()
    slab.hardlink_to(other)

    assert generation_of(read(make_reader(slab, IndexCache(10, 0.0)), 7), 7) == 4


def test_dangling_link_is_an_absent_slab(slab: Path, tmp_path: Path) -> None:
    slab.unlink()
    slab.symlink_to(tmp_path / "nowhere")

    assert make_reader(slab, IndexCache(10, 0.0)).locate(0, 0) is None


def test_link_to_itself_is_an_error(slab: Path) -> None:
    slab.unlink()
    slab.symlink_to(slab)

    with pytest.raises(StorageUnavailableError, match=r"00\.tif"):
        make_reader(slab, IndexCache(10, 0.0)).locate(0, 0)
