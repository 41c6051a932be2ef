"""Cells of a grid, and which of them an interval contains (OGC API Coverages, clause 8)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

_ON_EDGE: Final = 0.01
"""Cells. Clients write limits with rounding errors: one that is so close to an edge is on it."""


@dataclass(frozen=True, slots=True)
class Cells:
    """A window of cells of one matrix, counted from its upper left corner.

    Attributes:
        top: first row.
        bottom: row after the last one.
        left: first column.
        right: column after the last one.
    """

    top: int
    bottom: int
    left: int
    right: int

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.bottom - self.top

    @property
    def columns(self) -> int:
        """Number of columns."""
        return self.right - self.left

    def intersection(self, other: Cells) -> Cells | None:
        """Return the common cells, or None if there are none."""
        found = Cells(
            max(self.top, other.top),
            min(self.bottom, other.bottom),
            max(self.left, other.left),
            min(self.right, other.right),
        )
        return found if found.rows > 0 and found.columns > 0 else None


def cells_between(low: float, high: float, *, is_post: bool) -> tuple[int, int]:
    """Return the cells of one axis that meet a closed interval.

    Args:
        low, high: in cells from the edge where the first cell begins.
        is_post: whether the geometry of a cell is the point in its middle. Otherwise it is the
            open interval between its edges.

    Returns:
        the first cell, and the one after the last. The second is not larger if there are none.
    """
    if is_post:
        return math.ceil(_snapped(low - 0.5)), math.floor(_snapped(high - 0.5)) + 1
    return math.floor(_snapped(low)), math.ceil(_snapped(high))


def _snapped(value: float) -> float:
    nearest = math.floor(value + 0.5)
    return nearest if abs(value - nearest) <= _ON_EDGE else value
