"""The area in which a version of a pyramid differs from the one published before."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from mastaba.api.catalogue import BoundingBox, TileLimits, digest_of
from mastaba_build.output.records import Record
from mastaba_build.output.storage import OutputStore
from mastaba_build.plan.plan import Plan, SlabKey
from mastaba_build.pyramid.journal import Row, recorded_rows


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
    slabs = {(one["tiles_per_width"], one["tiles_per_height"]) for one in published["levels"]}
    if slabs != {tuple(plan.configuration.slab)}:
        return None
    positions = {level.matrix.id: position for position, level in enumerate(plan.levels)}
    before, after = (
        {row.result.slab: row.result.md5 for row in version}
        for version in (recorded_rows(record, positions).values(), rows)
    )
    every = sorted(before.keys() | after.keys())
    area = _area(plan, [slab for slab in every if before.get(slab, "") != after.get(slab, "")])
    if area is None:
        return None
    return {
        "since": digest_of(published),
        "bbox": [area.xmin, area.ymin, area.xmax, area.ymax],
    }


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
