"""What differs between a version of a pyramid and the one published before: an area, and tiles."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple, TypeAlias

from mastaba.api.catalogue import BoundingBox, TileLimits, digest_of
from mastaba_build.errors import VerificationError
from mastaba_build.output.records import Record
from mastaba_build.output.storage import OutputStore
from mastaba_build.pixels.stored import slab_index
from mastaba_build.plan.names import slab_key
from mastaba_build.plan.plan import Plan, SlabKey
from mastaba_build.pyramid.journal import Row, recorded_rows

_READS: Final = 4
"""Pairs of slabs that are compared at a time; each may have tens of megabytes."""

Tile: TypeAlias = tuple[int, int]
"""Row and column."""


class _Tiles(NamedTuple):
    """Tiles that differ: of these, those that only the later and only the earlier version has."""

    every: list[Tile]
    added: list[Tile]
    removed: list[Tile]


def changes_of(
    plan: Plan, store: OutputStore, rows: Sequence[Row], record: Record
) -> dict[str, Any] | None:
    """Return the content of ``NAME_<n>.changes.json`` (time.md section 4.1).

    Tiles are those of the finest level whose stored bytes differ: runs of row, first and last
    column, in the order of rows and columns. ``slabs`` are column and row of the slabs that differ
    in the other levels, by level.

    Args:
        rows: all slabs of the new version, which are stored.
        record: of the version that is published now.

    Returns:
        None if tiles are in slabs of other sizes now, or the finest level is another one.

    Raises:
        VerificationError: a slab is damaged.
        OutputError: a document or a slab cannot be read.
    """
    published = json.loads(store.read(f"{plan.configuration.name}.json"))
    finest = min(row.result.slab.level for row in rows if row.result.size)
    level = plan.levels[finest].matrix.id
    if not _has_slabs_of(plan, published) or published["levels"][-1]["id"] != level:
        return None
    before, after = _stored(plan, record, rows)
    differing = [
        slab
        for slab in sorted(before.keys() | after.keys())
        if _sum(before.get(slab)) != _sum(after.get(slab))
    ]
    slabs: dict[str, list[list[int]]] = {}
    for slab in differing:
        if slab.level != finest:
            slabs.setdefault(plan.levels[slab.level].matrix.id, []).append([slab.column, slab.row])

    def compared(slab: SlabKey) -> _Tiles:
        return _compared(plan, store, slab, before.get(slab), after.get(slab))

    with ThreadPoolExecutor(_READS) as threads:
        found = list(threads.map(compared, (slab for slab in differing if slab.level == finest)))
    return {
        "since": digest_of(published),
        "level": level,
        "tiles": _runs(tile for one in found for tile in one.every),
        "added": _runs(tile for one in found for tile in one.added),
        "removed": _runs(tile for one in found for tile in one.removed),
        "slabs": slabs,
    }


def update_of(
    plan: Plan, store: OutputStore, rows: Sequence[Row], record: Record
) -> dict[str, Any] | None:
    """Return ``update`` of the descriptor of a new version.

    Args:
        rows: all slabs of the new version.
        record: of the version that is published now.

    Returns:
        None if nothing has changed, or if tiles are in slabs of other sizes now.

    Raises:
        OutputError: the published descriptor cannot be read.
    """
    published = json.loads(store.read(f"{plan.configuration.name}.json"))
    if not _has_slabs_of(plan, published):
        return None
    before, after = _stored(plan, record, rows)
    every = sorted(before.keys() | after.keys())
    area = _area(plan, [one for one in every if _sum(before.get(one)) != _sum(after.get(one))])
    if area is None:
        return None
    return {
        "since": digest_of(published),
        "bbox": [area.xmin, area.ymin, area.xmax, area.ymax],
    }


def _has_slabs_of(plan: Plan, published: Mapping[str, Any]) -> bool:
    """Return whether the slabs of the published descriptor have the size of those of a plan."""
    slabs = {(one["tiles_per_width"], one["tiles_per_height"]) for one in published["levels"]}
    return slabs == {tuple(plan.configuration.slab)}


def _stored(
    plan: Plan, record: Record, rows: Iterable[Row]
) -> tuple[dict[SlabKey, Row], dict[SlabKey, Row]]:
    """Return the slabs with data of the version before, and of the new one."""
    positions = {level.matrix.id: position for position, level in enumerate(plan.levels)}
    before = recorded_rows(record, positions)
    return (
        {slab: row for slab, row in before.items() if row.result.size},
        {row.result.slab: row for row in rows if row.result.size},
    )


def _sum(row: Row | None) -> str | tuple[str | None, int]:
    """Return what is equal if slabs are: the MD5 sum, else the place of the slab."""
    if row is None:
        return ""
    # Joined slabs have no sum if their pyramid has no build record.
    return row.result.md5 or (row.holder, row.result.size)


def _compared(
    plan: Plan, store: OutputStore, slab: SlabKey, before: Row | None, after: Row | None
) -> _Tiles:
    width, height = plan.configuration.slab
    old, new = (
        _payloads(store, f"{row.holder or plan.root}/{slab_key(plan, slab)}", width * height)
        if row
        else [b""] * (width * height)
        for row in (before, after)
    )
    found = _Tiles([], [], [])
    for number, (earlier, later) in enumerate(zip(old, new, strict=True)):
        if earlier != later:
            down, across = divmod(number, width)
            tile = slab.row * height + down, slab.column * width + across
            found.every.append(tile)
            if not earlier:
                found.added.append(tile)
            elif not later:
                found.removed.append(tile)
    return found


def _payloads(store: OutputStore, key: str, tiles: int) -> list[bytes]:
    """Return the tiles of a slab as stored; empty ones are absent."""
    try:
        data = store.read(key)
        index = slab_index(data, tiles)
    except (FileNotFoundError, ValueError) as error:
        raise VerificationError(f"{key}: {error}") from None
    return [data[offset : offset + size] for offset, size in index]


def _runs(tiles: Iterable[Tile]) -> list[list[int]]:
    """Return tiles as runs: row, first and last column."""
    runs: list[list[int]] = []
    for row, column in sorted(tiles):
        if runs and runs[-1][0] == row and runs[-1][2] == column - 1:
            runs[-1][2] = column
        else:
            runs.append([row, column, column])
    return runs


def _area(plan: Plan, slabs: Sequence[SlabKey]) -> BoundingBox | None:
    """Return the box around slabs, the finest ones first.

    A slab that the box already touches does not enlarge it: its change is that of finer slabs.
    """
    width, height = plan.configuration.slab
    area: BoundingBox | None = None
    for slab in slabs:
        column, row = slab.column * width, slab.row * height
        tiles = TileLimits(row, row + height - 1, column, column + width - 1)
        box = plan.levels[slab.level].matrix.bbox_of(tiles)
        if area is None:
            area = box
        elif slab.level == slabs[0].level or area.intersection(box) is None:
            area = area.union(box)
    return area
