"""The store of slab indices, which processes share (docs/storage/index-packs.md)."""

from __future__ import annotations

import os
import random
import signal
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.sizes import only_full

from mastaba_index_store.files import PackDirectory, PackFiles
from mastaba_writer.index_packs import IndexRecord, PackLayout, encode_record, make_pack

COUNT = 16
SIDE = 64


def index_of(sizes: list[int]) -> bytes:
    at, offsets = 2048 + 8 * len(sizes), []
    for size in sizes:
        offsets.append(at)
        at = (at + size + 15) & ~15
    return struct.pack(f"<{2 * len(sizes)}I", *offsets, *sizes)


def record(slab_col: int, slab_row: int, generation: int = 0) -> IndexRecord:
    """Return a record whose fields all follow from the slab and the generation."""
    chooser = random.Random(f"{slab_col} {slab_row} {generation}")
    highest = chooser.choice([1, 200, 60_000])
    sizes = [chooser.randrange(highest) for _ in range(COUNT)]
    return IndexRecord(f"{generation}", float(generation), index_of(sizes))


def is_complete(slab_col: int, slab_row: int, found: IndexRecord) -> bool:
    return found == record(slab_col, slab_row, int(found.version))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def store(directory: Path) -> PackDirectory:
    return PackDirectory(str(directory), 1 << 30)


@pytest.fixture
def level(store: PackDirectory) -> PackFiles:
    return store.level("s3://maps/P", COUNT)


def only_file(directory: Path) -> Path:
    (path,) = directory.iterdir()
    return path


def test_an_index_is_found_by_other_stores_of_the_directory(
    level: PackFiles, directory: Path
) -> None:
    assert level.get(3, 5) is None
    level.put(3, 5, record(3, 5))
    again = PackDirectory(str(directory), 1 << 30)
    assert again.level("s3://maps/P", COUNT).get(3, 5) == record(3, 5)
    assert level.get(5, 3) is None
    assert level.get(3 + SIDE, 5) is None


def test_levels_do_not_mix(store: PackDirectory, level: PackFiles) -> None:
    level.put(0, 0, record(0, 0))
    assert store.level("s3://maps/Q", COUNT).get(0, 0) is None
    # The same file, but with slabs of another size.
    assert store.level("s3://maps/P", 4 * COUNT).get(0, 0) is None
    assert level.get(0, 0) == record(0, 0)


def test_a_later_index_replaces_the_earlier_one(level: PackFiles, directory: Path) -> None:
    sizes = []
    for generation in range(300):
        level.put(0, 0, record(0, 0, generation))
        assert level.get(0, 0) == record(0, 0, generation)
        sizes.append(only_file(directory).stat().st_size)
    # A record that fits takes the place of the one before.
    assert len(set(sizes)) < 20


def test_a_pack_is_adopted(level: PackFiles) -> None:
    records = {(col, 2): encode_record(col, 2, record(col, 2)) or b"" for col in range(9)}
    pack = make_pack(PackLayout.of(COUNT), (0, 0), records)
    assert not level.has_pack((0, 0))
    level.adopt((0, 0), pack)
    assert level.has_pack((0, 0))
    assert all(level.get(col, 2) == record(col, 2) for col in range(9))
    assert level.get(9, 2) is None
    level.put(9, 2, record(9, 2))
    level.put(0, 2, record(0, 2, 1))
    assert level.get(9, 2) == record(9, 2)
    assert level.get(0, 2) == record(0, 2, 1)


@pytest.mark.parametrize("change", [lambda pack: b"", lambda pack: pack[:500],
                                    lambda pack: b"x" + pack[1:],
                                    lambda pack: pack[:8] + b"\2" + pack[9:]])  # fmt: skip
def test_what_is_not_a_pack_becomes_an_empty_file(
    level: PackFiles, change: Callable[[bytes], bytes]
) -> None:
    data = encode_record(0, 0, record(0, 0)) or b""
    level.adopt((0, 0), change(make_pack(PackLayout.of(COUNT), (0, 0), {(0, 0): data})))
    assert level.has_pack((0, 0))
    assert level.get(0, 0) is None
    level.put(0, 0, record(0, 0))
    assert level.get(0, 0) == record(0, 0)


