"""Publication: the documents of a pyramid, the descriptor last."""

from __future__ import annotations

import datetime
import itertools
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from mastaba.api.catalogue import MASK_FORMAT, TILE_FORMATS, Codec
from mastaba_build.errors import BuildError
from mastaba_build.output.packs import has_packs, write_packs
from mastaba_build.output.records import Record, RecordedSlab
from mastaba_build.output.storage import OutputStore
from mastaba_build.plan.levels import union
from mastaba_build.plan.names import kinds, level_storage, slab_key
from mastaba_build.plan.plan import Plan
from mastaba_build.pyramid.journal import Row
from mastaba_build.pyramid.provenance import TABLE, text_of, write_provenance
from mastaba_build.sources.sets import is_known
from mastaba_writer.descriptor import LevelPlan, pyramid_descriptor, slab_list
from mastaba_writer.installation import layer_of


def write_documents(
    plan: Plan,
    store: OutputStore,
    rows: Sequence[Row],
    name: str,
    inexact: int = 0,
    more: Mapping[str, Any] | None = None,
) -> None:
    """Write the list, the build record and the descriptor of a pyramid, in this order.

    Before them, write the documents about the sources, and the index packs if they are wanted, or
    the published version has some.

    Args:
        rows: all slabs, from the coarsest level to the finest.
        name: start of the names of the documents.
        inexact: slabs made from pixels that differ from those that were encoded.
        more: members of the descriptor; see `update_of`.

    Raises:
        BuildError: no source has data.
        OutputError: a document cannot be written.
    """
    stored = [row for row in rows if row.result.size]
    if not stored:
        paths = [without_passwords(source.path) for source in plan.sources]
        others = f" and {len(paths) - 1} others" if len(paths) > 1 else ""
        raise BuildError(
            f"{paths[0]}{others}: no source pixel has data; check nodata, tolerance and the levels"
        )
    configuration = plan.configuration
    descriptor = _descriptor(plan, stored)
    if plan.provenance is not None:
        descriptor["provenance"] = f"{name}{TABLE}"
    descriptor |= more or {}
    if configuration.index_packs or has_packs(store, f"{configuration.name}.json"):
        links = {}
        for row in stored:
            if row.holder not in (None, plan.root):
                key = slab_key(plan, row.result.slab)
                links[f"{plan.root}/{key}"] = f"{row.holder}/{key}"
        write_packs(store, configuration.output, descriptor, links)
    write_provenance(plan, store, rows, name)
    texts = {
        ".list": _slab_list(plan, stored),
        ".build.json": _record(plan, rows, inexact).text(),
        ".json": text_of(descriptor),
    }
    for end, text in texts.items():
        store.write(name + end, text)


def write_layer(plan: Plan, store: OutputStore) -> None:
    """Write the layer descriptor, which names the published pyramid descriptor.

    Before it, write the tile matrix set to ``tilematrixsets``, if the build has made it.

    Raises:
        OutputError: it cannot be written.
    """
    configuration = plan.configuration
    name, set_name = configuration.name, configuration.tile_matrix_set
    if not is_known(set_name, configuration.tile_matrix_sets):
        store.write(f"tilematrixsets/{set_name}.json", text_of(plan.set_document))
    layer = layer_of(
        configuration.output.path(f"{name}.json"),
        json.loads(store.read(f"{name}.json")),
        tile_matrix_sets={set_name: plan.set_document},
        title=configuration.title or name,
        **plan.layer_fields(),
    )
    store.write(f"{name}.layer.json", text_of(layer))


def _slab_list(plan: Plan, stored: Sequence[Row]) -> bytes:
    names = {row.holder or plan.root for row in stored} - {plan.root}
    roots = {root: number for number, root in enumerate([plan.root, *sorted(names)])}
    output = plan.configuration.output
    with_md5 = plan.configuration.list_md5
    lines = []
    for kind in kinds(plan):
        for row in stored:
            line = slab_key(plan, row.result.slab, kind)
            if with_md5 and kind == "DATA" and row.result.md5:
                line += f" {row.result.md5}"
            lines.append((roots[row.holder or plan.root], line))
    return slab_list(list(map(output.listed, roots)), lines).encode()


def _record(plan: Plan, rows: Sequence[Row], inexact: int) -> Record:
    linked = sum(row.holder not in (None, plan.root) for row in rows)
    facts = {
        "root": plan.root,
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "plan": plan.identity,
        "software": dict(plan.software),
        "format": plan.pixel_type.format,
        "encoder": plan.encoder,
        **({} if plan.is_vector else {"decimation": plan.configuration.decimation}),
        "factors": _factors(plan),
        "tile_size": [plan.levels[0].matrix.tile_width, plan.levels[0].matrix.tile_height],
        "sources": [
            {"path": without_passwords(source.path), "identity": source.identity}
            for source in plan.sources
        ],
        "tiles": sum(row.result.tiles for row in rows),
        "bytes": sum(row.result.size for row in rows),
        "linked": linked,
        "inexact": inexact,
    }
    slabs = []
    for row in rows:
        result = row.result
        slabs.append(
            RecordedSlab(
                plan.levels[result.slab.level].matrix.id,
                result.slab.column,
                result.slab.row,
                result.size,
                result.md5,
                result.tiles,
                result.limits,
                row.fingerprint,
                result.quarter,
                None if row.holder == plan.root else row.holder,
            )
        )
    return Record(facts, tuple(slabs))


def without_passwords(path: str) -> str:
    """Return the path of a source without user and password: anyone may read a build record."""
    path = re.sub(r"://[^/@\s]+@", "://", path)
    return re.sub(r"\s?\bpassword=(?:'[^']*'|[^\s']+)", "", path)


def _factors(plan: Plan) -> dict[str, int]:
    """Return `Level.factor` of the levels whose stored pixels are exactly those of the next finer.

    Losses and protected colours of nodata are not in the level above.
    """
    codec = TILE_FORMATS[plan.pixel_type.format].codec
    if plan.is_vector or codec is Codec.JPEG or plan.pixel_type.protects_nodata:
        return {}
    return {level.matrix.id: level.factor for level in plan.levels if level.factor}


def _descriptor(plan: Plan, stored: Sequence[Row]) -> dict[str, Any]:
    configuration = plan.configuration
    levels = []
    for level, rows in itertools.groupby(stored, key=lambda row: row.result.slab.level):
        limits = union(row.result.limits for row in rows if row.result.limits)
        levels.append(
            LevelPlan(
                plan.levels[level].matrix.id,
                limits.min_row,
                limits.max_row,
                limits.min_col,
                limits.max_col,
            )
        )
    document = pyramid_descriptor(
        configuration.tile_matrix_set,
        plan.pixel_type.format,
        levels,
        slab_size=configuration.slab,
        storage=lambda level: level_storage(plan, level),
        channels=plan.pixel_type.channels,
        nodata=plan.pixel_type.nodata,
        interpolation=configuration.interpolation.split("_")[0],
        mask_format=MASK_FORMAT if configuration.masks else None,
        tables=plan.tables,
    )
    if plan.registration != "area":
        document["raster_specifications"]["registration"] = plan.registration
    return document
