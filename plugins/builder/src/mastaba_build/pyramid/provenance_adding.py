"""Write source numbers beside a pyramid that others built."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import replace as changed

import numpy as np
from rasterio.transform import Affine

from mastaba_build.config.configuration import Configuration
from mastaba_build.errors import PlanError
from mastaba_build.output.lock import locked
from mastaba_build.output.numbers import NumberedSlab, SourceKey
from mastaba_build.output.source_records import SUMS
from mastaba_build.output.storage import OutputStore
from mastaba_build.pixels.number_slabs import NumberSlab, NumberTiles
from mastaba_build.pixels.numbering import burnt
from mastaba_build.pixels.owners import Numbers
from mastaba_build.pixels.stored import stored_rows
from mastaba_build.pixels.task import SlabResult, tiles_with_data
from mastaba_build.plan.names import SOURCE, slab_key
from mastaba_build.plan.plan import SlabKey
from mastaba_build.plan.provenance import Provenance
from mastaba_build.pyramid.joining import JoinPlan, make_join_plan
from mastaba_build.pyramid.journal import Row
from mastaba_build.pyramid.provenance import (
    write_provenance,
)
from mastaba_build.pyramid.stored import read_pyramid
from mastaba_build.sources.footprints import read_footprints
from mastaba_build.sources.identity import identity_of_files
from mastaba_build.sources.sets import proj_crs


def add_provenance(
    configuration: Configuration,
    store: OutputStore,
    path: str,
    footprints: Mapping[str, str],
    report: Callable[[int, int], object] = lambda _done, _of: None,
) -> int:
    """Write source numbers beside a pyramid, from polygons, and return the number of sources.

    Pixels of the finest level that are valid get the polygon that contains their centre. Nothing is
    written into the pyramid.

    Args:
        configuration: its output, and a name that is not used.
        store: the output, opened.
        path: of the descriptor.
        footprints: as `read_footprints` takes them.
        report: called with the number of slabs done, and of all slabs.

    Raises:
        BuildError: the pyramid, the polygons or the output cannot be used.
    """
    output, plugins = configuration.output, configuration.access.plugins
    pyramid = read_pyramid(store, output, path, plugins)
    stem = pyramid.key.removesuffix(".json")
    name = os.path.basename(stem)
    descriptor = json.loads(store.read(f"{stem}.json"))
    if "provenance" in descriptor:
        raise PlanError(f"{path}: has source numbers already")
    root = f"{name}_sources"
    if store.stat(f"{root}.build.json") is not None or (
        store.stat(f"{root}.json") is not None and store.stat(f"{stem}{SUMS}") is None
    ):
        raise PlanError(f"{output.path(f'{root}.json')} is another pyramid; rename it")
    plan = make_join_plan(changed(configuration, name=name), [pyramid])
    matrix = plan.levels[0].matrix
    polygons = read_footprints(footprints, proj_crs(plan.crs.code), matrix.cell_size)
    file = os.path.abspath(footprints["path"])
    identity = identity_of_files([file])
    provenance = Provenance(
        tuple(SourceKey(file, identity, one.key) for one in polygons),
        tuple(range(1, len(polygons) + 1)),
        tuple(one.facts for one in polygons),
        len(polygons) + 1,
        frozenset([matrix.id]),
        tuple(polygons),
    )
    plan = changed(plan, root=root, provenance=provenance)
    slabs, tiles = list(plan.slabs(0)), NumberTiles()
    rows = []
    with locked(store, f"{name}.lock"):
        for done, slab in enumerate(slabs, 1):
            row = _burnt_slab(plan, provenance, store, slab, tiles)
            rows += [] if row is None else [row]
            report(done, len(slabs))
        if not rows:
            raise PlanError(f"{file}: no polygon contains a pixel with data")
        write_provenance(plan, store, rows, stem)
    return len({share.number for row in rows for share in _numbers_of(row).shares})


def _numbers_of(row: Row) -> NumberedSlab:
    assert row.result.numbers is not None
    return row.result.numbers


def _burnt_slab(
    plan: JoinPlan, provenance: Provenance, store: OutputStore, slab: SlabKey, tiles: NumberTiles
) -> Row | None:
    """Write the slab of numbers beside a slab of pixels; None if no polygon is there."""
    matrix, (width, height) = plan.levels[slab.level].matrix, plan.configuration.slab
    part = plan.parts[slab][0]
    shape = matrix.tile_height, width * matrix.tile_width
    corner = slab.row * height * matrix.tile_height, slab.column * shape[1]
    table = np.array([0, *provenance.numbers], np.uint32)
    found = NumberSlab(
        (width, height),
        (matrix.tile_height, matrix.tile_width),
        corner,
        table,
        tiles,
        has_alpha=plan.pixel_type.has_alpha,
        stores_empty=False,
    )
    rows = stored_rows(plan, store.below(part.holder), slab, masks=part.masks)
    for number, row in enumerate(rows):
        left = matrix.origin_x + corner[1] * matrix.cell_size
        top = matrix.origin_y - (corner[0] + number * shape[0]) * matrix.cell_size
        transform = Affine(matrix.cell_size, 0, left, 0, -matrix.cell_size, top)
        full = tiles_with_data(row, width)
        numbers: Numbers | None = burnt(provenance, transform, shape)
        if full and numbers is not None:
            found.add(numbers, row, full)
        else:
            found.skip()
    facts, data = found.finish()
    if not facts.shares:
        return None
    md5 = store.write(f"{plan.root}/{slab_key(plan, slab, SOURCE)}", data).md5
    limits = plan.alone[slab].limits
    numbered = facts._replace(md5=md5)
    result = SlabResult(slab, len(data), "", None, 0, limits, 0.0, "", numbers=numbered)
    return Row(result, "")
