"""Reading of many tiles of one level with few reads, as needed for maps.

The byte ranges of the tiles are read in parallel; ranges that are close together are merged.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from mastaba.containers.reader import READS, STALE_INDEX, StoredTile, TileReader, again
from mastaba.containers.tile_index import TileIndex
from mastaba.errors import MastabaError, ObjectNotFoundError
from mastaba_storage.base import ByteRange

_MAX_GAP: Final = 512 * 1024
"""Unused bytes that are read to save a request: 4 ms in a gigabit network."""

_MAX_LENGTH: Final = 8 * 1024 * 1024
"""Bytes of a merged range. Larger ranges are better read by several threads."""

_Stale = tuple[list[StoredTile], MastabaError]


def read_tiles(reader: TileReader, tiles: Sequence[tuple[int, int]]) -> list[bytes | None]:
    """Return the stored bytes of tiles in the given order; None for tiles that are not stored.

    All tiles of one slab come from the same version of the slab.

    Args:
        reader: reader of the level.
        tiles: pairs (tile row, tile column) inside the limits of the level.

    Raises:
        SlabFormatError: a slab is damaged; the message names it.
        StorageError: a slab cannot be read.
    """
    return read_located(reader.locate_all(tiles))


def read_located(tiles: Sequence[StoredTile | None]) -> list[bytes | None]:
    """Return the bytes of tiles from `TileReader.locate_all`, in the same order.

    If a slab was replaced in the meantime, its index is read again. Its tiles, and their `version`
    and `modified`, are then those of the new version; a tile that no longer exists is None. Errors
    are those of `read_tiles`.
    """
    payloads: dict[StoredTile, bytes] = {}
    wanted = [tile for tile in tiles if tile is not None]
    attempt = 0
    while stale := _read(wanted, payloads):
        attempt += 1
        for group, _ in stale:
            for tile in group:
                payloads.pop(tile, None)
        moved = READS.map(partial(_moved, attempt), stale)
        wanted = [tile for group in moved for tile in group]
    return [None if tile is None else payloads.get(tile) for tile in tiles]


def _moved(attempt: int, stale: _Stale) -> list[StoredTile]:
    return again(*stale, attempt)


def _read(tiles: Iterable[StoredTile], payloads: dict[StoredTile, bytes]) -> list[_Stale]:
    """Read the payloads; return the tiles of each slab that does not match its index, and why."""
    groups: dict[TileIndex, list[StoredTile]] = defaultdict(list)
    alone: list[StoredTile] = []
    for tile in tiles:
        if tile.is_addressable:
            groups[tile.index].append(tile)
        else:
            alone.append(tile)
    errors: dict[TileIndex, MastabaError] = {}
    spans: list[list[StoredTile]] = []

    def read_alone(tile: StoredTile) -> None:
        # Reads its index again itself; the tile may be gone.
        with suppress(ObjectNotFoundError):
            payloads[tile] = tile.read()

    def read_span(span: list[StoredTile]) -> None:
        index, first = span[0].index, span[0].offset
        end = max(tile.offset + tile.length for tile in span)
        try:
            data = index.storage.read(index.key, ByteRange(first, end - first), index.version).data
            for tile in span:
                start = tile.offset - first
                payloads[tile] = tile.whole(data[start : start + tile.length])
        except STALE_INDEX as error:
            errors[index] = error

    for index, group in groups.items():
        if index.storage.is_remote:
            spans += _spans(group)
            continue
        ranges = [ByteRange(tile.offset, tile.length) for tile in group]
        try:
            reads = index.storage.read_ranges(index.key, ranges, index.version)
            for tile, read in zip(group, reads, strict=True):
                payloads[tile] = tile.whole(read.data)
        except STALE_INDEX as error:
            errors[index] = error
    READS.map(read_span, spans)
    if alone and alone[0].index.storage.is_remote:
        READS.map(read_alone, alone)
    else:
        for tile in alone:
            read_alone(tile)
    return [(group, errors[index]) for index, group in groups.items() if index in errors]


def _spans(tiles: Iterable[StoredTile]) -> list[list[StoredTile]]:
    """Return tiles of one version of a slab in groups that are close together: one read for each.

    The first tile of a group has the lowest offset.
    """
    spans: list[list[StoredTile]] = []
    end = 0
    for tile in sorted(tiles, key=lambda tile: tile.offset):
        last, end = end, max(end, tile.offset + tile.length)
        if spans and tile.offset - last <= _MAX_GAP and end - spans[-1][0].offset <= _MAX_LENGTH:
            spans[-1].append(tile)
        else:
            spans.append([tile])
    return spans
