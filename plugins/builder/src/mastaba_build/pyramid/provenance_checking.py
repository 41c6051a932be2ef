"""Compare source numbers of a pyramid with its sources or with polygons."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace as changed
from itertools import pairwise
from math import ceil
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyproj
from rasterio.windows import Window

from mastaba_build.config.access import Access
from mastaba_build.config.configuration import Configuration
from mastaba_build.errors import BuildError, PlanError, SourceError, VerificationError
from mastaba_build.output.source_records import SlabPosition, SourceRecord, read_source_record
from mastaba_build.output.storage import OutputStore
from mastaba_build.output.versions import (
    read_record,
)
from mastaba_build.pixels.stored import SlabTiles, stored_rows
from mastaba_build.plan.names import SOURCE, placed_key
from mastaba_build.plan.plan import SlabKey
from mastaba_build.pyramid.joined_sources import decoder_of
from mastaba_build.pyramid.joining import JoinPlan, make_join_plan
from mastaba_build.pyramid.provenance import (
    PYRAMID,
    read_table,
)
from mastaba_build.pyramid.publication import without_passwords
from mastaba_build.pyramid.stored import read_pyramid
from mastaba_build.sources.footprints import read_footprints
from mastaba_build.sources.inventory import identity_of, open_dataset
from mastaba_build.sources.sets import proj_crs

_REACH = 4.0
"""Pixels of the source, or of the level, from which a kernel may take a value."""
_OPAQUE = 160
"""Alpha from which on a source surely hides others, whatever the kernel does."""


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
            tiles = self._tiles(plan, SlabPosition(matrix.id, slab.column, slab.row))
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

    def _tiles(self, plan: JoinPlan, place: SlabPosition) -> SlabTiles | None:
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
