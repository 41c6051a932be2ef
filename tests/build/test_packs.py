"""Index packs that are written again: only slabs that have changed are read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conformance.shelf import ShelfStorage

from mastaba.api.storages import ByteRange, ObjectRead
from mastaba_build.output.destination import Destination
from mastaba_build.output.packs import Packed, write_packs
from mastaba_build.output.storage import OutputStore
from mastaba_writer.index_packs import (
    IndexRecord,
    PackLayout,
    decode_record,
    join_record,
    read_pack,
)
from mastaba_writer.slab_writer import build_slab

SIDE = 2
LAYOUT = PackLayout.of(SIDE * SIDE)
SLABS = [(column, row) for column in range(3) for row in range(2)]


class Shelf(ShelfStorage):
    """Lists versions, and records which objects are read."""

    def __init__(self, container: str) -> None:
        super().__init__(container)
        self.opened: list[str] = []

    def read(
        self, key: str, byte_range: ByteRange | None = None, version: str | None = None
    ) -> ObjectRead:
        if "INDEX" not in key:
            self.opened.append(key)
        return super().read(key, byte_range, version)

    def list_versions(self, prefix: str) -> Iterator[tuple[str, str | None]]:
        return ((key, self.stat(key).version) for key in self.list(prefix))


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shelf:
    monkeypatch.chdir(tmp_path)
    Path("shelf").mkdir()
    return Shelf("shelf")


@pytest.fixture
def output(shelf: Shelf) -> Destination:
    return Destination("shelf", shelf.container, "maps", "", "shelf_name")


def slab(seed: int) -> bytes:
    tiles: list[bytes | None] = [b"t" * (10 * seed + number) for number in range(SIDE * SIDE)]
    return build_slab(tiles, format="TIFF_PBF_MVT", tiles_per_width=SIDE, tiles_per_height=SIDE)


def put(shelf: Shelf, root: str, column: int, row: int, seed: int) -> None:
    shelf.put(f"maps/{root}/DATA_4_{column}_{row}", slab(seed))


def pack(
    shelf: Shelf, output: Destination, root: str, links: dict[str, str] | None = None
) -> Packed:
    storage = {"image_prefix": f"maps/{root}/DATA_4"}
    size = {"tiles_per_width": SIDE, "tiles_per_height": SIDE}
    descriptor: dict[str, Any] = {"levels": [{"id": "4", "storage": storage, **size}]}
    shelf.opened.clear()
    return write_packs(OutputStore(shelf, "maps"), output, descriptor, links or {})


def records(shelf: Shelf, root: str) -> dict[tuple[int, int], IndexRecord]:
    """Return the records of the pack, decoded."""
    data = shelf.read(f"maps/{root}/INDEX_4_0_0").data
    found = {}
    for place, record in read_pack(data, LAYOUT, (0, 0)).items():
        joined = join_record(*place, record)
        assert joined is not None
        decoded = decode_record(joined, *place, LAYOUT)
        assert decoded is not None
        found[place] = decoded
    return found


def current(shelf: Shelf, root: str, column: int, row: int) -> IndexRecord:
    """Return the record that a slab should have now."""
    read = shelf.read(f"maps/{root}/DATA_4_{column}_{row}")
    link, target = "", ""
    if read.data.startswith(b"SYMLINK#"):
        link, target = str(read.version), read.data.removeprefix(b"SYMLINK#").decode()
        read = shelf.read(target.removeprefix("shelf/"))
    index = read.data[2048 : 2048 + 8 * SIDE * SIDE]
    return IndexRecord(str(read.version), read.modified, index, target, link)


def test_only_changed_slabs_are_read_again(shelf: Shelf, output: Destination) -> None:
    for number, place in enumerate(SLABS):
        put(shelf, "a", *place, number)
    assert pack(shelf, output, "a") == Packed(1, 6, 6)
    assert pack(shelf, output, "a") == Packed(1, 6, 0)
    assert shelf.opened == []
    put(shelf, "a", 1, 1, 50)
    put(shelf, "a", 3, 1, 51)
    shelf.delete("maps/a/DATA_4_0_0")
    assert pack(shelf, output, "a") == Packed(1, 6, 2)
    assert sorted(shelf.opened) == ["maps/a/DATA_4_1_1", "maps/a/DATA_4_3_1"]
    places = {*SLABS, (3, 1)} - {(0, 0)}
    assert records(shelf, "a") == {place: current(shelf, "a", *place) for place in places}


def test_a_damaged_pack_is_written_again(shelf: Shelf, output: Destination) -> None:
    put(shelf, "a", 0, 0, 1)
    put(shelf, "a", 1, 0, 2)
    pack(shelf, output, "a")
    data = bytearray(shelf.read("maps/a/INDEX_4_0_0").data)
    data[-1] ^= 1
    shelf.put("maps/a/INDEX_4_0_0", bytes(data))
    assert pack(shelf, output, "a") == Packed(1, 2, 1)
    shelf.put("maps/a/INDEX_4_0_0", b"not a pack")
    assert pack(shelf, output, "a") == Packed(1, 2, 2)
    assert records(shelf, "a")[1, 0] == current(shelf, "a", 1, 0)


def test_storages_that_list_no_versions_have_all_slabs_read(
    shelf: Shelf, output: Destination, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(shelf, "a", 0, 0, 1)
    assert pack(shelf, output, "a") == Packed(1, 1, 1)
    monkeypatch.delattr(Shelf, "list_versions")
    put(shelf, "a", 0, 0, 2)
    assert pack(shelf, output, "a") == Packed(1, 1, 1)
    assert records(shelf, "a") == {(0, 0): current(shelf, "a", 0, 0)}


def link(shelf: Shelf, root: str, target: str, column: int, row: int) -> tuple[str, str]:
    """Write a link to a slab; return its key and that of its target, relative to the output."""
    keys = f"{root}/DATA_4_{column}_{row}", f"{target}/DATA_4_{column}_{row}"
    shelf.put(f"maps/{keys[0]}", f"SYMLINK#shelf/maps/{keys[1]}".encode())
    return keys


def test_slabs_of_other_versions_are_taken_from_their_packs(
    shelf: Shelf, output: Destination
) -> None:
    for number, place in enumerate(SLABS):
        put(shelf, "a", *place, number)
    pack(shelf, output, "a")
    put(shelf, "b", 0, 0, 60)
    links = dict(link(shelf, "b", "a", *place) for place in SLABS[1:])
    assert pack(shelf, output, "b", links) == Packed(1, 6, 1)
    assert shelf.opened == ["maps/b/DATA_4_0_0"]
    assert records(shelf, "b") == {place: current(shelf, "b", *place) for place in SLABS}
    # The pack names the targets of links.
    assert pack(shelf, output, "b") == Packed(1, 6, 0)
    put(shelf, "a", 2, 1, 61)
    assert pack(shelf, output, "b") == Packed(1, 6, 1)
    assert sorted(shelf.opened) == ["maps/a/DATA_4_2_1", "maps/b/DATA_4_2_1"]
    assert records(shelf, "b") == {place: current(shelf, "b", *place) for place in SLABS}


def test_a_link_that_now_leads_elsewhere_is_read(shelf: Shelf, output: Destination) -> None:
    put(shelf, "a", 0, 0, 1)
    put(shelf, "c", 0, 0, 2)
    link(shelf, "b", "a", 0, 0)
    pack(shelf, output, "b")
    link(shelf, "b", "c", 0, 0)
    assert pack(shelf, output, "b") == Packed(1, 1, 1)
    assert records(shelf, "b") == {(0, 0): current(shelf, "b", 0, 0)}
    shelf.put("maps/b/DATA_4_0_0", b"SYMLINK#elsewhere/maps/a/DATA_4_0_0")
    assert pack(shelf, output, "b") == Packed(0, 0, 1)
    assert list(shelf.list("maps/b/INDEX")) == []
