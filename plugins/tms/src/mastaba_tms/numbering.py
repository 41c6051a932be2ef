"""Row numbering (tms.md section 5).

Rows are counted from the top, as stored, or from the bottom. The bottom is that of each matrix
(the setting ``y_origin``) or the single origin of a TileMap for all levels.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mastaba.api.catalogue import TileLimits, TileMatrix, TileMatrixSet


class YOrigin(Enum):
    """Where rows are counted from: the setting ``y_origin``.

    Without it, addresses count from the top, as in existing servers, and the TileMap gives other
    addresses, which count from the bottom.
    """

    TOP = "top"
    BOTTOM = "bottom"
    BY_ADDRESS = None


def last_row_above_origin(tile_matrix_set: TileMatrixSet, matrix: TileMatrix) -> int:
    """Return the index of the row next to the origin of the TileMap, counted from the top.

    The matrices of a quadtree may end at different heights. The coarsest one reaches lowest and
    gives the origin. Other sets have no common origin.
    """
    if not tile_matrix_set.is_quadtree:
        return matrix.matrix_height - 1
    coarsest = next(iter(tile_matrix_set.matrices.values()))
    return coarsest.matrix_height * round(coarsest.cell_size / matrix.cell_size) - 1


def mirrored(limits: TileLimits, last: int) -> tuple[int, int]:
    """Return the first and last row, counted from the bottom.

    Args:
        last: index of the bottom row, counted from the top.
    """
    return last - limits.max_row, last - limits.min_row
