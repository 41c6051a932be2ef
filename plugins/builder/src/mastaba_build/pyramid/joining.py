"""A pyramid from the slabs of others: its plan, and the pixels of slabs that several have."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from dataclasses import replace as changed
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mastaba_build.config.configuration import Configuration
from mastaba_build.errors import PlanError
from mastaba_build.output.source_records import SlabPosition
from mastaba_build.output.storage import OutputStore
from mastaba_build.pixels.numbering import OPAQUE
from mastaba_build.pixels.owners import Numbers
from mastaba_build.pixels.stored import SlabTiles, stored_rows
from mastaba_build.pixels.task import SlabResult
from mastaba_build.plan.fingerprints import Fingerprints
from mastaba_build.plan.levels import Level, union
from mastaba_build.plan.names import SOURCE, slab_key
from mastaba_build.plan.plan import Plan, SlabKey, encoder_of
from mastaba_build.plan.software import RASTER, installed
from mastaba_build.pyramid.joined_sources import SourcesOf, changed_numbers, decoder_of
from mastaba_build.pyramid.journal import Row
from mastaba_build.pyramid.stored import StoredPyramid, StoredSlab
from mastaba_build.samples import Raster, paste
from mastaba_build.sources.identity import Origin
from mastaba_build.sources.sets import load_set
from mastaba_writer.descriptor import nodata_text


class SourceSlab(NamedTuple):
    """A slab of a source.

    Attributes:
        holder: root that contains it, relative to the output.
        masks: whether it has a mask.
        pyramid: position of the pyramid that has it.
    """

    holder: str
    masks: bool
    pyramid: int


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class JoinPlan(Plan):
    """A build that links to slabs of pyramids, and composes those that several have.

    Attributes:
        parts: slabs of the sources at each place, the lowest first.
        alone: facts of the slabs that only one source has.
        numbered: the sources of each pyramid; empty without source numbers.
    """

    parts: Mapping[SlabKey, tuple[SourceSlab, ...]]
    alone: Mapping[SlabKey, StoredSlab]
    numbered: tuple[SourcesOf, ...] = ()

    def slabs(self, level: int) -> Iterator[SlabKey]:
        yield from sorted(slab for slab in self.parts if slab.level == level)

    def linked(self) -> dict[SlabKey, Row]:
        """Return the slabs that only one source has, as rows of a journal."""
        fingerprints = Fingerprints(self)
        rows = {}
        for slab, one in self.alone.items():
            result = SlabResult(slab, one.size, one.md5, None, one.tiles, one.limits, 0.0, "")
            rows[slab] = Row(result, fingerprints.of(slab), one.holder)
        return rows

    def place(self, slab: SlabKey) -> SlabPosition:
        """Return the place of a slab."""
        return SlabPosition(self.levels[slab.level].matrix.id, slab.column, slab.row)

    def of_alone(self) -> dict[SlabPosition, SourcesOf]:
        """Return the sources of the pyramids that alone have slabs, by the place of these."""
        if not self.numbered:
            return {}
        return {self.place(slab): self.numbered[self.parts[slab][0].pyramid] for slab in self.alone}


def make_join_plan(configuration: Configuration, pyramids: Sequence[StoredPyramid]) -> JoinPlan:
    """Return the plan that joins pyramids.

    Args:
        configuration: its options about pixels and slabs are replaced by those of the pyramids.
        pyramids: the lowest first.

    Raises:
        PlanError: the pyramids differ, one is given twice, or none has a slab; or their set is
            unknown.
    """
    first = pyramids[0]
    _check_alike(pyramids)
    configuration = configuration_like(
        configuration, first, masks=all(one.masks for one in pyramids)
    )
    tile_matrix_set, document = load_set(
        first.tile_matrix_set, configuration.tile_matrix_sets, configuration.access.plugins
    )
    ids = {level for one in pyramids for level in one.limits}
    for unknown in sorted(ids - tile_matrix_set.matrices.keys()):
        raise PlanError(f"level {unknown!r} is not in the tile matrix set {tile_matrix_set.id}")
    order = [matrix for matrix in tile_matrix_set.matrices.values() if matrix.id in ids][::-1]
    numbers = {matrix.id: number for number, matrix in enumerate(order)}
    levels = tuple(
        Level(
            matrix, union(one.limits[matrix.id] for one in pyramids if matrix.id in one.limits), 0
        )
        for matrix in order
    )
    parts: dict[SlabKey, tuple[SourceSlab, ...]] = {}
    alone: dict[SlabKey, StoredSlab] = {}
    for position, one in enumerate(pyramids):
        for (level, column, row), slab in one.slabs.items():
            key = SlabKey(numbers[level], column, row)
            below = parts.get(key, ())
            parts[key] = (*below, SourceSlab(slab.holder, one.masks, position))
            if below:
                alone.pop(key, None)
            else:
                alone[key] = slab
    if not parts:
        raise PlanError("the slab lists of the pyramids name no slab")
    encoder = encoder_of(configuration)
    software = installed((*RASTER, encoder))
    described = {
        "join": [[one.path, one.identity] for one in pyramids],
        "name": configuration.name,
        "tile_matrix_set": document,
        "pixel_type": asdict(first.pixel_type),
        "masks": configuration.masks,
        "software": software,
    }
    return JoinPlan(
        configuration,
        tile_matrix_set.crs,
        document,
        first.pixel_type,
        first.pixel_type,
        None,
        encoder,
        levels,
        (),
        (),
        software,
        hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest(),
        configuration.name,
        origins=tuple(Origin(one.path, one.identity) for one in pyramids),
        parts=parts,
        alone=alone,
        registration=first.registration,
    )


class JoinDrawer:
    """Composes the slabs of a plan that several sources have; has the methods of `Drawer`."""

    losses = ""

    def __init__(self, plan: JoinPlan) -> None:
        self._plan = plan
        self.payloads: Mapping[int, bytes] = {}
        self.numbers: Numbers | None = None
        self.table: npt.NDArray[np.uint32] | None = None
        if plan.provenance is not None:
            self.table = np.array([0, *plan.provenance.numbers], np.uint32)
            self._decoder = decoder_of(plan)

    def rows(self, slab: SlabKey) -> Iterator[Raster | None]:
        """Yield the rows of tiles of a slab, each as one image; None for those without data.

        Valid pixels of a later source replace those of an earlier one. With alpha, translucent
        pixels are blended.

        Raises:
            BuildError: a slab cannot be read or is damaged.
        """
        plan = self._plan
        has_alpha = plan.pixel_type.has_alpha
        with ExitStack() as stack:
            place = plan.configuration.output.open()
            stack.callback(place.close)
            layers = [
                stored_rows(plan, place.below(part.holder), slab, masks=part.masks)
                for part in plan.parts[slab]
            ]
            numbers = None
            if self.table is not None and plan.is_numbered(slab):
                numbers = [self._numbers(place, part, slab) for part in plan.parts[slab]]
            for number, rows in enumerate(zip(*layers, strict=True)):
                if numbers is not None:
                    self.numbers = _composed([one(number) for one in numbers], rows, has_alpha)
                lowest = rows[0]
                for upper in rows[1:]:
                    paste(lowest, upper, 0, 0, has_alpha=has_alpha)
                yield lowest

    def _numbers(
        self, store: OutputStore, part: SourceSlab, slab: SlabKey
    ) -> Callable[[int], Numbers]:
        """Return what returns the numbers of a row of tiles, as positions in the table."""
        plan = self._plan
        assert self.table is not None
        width, height = plan.configuration.slab
        matrix = plan.levels[slab.level].matrix
        sources = plan.numbered[part.pyramid]
        known = sources.slabs.get(plan.place(slab))
        tiles = None
        if known is not None:
            key = slab_key(plan, slab, SOURCE)
            tiles = SlabTiles(store.below(str(known.holder)), key, self._decoder, width * height)
        positions = {int(one): position for position, one in enumerate(self.table)}
        changes = {old: positions[new] for old, new in sources.numbers.items()}

        def row(number: int) -> Numbers:
            result = np.zeros((matrix.tile_height, width * matrix.tile_width), np.uint32)
            for column in range(width if tiles is not None else 0):
                assert tiles is not None
                tile = tiles.tile(number * width + column)
                if tile is not None:
                    left = column * matrix.tile_width
                    mapped = changed_numbers(tile[:, :, 0].astype(np.int64), changes)
                    result[:, left : left + matrix.tile_width] = mapped
            return result

        return row


def _composed(numbers: Sequence[Numbers], rows: Sequence[Raster], has_alpha: bool) -> Numbers:
    """Return the numbers of a row of tiles of several pyramids, the lowest first."""
    result = np.zeros_like(numbers[0])
    hidden = np.zeros(result.shape, bool)
    for own, row in zip(numbers, rows, strict=True):
        shown = row.valid
        if has_alpha:
            alpha = row.samples[:, :, -1]
            is_opaque = shown & (alpha >= OPAQUE)
            shown = is_opaque | (shown & (alpha > 0) & ~hidden)
            hidden |= is_opaque
        np.copyto(result, own, where=shown)
    return result


def configuration_like(
    configuration: Configuration, pyramid: StoredPyramid, *, masks: bool
) -> Configuration:
    """Return a configuration with the slabs and the pixels of a pyramid."""
    type_ = pyramid.pixel_type
    return changed(
        configuration,
        tile_matrix_set=pyramid.tile_matrix_set,
        format=type_.format,
        channels=type_.channels,
        nodata=type_.nodata,
        slab=pyramid.slab,
        path_depth=pyramid.path_depth,
        interpolation=pyramid.interpolation,
        masks=masks,
    )


def _check_alike(pyramids: Sequence[StoredPyramid]) -> None:
    """Check that slabs of one pyramid can be slabs of another one."""
    first = pyramids[0]
    known: dict[str, str] = {}
    for one in pyramids:
        if one.key in known:
            raise PlanError(f"{one.path}: is the same pyramid as {known[one.key]}")
        known[one.key] = one.path
        pairs = {
            "tile matrix set": (one.tile_matrix_set, first.tile_matrix_set),
            "format": (one.pixel_type.format, first.pixel_type.format),
            "number of channels": (one.pixel_type.channels, first.pixel_type.channels),
            "registration": (one.registration, first.registration),
            "nodata": (nodata_text(one.pixel_type.nodata), nodata_text(first.pixel_type.nodata)),
            "slab size": ("x".join(map(str, one.slab)), "x".join(map(str, first.slab))),
            "path depth": (one.path_depth, first.path_depth),
        }
        for what, (own, other) in pairs.items():
            if own != other:
                raise PlanError(
                    f"{one.path}: its {what} is {own}, and that of {first.path} is {other}; "
                    "mastaba build can merge such pyramids"
                )
