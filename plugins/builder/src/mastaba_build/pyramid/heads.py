"""The head of a pyramid, computed again: the levels above one whose slabs stay."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from dataclasses import replace as changed
from itertools import pairwise

from mastaba.api.catalogue import TileLimits, TileMatrix
from mastaba_build.config.configuration import Configuration
from mastaba_build.errors import PlanError
from mastaba_build.output.records import Record
from mastaba_build.plan.fingerprints import Fingerprints
from mastaba_build.plan.levels import Level
from mastaba_build.plan.plan import Plan, SlabKey, encoder_of
from mastaba_build.plan.software import RASTER, installed
from mastaba_build.pyramid.joining import configuration_like
from mastaba_build.pyramid.journal import Row, recorded_rows
from mastaba_build.pyramid.stored import StoredPyramid
from mastaba_build.sources.identity import Origin
from mastaba_build.sources.sets import box_factor, load_set


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class HeadPlan(Plan):
    """A build of the levels above a base level of a version, whose slabs are read.

    Attributes:
        base: position of the base level.
        kept: slabs of the base level and of finer ones.
    """

    base: int
    kept: Mapping[SlabKey, Row]

    def slabs(self, level: int) -> Iterator[SlabKey]:
        if level < self.base:
            return
        if level > self.base:
            yield from Plan.slabs(self, level)
            return
        yield from sorted(
            slab for slab, row in self.kept.items() if slab.level == level and row.result.size
        )

    def previous(self) -> dict[SlabKey, Row]:
        """Return the slabs of the base level as rows that the coordinator finds unchanged."""
        fingerprints = Fingerprints(self)
        return {
            slab: changed(
                self.kept[slab],
                result=changed(self.kept[slab].result, quarter=""),
                fingerprint=fingerprints.of(slab),
            )
            for slab in self.slabs(self.base)
        }


def make_head_plan(
    configuration: Configuration,
    pyramid: StoredPyramid,
    record: Record,
    base: str,
    top: str | None = None,
    decimation: str | None = None,
) -> HeadPlan:
    """Return the plan that computes the levels above a level of the published version.

    Args:
        configuration: its options about pixels and slabs are replaced by those of the pyramid.
        record: of the version.
        base: identifier of the level whose slabs are read.
        top: the coarsest level to compute; None for the coarsest of the pyramid.
        decimation: as in a build; None for that of the build record.

    Raises:
        PlanError: a level is unknown, or cannot be computed from the one below it.
    """
    decimation = decimation or str(record.facts.get("decimation", "average"))
    configuration = changed(
        configuration_like(configuration, pyramid, masks=pyramid.masks), decimation=decimation
    )
    tile_matrix_set, document = load_set(
        pyramid.tile_matrix_set, configuration.tile_matrix_sets, configuration.access.plugins
    )
    if base not in pyramid.limits:
        known = ", ".join(one for one in tile_matrix_set.matrices if one in pyramid.limits)
        raise PlanError(f"{configuration.name} has no level {base!r}; its levels are {known}")
    ordered = list(tile_matrix_set.matrices)
    coarsest = next(one for one in ordered if one in pyramid.limits)
    top = coarsest if top is None else top
    if top not in ordered:
        raise PlanError(f"level {top!r} is not in the tile matrix set {tile_matrix_set.id}")
    if ordered.index(top) > ordered.index(coarsest):
        raise PlanError(
            f"--top {top} is finer than {coarsest}, the coarsest level of {configuration.name}"
        )
    if top == base:
        raise PlanError(f"there is no level above {base}; name a coarser one with --top")
    above = [*tile_matrix_set.between(top, base)][::-1]
    finer = [
        tile_matrix_set.matrices[one]
        for one in ordered[ordered.index(base) + 1 :]
        if one in pyramid.limits
    ][::-1]
    levels = [Level(matrix, pyramid.limits[matrix.id], 0) for matrix in finer]
    levels += _heads(above, pyramid.limits[base])
    numbers = {level.matrix.id: number for number, level in enumerate(levels)}
    kept = recorded_rows(record, {one.id: numbers[one.id] for one in (*finer, above[0])})
    encoder = encoder_of(configuration)
    software = installed((*RASTER, encoder))
    described = {
        "head": [base, top, decimation],
        "tile_matrix_set": document,
        "pixel_type": asdict(pyramid.pixel_type),
        "slabs": [[*slab, row.result.size, row.result.md5] for slab, row in sorted(kept.items())],
        "encoder": encoder,
        "software": software,
    }
    return HeadPlan(
        configuration,
        tile_matrix_set.crs,
        document,
        pyramid.pixel_type,
        pyramid.pixel_type,
        None,
        encoder,
        tuple(levels),
        (),
        (),
        software,
        hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest(),
        configuration.name,
        origins=tuple(Origin(**one) for one in record.facts["sources"]),
        base=len(finer),
        kept=kept,
        registration=pyramid.registration,
    )


def _heads(matrices: list[TileMatrix], limits: TileLimits) -> Iterator[Level]:
    """Yield the base level and those above it."""
    level = Level(matrices[0], limits, 0)
    yield level
    for fine, coarse in pairwise(matrices):
        factor = box_factor(fine, coarse)
        if not factor:
            raise PlanError(
                f"level {coarse.id} cannot be computed from level {fine.id}: its pixels are not "
                "made of whole pixels; use mastaba build"
            )
        level = level.decimated(coarse, factor)
        yield level
