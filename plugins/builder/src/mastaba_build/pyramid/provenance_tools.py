"""What can be done with the sources of a pyramid: add them, set their facts, check and colour."""

from __future__ import annotations

import colorsys
import csv
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace as changed
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyproj
from rasterio.transform import Affine
from rasterio.windows import Window

from mastaba_build.config.access import Access
from mastaba_build.config.configuration import Configuration
from mastaba_build.config.dates import dates
from mastaba_build.errors import BuildError, PlanError, SourceError, VerificationError
from mastaba_build.output.destination import Destination
from mastaba_build.output.history import Note
from mastaba_build.output.lock import locked
from mastaba_build.output.numbers import NumberedSlab, SourceKey
from mastaba_build.output.source_records import SUMS, Place, SourceRecord, read_source_record
from mastaba_build.output.storage import OutputStore
from mastaba_build.output.versions import (
    Version,
    keep_documents,
    open_history,
    publish_version,
    published,
    read_record,
    read_roots,
    read_versions,
    write_versions,
)
from mastaba_build.pixels.number_slabs import NumberSlab, NumberTiles
from mastaba_build.pixels.numbering import Numbers, burnt
from mastaba_build.pixels.stored import SlabTiles, stored_rows
from mastaba_build.pixels.task import SlabResult, tiles_with_data
from mastaba_build.plan.names import SOURCE, placed_key, slab_key
from mastaba_build.plan.plan import SlabKey
from mastaba_build.plan.provenance import Provenance
from mastaba_build.pyramid.joined_sources import decoder_of
from mastaba_build.pyramid.joining import JoinPlan, make_join_plan
from mastaba_build.pyramid.journal import Row
from mastaba_build.pyramid.provenance import (
    LIST,
    PYRAMID,
    TABLE,
    ordered,
    read_table,
    table_text,
    text_of,
    write_provenance,
)
from mastaba_build.pyramid.publication import without_passwords
from mastaba_build.pyramid.stored import read_pyramid
from mastaba_build.sources.facts import overlay
from mastaba_build.sources.footprints import read_footprints
from mastaba_build.sources.identity import identity_of_files
from mastaba_build.sources.inventory import identity_of, open_dataset
from mastaba_build.sources.sets import proj_crs

_TEXTS = ("id", "title", "licence", "href", "stac", "group")
_NUMBERS = ("gsd", "accuracy")
_REACH = 4.0
"""Pixels of the source, or of the level, from which a kernel may take a value."""
_OPAQUE = 160
"""Alpha from which on a source surely hides others, whatever the kernel does."""


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
    slabs = list(plan.slabs(0))
    rows = []
    with locked(store, f"{name}.lock"):
        for done, slab in enumerate(slabs, 1):
            row = _burnt_slab(plan, provenance, store, slab)
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
    plan: JoinPlan, provenance: Provenance, store: OutputStore, slab: SlabKey
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
        NumberTiles(),
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


def set_facts(store: OutputStore, name: str, table: Path) -> int:
    """Publish a version whose table of sources has other facts, and return its number.

    It has the slabs of the published one.

    Args:
        table: CSV with a column ``number`` or ``id``, and columns of the table of sources.

    Raises:
        BuildError: the pyramid has no table, or the file or a document cannot be used.
    """
    read_versions(store, name)  # nothing is written if the pyramid does not exist
    with locked(store, f"{name}.lock"):
        versions = read_versions(store, name)
        current = published(store, name, versions)
        record = read_source_record(store, name)
        if record is None:
            raise PlanError(f"{name} has no table of sources; build it with --provenance")
        rows = read_table(store, name)["sources"]
        overrides = {key: dict(one) for key, one in record.overrides.items()}
        for number, facts in _facts_of_csv(table, rows):
            overlay(overrides.setdefault(str(number), {}), facts)
        for row in rows:
            overlay(row, overrides.get(str(row["number"]), {}))
        if store.stat(f"{name}.versions.json") is None:
            keep_documents(store, name, current.number)
        number = versions[-1].number + 1
        stem = f"{name}_{number}"
        descriptor = json.loads(store.read(f"{name}.json"))
        descriptor.pop("update", None)
        descriptor["provenance"] = f"{stem}{TABLE}"
        document = {"version": 1, "pyramid": f"{stem}{PYRAMID}", "next": record.next}
        texts = {
            SUMS: changed(record, overrides=overrides).text(),
            LIST: store.read(f"{name}{LIST}"),
            PYRAMID: store.read(f"{name}{PYRAMID}"),
            TABLE: table_text({**document, "sources": list(map(ordered, rows))}),
            ".list": store.read(f"{name}.list"),
            ".build.json": store.read(f"{name}.build.json"),
            ".json": text_of(descriptor),
        }
        for end, text in texts.items():
            store.write(f"{stem}{end}", text)
        versions = [*versions, Version(number, current.root, current.plan)]
        write_versions(store, name, versions, read_roots(store, name))
        history = open_history(store, name, versions)
        publish_version(store, name, number, Note("provenance"), history)
        return number