def test_a_file_of_another_format_is_made_again(level: PackFiles, directory: Path) -> None:
    level.put(0, 0, record(0, 0))
    path = only_file(directory)
    for data in (b"", b"other", path.read_bytes()[:9] + b"\7" + path.read_bytes()[10:]):
        path.write_bytes(data)
        assert level.get(0, 0) is None
        level.put(1, 1, record(1, 1))
        assert level.get(0, 0) is None
        assert level.get(1, 1) == record(1, 1)


@pytest.mark.thorough
def test_damage_never_gives_a_wrong_index(level: PackFiles, directory: Path) -> None:
    chooser = random.Random(7)
    for number in range(300):
        level.put(number % SIDE, number // SIDE, record(number % SIDE, number // SIDE))
    path = only_file(directory)
    whole = path.read_bytes()
    absent = 0
    for _ in range(200):
        damaged = bytearray(whole)
        for _ in range(chooser.choice([1, 5, 100])):
            begin = chooser.randrange(len(damaged))
            end = min(len(damaged), begin + chooser.choice([1, 8, 4096]))
            damaged[begin:end] = chooser.randbytes(end - begin)
        if chooser.random() < 0.3:
            del damaged[chooser.randrange(len(damaged)) :]
        path.write_bytes(damaged)
        for number in chooser.sample(range(300), 20):
            place = number % SIDE, number // SIDE
            found = level.get(*place)
            assert found is None or is_complete(*place, found)
            absent += found is None
    assert absent > 100


@pytest.mark.parametrize("kind", ["directory", "pipe", "link", "unreadable"])
def test_a_file_that_cannot_be_used_counts_as_absent(
    level: PackFiles, directory: Path, kind: str
) -> None:
    level.put(0, 0, record(0, 0))
    path = only_file(directory)
    moved = path.rename(directory.parent / "moved")
    if kind == "directory":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to(moved)
    else:
        os.mknod(path, 0o000)
    before = moved.read_bytes()
    for _ in range(2):
        if kind != "unreadable":
            assert level.get(0, 0) is None
        level.put(0, 0, record(0, 0, 1))
    level.adopt((0, 0), b"")
    assert moved.read_bytes() == before


def test_a_store_that_disappears_counts_as_empty(level: PackFiles, directory: Path) -> None:
    directory.rmdir()
    level.put(0, 0, record(0, 0))
    level.adopt((0, 0), b"")
    assert level.get(0, 0) is None


def test_the_directory_belongs_to_the_server_alone(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    with pytest.raises(PermissionError):
        PackDirectory(str(shared), 1 << 30)
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        PackDirectory(str(tmp_path / "file/store"), 1 << 30)
    PackDirectory(str(tmp_path / "a/b"), 1 << 30)
    assert (tmp_path / "a/b").stat().st_mode & 0o777 == 0o700


@pytest.mark.thorough
def test_a_full_store_removes_the_files_that_were_not_used_longest(directory: Path) -> None:
    capacity = 1 << 19
    store = PackDirectory(str(directory), capacity)
    level = store.level("P", COUNT)
    for pack in range(60):
        level.put(pack * SIDE, 0, record(pack * SIDE, 0))
        for number, path in enumerate(sorted(directory.iterdir())):
            facts = path.stat()
            os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns - 10**9))
            # Whoever reads an old file makes it a recently used one.
            if number == 0:
                os.utime(path, (1, 1))
        level.get(0, 0)
        level.get(SIDE, 0)
        for number in range(200):
            level.put(pack * SIDE + 1 + number % 60, number // 60, record(number, 1))
    used = sum(512 * path.stat().st_blocks for path in directory.iterdir())
    assert capacity / 2 < used <= capacity * 1.1
    assert level.get(59 * SIDE, 0) is not None
    assert level.get(10 * SIDE, 0) is None


@pytest.mark.parametrize(
    "seconds",
    [0.1, pytest.param(0.4, marks=pytest.mark.thorough), *only_full(10)],
)
def test_threads_write_and_read_the_same_slabs(level: PackFiles, seconds: float) -> None:
    problems: list[str] = []
    complete = 0
    done = threading.Event()

    def work(number: int) -> None:
        nonlocal complete
        chooser = random.Random(number)
        while not done.is_set():
            place = chooser.randrange(8), chooser.randrange(8)
            if chooser.random() < 0.5:
                level.put(*place, record(*place, chooser.randrange(1000)))
            found = level.get(*place)
            if found is not None and not is_complete(*place, found):
                problems.append(f"{place}: {found}")
            complete += found is not None

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    done.wait(seconds)
    while complete <= 100 and not problems:
        done.wait(0.01)
    done.set()
    for thread in threads:
        thread.join()
    assert problems == []


def hammer(directory: str, seed: int) -> None:
    """Write and read until killed; exit with 9 after a wrong index."""
    chooser = random.Random(seed)
    level = PackDirectory(directory, 4 << 20).level("P", COUNT)
    while True:
        place = chooser.randrange(200), chooser.randrange(80)
        choice = chooser.random()
        if choice < 0.5:
            level.put(*place, record(*place, chooser.randrange(1000)))
        elif choice < 0.51:
            pack = PackLayout.of(COUNT).pack_of(*place)
            data = {place: encode_record(*place, record(*place, 5)) or b""}
            level.adopt(pack, make_pack(PackLayout.of(COUNT), pack, data))
        found = level.get(*place)
        if found is not None and not is_complete(*place, found):
            os._exit(9)


@pytest.mark.parametrize(
    "count",
    [
        pytest.param(20, marks=pytest.mark.thorough),
        *only_full(200),
    ],
)
def test_processes_that_are_killed_at_any_moment_leave_no_wrong_index(
    directory: Path, count: int
) -> None:
    chooser = random.Random(3)
    directory.mkdir(mode=0o700)
    children: list[int] = []
    for seed in range(count):
        child = os.fork()
        if child == 0:
            try:
                hammer(str(directory), seed)
            finally:
                os._exit(8)
        children.append(child)
        if len(children) == 4:
            time.sleep(chooser.random() / 40)
            victim = children.pop(chooser.randrange(4))
            os.kill(victim, signal.SIGKILL)
            _, status = os.waitpid(victim, 0)
            assert os.WIFSIGNALED(status), os.waitstatus_to_exitcode(status)
    level = PackDirectory(str(directory), 4 << 20).level("P", COUNT)

    def complete() -> int:
        places = [(slab_col, slab_row) for slab_col in range(200) for slab_row in range(80)]
        kept = [(place, level.get(*place)) for place in places]
        assert all(index is None or is_complete(*place, index) for place, index in kept)
        return sum(index is not None for _, index in kept)

    # Those that are left go on until there is something to look at.
    while complete() <= 100:
        for child in children:
            assert os.waitpid(child, os.WNOHANG) == (0, 0)
    for victim in children:
        os.kill(victim, signal.SIGKILL)
        os.waitpid(victim, 0)
    assert complete() > 100
    # A killed process leaves no lock.
    level.put(0, 0, record(0, 0, 77))
    assert level.get(0, 0) == record(0, 0, 77)


def test_a_stopped_writer_does_not_block_others(level: PackFiles, directory: Path) -> None:
    import fcntl

    level.put(0, 0, record(0, 0))
    with open(only_file(directory), "rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        level.put(0, 0, record(0, 0, 1))
        assert level.get(0, 0) == record(0, 0)
    level.put(0, 0, record(0, 0, 1))
    assert level.get(0, 0) == record(0, 0, 1)


def test_leftovers_of_killed_writers_are_removed(directory: Path, level: PackFiles) -> None:
    leftover = directory / "x.1234.tmp"
    leftover.write_bytes(b"x")
    young = directory / "y.1234.tmp"
    young.write_bytes(b"y")
    os.utime(leftover, (1, 1))
    level.put(0, 0, record(0, 0))
    assert not leftover.exists()
    assert young.exists()
