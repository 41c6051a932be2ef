"""How many slabs a plan has, and how large they may be."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

from mastaba.api.catalogue import BoundingBox, TileLimits, TileMatrix
from mastaba_build.config.configuration import Configuration
from mastaba_build.errors import PlanError
from mastaba_build.plan.levels import Level
from mastaba_build.samples import PixelType

_LARGEST_SLAB = (1 << 32) - 1
MOST_SLABS = 10_000_000


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


def largest_slab_of(
    configuration: Configuration, pixel_type: PixelType, levels: Sequence[Level]
) -> int:
    """Return the bytes that a slab may have at most."""
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
    if largest_slab_of(configuration, pixel_type, levels) > _LARGEST_SLAB:
        width, height = configuration.slab
        raise PlanError(f"slabs of {width} x {height} tiles can exceed 4 GiB; use smaller slabs")


def check_slab_count(
    configuration: Configuration,
    matrix: TileMatrix,
    boxes: Sequence[Sequence[BoundingBox]],
    parts: Sequence[Sequence[Sequence[BoundingBox]]],
) -> None:
    """Check that a level does not have too many slabs.

    Args:
        boxes: of each group, in the CRS of the matrix.
        parts: those of each member of each group.

    Raises:
        PlanError: it has.
    """

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
