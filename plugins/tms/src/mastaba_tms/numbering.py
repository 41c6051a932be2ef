"""The two ways to count rows: from the top, as stored, or from the bottom (tms.md section 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mastaba.model.pyramid import Level


def last_row(level: Level) -> int:
    """Return the index of the lowest row of the matrix, counted from the top.

    Subtracting a row number from it changes from one way of counting to the other.
    """
    return level.matrix.matrix_height - 1


def row_limits(level: Level, *, from_bottom: bool) -> tuple[int, int]:
    """Return the first and the last row of a level, as clients count them."""
    limits = level.limits
    if not from_bottom:
        return limits.min_row, limits.max_row
    last = last_row(level)
    return last - limits.max_row, last - limits.min_row
