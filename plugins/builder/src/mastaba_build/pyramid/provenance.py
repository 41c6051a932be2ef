"""The sources of a pyramid: their numbers, and the documents about them (time.md section 5)."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace as changed
from itertools import pairwise
from typing import Any

import numpy as np
import pyproj

from mastaba.api.catalogue import TileMatrix
from mastaba_build.errors import PlanError, VerificationError
from mastaba_build.output.numbers import LARGEST, NumberedSlab, Share, SourceKey
from mastaba_build.output.records import Record
from mastaba_build.output.source_records import (
    SUMS,
    SlabPosition,
    SourceRecord,
    numbers_known,
    read_source_record,
)
from mastaba_build.output.storage import OutputStore
from mastaba_build.output.versions import Version
from mastaba_build.pixels.number_slabs import merged
from mastaba_build.plan.levels import union
from mastaba_build.plan.names import SOURCE, SOURCE_FORMAT, level_storage, slab_key
from mastaba_build.plan.plan import Plan, SlabKey
from mastaba_build.plan.provenance import Provenance
from mastaba_build.pyramid.journal import Row
from mastaba_build.sources.facts import overlay
from mastaba_build.sources.footprints import Polygon, outline, read_footprints
from mastaba_build.sources.sets import proj_crs
from mastaba_build.sources.source import Source
from mastaba_writer.descriptor import LevelPlan, pyramid_descriptor, slab_list

TABLE = ".sources.json"
"""End of the name of the table of sources."""
PYRAMID = "_sources.json"
"""End of the name of the descriptor of the pyramid of source numbers."""
LIST = "_sources.list"
_FIELDS = (
    "number",
    "id",
    "title",
    "date",
    "start",
    "end",
    "gsd",
    "accuracy",
    "licence",
    "attribution",
    "href",
    "stac",
    "group",
    "box",
    "pixels",
    "footprint",
    "fields",
)
_CRS84 = "OGC:CRS84"
_POINTS_OF_SIDE = 9


def with_provenance(
    plan: Plan, store: OutputStore, record: Record | None, versions: Sequence[Version]
) -> Plan:
    """Return a plan with the numbers of its sources, if they are wanted.

    They are if the configuration says so. By default they are for several rasters, or one with a
    date; an update goes on as the published version.

    Args:
        store: the output, opened.
        record: of the published version, if there is one that is updated.
        versions: all versions of it.

    Raises:
        PlanError: the sources have no numbers, or their polygons cannot be read.
        VerificationError: a document is damaged.
        OutputError: a document cannot be read.
    """
    configuration = plan.configuration
    name, wanted = configuration.name, configuration.provenance
    before = None if record is None else read_source_record(store, name)
    if wanted is None and record is not None:
        wanted = before is not None
    sources = [one for one in plan.sources if isinstance(one, Source)]
    if wanted is None:
        wanted = len(sources) > 1 or any(_has_date(one) for one in sources)
    if not wanted:
        return plan
    if not sources:
        if configuration.provenance:
            raise PlanError("--provenance is for rasters; remove it")
        return plan
    if store.stat(f"{name}_sources.build.json") is not None:
        raise PlanError(
            f"{configuration.output.path(f'{name}{PYRAMID}')} is another pyramid; choose another "
            "name, or use --no-provenance"
        )
    stems = [f"{name}_{version.number}" for version in versions] if record else []
    found = [read_source_record(store, stem) for stem in stems]
    known, following = numbers_known(one for one in (before, *found) if one is not None)
    polygons, parts = _polygons(plan, sources)
    pairs = _pairs(plan, sources, polygons, parts)
    keys = [SourceKey(one.path, one.identity) for one in sources]
    rows = _rows(sources, publish_paths=configuration.publish_paths)
    for source, polygon in pairs:
        keys.append(keys[source]._replace(polygon=polygons[polygon].key))
        rows.append(_row_of_polygon(rows[source], polygons[polygon]))
    numbers = []
    for key in keys:
        if key not in known:
            known[key] = following
            following += 1
        numbers.append(known[key])
    if following > LARGEST:
        raise PlanError(f"{name}: has no numbers for more sources; choose another name")
    provenance = Provenance(
        tuple(keys),
        tuple(numbers),
        tuple(rows),
        following,
        frozenset(level.matrix.id for level in plan.levels if level.from_sources),
        tuple(polygons),
        parts,
        {pair: len(sources) + number for number, pair in enumerate(pairs)},
        {} if before is None else before.overrides,
    )
    text = json.dumps([plan.identity, rows, [one.key for one in polygons]], sort_keys=True)
    identity = hashlib.sha256(text.encode()).hexdigest()
    return changed(plan, provenance=provenance, identity=identity)


def _has_date(source: Source) -> bool:
    return not {"date", "start"}.isdisjoint(json.loads(source.facts))


def _polygons(plan: Plan, sources: Sequence[Source]) -> tuple[list[Polygon], dict[int, range]]:
    """Return the polygons in all sources, and which of them each source has."""
    polygons: list[Polygon] = []
    read: dict[tuple[tuple[str, str], ...], range] = {}
    parts: dict[int, range] = {}
    for number, source in enumerate(sources):
        options = source.footprints
        if options is None:
            continue
        if options not in read:
            cell = plan.levels[0].matrix.cell_size
            found = read_footprints(dict(options), proj_crs(plan.crs.code), cell)
            read[options] = range(len(polygons), len(polygons) + len(found))
            polygons += found
        parts[number] = read[options]
    return polygons, parts


def _pairs(
    plan: Plan,
    sources: Sequence[Source],
    polygons: Sequence[Polygon],
    parts: Mapping[int, range],
) -> list[tuple[int, int]]:
    """Return the sources and the polygons that may give pixels together."""
    if not polygons:
        return []
    boxes = np.array([(*_edges(one),) for one in polygons])
    margin = 2 * max(level.matrix.cell_size for level in plan.levels if level.from_sources)
    members = [some for of_group in plan.member_boxes for some in of_group]
    found = []
    for source, part in parts.items():
        some = boxes[part.start : part.stop]
        near: set[int] = set()
        for box in members[source]:
            # A pixel of a source may be beyond its border by a part of its own pixel.
            reach = margin + 2 * max(
                (box.xmax - box.xmin) / sources[source].width,
                (box.ymax - box.ymin) / sources[source].height,
            )
            is_near = (some[:, 0] <= box.xmax + reach) & (some[:, 2] >= box.xmin - reach)
            is_near &= (some[:, 1] <= box.ymax + reach) & (some[:, 3] >= box.ymin - reach)
            near.update((np.flatnonzero(is_near) + part.start).tolist())
        found += [(source, polygon) for polygon in sorted(near)]
    return found


def _edges(polygon: Polygon) -> tuple[float, float, float, float]:
    box = polygon.box
    return box.xmin, box.ymin, box.xmax, box.ymax


def _rows(sources: Sequence[Source], *, publish_paths: bool) -> list[dict[str, Any]]:
    """Return the rows of files, without what depends on their pixels."""
    degrees = pyproj.CRS.from_user_input(_CRS84)
    known: dict[str, tuple[pyproj.CRS, pyproj.Transformer]] = {}
    rows = []
    for source in sources:
        if source.crs not in known:
            crs = pyproj.CRS.from_wkt(source.crs)
            known[source.crs] = crs, pyproj.Transformer.from_crs(crs, degrees, always_xy=True)
        rows.append(_row(source, *known[source.crs], publish_paths=publish_paths))
    return rows


def _row(
    source: Source, crs: pyproj.CRS, change: pyproj.Transformer, *, publish_paths: bool
) -> dict[str, Any]:
    a, b, c, d, e, f = source.transform
    side = np.linspace(0, 1, _POINTS_OF_SIDE)
    corners = np.array([(0, 0), (1, 0), (1, 1), (0, 1), (0, 0)])
    sides = [one + (two - one) * side[:-1, np.newaxis] for one, two in pairwise(corners)]
    places = np.concatenate([*sides, corners[:1]]) * (source.width, source.height)
    columns, rows = places.T
    ring = np.stack([a * columns + b * rows + c, d * columns + e * rows + f], axis=1)
    footprint = outline([[ring]], change)
    row: dict[str, Any] = {
        "id": source.path if publish_paths else os.path.basename(source.path),
        "gsd": _metres(source, crs, change),
        "footprint": footprint,
    }
    overlay(row, json.loads(source.facts))
    return {key: value for key, value in row.items() if value is not None}


def _metres(source: Source, crs: pyproj.CRS, change: pyproj.Transformer) -> float | None:
    """Return the size of the pixels of a source on the ground."""
    size = math.sqrt(source.pixel_area)
    factor = crs.axis_info[0].unit_conversion_factor if crs.axis_info else 1.0
    if crs.is_geographic:
        a, b, c, d, e, f = source.transform
        column, row = source.width / 2, source.height / 2
        latitude = change.transform(a * column + b * row + c, d * column + e * row + f)[1]
        # The factor is that of an angle, in radians.
        size *= 6_371_008.8 * math.sqrt(max(0.0, math.cos(math.radians(latitude))))
    found = size * factor
    return float(f"{found:.6g}") if math.isfinite(found) else None


def _row_of_polygon(file: Mapping[str, Any], polygon: Polygon) -> dict[str, Any]:
    facts = {key: value for key, value in polygon.facts.items() if value is not None}
    row = dict(file)
    overlay(row, facts)
    row["id"] = f"{file['id']}#{facts['id']}"
    return row


def provenance_of_documents(
    store: OutputStore, stem: str, levels: Iterable[str]
) -> tuple[Provenance, SourceRecord] | None:
    """Return what the documents of a version say of its sources; None if it has no numbers.

    Args:
        stem: start of the names of the documents.
        levels: identifiers of the levels that may keep their numbers.

    Raises:
        VerificationError: a document is damaged.
        OutputError: a document cannot be read.
    """
    record = read_source_record(store, stem)
    if record is None:
        return None
    table = read_table(store, stem)
    rows = {row["number"]: row for row in table["sources"]}
    numbers = sorted(rows)
    found = {place.level for place in record.slabs} & set(levels)
    provenance = Provenance(
        tuple(record.keys.get(number, SourceKey("", "", str(number))) for number in numbers),
        tuple(numbers),
        tuple(rows[number] for number in numbers),
        record.next,
        frozenset(found),
        overrides=record.overrides,
    )
    return provenance, record


def read_table(store: OutputStore, stem: str) -> dict[str, Any]:
    """Return the table of sources of a version.

    Raises:
        VerificationError: it is missing or damaged.
        OutputError: it cannot be read.
    """
    data = store.read_if_exists(f"{stem}{TABLE}")
    try:
        document: dict[str, Any] = json.loads(data or b"")
        for row in document["sources"]:
            row["number"] = int(row["number"])
    except (ValueError, KeyError, TypeError) as error:
        raise VerificationError(f"{stem}{TABLE} cannot be used: {error}") from None
    return document


def numbered_rows(
    plan: Plan, rows: Mapping[SlabKey, Row], record: SourceRecord | None
) -> dict[SlabKey, Row]:
    """Return stored slabs with the facts of their slabs of numbers.

    Those that should have one but do not are left out, so that they are built again.

    Args:
        rows: from `recorded_rows`.
        record: of the same version.
    """
    if plan.provenance is None:
        return dict(rows)
    known = {} if record is None else record.slabs
    found = {}
    for slab, row in rows.items():
        numbers = known.get(place_of(plan, row))
        if row.result.size and plan.is_numbered(slab):
            if numbers is None or record is None:
                continue
            row = with_numbers(row, numbers._replace(holder=numbers.holder or record.root))
        found[slab] = row
    return found


def with_numbers(row: Row, numbers: NumberedSlab) -> Row:
    """Return a row with the facts of its slab of numbers."""
    return changed(row, result=changed(row.result, numbers=numbers))


def place_of(plan: Plan, row: Row) -> SlabPosition:
    """Return the place of the slab of a row."""
    level, column, slab_row = row.result.slab
    return SlabPosition(plan.levels[level].matrix.id, column, slab_row)


def write_provenance(plan: Plan, store: OutputStore, rows: Sequence[Row], stem: str) -> None:
    """Write the documents about the sources, if the plan has numbers, the table last.

    Args:
        rows: all slabs, from the coarsest level to the finest.
        stem: start of the names of the documents.

    Raises:
        OutputError: a document cannot be written.
    """
    if plan.provenance is None:
        return
    numbered = [row for row in rows if row.result.size and row.result.numbers is not None]
    record = source_record(plan, plan.provenance, numbered)
    texts = {
        SUMS: record.text(),
        LIST: _list(plan, numbered),
        PYRAMID: text_of(_descriptor(plan, numbered)),
        TABLE: table_text(table_of(plan, plan.provenance, record, stem)),
    }
    for end, text in texts.items():
        store.write(stem + end, text)


def source_record(plan: Plan, provenance: Provenance, rows: Sequence[Row]) -> SourceRecord:
    """Return the record of slabs of numbers."""
    slabs = {}
    for row in rows:
        numbers = row.result.numbers
        assert numbers is not None
        holder = None if numbers.holder == plan.root else numbers.holder
        slabs[place_of(plan, row)] = numbers._replace(holder=holder)
    keys = dict(zip(provenance.numbers, provenance.keys, strict=True))
    keys = {number: key for number, key in keys.items() if key.path}
    return SourceRecord(plan.root, provenance.next, keys, slabs, provenance.overrides)


def table_of(plan: Plan, provenance: Provenance, record: SourceRecord, stem: str) -> dict[str, Any]:
    """Return the table of sources.

    Args:
        stem: start of the names of the documents.
    """
    matrices = {level.matrix.id: level.matrix for level in plan.levels}
    finest = {level: number for number, level in enumerate(matrices)}
    shares: dict[int, tuple[str, Share]] = {}
    for level, share in record.shares():
        known = shares.get(share.number)
        if known is None or finest[level] < finest[known[0]]:
            shares[share.number] = level, share
        elif level == known[0]:
            shares[share.number] = level, merged(known[1], share)
    facts = dict(zip(provenance.numbers, provenance.rows, strict=True))
    to_degrees = pyproj.Transformer.from_crs(
        proj_crs(plan.crs.code), pyproj.CRS.from_user_input(_CRS84), always_xy=True
    )
    rows = []
    for number, (level, share) in sorted(shares.items()):
        row = dict(facts[number])
        overlay(row, provenance.overrides.get(str(number), {}))
        row |= {"number": number, "pixels": share.pixels}
        row["box"] = _box(matrices[level], share, to_degrees)
        rows.append(ordered(row))
    return {
        "version": 1,
        "pyramid": os.path.basename(f"{stem}{PYRAMID}"),
        "next": provenance.next,
        "sources": rows,
    }


def ordered(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with its known fields in the order of the table."""
    return {key: row[key] for key in _FIELDS if row.get(key) is not None}


