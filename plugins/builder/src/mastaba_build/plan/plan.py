"""What follows from a configuration and its sources: levels, slabs and their order."""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pyproj

from mastaba.api.catalogue import CRS, BoundingBox, TileLimits, TileMatrix
from mastaba_build.config.configuration import AUTO, FACTS, Configuration
from mastaba_build.config.schema import build_schema
from mastaba_build.errors import PlanError
from mastaba_build.plan.levels import Level, around, levels_of, pixel_sizes
from mastaba_build.plan.pixel_types import pixel_type_of, styling_of
from mastaba_build.plan.provenance import Provenance
from mastaba_build.plan.sizes import check_largest_slab, check_slab_count, slabs_of
from mastaba_build.plan.software import RASTER, installed
from mastaba_build.plan.styling import Styling
from mastaba_build.samples import PixelType
from mastaba_build.sources.coverage import Samples, samples_of_groups
from mastaba_build.sources.groups import Group, footprints, groups_of
from mastaba_build.sources.identity import Origin
from mastaba_build.sources.inventory import sources_of
from mastaba_build.sources.listing import with_access
from mastaba_build.sources.native_set import with_set
from mastaba_build.sources.sets import SetExtent
from mastaba_build.sources.source import Source
from mastaba_writer.deflate import default_encoder, deflater

_MIXED = 2.0
"""Ratio of pixel sizes from which on the user is warned."""
_MEANS = 2 - 1e-6
"""Source pixels on a side of a pixel from which on whole ones are averaged."""


class SlabKey(NamedTuple):
    """A slab: the position of its level in the plan, its slab column and its slab row."""

    level: int
    column: int
    row: int


class Terms(NamedTuple):
    """What a build asks of a service.

    Attributes:
        requests: for all slabs, without repeated ones.
        concurrency: requests at a time, at most.
        pause: seconds after a request before the next one of the same thread.
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
        """What is requested from a service; None if the sources are not one."""
        return None

    def requests(self, level: int) -> int:
        """Return the number of requests to a service for a level."""
        return 0

    def described(self, slab: SlabKey) -> list[Any]:
        """Return on what pixels of a slab depend in addition to options, groups and children."""
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
    sources = sources_of(configuration)
    styling = styling_of(configuration, sources)
    configuration, tile_matrix_set, document = with_set(configuration, sources)
    extent = SetExtent.of(tile_matrix_set)
    pixel_type = pixel_type_of(configuration, sources, styling)
    groups = groups_of(sources)
    pieces, parts = footprints(groups, extent)
    boxes = tuple(map(around, pieces))
    resolutions = pixel_sizes(groups, pieces, tile_matrix_set.crs)
    levels = levels_of(
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
    check_slab_count(configuration, levels[0].matrix, pieces, parts)
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
    """Return the options on which the pixels of every slab depend, in addition to the sources."""
    values = _pixel_relevant(configuration)
    for key in ("name", "sources", "bottom", "top"):
        del values[key]
    return values


def morton(column: int, row: int) -> bytes:
    """Return a key that sorts slabs along a Z curve."""
    bits = "".join(a + b for a, b in zip(f"{row:032b}", f"{column:032b}", strict=True))
    return struct.pack(">Q", int(bits, 2))
