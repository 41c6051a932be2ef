"""What follows from a configuration and its sources: levels, slabs and their order."""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from itertools import chain, pairwise
from typing import Any, NamedTuple

import numpy as np
import pyproj

from mastaba.api.catalogue import CRS, BoundingBox, TileLimits, TileMatrix, TileMatrixSet
from mastaba_build.config.configuration import AUTO, FACTS, Configuration
from mastaba_build.config.schema import build_schema
from mastaba_build.errors import PlanError
from mastaba_build.plan.provenance import Provenance
from mastaba_build.plan.software import RASTER, installed
from mastaba_build.plan.styling import Styling, load_styling
from mastaba_build.samples import PixelType
from mastaba_build.sources.coverage import Samples, samples_of_groups
from mastaba_build.sources.groups import Group, footprints, groups_of, to_group
from mastaba_build.sources.identity import Origin
from mastaba_build.sources.inventory import Source, inventory
from mastaba_build.sources.listing import with_access
from mastaba_build.sources.native_set import with_set
from mastaba_build.sources.sets import SetExtent, box_factor
from mastaba_build.sources.turns import in_nearest_turn, period_of
from mastaba_writer.deflate import default_encoder, deflater
from mastaba_writer.descriptor import nodata_values
from mastaba_writer.tile_encoder import TILE_FORMATS, TileFormat

_LARGEST_SLAB = (1 << 32) - 1
MOST_SLABS = 10_000_000
_MIXED = 2.0
"""Ratio of pixel sizes from which on the user is told."""
_MEANS = 2 - 1e-6
"""Source pixels on a side of a pixel from which on whole ones are averaged."""
_FORMATS = {
    name.lower(): f"TIFF_{name}" for name in ("RAW", "ZIP", "LZW", "PKB", "PNG", "JPG", "JPG90")
}


class SlabKey(NamedTuple):
    """A slab: the position of its level in the plan, its slab column and its slab row."""

    level: int
    column: int
    row: int


@dataclass(frozen=True, slots=True)
class Level:
    """One level of a plan.

    Attributes:
        matrix: of the tile matrix set.
        limits: tiles that sources may touch.
        factor: pixels of the next finer level on a side of a pixel; 0 if the pixels come from the
            sources.
    """

    matrix: TileMatrix
    limits: TileLimits
    factor: int

    @property
    def from_sources(self) -> bool:
        """Whether the pixels come from the sources, and not from the next finer level."""
        return self.factor == 0