def _box(matrix: TileMatrix, share: Share, change: pyproj.Transformer) -> list[float] | None:
    """Return the box of pixels in CRS84; None if it is not defined there."""
    cell = matrix.cell_size
    found = change.transform_bounds(
        matrix.origin_x + share.min_col * cell,
        matrix.origin_y - (share.max_row + 1) * cell,
        matrix.origin_x + (share.max_col + 1) * cell,
        matrix.origin_y - share.min_row * cell,
    )
    return [round(value, 7) + 0.0 for value in found] if all(map(math.isfinite, found)) else None


def _list(plan: Plan, rows: Sequence[Row]) -> bytes:
    """Return the slab list of the pyramid of numbers."""
    holders = [row.result.numbers.holder or plan.root for row in rows if row.result.numbers]
    roots = {root: n for n, root in enumerate([plan.root, *sorted({*holders} - {plan.root})])}
    lines = [
        (roots[holder], slab_key(plan, row.result.slab, SOURCE))
        for row, holder in zip(rows, holders, strict=True)
    ]
    return slab_list(list(map(plan.configuration.output.listed, roots)), lines).encode()


def _descriptor(plan: Plan, rows: Sequence[Row]) -> dict[str, Any]:
    """Return the descriptor of the pyramid of numbers: an ordinary one."""
    levels = []
    for number, level in reversed(list(enumerate(plan.levels))):
        limits = [
            row.result.limits
            for row in rows
            if row.result.slab.level == number and row.result.limits
        ]
        if limits:
            area = union(limits)
            levels.append(
                LevelPlan(level.matrix.id, area.min_row, area.max_row, area.min_col, area.max_col)
            )
    return pyramid_descriptor(
        plan.configuration.tile_matrix_set,
        SOURCE_FORMAT,
        levels,
        slab_size=plan.configuration.slab,
        storage=lambda level: level_storage(plan, level, SOURCE),
        channels=1,
        nodata=[0],
        interpolation="nn",
    )


def table_text(table: Mapping[str, Any]) -> bytes:
    """Return the table of sources as it is stored: one line for each source."""
    head = json.dumps({key: value for key, value in table.items() if key != "sources"}, indent=2)
    lines = ",\n".join(f"    {json.dumps(row, ensure_ascii=False)}" for row in table["sources"])
    return f'{head[:-2]},\n  "sources": [\n{lines}\n  ]\n}}\n'.encode()


def text_of(document: Mapping[str, Any]) -> bytes:
    """Return a document as it is stored."""
    return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()
