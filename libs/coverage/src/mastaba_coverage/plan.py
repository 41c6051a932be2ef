"""What an extraction reads: the images of its file, and the tiles or cells of each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from mastaba.api.catalogue import TileLimits, TileMatrix
from mastaba_coverage.cells import Cells
from mastaba_coverage.grid import Coverage, CoverageGrid
from mastaba_coverage.tags import COMPRESSIONS

_SMALLEST: Final = 512
"""Cells of the longest side; a smaller image needs no overview."""
_ALWAYS_PADDED: Final = 4
"""Tiles that may precede the first one of an image so that overviews can be copied."""
_PADDED: Final = 8
"""The same, as the part of the image: one of eight."""
_ROUNDING: Final = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class ImagePlan:
    """One image of the file.

    Attributes:
        grid: the level.
        cells: its cells, some perhaps outside the level.
        is_copied: whether its tiles are those that are stored.
    """

    grid: CoverageGrid
    cells: Cells
    is_copied: bool

    @property
    def tiles(self) -> TileLimits:
        """The stored tiles that it touches, some perhaps outside the level."""
        matrix, cells = self.grid.matrix, self.cells
        return TileLimits(
            cells.top // matrix.tile_height,
            (cells.bottom - 1) // matrix.tile_height,
            cells.left // matrix.tile_width,
            (cells.right - 1) // matrix.tile_width,
        )


@dataclass(frozen=True, slots=True, eq=False)
class CoveragePlan:
    """What is in the file of a coverage.

    Attributes:
        coverage: the stored values.
        images: full resolution first, then overviews from fine to coarse.
        fields: names of the channels, in order.
        is_sparse: whether tiles without data are left out, as readers of COGs expect it.
    """

    coverage: Coverage
    images: tuple[ImagePlan, ...]
    fields: tuple[str, ...]
    is_sparse: bool

    @property
    def grid(self) -> CoverageGrid:
        """The grid of the full resolution."""
        return self.images[0].grid

    @property
    def cells(self) -> Cells:
        """The cells of the full resolution."""
        return self.images[0].cells

    def without_copies(self) -> CoveragePlan:
        """Return the plan of a file with the same cells, and without stored tiles."""
        images = tuple(replace(image, is_copied=False) for image in self.images)
        return replace(self, images=images)

    @classmethod
    def exact(
        cls,
        coverage: Coverage,
        grid: CoverageGrid,
        cells: Cells,
        fields: tuple[str, ...],
        *,
        copies: bool = True,
    ) -> CoveragePlan:
        """Return the plan of a file with exactly these cells.

        Tiles are copied if the first cell is the corner of a tile.

        Args:
            fields: names of channels; not all, or in another order, if tiles are not copied.
            copies: whether tiles may be copied.
        """
        matrix = grid.matrix
        is_corner = cells.top % matrix.tile_height == 0 == cells.left % matrix.tile_width
        is_copied = copies and is_corner and _is_copyable(coverage, fields)
        return cls(coverage, (ImagePlan(grid, cells, is_copied),), fields, False)

    @classmethod
    def cog(
        cls, coverage: Coverage, cells: Cells, fields: tuple[str, ...], *, copies: bool = True
    ) -> CoveragePlan:
        """Return the plan of a COG of the finest level that contains some cells.

        Its first cell is the corner of a tile, so it may begin before the cells. Overviews are
        the coarser levels, as far as their grids are nested.

        Args:
            fields, copies: as in `exact`.
        """
        chain = _nested(coverage)
        matrix = chain[0].matrix
        width, height = matrix.tile_width, matrix.tile_height
        row, col = cells.top // height, cells.left // width
        sides = cells.bottom - row * height, cells.right - col * width
        count = 0
        while count + 1 < len(chain) and max(sides) >> count > _SMALLEST:
            count += 1
        is_copied = copies and _is_copyable(coverage, fields)
        depth = next(
            depth
            for depth in range(count, -1, -1)
            if _is_near(row, sides[0], height, depth) and _is_near(col, sides[1], width, depth)
        )
        row, col = row >> depth << depth, col >> depth << depth
        hull = Cells(row * height, cells.bottom, col * width, cells.right)
        images = []
        for level, grid in enumerate(chain[: count + 1]):
            step = 1 << level
            if hull.top % step or hull.left % step:
                break
            top, left = hull.top >> level, hull.left >> level
            part = Cells(top, top - (-hull.rows // step), left, left - (-hull.columns // step))
            images.append(ImagePlan(grid, part, is_copied and level <= depth))
        return cls(coverage, tuple(images), fields, True)


def _is_copyable(coverage: Coverage, fields: tuple[str, ...]) -> bool:
    return coverage.layer.pyramid.format.codec in COMPRESSIONS and fields == coverage.fields


def _is_near(first: int, side: int, size: int, depth: int) -> bool:
    """Return whether few enough tiles precede a tile on the grid of an overview."""
    padding = first % (1 << depth)
    return padding <= max(_ALWAYS_PADDED, -(-side // size) // _PADDED)


def _nested(coverage: Coverage) -> list[CoverageGrid]:
    """Return the finest grid, and the coarser ones of which each has cells of 2 x 2."""
    grids = list(coverage.grids.values())[::-1]
    chain = grids[:1]
    for fine, coarse in pairwise(grids):
        if not _is_double(fine.matrix, coarse.matrix):
            break
        chain.append(coarse)
    return chain


def _is_double(fine: TileMatrix, coarse: TileMatrix) -> bool:
    return (
        abs(coarse.cell_size - 2 * fine.cell_size) <= _ROUNDING * fine.cell_size
        and (coarse.origin_x, coarse.origin_y) == (fine.origin_x, fine.origin_y)
        and (coarse.tile_width, coarse.tile_height) == (fine.tile_width, fine.tile_height)
    )
