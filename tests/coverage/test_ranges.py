"""Parts of files, limits, versions, and slabs that are replaced."""

from __future__ import annotations

import os
import random
import sys
import threading
import tracemalloc
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.coverage.ground import Ground, made

from mastaba.errors import ObjectChangedError, SlabFormatError
from mastaba_coverage import (
    Answer,
    Cells,
    CoverageLimits,
    CoveragePlan,
    CoverageTooLargeError,
    TiffImage,
    TiffLayout,
    TiffOptions,
    TileSource,
    extract,
)
from mastaba_coverage.making import NICE
from mastaba_render.api.geotiff import Field


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    opened = Ground(tmp_path_factory.mktemp("ground"))
    yield opened
    opened.close()


def plans(ground: Ground) -> dict[str, CoveragePlan]:
    coverage = ground.coverage
    window = Cells(331, 900, 205, 1201)
    return {
        "cog": ground.whole(),
        "window": CoveragePlan.exact(
            coverage, coverage.finest, window, coverage.fields, TiffOptions("none")
        ),
    }


def part(answer: Answer, start: int, end: int) -> bytes:
    return b"".join(answer.pieces(start, end))


@pytest.mark.parametrize("name", ["cog", "window"])
def test_any_part_equals_the_bytes_of_the_whole(name: str, ground: Ground) -> None:
    answer = ground.extract(plans(ground)[name])
    whole = part(answer, 0, answer.size)
    assert len(whole) == answer.size
    source = random.Random(3)
    for _ in range(100):
        start = source.randrange(answer.size)
        end = min(answer.size, start + source.choice([1, 7, 300, 20_000, 700_000]))
        assert part(answer, start, end) == whole[start:end]
    assert max(len(piece) for piece in answer.pieces(0, answer.size)) <= 1024 * 1024


