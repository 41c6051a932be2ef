"""How large the parts of a layer may be so that each of them can be sent as a COG."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from mastaba_coverage.answer import block_kind, count_of_tiles, fields_of
from mastaba_coverage.cells import Cells
from mastaba_coverage.masks import mask_fields
from mastaba_coverage.plan import MOST_COMPUTED, CoveragePlan
from mastaba_coverage.readers import has_masks

if TYPE_CHECKING:
    from mastaba_coverage.grid import Coverage
    from mastaba_coverage.limits import CoverageLimits
    from mastaba_coverage.plan import ImagePlan

_SIDE: Final = 512
"""Tiles of a side: the corner of a part is the corner of a tile of nine overviews."""
_GROWTH: Final = 1.5
"""Bytes of a stored tile, in those of its values: LZW has at most 12 bits for a byte."""
_PLACES: Final = 20
"""Bytes beside each tile: its offset and size in the head, and the size around it."""
_ENTRY: Final = 32
"""Bytes of an entry of a directory beside its values."""
_HEADER: Final = 1024
"""Bytes before the first directory."""


def side_of_parts(coverage: Coverage, limits: CoverageLimits) -> int:
    """Return the side of parts of the finest level that are within the limits, also with masks.

    Nothing is read, so this is about parts of which every tile is stored, and as large as tiles
    may be. The corners of parts are multiples of their side.

    Returns:
        Tiles: a power of two, 512 at most; 0 if a single tile may be too large.
    """
    side = _SIDE
    while side and not all(_fits(coverage, limits, side, number) for number in (0, _SIDE - 1)):
        side //= 2
    return side


def _fits(coverage: Coverage, limits: CoverageLimits, side: int, number: int) -> bool:
    """Return whether a part is within the limits.

    Args:
        number: row and column of the part. The first one has all overviews. That of an odd number
            has tiles before its corner, if it has more overviews than its side allows.
    """
    matrix = coverage.finest.matrix
    height, width = side * matrix.tile_height, side * matrix.tile_width
    top, left = number * height, number * width
    cells = Cells(top, top + height, left, left + width)
    plan = CoveragePlan.cog(coverage, cells, coverage.fields, most=MOST_COMPUTED)
    if has_masks(image.grid.reader for image in plan.images):
        plan = replace(plan, has_mask=True)
    return (
        count_of_tiles(plan) <= limits.tiles
        and sum(map(_slabs, plan.images)) * (1 + plan.has_mask) <= limits.indices
        and _size(plan) <= limits.stream_bytes
    )


def _slabs(image: ImagePlan) -> int:
    """Return the most slabs that as many tiles may be in, wherever they begin."""
    tiles = image.tiles
    height, width = block_kind(image.grid.reader).shape_of(image.grid.reader)
    is_aligned = image.sampling is None

    def count(first: int, last: int, side: int) -> int:
        number = last - first + 1
        if is_aligned and number % side == 0:
            return number // side
        return (number + side - 2) // side + 1

    return count(tiles.min_row, tiles.max_row, height) * count(tiles.min_col, tiles.max_col, width)


def _size(plan: CoveragePlan) -> int:
    """Return the most bytes of a file."""
    shape = plan.shape
    tile = shape.width * shape.height * len(plan.fields) * plan.coverage.dtype.itemsize
    size = _HEADER
    for image, fields in zip(plan.images, fields_of(plan), strict=True):
        count = shape.across(image.columns) * shape.down(image.rows)
        growth = _GROWTH if image.is_copied else 1
        size += count * (int(tile * growth) + _PLACES)
        size += sum(len(field.packed) + _ENTRY for field in fields)
        if plan.has_mask:
            size += count * (-(-shape.width // 8) * shape.height + _PLACES)
            size += sum(len(field.packed) + _ENTRY for field in mask_fields(plan, image))
    return size
