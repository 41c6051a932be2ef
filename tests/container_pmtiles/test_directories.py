"""Directories: both decoders give the same, and refuse what cannot be true."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise

import pytest

from mastaba.errors import ContainerFormatError
from mastaba_pmtiles import directory
from mastaba_pmtiles.directory import Directory, Frame, parse_directory
from mastaba_pmtiles.tile_ids import ZoomIds, first_id

Entry = tuple[int, int, int, int]
"""Number, run, length and offset; -1 for an offset behind the entry before."""

FRAME = Frame(0, first_id(13), 1 << 40, 1 << 30)


def varint(number: int) -> bytes:
    data = bytearray()
    while number > 127:
        data.append(number & 127 | 128)
        number >>= 7
    return bytes([*data, number])


def written(entries: Sequence[Entry]) -> bytes:
    """Return a directory without compression, whether or not it is valid."""
    ids = [entry[0] for entry in entries]
    steps = [one - other for one, other in zip(ids, [0, *ids], strict=False)]
    columns = steps, *([entry[i] for entry in entries] for i in (1, 2))
    places = [entry[3] + 1 for entry in entries]
    numbers = [len(entries), *(value for column in (*columns, places) for value in column)]
    return b"".join(map(varint, numbers))


def many(count: int) -> list[Entry]:
    chosen = random.Random(5)
    entries: list[Entry] = []
    number = 3
    for index in range(count):
        run = chosen.choice((0, 1, 1, 7))
        offset = -1 if index and chosen.random() < 0.6 else chosen.randrange(1 << 29)
        entries.append((number, run, chosen.randrange(1, 300_000), offset))
        number += max(run, 1) + chosen.choice((0, 0, 5, 1000))
    return entries


@pytest.fixture(params=["arrays", "in turn"])
def decoder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "arrays":
        pytest.importorskip("numpy")
        monkeypatch.setattr(directory, "_FEW", 0)
        monkeypatch.setattr(directory, "_AT_A_TIME", 64)
    else:
        monkeypatch.setattr(directory, "np", None)
    name: str = request.param
    return name


def test_entries_are_those_that_were_written(decoder: str) -> None:
    entries = many(300)
    found = parse_directory(written(entries), FRAME)
    end = 0
    for index, (number, run, length, offset) in enumerate(entries):
        offset = end if offset < 0 else offset
        columns = found.ids, found.runs, found.lengths, found.offsets
        assert tuple(column[index] for column in columns) == (number, run, length, offset)
        end = offset + length
    assert found.nbytes == 24 * len(entries)


def test_lookup_gives_the_last_entry_that_covers_a_number() -> None:
    found: Directory = parse_directory(written([(5, 3, 10, 0), (9, 0, 10, 0)]), FRAME)
    assert [found.find(number) for number in (4, 5, 7, 8, 9, 10**6)] == [None, 0, 0, None, 1, 1]


REFUSED = {
    "no entries": b"\0",
    "empty": b"",
    "more entries than bytes": varint(1 << 63),
    "cut off": written([(1, 1, 10, 0), (2, 1, 10, 0)])[:-1],
    "bytes behind it": written([(1, 1, 10, 0)]) + b"\0",
    "a number of 11 bytes": b"\1" + b"\x80" * 10 + b"\1" + b"\1\1\1",
    "a number beyond 64 bits": b"\1" + b"\xff" * 9 + b"\x7f" + b"\1\1\1",
    "equal numbers": written([(1, 1, 10, 0), (1, 1, 10, 0)]),
    "runs that overlap": written([(1, 3, 10, 0), (3, 1, 10, 0)]),
    "a sum beyond 64 bits": b"\2" + varint((1 << 64) - 1) + b"\5" + b"\1\1\1\1\1\1",
    "tile behind the last zoom": written([(1, 1, 10, 0), (first_id(13), 1, 10, 0)]),
    "run behind the last zoom": written([(1, 1, 10, 0), (first_id(13) - 1, 2, 10, 0)]),
    "a run of 2^32": written([(1, 1 << 32, 10, 0)]),
    "no bytes": written([(1, 1, 0, 0)]),
    "a tile of 65 MiB": written([(1, 1, 65 << 20, 0)]),
    "a leaf of 9 MiB": written([(1, 0, 9 << 20, 0)]),
    "a tile behind its section": written([(1, 1, 10, (1 << 40) - 9)]),
    "a leaf behind its section": written([(1, 0, 10, (1 << 30) - 9)]),
    "an offset of 2^64": b"\1\1\1\1" + varint((1 << 64) - 1),
    "no offset of the first entry": b"\1\1\1\1\0",
}


@pytest.mark.parametrize("case", REFUSED)
def test_impossible_directories_are_refused(case: str, decoder: str) -> None:
    with pytest.raises(ContainerFormatError):
        parse_directory(REFUSED[case], FRAME)


def test_leaf_must_stay_between_its_entries(decoder: str) -> None:
    data = written([(10, 1, 5, 0), (19, 1, 5, 9)])
    assert len(parse_directory(data, Frame(10, 20, 99, 0)).ids) == 2
    for first, end in ((11, 20), (10, 19)):
        with pytest.raises(ContainerFormatError):
            parse_directory(data, Frame(first, end, 99, 0))


def test_numbers_are_those_of_the_format() -> None:
    assert ZoomIds(12).of(1763, 3423) == 19078479
    assert ZoomIds(0).of(0, 0) == 0
    assert [ZoomIds(1).of(*place) for place in ((0, 0), (1, 0), (1, 1), (0, 1))] == [1, 2, 3, 4]


def test_each_number_of_a_zoom_occurs_once() -> None:
    for zoom in range(7):
        ids, side = ZoomIds(zoom), range(1 << zoom)
        places = sorted((ids.of(row, column), row, column) for row in side for column in side)
        assert [place[0] for place in places] == list(range(first_id(zoom), first_id(zoom + 1)))
        # Consecutive tiles are neighbours.
        for (_, row, column), (_, next_row, next_column) in pairwise(places):
            assert abs(row - next_row) + abs(column - next_column) == 1