class Terms(NamedTuple):
    """What a build asks of a service.

    Attributes:
        requests: for all slabs, without repeated ones.
        concurrency: requests at a time, at most.
        pause: seconds between two requests of one connection.
    """

    requests: int
    concurrency: int
    pause: float

    @property
    def seconds(self) -> float:
        """Seconds of the pauses alone."""
        return self.requests * self.pause / self.concurrency


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """A build: everything that its pixels depend on.

    Attributes:
        crs: CRS of the tile matrix set.
        pixel_type: stored pixels.
        source_type: pixels before the style; the stored ones without a style.
        levels: from the finest to the coarsest.
        groups: images, the lowest first; `boxes` are their extents in the CRS of the set.
        software: versions of the libraries that the bytes depend on.
        identity: SHA-256 of the configuration, the sources and the versions of the software.
        root: directory or prefix of the slabs below the output.
        registration: ``post`` if the values of the finest level are those of points, else ``area``.
        samples: of the sources, which must be in the pixels; None without any.
        member_boxes: extents of the members of each group, several across the antimeridian, none
            outside the set.
        origins: what is imported or joined, instead of `groups`.
        provenance: the numbers of the sources; None if no slabs of numbers are written.
    """

    configuration: Configuration
    crs: CRS
    set_document: dict[str, Any]
    pixel_type: PixelType
    source_type: PixelType
    styling: Styling | None
    encoder: str
    levels: tuple[Level, ...]
    groups: tuple[Group, ...]
    boxes: tuple[BoundingBox, ...]
    software: Mapping[str, str]
    identity: str
    root: str
    member_boxes: tuple[tuple[tuple[BoundingBox, ...], ...], ...] = ()
    samples: Samples | None = None
    registration: str = "area"
    origins: tuple[Origin, ...] = ()
    provenance: Provenance | None = None

    @property
    def sources(self) -> list[Any]:
        """Return each `Source` of the groups, or the origins."""
        return list(self.origins) or [
            member.source for group in self.groups for member in group.members
        ]

    @property
    def is_vector(self) -> bool:
        """Whether the tiles are vector tiles."""
        return False

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know before the build, one sentence each."""
        notes: list[str] = []
        sources = [member.source for group in self.groups for member in group.members]
        if self.samples is not None:
            notes += self.samples.notes(sources, self.configuration.tile_matrix_set)
        sizes = [
            (math.sqrt((box.xmax - box.xmin) * (box.ymax - box.ymin) / group.width / group.height))
            for group, box in zip(self.groups, self.boxes, strict=True)
        ]
        if sizes and max(sizes) > _MIXED * min(sizes):
            coarse = self.groups[sizes.index(max(sizes))]
            notes.append(
                f"the pixels of {coarse.name} are {max(sizes) / min(sizes):.1f} times as large as "
                "the finest ones; all sources are drawn on the same levels"
            )
        if self.configuration.registration is None and self.styling is None:
            posts = [one for one in sources if one.registration == "post"]
            if posts and len(posts) < len(sources):
                notes.append(
                    f"the values of {posts[0].path} are those of points, those of other sources of "
                    "areas; the pyramid says area, or state --registration"
                )
        palettes = [source for source in sources if source.palette]
        if palettes and self.configuration.decimation == "average" and self.styling is None:
            notes.append(
                f"the colours of the palette of {palettes[0].path} are mixed; for classes, use "
                "--interpolation nn --decimation mode"
            )
        notes += _units_of_heights(sources, self.pixel_type)
        if self.configuration.top_only:
            notes.append(
                f"the finest level is {self.levels[0].matrix.id}; publish the level below it from "
                "the sources, as a second entry of the layer"
            )
        return tuple(notes)

    @property
    def terms(self) -> Terms | None:
        """What is asked of a service; None if the sources are not one."""
        return None

    def requests(self, level: int) -> int:
        """Return the number of requests to a service for a level."""
        return 0

    def described(self, slab: SlabKey) -> list[Any]:
        """Return what the pixels of a slab depend on, besides options, groups and children."""
        if self.provenance is None or not (self.provenance.polygons and self.is_numbered(slab)):
            return []
        (width, height), (level, column, row) = self.configuration.slab, slab
        tiles = TileLimits(
            row * height, (row + 1) * height - 1, column * width, (column + 1) * width - 1
        )
        box = self.levels[level].matrix.bbox_of(tiles)
        return [self.provenance.polygons[one].key for one in self.provenance.near(box)]

    def is_numbered(self, slab: SlabKey) -> bool:
        """Return whether a slab of source numbers is written beside one of pixels."""
        return (
            self.provenance is not None
            and self.levels[slab.level].matrix.id in self.provenance.levels
        )

    def layer_fields(self) -> dict[str, Any]:
        """Return the fields of the layer descriptor that depend on the kind of tiles."""
        is_nearest = self.configuration.interpolation == "nn"
        return {"styles": ["normal"], "resampling": "nn" if is_nearest else "bicubic"}

    def tables(self, level: str) -> list[dict[str, Any]]:
        """Return the tables of a level of a vector pyramid."""
        return []

    def slabs(self, level: int) -> Iterator[SlabKey]:
        """Yield the slabs of a level that may contain data."""
        factor = self.levels[level].factor
        if factor:
            below = self.slabs(level - 1)
            yield from sorted(
                {SlabKey(level, key.column // factor, key.row // factor) for key in below}
            )
            return
        found: set[SlabKey] = set()
        matrix = self.levels[level].matrix
        for box in chain.from_iterable(chain.from_iterable(self.member_boxes)):
            limits = matrix.limits_of(self.widened(box, matrix))
            if limits is not None:
                rows, columns = slabs_of(limits, self.configuration.slab)
                found.update(SlabKey(level, column, row) for row in rows for column in columns)
        yield from sorted(found)

    def widened(self, box: BoundingBox, matrix: TileMatrix) -> BoundingBox:
        """Return a box with a margin of one pixel, in which a kernel may still find data."""
        cell = matrix.cell_size
        return BoundingBox(box.xmin - cell, box.ymin - cell, box.xmax + cell, box.ymax + cell)

    def parent(self, key: SlabKey) -> SlabKey | None:
        """Return the slab that is computed from this one and its neighbours, if any."""
        above = key.level + 1
        if above == len(self.levels) or self.levels[above].from_sources:
            return None
        factor = self.levels[above].factor
        return SlabKey(above, key.column // factor, key.row // factor)

    def children(self, key: SlabKey) -> list[SlabKey]:
        """Return the slabs whose quarter images make this one; none for a bottom slab."""
        factor = self.levels[key.level].factor
        return [
            SlabKey(key.level - 1, factor * key.column + right, factor * key.row + down)
            for down in range(factor)
            for right in range(factor)
        ]


def _units_of_heights(sources: Sequence[Source], pixel_type: PixelType) -> list[str]:
    """Return a note if heights are not in metres, by the vertical CRS of a source."""
    if pixel_type.dtype != np.float32:
        return []
    for source in sources:
        parts = pyproj.CRS.from_wkt(source.crs).sub_crs_list
        units = {axis.unit_name for part in parts[1:] for axis in part.axis_info} - {"metre"}
        if units:
            return [
                f"the heights of {source.path} are in {units.pop()}, and stay so; the elevation "
                "services expect metres: convert them with gdal_calc.py"
            ]
    return []


def make_plan(configuration: Configuration) -> Plan:
    """Return the plan of a configuration; the sources are opened, but no pixel is read.

    Raises:
        PlanError: a source, the tile matrix set or an option does not fit.
    """
    configuration = with_access(configuration)
    sources = [
        source
        for options in configuration.sources
        for source in inventory(options, configuration.access, configuration.tile_matrix_sets)
    ]
    styling = _styling(configuration, sources)
    configuration, tile_matrix_set, document = with_set(configuration, sources)
    extent = SetExtent.of(tile_matrix_set)
    pixel_type = _pixel_type(configuration, sources, styling)
    groups = groups_of(sources)
    pieces, parts = zip(*(footprints(group, extent) for group in groups), strict=True)
    boxes = tuple(map(around, pieces))
    resolutions = [
        _resolution(group, some, tile_matrix_set.crs)
        for group, some in zip(groups, pieces, strict=True)
    ]
    levels = _levels(
        configuration, tile_matrix_set, min(resolutions), list(chain.from_iterable(pieces))
    )
    samples = samples_of_groups(groups, extent)
    stray = samples.beyond(list(chain.from_iterable(parts)))
    if stray is not None:
        raise PlanError(
            f"{sources[samples[stray].source].path}: its extent in the tile matrix set "
            f"{tile_matrix_set.id} is not known well enough; reproject it with gdalwarp"
        )
    encoder = encoder_of(configuration)
    check_largest_slab(configuration, pixel_type, levels)
    software = installed((*RASTER, encoder))
    _check_slab_count(configuration, levels[0].matrix, pieces, parts)
    described = {
        "version": 1,
        "configuration": _pixel_relevant(configuration),
        "tile_matrix_set": document,
        "pixel_type": asdict(pixel_type),
        "levels": [(level.matrix.id, asdict(level.limits), level.factor) for level in levels],
        "sources": [source.described() for source in sources],
        "encoder": (encoder, software[encoder]),
        "software": software,
    }
    registration = _registration(configuration, sources, styling)
    if levels[0].matrix.cell_size / min(resolutions) >= _MEANS:
        registration = "area"
    if registration != "area":
        described["registration"] = registration
    text = json.dumps(described, sort_keys=True)
    return Plan(
        configuration,
        tile_matrix_set.crs,
        document,
        pixel_type,
        pixel_type if styling is None else styling.source,
        styling,
        encoder,
        tuple(levels),
        tuple(groups),
        boxes,
        software,
        hashlib.sha256(text.encode()).hexdigest(),
        configuration.name,
        parts,
        samples,
        registration,
    )


def _registration(
    configuration: Configuration, sources: Sequence[Source], styling: Styling | None
) -> str:
    """Return the registration of the values of sources: their common one, or ``area``."""
    if styling is not None:
        return "area"
    found = {source.registration for source in sources}
    return configuration.registration or (found.pop() if len(found) == 1 else "area")


def slabs_of(limits: TileLimits, slab: tuple[int, int]) -> tuple[range, range]:
    """Return the rows and the columns of the slabs that contain tiles.

    Args:
        slab: width and height of a slab in tiles.
    """
    width, height = slab
    return (
        range(limits.min_row // height, limits.max_row // height + 1),
        range(limits.min_col // width, limits.max_col // width + 1),
    )


def encoder_of(configuration: Configuration) -> str:
    """Return the name of the encoder that a build uses.

    Raises:
        PlanError: it is unknown or not installed.
    """
    encoder = default_encoder() if configuration.encoder == AUTO else configuration.encoder
    try:
        deflater(encoder)
    except ValueError as error:
        raise PlanError(str(error)) from None
    return encoder


def _pixel_relevant(configuration: Configuration) -> dict[str, Any]:
    options = build_schema()["properties"]
    values = {
        key: value
        for key, value in asdict(configuration).items()
        if key in options and options[key].get("x-pixels", True)
    }
    values["sources"] = [
        {name: value for name, value in source.items() if name not in FACTS}
        for source in values["sources"]
    ]
    if values["empty_tiles"] == "skip":
        del values["empty_tiles"]  # the default does not change pyramids of earlier versions
    if configuration.style is not None:  # which `load_styling` has read
        values["style"] = configuration.style.read_text("utf-8")
    return values


def slab_options(configuration: Configuration) -> dict[str, Any]:
    """Return the options on which the pixels of every slab depend, besides the sources."""
    values = _pixel_relevant(configuration)
    for key in ("name", "sources", "bottom", "top"):
        del values[key]
    return values


def _is_float(source: Source) -> bool:
    return source.dtype != "uint8" and source.scale is None and not source.palette


def _styling(configuration: Configuration, sources: Sequence[Source]) -> Styling | None:
    if configuration.style is None:
        return None
    styling = load_styling(
        configuration.style,
        configuration.access.plugins,
        is_float=any(map(_is_float, sources)),
    )
    if styling.source.channels == 1:
        for source in sources:
            if source.colours > 1:
                raise PlanError(f"{source.path}: the style needs one band; choose it with --bands")
    if styling.encodes_numbers and configuration.decimation == "average":
        raise PlanError(
            f"{configuration.style}: its colours encode numbers, which have no mean; "
            "use --decimation nn"
        )
    return styling


def _pixel_type(
    configuration: Configuration, sources: Sequence[Source], styling: Styling | None
) -> PixelType:
    if styling is None:
        is_float = any(map(_is_float, sources))
        has_alpha = any(source.alpha for source in sources)
    else:
        is_float, has_alpha = styling.is_float, styling.channels in (2, 4)
    name = configuration.format
    if name == AUTO:
        name = "zip" if is_float else "png" if has_alpha else "jpg"
    name, properties = format_named(name, is_float=is_float)
    if properties.dtype == np.uint8 and styling is None:
        for source in sources:
            if _is_float(source):
                raise PlanError(
                    f"{source.path}: samples of type {source.dtype} do not fit into {name}; state "
                    "the values that become 0 and 255 with --scale MIN,MAX, or use --format zip"
                )
    if properties.dtype == np.float32 and styling is None:
        for source in sources:
            if source.colours > 1:
                raise PlanError(
                    f"{source.path}: has 3 colours of type {source.dtype}, and {name} stores one "
                    "value per pixel; choose a band, as with --bands 1, or state the values that "
                    "become 0 and 255 with --scale MIN,MAX"
                )
    channels = configuration.channels or (
        _channels(sources, properties.channels)
        if styling is None
        else _nearest(styling.channels, properties.channels)
    )
    return type_of(configuration, name, channels)


def format_named(name: str, *, is_float: bool) -> tuple[str, TileFormat]:
    """Return the full name of a format of images, and its properties.

    Raises:
        PlanError: it is unknown.
    """
    if name in _FORMATS:
        suffix = "FLOAT32" if is_float and name not in ("png", "jpg", "jpg90") else "UINT8"
        name = f"{_FORMATS[name]}_{suffix}"
    properties = TILE_FORMATS.get(name)
    if properties is None or properties.dtype is None:
        raise PlanError(f"unknown format {name!r}; use {', '.join(_FORMATS)} or a full name")
    return name, properties


def type_of(configuration: Configuration, name: str, channels: int) -> PixelType:
    """Return the stored pixels of a format, with the options of a configuration.

    Raises:
        PlanError: they do not fit.
    """
    properties = TILE_FORMATS[name]
    if channels not in properties.channels:
        allowed = ", ".join(map(str, sorted(properties.channels)))
        raise PlanError(f"{name} cannot store {channels} channels; use {allowed}")
    try:
        nodata = nodata_values(name, channels, configuration.nodata)
    except ValueError as error:
        raise PlanError(f"nodata: {error}") from None
    if configuration.nodata is None and channels in (2, 4):
        nodata = [0] * channels
    if properties.dtype == np.uint8 and not all(0 <= value <= 255 for value in nodata):
        raise PlanError(f"nodata: {name} stores values from 0 to 255")
    if configuration.protect_nodata and (
        properties.dtype != np.uint8 or channels in (2, 4) or "JPG" in name
    ):
        raise PlanError(
            "--protect-nodata is for PNG, ZIP and other lossless formats of 8 bits without alpha; "
            f"{name} with {channels} channels is not one"
        )
    return PixelType(name, channels, tuple(map(float, nodata)), configuration.protect_nodata)


def _channels(sources: Sequence[Source], allowed: frozenset[int]) -> int:
    colours = max(source.colours for source in sources)
    alpha = any(source.alpha for source in sources)
    wanted = colours + 1 if alpha and colours + 1 in allowed else colours
    return _nearest(wanted, allowed)


def _nearest(wanted: int, allowed: frozenset[int]) -> int:
    return min(allowed, key=lambda one: abs(one - wanted))


def _levels(
    configuration: Configuration,
    tile_matrix_set: TileMatrixSet,
    resolution: float,
    extents: Sequence[BoundingBox],
) -> list[Level]:
    """Return the levels of a plan, the finest first.

    Args:
        resolution: of the finest group, in units of the set.
        extents: of all groups.
    """
    ordered = list(tile_matrix_set.matrices.values())
    for key in (configuration.bottom, configuration.top):
        if key != AUTO and key not in tile_matrix_set.matrices:
            raise PlanError(f"level {key!r} is not in the tile matrix set {tile_matrix_set.id}")
    bottom = configuration.bottom
    if bottom == AUTO:
        fitting = [matrix for matrix in ordered if resolution / matrix.cell_size >= 0.8]
        bottom = fitting[0].id if fitting else ordered[-1].id
    if configuration.top_only:
        bottom = _above(tile_matrix_set, bottom)
    top = ordered[0].id if configuration.top == AUTO else configuration.top
    chosen = tile_matrix_set.between(top, bottom)[::-1]
    if not chosen:
        raise PlanError(f"top level {top} is finer than bottom level {bottom}; exchange them")
    factors = [0, *[box_factor(fine, coarse) for fine, coarse in pairwise(chosen)]]
    limits = [matrix.limits_of(box) for matrix in chosen for box in extents]
    levels = []
    for number, (matrix, factor) in enumerate(zip(chosen, factors, strict=True)):
        of_level = limits[number * len(extents) : (number + 1) * len(extents)]
        touched = [one for one in of_level if one is not None]
        if not touched:
            raise PlanError(f"no source is inside level {matrix.id} of {tile_matrix_set.id}")
        levels.append(Level(matrix, union(touched), factor))
    return levels


def _above(tile_matrix_set: TileMatrixSet, level: str) -> str:
    """Return the level above the one that the sources themselves have.

    Raises:
        PlanError: there is none.
    """
    names = list(tile_matrix_set.matrices)
    place = names.index(level)
    if not place:
        raise PlanError(f"no level of {tile_matrix_set.id} is above {level}, that of the sources")
    return names[place - 1]


def around(boxes: Sequence[BoundingBox]) -> BoundingBox:
    """Return the smallest box around some, at least one."""
    if len(boxes) == 1:
        return boxes[0]
    return BoundingBox(
        min(box.xmin for box in boxes),
        min(box.ymin for box in boxes),
        max(box.xmax for box in boxes),
        max(box.ymax for box in boxes),
    )


def _area(box: BoundingBox) -> float:
    return (box.xmax - box.xmin) * (box.ymax - box.ymin)


def union(limits: Iterable[TileLimits]) -> TileLimits:
    """Return the smallest limits that contain some, at least one."""
    some = list(limits)
    if len(some) == 1:
        return some[0]
    rows, last_rows, columns, last_columns = zip(*map(astuple, some), strict=True)
    return TileLimits(min(rows), max(last_rows), min(columns), max(last_columns))


def _resolution(group: Group, boxes: Sequence[BoundingBox], crs: CRS) -> float:
    """Return the geometric mean of the pixel size at the centre of a group, in units of the set."""
    back, box = to_group(group, crs), max(boxes, key=_area)
    x, y = (box.xmin + box.xmax) / 2, (box.ymin + box.ymax) / 2
    step = max(box.xmax - box.xmin, box.ymax - box.ymin) / 1000
    places = np.array([x, x + step, x]), np.array([y, y, y + step])
    xs, ys = places if back is None else back.transform(*places)
    right, down = in_nearest_turn(xs[1:] - xs[0], period_of(group.crs)).tolist()
    area = abs(right * (ys[2] - ys[0]) - down * (ys[1] - ys[0]))
    if not math.isfinite(area) or area == 0:
        raise PlanError(f"{group.name}: its resolution in the set is unknown; state --bottom")
    return math.sqrt(group.members[0].source.pixel_area / area) * step


def largest_slab(plan: Plan) -> int:
    """Return the bytes that a slab of a plan may have at most."""
    return _largest_slab(plan.configuration, plan.pixel_type, plan.levels)


def _largest_slab(
    configuration: Configuration, pixel_type: PixelType, levels: Sequence[Level]
) -> int:
    width, height = configuration.slab
    matrix = levels[0].matrix
    tile = matrix.tile_width * matrix.tile_height * pixel_type.channels * pixel_type.dtype.itemsize
    # No compression makes a tile more than a quarter larger.
    return 2048 + width * height * (8 + tile + tile // 4 + 4096)


def check_largest_slab(
    configuration: Configuration, pixel_type: PixelType, levels: Sequence[Level]
) -> None:
    """Check that no slab can exceed what its index can contain.

    Raises:
        PlanError: one can.
    """
    if _largest_slab(configuration, pixel_type, levels) > _LARGEST_SLAB:
        width, height = configuration.slab
        raise PlanError(f"slabs of {width} x {height} tiles can exceed 4 GiB; use smaller slabs")


def _check_slab_count(
    configuration: Configuration,
    matrix: TileMatrix,
    boxes: Sequence[Sequence[BoundingBox]],
    parts: Sequence[Sequence[Sequence[BoundingBox]]],
) -> None:
    def count(some: Iterable[BoundingBox]) -> int:
        limits = [matrix.limits_of(box) for box in some]
        slabs = [slabs_of(one, configuration.slab) for one in limits if one is not None]
        return sum(len(rows) * len(columns) for rows, columns in slabs)

    # Members may overlap, and there may be gaps between them.
    most = sum(
        count(some) if len(members) == 1 else min(count(some), count(chain.from_iterable(members)))
        for some, members in zip(boxes, parts, strict=True)
    )
    if most > MOST_SLABS:
        raise PlanError(
            f"level {matrix.id} would need {most} slabs; use larger slabs or a coarser --bottom"
        )


def morton(column: int, row: int) -> bytes:
    """Return a key that sorts slabs along a Z curve."""
    bits = "".join(a + b for a, b in zip(f"{row:032b}", f"{column:032b}", strict=True))
    return struct.pack(">Q", int(bits, 2))
