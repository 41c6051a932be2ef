"""Heights of contour lines at each zoom (elevation.md 6.2)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

Table = Sequence[tuple[int, Sequence[float]]]
"""Zooms, ascending. From each of them up to the next one: the distance between lines, then of those
among them that are drawn more strongly."""

DEFAULT: Final[tuple[tuple[int, tuple[float, ...]], ...]] = (
    (9, (500, 1000)),
    (10, (200, 1000)),
    (12, (100, 500)),
    (13, (50, 200)),
    (14, (20, 100)),
    (15, (10, 50)),
    (16, (5, 25)),
)

UNITS: Final = {"m": 1.0, "ft": 3.28084}
"""Units per metre."""

MOST: Final = 200
"""Lines in a tile; where the relief is higher, they are further apart."""

MOST_POINTS: Final = 100_000
"""Points in a tile; where the ground is rougher, lines are further apart."""


@dataclass(frozen=True, slots=True)
class Height:
    """The height of a line.

    Attributes:
        value: in the unit of the lines.
        level: highest position in the row of the table of which it is a multiple.
        index: whether it is a multiple of the last entry of a row with several.
    """

    value: int | float
    level: int
    index: bool


class Intervals:
    """Which contour lines there are.

    Args:
        unit: one of `UNITS`.
        accuracy: of the data in metres, one standard deviation; None if it is not known. Lines
            are not closer than twice that.
    """

    def __init__(
        self,
        table: Table = DEFAULT,
        unit: str = "m",
        accuracy: float | None = None,
    ) -> None:
        self.scale = UNITS[unit]
        self._zooms = [zoom for zoom, _ in table]
        self._rows = [tuple(row) for _, row in table]
        self._closest = 2.0 * (accuracy or 0.0) * self.scale

    @property
    def first(self) -> int:
        """Coarsest zoom with lines."""
        return self._zooms[0]

    def heights(self, zoom: int, lowest: float, highest: float, climb: float = 0.0) -> list[Height]:
        """Return the heights of the lines between two heights, ascending.

        Args:
            lowest, highest: in the unit of the lines.
            climb: sum of the differences between neighbours, in the same unit: the number of
                points where lines are one unit apart.
        """
        number = sum(first <= zoom for first in self._zooms) - 1
        if number < 0:
            return []
        row = self._rows[number]
        while not self._fits(row, highest - lowest, climb):
            number -= 1
            row = self._rows[number] if number >= 0 else tuple(2.0 * step for step in row)
        first, last = math.ceil(lowest / row[0]), math.floor(highest / row[0])
        return [_height(multiple, row) for multiple in range(first, last + 1)]

    def _fits(self, row: Sequence[float], relief: float, climb: float) -> bool:
        is_few = relief <= MOST * row[0] and climb <= MOST_POINTS * row[0]
        return is_few and row[0] >= self._closest


def _height(multiple: int, row: Sequence[float]) -> Height:
    value = multiple * row[0]
    level = max(
        place
        for place, step in enumerate(row)
        if math.isclose(math.remainder(value, step), 0.0, abs_tol=1e-9 * step)
    )
    whole = round(value)
    is_whole = math.isclose(value, whole, abs_tol=1e-9)
    return Height(whole if is_whole else value, level, 0 < level == len(row) - 1)
