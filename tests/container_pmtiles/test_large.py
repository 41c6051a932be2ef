"""An archive of 2^30 tiles, computed when it is read."""

from __future__ import annotations

import gzip
import random
import struct
import sys
from typing import Any

import pytest
from tests.container_cog.files import Storage
from tests.container_pmtiles.test_directories import varint

from mastaba.api.containers import Context, IndexCache, Source, TileReader
from mastaba.api.storages import ResourcePath
from mastaba_pmtiles.container import PMTiles
from mastaba_pmtiles.tile_ids import ZoomIds

ZOOM = 15
FIRST = (4**ZOOM - 1) // 3
LEAF = 1 << 16
"""Entries of a leaf directory."""
LEAVES = 4**ZOOM // LEAF
BASE = 1 << 33
"""Offset of the first tile, so that all offsets have five bytes."""


def tile(number: int) -> bytes:
    return struct.pack(">Q", number)


def leaf(number: int) -> bytes:
    """Return a directory, which has the same size for each number."""
    first = number * LEAF
    columns = varint(FIRST + first), bytes([1]) * (LEAF - 1), bytes([1]) * LEAF, bytes([8]) * LEAF
    places = varint(BASE + 8 * first + 1) + bytes(LEAF - 1)
    return gzip.compress(varint(LEAF) + b"".join(columns) + places, 0, mtime=0)


class Endless(Storage):
    """The archive; leaf directories and tiles are never stored."""

    def __init__(self) -> None:
        self.size = len(leaf(0))
        first, others = varint(FIRST), varint(LEAF) * (LEAVES - 1)
        sizes = varint(self.size) * LEAVES
        places = varint(1) + bytes(LEAVES - 1)
        root = gzip.compress(varint(LEAVES) + first + others + bytes(LEAVES) + sizes + places)
        metadata = gzip.compress(b"{}")
        at = [127, 127 + len(root), 127 + len(root) + len(metadata)]
        self.leaves = at[2]
        self.tiles = at[2] + LEAVES * self.size
        header = struct.pack(
            "<7sB8Q3Q6B4iB2i",
            *(b"PMTiles", 3, at[0], len(root), at[1], len(metadata), at[2], LEAVES * self.size),
            *(self.tiles, BASE + 8 * 4**ZOOM, 4**ZOOM, 4**ZOOM, 4**ZOOM, 1, 2, 1, 1, ZOOM, ZOOM),
            *(-180 * 10**7, -85 * 10**7, 180 * 10**7, 85 * 10**7, ZOOM, 0, 0),
        )
        super().__init__(header + root + metadata)

    def part(self, offset: int, length: int) -> bytes:
        if offset < self.leaves:
            return self.data[offset : offset + length]
        if offset < self.tiles:
            number, inside = divmod(offset - self.leaves, self.size)
            return leaf(number)[inside : inside + length]
        number, inside = divmod(offset - self.tiles - BASE, 8)
        return tile(number)[inside : inside + length]


def opened(storage: Storage, indices: IndexCache) -> TileReader:
    context = Context(indices, lambda name: pytest.fail(name), tuple, lambda *texts: None)
    source = Source(ResourcePath("memory", "c", "a.pmtiles"), storage)
    found = PMTiles.open(source, {}, context)
    (name,) = found.readers
    return found.readers[name](found.pyramid.levels[name])


def read(reader: TileReader, row: int, col: int) -> int:
    found: Any = reader.locate(row, col)
    (number,) = struct.unpack(">Q", found.read())
    return int(number)


@pytest.mark.thorough
def test_tiles_of_an_archive_of_a_billion_entries() -> None:
    most = 4 * 24 * LEAF
    storage, indices = Endless(), IndexCache(sys.maxsize, 300.0, most_bytes=most)
    reader = opened(storage, indices)
    ids, chance = ZoomIds(ZOOM), random.Random(4)
    for _ in range(8):
        row, col = (chance.randrange(1 << ZOOM) for _ in range(2))
        indices.clear()
        storage.reads.clear()
        assert read(reader, row, col) == ids.of(row, col) - FIRST
        # The head, a leaf directory and the tile.
        assert len(storage.reads) == 3
        assert read(reader, row ^ 1, col ^ 1) == ids.of(row ^ 1, col ^ 1) - FIRST
        assert len(storage.reads) == 4
    # The root and three leaf directories fit: others displace them.
    storage.reads.clear()
    places = [(row << 11, col << 11) for row in range(4) for col in range(2)]
    for row, col in places * 2:
        assert read(reader, row, col) == ids.of(row, col) - FIRST
    assert len(storage.reads) >= 2 * len(places) * 2
    assert indices.used <= most
