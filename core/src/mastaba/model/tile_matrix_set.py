"""Tile matrix sets: regular grids of tiles in one CRS (tilematrixset.md)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from types import MappingProxyType
from typing import Final

from mastaba.model.bbox import BoundingBox
from mastaba.model.crs import CRS

PIXEL_SIZE: Final = 0.00028
"""Metres; the standardized pixel size for scale denominators in OGC standards."""

COARSEST: Final = 0.8
"""Pixels may be larger than wanted by a factor of 1 / 0.8 (resampling.md section 3)."""

# Tolerance, as a fraction of a tile, for rounding errors at tile edges.
_EDGE: Final = 1e-9
# Fraction of a tile by which a full turn may differ from a whole number of tiles.
_WHOLE: Final = 1e-6


@dataclass(frozen=True, slots=True)
class TileLimits:
    """The range of tiles in one matrix; all four indices are inclusive.

    Attributes:
        min_row: first row, counted downward from the top of the matrix.
        max_row: last row.
        min_col: first column, counted from the left of the matrix.
        max_col: last column.
    """

    min_row: int
    max_row: int
    min_col: int
    max_col: int

    def contains(self, tile_row: int, tile_col: int) -> bool:
        """Return whether a tile is in the range."""
        return self.min_row <= tile_row <= self.max_row and self.min_col <= tile_col <= self.max_col

    def intersection(self, other: TileLimits) -> TileLimits | None:
        """Return the common tiles, or None if there are none."""
        min_row, max_row = max(self.min_row, other.min_row), min(self.max_row, other.max_row)
        min_col, max_col = max(self.min_col, other.min_col), min(self.max_col, other.max_col)
        if min_row > max_row or min_col > max_col:
            return None
        return TileLimits(min_row, max_row, min_col, max_col)


@dataclass(frozen=True, slots=True)
class TileMatrix:
    """One grid of a tile matrix set.

    Attributes:
        id: identifier in requests and descriptors.
        cell_size: size of a pixel on both axes, in CRS units.
        origin_x: easting or longitude of the upper left corner, in CRS units.
        origin_y: northing or latitude of the upper left corner, in CRS units.
        tile_width: pixels.
        tile_height: pixels.
        matrix_width: tiles.
        matrix_height: tiles.
    """

    id: str
    cell_size: float
    origin_x: float
    origin_y: float
    tile_width: int
    tile_height: int
    matrix_width: int
    matrix_height: int

    def suits(self, resolution: float) -> bool:
        """Return whether pixels are at most 1.25 times too large for a resolution, CRS units."""
        return resolution / self.cell_size >= COARSEST

    def tiles_around(self, turn: float) -> int:
        """Return the number of tiles in a full turn of the Earth; 0 if columns do not repeat there.

        Args:
            turn: along x, CRS units; infinite if there is none.
        """
        tiles = turn / (self.tile_width * self.cell_size)
        return round(tiles) if math.isfinite(tiles) and abs(tiles - round(tiles)) < _WHOLE else 0

    @property
    def all_tiles(self) -> TileLimits:
        """The limits of the whole matrix."""
        return TileLimits(0, self.matrix_height - 1, 0, self.matrix_width - 1)

    def bbox_of(self, limits: TileLimits) -> BoundingBox:
        """Return the box of the tiles in ``limits``, in CRS units."""
        width, height = self.tile_width * self.cell_size, self.tile_height * self.cell_size
        return BoundingBox(
            self.origin_x + limits.min_col * width,
            self.origin_y - (limits.max_row + 1) * height,
            self.origin_x + (limits.max_col + 1) * width,
            self.origin_y - limits.min_row * height,
        )

    def limits_of(self, bbox: BoundingBox) -> TileLimits | None:
        """Return the tiles that intersect a box, or None if there are none.

        Tiles that only touch an edge of the box are not included (layer.md section 4).
        """
        width, height = self.tile_width * self.cell_size, self.tile_height * self.cell_size
        return TileLimits(
            math.floor((self.origin_y - bbox.ymax) / height + _EDGE),
            math.ceil((self.origin_y - bbox.ymin) / height - _EDGE) - 1,
            math.floor((bbox.xmin - self.origin_x) / width + _EDGE),
            math.ceil((bbox.xmax - self.origin_x) / width - _EDGE) - 1,
        ).intersection(self.all_tiles)

    def scale_denominator(self, crs: CRS) -> float:
        """Return the scale denominator of the matrix (OGC 07-057r7, clause 6.1)."""
        return self.cell_size * crs.metres_per_unit / PIXEL_SIZE


@dataclass(frozen=True, slots=True)
class TileMatrixSet:
    """A list of matrices in one CRS, ordered from the coarsest to the finest.

    Attributes:
        id: file stem of the descriptor, used as identifier in requests.
        crs: CRS of all matrices.
        matrices: by identifier, coarse to fine (largest cell size first).
        title: name for people.
        abstract: description; may be empty.
        keywords: may be empty.
        scale_set: URI of the well-known scale set of the matrices; may be empty.
    """

    id: str
    crs: CRS
    matrices: Mapping[str, TileMatrix] = field(hash=False)
    title: str = ""
    abstract: str = ""
    keywords: tuple[str, ...] = ()
    scale_set: str = ""

    @classmethod
    def of(
        cls,
        identifier: str,
        crs: CRS,
        matrices: Iterable[TileMatrix],
        title: str = "",
        abstract: str = "",
        keywords: tuple[str, ...] = (),
        scale_set: str = "",
    ) -> TileMatrixSet:
        """Create a set from matrices in any order."""
        ordered = sorted(matrices, key=lambda matrix: -matrix.cell_size)
        by_id = MappingProxyType({matrix.id: matrix for matrix in ordered})
        return cls(identifier, crs, by_id, title, abstract, keywords, scale_set)

    @property
    def is_quadtree(self) -> bool:
        """Whether each matrix halves the cell size of the previous one.

        Origin and tile size are equal (tolerance as in tilematrixset.md section 5).
        """
        matrices = list(self.matrices.values())
        return all(
            abs(coarse.cell_size - 2 * fine.cell_size) < 0.0001 * fine.cell_size
            and (coarse.origin_x, coarse.origin_y) == (fine.origin_x, fine.origin_y)
            and (coarse.tile_width, coarse.tile_height) == (fine.tile_width, fine.tile_height)
            for coarse, fine in pairwise(matrices)
        )

    def between(self, top: str, bottom: str) -> list[TileMatrix]:
        """Return the matrices from ``top`` (coarse) to ``bottom`` (fine), both included.

        Raises:
            KeyError: one of the identifiers is unknown.
        """
        coarse, fine = self.matrices[top].cell_size, self.matrices[bottom].cell_size
        return [matrix for matrix in self.matrices.values() if coarse >= matrix.cell_size >= fine]