def test_part_reads_only_the_tiles_that_it_touches(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = ground.extract(ground.whole())
    list(answer.pieces(0, 1000))
    # Nothing of the head needs a tile.
    storage = ground.coverage.finest.reader.storage
    ranges: list[int] = []
    read_ranges = storage.read_ranges

    def noted(key: str, wanted: object, version: str | None = None) -> object:
        ranges.append(len(wanted))  # type: ignore[arg-type]
        return read_ranges(key, wanted, version)  # type: ignore[arg-type]

    monkeypatch.setattr(storage, "read_ranges", noted)
    list(answer.pieces(0, 1000))
    assert ranges == []
    list(answer.pieces(answer.size - 50, answer.size))
    assert ranges == [1]


def test_pieces_for_clients_are_made_in_short_turns_by_a_thread_of_low_priority(
    ground: Ground,
) -> None:
    usual, own = sys.getswitchinterval(), os.getpriority(os.PRIO_PROCESS, 0)
    turns: list[float] = []
    nice: set[int] = set()
    ways: list[None] = []
    answer = extract(ground.whole(), CoverageLimits(), partial(ways.append, None))
    source = answer._layout.pieces

    def watched(start: int, end: int) -> Any:
        for piece in source(start, end):
            turns.append(sys.getswitchinterval())
            nice.add(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
            yield piece

    answer._layout.pieces = watched  # type: ignore[method-assign]
    for _ in answer.pieces(0, answer.size):
        assert sys.getswitchinterval() == usual
    assert max(turns) < usual
    assert nice == {min(19, own + NICE)}
    assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == own
    assert len(ways) == len(turns) + 1


def test_errors_of_pieces_for_clients_are_raised(ground: Ground) -> None:
    answer = extract(ground.whole(), CoverageLimits(), lambda: None)

    def broken(start: int, end: int) -> Iterator[bytes]:
        yield b"first"
        raise SlabFormatError("damaged")

    answer._layout.pieces = broken  # type: ignore[method-assign]
    pieces = answer.pieces(0, answer.size)
    assert next(pieces) == b"first"
    with pytest.raises(SlabFormatError):
        next(pieces)


class _Equal(TileSource):
    """Tiles of equal bytes, none of them copied."""

    def __init__(self, count: int, tile: bytes) -> None:
        self.sizes = np.full(count, len(tile), np.int64)
        self._tile = tile

    def tiles(self, first: int, stop: int) -> Iterator[bytes]:
        yield from [self._tile] * (stop - first)


def test_making_a_piece_copies_its_bytes_once() -> None:
    size = 200_000
    layout = TiffLayout([TiffImage([], _Equal(64, bytes(size)))])
    pieces = layout.pieces(0, layout.size)
    tracemalloc.start()
    try:
        total = 0
        last = next(pieces)
        for piece in pieces:
            total += len(last)
            # Of bytes: this piece and the one before.
            assert tracemalloc.get_traced_memory()[1] <= len(piece) + len(last) + 20_000
            last = piece
            tracemalloc.reset_peak()
        total += len(last)
    finally:
        tracemalloc.stop()
    assert total == layout.size


def test_version_differs_for_other_cells_and_channels_but_not_by_itself(ground: Ground) -> None:
    found = {ground.extract(plan).version for plan in plans(ground).values()}
    assert len(found) == 2
    assert found == {ground.extract(plan).version for plan in plans(ground).values()}


def test_replaced_slab_ends_the_answer_and_changes_the_version(tmp_path: Path) -> None:
    ground = Ground(tmp_path)
    answer = ground.extract(ground.whole())
    head = part(answer, 0, 100)

    def other(level: str, row: int, col: int) -> np.ndarray | None:
        tile = made(ground.name, 1, level, row, col)
        return None if tile is None else tile + np.float32(1)

    ground.write(tile=other)
    for path in (tmp_path / "pyramids").rglob("*.tif"):
        os.utime(path, (1, 1))
    assert part(answer, 0, 100) == head
    with pytest.raises(ObjectChangedError):
        part(answer, 0, answer.size)
    again = ground.extract(ground.whole())
    assert again.version != answer.version
    assert len(part(again, 0, again.size)) == again.size
    ground.close()


@pytest.mark.parametrize(
    ("limits", "unit"),
    [({"stream_bytes": 1000}, "bytes"), ({"tiles": 20}, "tiles"), ({"indices": 3}, "slabs")],
)
@pytest.mark.parametrize("name", ["cog", "window"])
def test_answer_beyond_a_limit_is_refused(
    name: str, limits: dict[str, int], unit: str, ground: Ground
) -> None:
    with pytest.raises(CoverageTooLargeError) as raised:
        ground.extract(plans(ground)[name], **limits)
    assert (raised.value.unit, raised.value.limit) == (unit, next(iter(limits.values())))
    assert raised.value.size > raised.value.limit


class Zeros(TileSource):
    """Tiles of one size."""

    def __init__(self, count: int, size: int) -> None:
        self.sizes = np.full(count, size, np.int64)

    def tiles(self, first: int, stop: int) -> Iterator[bytes]:
        for _ in range(first, stop):
            yield bytes(self.sizes[0])


@pytest.mark.filterwarnings("ignore:Dataset has no geotransform")
def test_file_beyond_four_gigabytes_is_a_bigtiff(tmp_path: Path) -> None:
    rasterio = pytest.importorskip("rasterio")
    side, count = 512, 120
    size = side * side
    fields = [
        *[Field.of(256, "I", count * side), Field.of(257, "I", count * side)],
        *[Field.of(258, "H", 8), Field.of(259, "H", 1), Field.of(262, "H", 1)],
        *[Field.of(277, "H", 1), Field.of(322, "I", side), Field.of(323, "I", side)],
    ]
    layout = TiffLayout([TiffImage(fields, Zeros(count * count, size))])
    assert not layout.is_big
    fields[1] = Field.of(257, "I", 2 * count * side)
    layout = TiffLayout([TiffImage(fields, Zeros(2 * count * count, size))])
    assert layout.is_big
    assert layout.size > 4_000_000_000
    path = tmp_path / "big.tif"
    with path.open("wb") as file:
        file.write(layout.head)
        file.truncate(layout.size)
    with rasterio.open(path) as source:
        assert (source.height, source.width) == (2 * count * side, count * side)
        window = ((source.height - 4, source.height), (source.width - 4, source.width))
        assert not source.read(1, window=window).any()
    tail = b"".join(layout.pieces(layout.size - size - 20, layout.size))
    assert len(tail) == size + 20