def _facts_of_csv(
    path: Path, rows: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the numbers of sources, and their facts in a CSV file."""
    by_id: dict[str, list[int]] = {}
    for row in rows:
        by_id.setdefault(str(row["id"]), []).append(row["number"])
    known = {row["number"] for row in rows}
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            lines = list(csv.DictReader(stream))
    except (OSError, ValueError, csv.Error) as error:
        raise PlanError(f"{path}: cannot be read: {error}") from None
    for line, values in enumerate(lines, 2):
        try:
            facts = _facts_of_line({key: (value or "").strip() for key, value in values.items()})
        except (ValueError, AttributeError) as error:
            raise PlanError(f"{path}: line {line}: {error}") from None
        if values.get("number"):
            numbers = [int(values["number"])] if values["number"].isdecimal() else []
        else:
            numbers = by_id.get(str(values.get("id", "")), [])
        if not numbers or not known.issuperset(numbers):
            raise PlanError(f"{path}: line {line}: names no source of the table")
        yield from ((number, facts) for number in numbers)


def _facts_of_line(values: Mapping[str, str]) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    further: dict[str, str] = {}
    for key, value in values.items():
        if not value or key in ("number", "id", "start", "end", "attribution_url"):
            continue
        if key in _TEXTS:
            facts[key] = value
        elif key in _NUMBERS:
            facts[key] = float(value) if key == "gsd" else _number_or_text(value)
        elif key == "attribution":
            url = values.get("attribution_url")
            facts[key] = {"title": value, **({"url": url} if url else {})}
        elif key != "date":
            further[key] = value
    start, end = values.get("start"), values.get("end")
    written = f"{start}/{end}" if start and end else values.get("date", "")
    if written:
        found = dates(written)
        if not found:
            raise ValueError(f"{written!r} is not a date as 2021-05-03")
        facts.update(found)
    if further:
        facts["fields"] = further
    return facts


def _number_or_text(value: str) -> float | str:
    try:
        return float(value)
    except ValueError:
        return value


Floats = npt.NDArray[np.float64]


class Point(NamedTuple):
    """The centre of a pixel.

    Attributes:
        number: of its source; 0 for none.
        has_data: whether the stored pixel has data.
        x, y: in the CRS of the set.
    """

    number: int
    has_data: bool
    x: float
    y: float


class Samples:
    """Random pixels of a pyramid of source numbers.

    Args:
        store: the output, opened.
        name: of the pyramid.
    """

    def __init__(self, store: OutputStore, name: str) -> None:
        record = read_source_record(store, name)
        if record is None:
            raise PlanError(f"{name} has no table of sources; build it with --provenance")
        self.record: SourceRecord = record
        self._store = store
        self._descriptor = json.loads(store.read(f"{name}{PYRAMID}"))

    def draw(self, plan: JoinPlan, count: int, seed: int) -> Iterator[Point]:
        """Yield pixels of the finest level, in slabs with and without numbers."""
        matrix, (width, height) = plan.levels[0].matrix, plan.configuration.slab
        generator = np.random.default_rng(seed)
        slabs = list(plan.slabs(0))
        of_slab = generator.multinomial(count, np.full(len(slabs), 1 / len(slabs)))
        for slab, wanted in zip(slabs, of_slab.tolist(), strict=True):
            if not wanted:
                continue
            tiles = self._tiles(plan, Place(matrix.id, slab.column, slab.row))
            rows = np.sort(generator.integers(0, height * matrix.tile_height, wanted))
            columns = generator.integers(0, width * matrix.tile_width, wanted)
            has_data = _with_data(plan, self._store, slab, rows, columns)
            found = zip(rows.tolist(), columns.tolist(), has_data, strict=True)
            for row, column, is_valid in found:
                number = row // matrix.tile_height * width + column // matrix.tile_width
                tile = None if tiles is None else tiles.tile(number)
                at = row % matrix.tile_height, column % matrix.tile_width
                right = slab.column * width * matrix.tile_width + column + 0.5
                down = slab.row * height * matrix.tile_height + row + 0.5
                yield Point(
                    0 if tile is None else int(tile[at][0]),
                    is_valid,
                    matrix.origin_x + right * matrix.cell_size,
                    matrix.origin_y - down * matrix.cell_size,
                )

    def _tiles(self, plan: JoinPlan, place: Place) -> SlabTiles | None:
        slab = self.record.slabs.get(place)
        if slab is None:
            return None
        key = placed_key(self._descriptor, *place, SOURCE)
        width, height = plan.configuration.slab
        holder = self._store.below(slab.holder or self.record.root)
        return SlabTiles(holder, key, decoder_of(plan), width * height)


def _with_data(
    plan: JoinPlan,
    store: OutputStore,
    slab: SlabKey,
    rows: npt.NDArray[np.int64],
    columns: npt.NDArray[np.int64],
) -> list[bool]:
    """Return which pixels of a slab have data; the rows ascend."""
    part = plan.parts[slab][0]
    height = plan.levels[0].matrix.tile_height
    found: list[bool] = []
    stored = stored_rows(plan, store.below(part.holder), slab, masks=part.masks)
    for number, row in enumerate(stored):
        some = rows // height == number
        valid = row.valid
        if plan.pixel_type.has_alpha:
            valid = valid & (row.samples[:, :, -1] > 0)
        found += valid[rows[some] % height, columns[some]].tolist()
    return found


def check_provenance(
    configuration: Configuration,
    store: OutputStore,
    name: str,
    footprints: Mapping[str, str] | None = None,
    count: int = 10_000,
    seed: int = 0,
) -> int:
    """Compare random pixels with the sources, or with polygons; return how many were compared.

    The source of a pixel must have data there, and no source above it may surely have some: data,
    or an alpha that hides what is below, in all its pixels around the centre. Its values without
    data, its masks and its alpha are what the file says. Sources in another order than that of the
    build record, such as those of joined pyramids, are not compared with each other.

    With polygons, the number must be that of the last one that contains the centre. A pixel with
    data must have a number, unless no polygon contains it; of lossy tiles without masks, this is
    known only for polygons that were added to a pyramid.

    Args:
        configuration: its output and its access.
        store: the output, opened.
        footprints: as `read_footprints` takes them.
        count: pixels.

    Raises:
        VerificationError: pixels have wrong numbers; the message names some.
        BuildError: a document, a source or the polygons cannot be read, or a source has changed.
    """
    samples = Samples(store, name)
    path = configuration.output.path(f"{name}.json")
    pyramid = read_pyramid(store, configuration.output, path, configuration.access.plugins)
    plan = make_join_plan(changed(configuration, name=name), [pyramid])
    points = list(samples.draw(plan, count, seed))
    rows = {row["number"]: row for row in read_table(store, name)["sources"]}
    is_added = samples.record.root == f"{os.path.basename(name)}_sources"
    is_exact = "JPG" not in plan.pixel_type.format or plan.parts[next(plan.slabs(0))][0].masks
    if footprints is None:
        if is_added:
            raise PlanError(f"{name} has the numbers of polygons; state --footprints")
        record = read_record(store, name)
        listed = [] if record is None else record.facts["sources"]
        order = {one["path"]: one["identity"] for one in reversed(listed)}
        problems = list(_unlike_sources(samples.record, plan, points, configuration.access, order))
    else:
        crs, cell = proj_crs(plan.crs.code), plan.levels[0].matrix.cell_size
        problems = list(
            _unlike_polygons(footprints, crs, cell, samples.record, points, is_added=is_added)
        )
    if is_exact and not is_added:
        problems += [
            f"the pixel at {one.x:.3f}, {one.y:.3f} has data, but no number"
            for one in points
            if one.has_data and not one.number
        ]
    unknown = {one.number for one in points if one.number} - rows.keys()
    problems += [f"number {number} is not in the table" for number in sorted(unknown)]
    if problems:
        # Some of all sources.
        shown = problems[:: -(-len(problems) // 10)]
        more = [f"{len(problems)} in all"] if len(problems) > len(shown) else []
        raise VerificationError("\n".join([*shown, *more]))
    return len(points)


def _unlike_polygons(
    footprints: Mapping[str, str],
    crs: pyproj.CRS,
    cell: float,
    record: SourceRecord,
    points: Sequence[Point],
    *,
    is_added: bool,
) -> Iterator[str]:
    """Yield the pixels whose number is not that of the polygon around them.

    Args:
        is_added: whether all numbers are those of polygons.
    """
    polygons = read_footprints(footprints, crs, cell)
    x, y = np.array([point.x for point in points]), np.array([point.y for point in points])
    expected = np.full(len(points), -1)
    for number, polygon in enumerate(polygons):
        for part in polygon.geometry["coordinates"]:
            inside = np.zeros(len(points), bool)
            for ring in part:
                inside ^= _crossed(np.array(ring), x, y)
            expected[inside] = number
    keys = ["", *(one.key for one in polygons)]
    # Files without polygons in them are not compared.
    divided = {key.path for key in record.keys.values() if key.polygon in keys[1:]}
    for point, wanted in zip(points, expected.tolist(), strict=True):
        key = record.keys.get(point.number)
        where = f"the pixel at {point.x:.3f}, {point.y:.3f}"
        if is_added and point.has_data and wanted >= 0 and not point.number:
            yield f"{where} has data, and is in {polygons[wanted].facts['id']}, but has no number"
        elif is_added and point.number and not point.has_data:
            yield f"{where} has the number {point.number}, but no data"
        elif (
            point.number
            and (is_added or (key is not None and key.path in divided))
            and (key is None or key.polygon != keys[wanted + 1])
        ):
            name = polygons[wanted].facts["id"] if wanted >= 0 else "no polygon"
            yield f"{where} has the number {point.number}, but is in {name}"


def _crossed(
    ring: npt.NDArray[np.float64], x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]
) -> npt.NDArray[np.bool_]:
    """Return for which points a ray to the right crosses a ring an odd number of times."""
    inside = np.zeros(len(x), bool)
    for (x1, y1), (x2, y2) in pairwise(ring):
        between = (y1 > y) != (y2 > y)
        if between.any():
            inside ^= between & (x < x1 + (y - y1) / (y2 - y1) * (x2 - x1))
    return inside


def _unlike_sources(
    record: SourceRecord,
    plan: JoinPlan,
    points: Sequence[Point],
    access: Access,
    order: Mapping[str, str],
) -> Iterator[str]:
    """Yield the pixels whose source has no data there, or is covered by another one.

    Args:
        order: identities of all sources by their path, the uppermost first.
    """
    places = {path: -place for place, path in enumerate(order)}
    identities = {key.path: key.identity for key in record.keys.values()}
    known = {number: without_passwords(key.path) for number, key in record.keys.items()}
    paths = {without_passwords(path): path for path in identities}
    numbered = [(one, known[one.number]) for one in points if one.number in known]
    x, y = np.array([one.x for one, _ in numbered]), np.array([one.y for one, _ in numbered])
    heights = np.array([places.get(path, 1) for _, path in numbered])
    for shown in dict.fromkeys([*order, *sorted(known.values())]):
        path = paths.get(shown, shown)
        if path.endswith(".json"):
            continue  # a pyramid
        is_own = np.array([own == shown for _, own in numbered], bool)
        is_below = heights < places.get(shown, -len(order))
        if not (is_own | is_below).any():
            continue
        with closing(_opened(path, access, identities.get(path) or order.get(shown))) as dataset:
            file = _Sampled(dataset, plan)
            rows, columns, ratio = file.places(x, y)
            for place in np.flatnonzero((is_own | is_below) & np.isfinite(rows + columns)):
                point = numbered[place][0]
                at = int(np.floor(rows[place])), int(np.floor(columns[place]))
                where = f"the pixel at {point.x:.3f}, {point.y:.3f} has the number {point.number}"
                if is_own[place] and not file.alphas(at, ceil(_REACH * ratio)).any():
                    yield f"{where}, but {shown} has no data there"
                elif is_below[place] and (file.alphas(at, ceil(ratio)) >= _OPAQUE).all():
                    yield f"{where}, but {shown} has data there and is above it"


def _opened(path: str, access: Access, identity: str | None) -> Any:
    """Open a source, which must be that of the build."""
    try:
        dataset = open_dataset(path, access.with_sources([path]))
        is_file = identity is not None and os.path.isfile(path)
        if is_file and identity_of(path, dataset) != identity:
            dataset.close()
            raise BuildError(f"{path}: has changed since the build")
    except (SourceError, OSError) as error:
        raise BuildError(str(error)) from None
    return dataset


class _Sampled:
    """A source that is looked at here and there."""

    def __init__(self, dataset: Any, plan: JoinPlan) -> None:
        self._dataset = dataset
        crs = pyproj.CRS.from_wkt(dataset.crs.to_wkt())
        self._change = pyproj.Transformer.from_crs(proj_crs(plan.crs.code), crs, always_xy=True)
        self._cell = plan.levels[0].matrix.cell_size
        self._inverse = tuple(~dataset.transform)[:6]
        self._turn = 360 / abs(dataset.transform.a) if crs.is_geographic else 0.0

    def places(self, x: Floats, y: Floats) -> tuple[Floats, Floats, float]:
        """Return rows and columns of positions, and its pixels on a side of one of the level."""
        columns, rows = self._placed(x, y)
        right, down = self._placed(x + self._cell, y)
        steps = np.hypot(right - columns, down - rows)
        steps = steps[np.isfinite(steps) & (steps < max(self._dataset.shape))]
        if self._turn:
            columns = np.where(columns < -_REACH, columns + self._turn, columns)
            outside = columns > self._dataset.width + _REACH
            columns = np.where(outside, columns - self._turn, columns)
        return rows, columns, max(1.0, float(steps.max(initial=1.0)))

    def _placed(self, x: Floats, y: Floats) -> tuple[Floats, Floats]:
        a, b, c, d, e, f = self._inverse
        u, v = self._change.transform(x, y)
        return a * u + b * v + c, d * u + e * v + f

    def alphas(self, at: tuple[int, int], reach: int) -> npt.NDArray[np.uint8]:
        """Return the alpha of pixels around one; 0 outside the source, and where it has no data."""
        (row, column), side = at, 2 * reach + 1
        found = np.zeros((side, side), np.uint8)
        top, left = max(row - reach, 0), max(column - reach, 0)
        bottom = min(row + reach + 1, self._dataset.height)
        right = min(column + reach + 1, self._dataset.width)
        if top < bottom and left < right:
            part = np.s_[
                top - row + reach : bottom - row + reach,
                left - column + reach : right - column + reach,
            ]
            found[part] = self._dataset.dataset_mask(
                window=Window(left, top, right - left, bottom - top)
            )
        return found


def style_of(table: Mapping[str, Any], name: str, by: str) -> dict[str, Any]:
    """Return a style that colours source numbers.

    Args:
        table: of sources.
        name: of the pyramid.
        by: ``group``, ``year`` or ``source``.
    """
    values = {row["number"]: _value(row, by) for row in table["sources"]}
    known = sorted(set(values.values()))
    colours = [{"value": 0, "red": 0, "green": 0, "blue": 0, "alpha": 0}]
    for number, value in sorted(values.items()):
        place = known.index(value)
        if by == "year":
            hue = 0.66 * (1 - place / max(1, len(known) - 1))
        else:
            hue = place * 0.618033988749895 % 1
        brightness = 0.95 if value else 0.55
        red, green, blue = (
            round(255 * part) for part in colorsys.hsv_to_rgb(hue, 0.65, brightness)
        )
        colours.append({"value": number, "red": red, "green": green, "blue": blue, "alpha": 255})
    return {
        "identifier": f"{name}_sources_{by}",
        "title": f"Sources of {name} by {by}",
        "abstract": ", ".join(str(one) for one in known if one != "")[:400],
        "keywords": ["sources", by],
        "palette": {
            "no_alpha": False,
            "rgb_continuous": False,
            "alpha_continuous": False,
            "colours": colours,
        },
    }


def _value(row: Mapping[str, Any], by: str) -> str:
    if by == "source":
        return f"{row['number']:08}"
    if by == "year":
        return str(row.get("date") or row.get("start") or "")[:4]
    return str(row.get("group") or "")


def configuration_for(output: Destination, access: Access) -> Configuration:
    """Return a configuration that is about an output only."""
    return Configuration("-", output, (), access=access)
