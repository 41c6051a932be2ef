import contextlib
import os
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mastaba.containers.index_cache import IndexCache
from mastaba.errors import SlabFormatError, StorageUnavailableError
from mastaba.slab.layout import PathLayout
from mastaba.slab.reader import LevelReader
from mastaba_render.plan import read_located, read_tiles
from mastaba_storage.base import ByteRange, ObjectRead
from mastaba_storage.file import FileStorage
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.slab_names import slab_path
from mastaba_writer.slab_writer import build_slab
from mastaba_writer.tile_matrix_sets import web_mercator

SIDE = 4
LAST = 3 * SIDE - 1


class Remote(FileStorage):
    """Files treated as a remote storage; records reads and can delay or fail them."""

    is_remote = True

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[tuple[str, int, int]] = []
        self.before: Callable[[str, ByteRange], None] = lambda key, byte_range: None
        self.after: Callable[[ByteRange], None] = lambda byte_range: None

    def read(
        self, key: str, byte_range: ByteRange | None = None, version: str | None = None
    ) -> ObjectRead:
        assert byte_range is not None
        self.reads.append((Path(key).name, byte_range.offset, byte_range.length))
        self.before(key, byte_range)
        read = super().read(key, byte_range, version)
        self.after(byte_range)
        return read


def payload(row: int, col: int, generation: int = 1) -> bytes:
    return f"{generation}/{row}/{col}:".encode() * (50 + row + col)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Return a level with nine slabs of 4 × 4 tiles; the tiles of one column are not stored."""
    write_pyramid(
        tmp_path,
        "P",
        tile_matrix_set=web_mercator(),
        format="TIFF_PBF_MVT",
        levels=[LevelPlan("6", 0, LAST, 0, LAST)],
        tile=lambda level, row, col: None if col == 5 else payload(row, col),
        tiles_per_width=SIDE,
        tiles_per_height=SIDE,
    )
    return tmp_path / "P/DATA/6"


def reader_of(directory: Path, storage: FileStorage, cache_size: int = 100) -> LevelReader:
    level: Any = SimpleNamespace(tiles_per_width=SIDE, tiles_per_height=SIDE)
    return LevelReader(level, PathLayout(str(directory), 2), storage, IndexCache(cache_size, 300))


def replace_slab(directory: Path, slab_col: int, slab_row: int, tiles: list[bytes | None]) -> None:
    path = directory / slab_path(slab_col, slab_row)
    fresh = path.with_suffix(".new")
    fresh.write_bytes(
        build_slab(tiles, format="TIFF_PBF_MVT", tiles_per_width=SIDE, tiles_per_height=SIDE)
    )
    fresh.rename(path)


def new_tiles(slab_col: int, slab_row: int, generation: int = 2) -> list[bytes | None]:
    return [
        payload(slab_row * SIDE + row, slab_col * SIDE + col, generation)
        for row in range(SIDE)
        for col in range(SIDE)
    ]


WINDOW = [(row, col) for row in range(2, 7) for col in range(2, 7)]


@pytest.mark.parametrize("storage", [FileStorage, Remote])
def test_tiles_are_returned_in_the_requested_order(
    directory: Path, storage: type[FileStorage]
) -> None:
    indices = [*WINDOW[::-1], WINDOW[0], (40, 40), (3, 5)]
    tiles = read_tiles(reader_of(directory, storage()), indices)
    expected = [
        None if col == 5 or row > LAST or col > LAST else payload(row, col) for row, col in indices
    ]
    assert tiles == expected
    assert read_tiles(reader_of(directory, storage()), []) == []


def test_a_window_over_four_slabs_needs_two_reads_per_slab_and_then_one(directory: Path) -> None:
    storage = Remote()
    reader = reader_of(directory, storage)
    read_tiles(reader, WINDOW)
    assert len(storage.reads) == 8
    storage.reads.clear()
    read_tiles(reader, WINDOW)
    assert len(storage.reads) == 4


def test_locating_reads_indices_only(directory: Path) -> None:
    storage = Remote()
    reader = reader_of(directory, storage)
    located = reader.locate_all(WINDOW)
    assert {offset for _, offset, _ in storage.reads} == {0}
    assert len(storage.reads) == 4
    assert [tile is None for tile in located] == [col == 5 for _, col in WINDOW]
    first = located[0]
    assert first is not None
    again = reader.locate_all(WINDOW[:1])[0]
    assert again is not None
    assert first.identity == again.identity
    assert len(storage.reads) == 4
    assert read_located([first, None]) == [payload(2, 2), None]


def test_distant_ranges_are_not_merged(directory: Path) -> None:
    big = [bytes([number]) * 200_000 for number in range(SIDE * SIDE)]
    replace_slab(directory, 0, 0, list(big))
    storage = Remote()
    reader = reader_of(directory, storage)
    tiles = read_tiles(reader, [(0, 0), (0, 2), (3, 3)])
    assert tiles == [big[0], big[2], big[15]]
    # One read for the index, one for tiles 0 to 2 together, and one for the last tile.
    assert [length for _, _, length in sorted(storage.reads)] == [2176, 600_000, 200_000]


def test_slabs_are_read_in_parallel(directory: Path) -> None:
    storage = Remote()
    meeting = threading.Barrier(4)

    def meet(key: str, byte_range: ByteRange) -> None:
        meeting.wait(timeout=120)

    storage.before = meet
    tiles = read_tiles(reader_of(directory, storage), WINDOW)
    assert tiles[0] == payload(2, 2)


@pytest.mark.parametrize("storage", [FileStorage, Remote])
def test_a_slab_replaced_after_reading_its_index_gives_tiles_of_the_new_version(
    directory: Path, storage: type[FileStorage]
) -> None:
    reader = reader_of(directory, storage())
    located = reader.locate_all([(0, 0), (0, 1), (0, 2), (3, 3), (0, 8)])
    old = located[0]
    assert old is not None
    old_version = old.version
    tiles = new_tiles(0, 0)
    tiles[2] = None
    replace_slab(directory, 0, 0, tiles)
    # Close the old file, which could otherwise still be read.
    reader.storage.close()
    assert read_located(located) == [
        payload(0, 0, 2),
        payload(0, 1, 2),
        None,
        payload(3, 3, 2),
        payload(0, 8),
    ]
    assert old.version != old_version


def test_a_tile_read_before_its_slab_was_replaced_is_not_kept(directory: Path) -> None:
    """The first tile is read in the old generation, and the new one does not hold it."""
    # Larger than any gap that is read in vain: the two tiles take two reads.
    between = bytes(1024 * 1024)
    replace_slab(directory, 0, 0, [b"old 0", between, b"old 2", *[None] * 13])
    storage = Remote()
    reader = reader_of(directory, storage)
    located = reader.locate_all([(0, 0), (0, 2)])
    first, second = located
    assert first is not None
    assert second is not None
    first_is_read = threading.Event()

    def replace_after_the_first(key: str, byte_range: ByteRange) -> None:
        if byte_range.offset == second.offset:
            assert first_is_read.wait(120)
            storage.before = lambda key, byte_range: None
            replace_slab(directory, 0, 0, [None, None, b"new 2", *[None] * 13])
            storage.close()

    storage.before = replace_after_the_first
    storage.after = lambda byte_range: (
        first_is_read.set() if byte_range.offset == first.offset else None
    )
    assert read_located(located) == [None, b"new 2"]


@pytest.mark.parametrize("storage", [FileStorage, Remote])
def test_tiles_that_share_bytes_are_read_whole(directory: Path, storage: type[FileStorage]) -> None:
    path = directory / slab_path(0, 0)
    slab = bytearray(path.read_bytes())
    count = SIDE * SIDE
    offsets = memoryview(slab)[2048 : 2048 + 8 * count].cast("I")
    start, length = offsets[0], offsets[count]
    # The second tile is inside the first one, the third one extends beyond its end.
    offsets[1], offsets[count + 1] = start + 10, 20
    offsets[2], offsets[count + 2] = start + length - 5, 30
    offsets.release()
    path.write_bytes(slab)
    whole = bytes(slab)
    expected = [
        whole[start : start + length],
        whole[start + 10 : start + 30],
        whole[start + length - 5 : start + length + 25],
    ]
    reader = reader_of(directory, storage())
    assert read_tiles(reader, [(0, 0), (0, 1), (0, 2)]) == expected
    assert read_tiles(reader, [(0, 1), (0, 0)]) == [expected[1], expected[0]]


def test_readers_with_other_slab_sizes_do_not_share_indices(directory: Path) -> None:
    """Two descriptors over one folder may disagree; one of them must not spoil the other."""
    cache = IndexCache(100, 300)
    small, large = (
        LevelReader(
            SimpleNamespace(tiles_per_width=side, tiles_per_height=side),  # type: ignore[arg-type]
            PathLayout(str(directory), 2),
            FileStorage(),
            cache,
        )
        for side in (2, SIDE)
    )
    with contextlib.suppress(SlabFormatError):
        read_tiles(small, [(0, 0)])
    assert read_tiles(large, [(3, 3)]) == [payload(3, 3)]
    located = large.locate(3, 2)
    assert located is not None
    assert located.read() == payload(3, 2)


@pytest.mark.parametrize("storage", [FileStorage, Remote])
def test_a_deleted_slab_gives_none(directory: Path, storage: type[FileStorage]) -> None:
    reader = reader_of(directory, storage())
    located = reader.locate_all([(0, 0), (0, 8)])
    (directory / slab_path(0, 0)).unlink()
    replace_slab(directory, 2, 0, new_tiles(2, 0))
    reader.storage.close()
    assert read_located(located) == [None, payload(0, 8, 2)]


@pytest.mark.parametrize("storage", [FileStorage, Remote])
def test_a_truncated_slab_is_an_error_that_names_it(
    directory: Path, storage: type[FileStorage]
) -> None:
    path = directory / slab_path(0, 0)
    path.write_bytes(path.read_bytes()[:3000])
    with pytest.raises(SlabFormatError, match=path.name):
        read_tiles(reader_of(directory, storage()), [(3, 3), (0, 8)])


class Unversioned(Remote):
    """A storage that cannot distinguish generations."""

    def read(
        self, key: str, byte_range: ByteRange | None = None, version: str | None = None
    ) -> ObjectRead:
        return ObjectRead(super().read(key, byte_range).data)


def index_entry(number: int, *, is_size: bool) -> int:
    return 2048 + 4 * (number + (SIDE * SIDE if is_size else 0))


@pytest.mark.parametrize("storage", [FileStorage, Remote, Unversioned])
@pytest.mark.parametrize(
    ("position", "value"),
    [
        (index_entry(1, is_size=False), 100),
        (index_entry(1, is_size=False), 2**32 - 1),
        (index_entry(1, is_size=True), 2**20),
        (index_entry(1, is_size=True), 2**32 - 1),
        (0, 0),
    ],
)
def test_repaired_slab_is_read_at_once_and_as_one_generation(
    directory: Path, storage: type[FileStorage], position: int, value: int
) -> None:
    reader = reader_of(directory, storage())
    path = directory / slab_path(0, 0)
    damaged = bytearray(path.read_bytes())
    damaged[position : position + 4] = value.to_bytes(4, "little")
    path.write_bytes(damaged)
    asked = [(0, 0), (0, 1), (0, 2), (0, 8)]
    for _ in range(2):
        with pytest.raises(SlabFormatError, match=path.name):
            read_tiles(reader, asked)
    replace_slab(directory, 0, 0, new_tiles(0, 0))
    assert read_tiles(reader, asked) == [
        *(payload(row, col, 2) for row, col in asked[:3]),
        payload(0, 8),
    ]


def test_damaged_index_does_not_outlive_a_read_that_succeeded(directory: Path) -> None:
    """The healthy tiles of a damaged slab keep its index in the cache."""
    reader = reader_of(directory, Unversioned())
    path = directory / slab_path(0, 0)
    whole = path.read_bytes()
    start = index_entry(1, is_size=False)
    path.write_bytes(whole[:start] + bytes(4) + whole[start + 4 :])
    assert read_tiles(reader, [(0, 0)]) == [payload(0, 0)]
    with pytest.raises(SlabFormatError):
        reader.locate(0, 1)
    assert read_tiles(reader, [(0, 0)]) == [payload(0, 0)]
    path.write_bytes(whole)
    tile = reader.locate(0, 1)
    assert tile is not None
    assert tile.read() == payload(0, 1)


def test_an_error_of_one_slab_is_raised(directory: Path) -> None:
    storage = Remote()

    def fail(key: str, byte_range: ByteRange) -> None:
        if key.endswith(slab_path(1, 1)[-5:]):
            raise StorageUnavailableError("no answer", key=key)

    storage.before = fail
    with pytest.raises(StorageUnavailableError):
        read_tiles(reader_of(directory, storage), WINDOW)


def test_tiles_of_one_slab_are_of_one_generation_while_it_is_replaced(directory: Path) -> None:
    reader = reader_of(directory, Remote())
    stop = threading.Event()

    def replace() -> None:
        generation = 1
        while not stop.is_set():
            generation = generation % 9 + 1
            replace_slab(directory, 0, 0, new_tiles(0, 0, generation))

    writer = threading.Thread(target=replace)
    writer.start()
    try:
        corner = [(row, col) for row in range(SIDE) for col in range(SIDE)]
        read = 0
        for _ in range(300):
            try:
                tiles = read_tiles(reader, corner)
            except SlabFormatError:
                continue  # replaced twice during one read: reported, not mixed
            read += 1
            generations = {tile[:1] for tile in tiles if tile is not None}
            assert len(generations) == 1
            generation = int(generations.pop())
            assert tiles == [payload(row, col, generation) for row, col in corner]
        assert read
    finally:
        stop.set()
        writer.join()


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_reading_works_in_a_child_process(directory: Path) -> None:
    reader = reader_of(directory, Remote())
    expected = read_tiles(reader, WINDOW)
    child = os.fork()
    if child == 0:
        try:
            same = read_tiles(reader, WINDOW) == expected
            os._exit(0 if same and read_tiles(reader, [(11, 11)]) == [payload(11, 11)] else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
