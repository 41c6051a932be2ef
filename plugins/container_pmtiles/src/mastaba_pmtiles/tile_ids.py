"""Numbers of tiles: zooms one after another, each along a Hilbert curve (PMTiles 3)."""

from __future__ import annotations

from typing import Final

MAX_ZOOM: Final = 31

_SWAPPED: Final = 1 << 8
_INVERTED: Final = 1 << 9


def _table() -> list[int]:
    """Return, for each state and 4 bits of x and y, 8 bits of the position and the next state.

    The walk turns the rest of the square: its axes may be swapped, and counted from the other end.
    """
    entries = []
    for state in range(4):
        for bits in range(256):
            swapped, inverted, digits = state & 1, state >> 1, 0
            for place in (3, 2, 1, 0):
                x = (bits >> 4 + place & 1) ^ inverted
                y = (bits >> place & 1) ^ inverted
                if swapped:
                    x, y = y, x
                digits = digits << 2 | (3 * x) ^ y
                if not y:
                    inverted ^= x
                    swapped ^= 1
            entries.append(digits | swapped * _SWAPPED | inverted * _INVERTED)
    return entries


_TABLE: Final = _table()


def first_id(zoom: int) -> int:
    """Return the number of the first tile of a zoom: all coarser tiles come before it."""
    return ((1 << 2 * zoom) - 1) // 3


class ZoomIds:
    """Numbers of the tiles of one zoom.

    Args:
        zoom: 0 to 31.
    """

    __slots__ = ("_first", "_shifts", "_state")

    def __init__(self, zoom: int) -> None:
        self._first = first_id(zoom)
        steps = -(-zoom // 4)
        self._shifts = tuple(range(4 * (steps - 1), -1, -4))
        # Each bit of zero in front swaps the axes once.
        self._state = _SWAPPED if (4 * steps - zoom) % 2 else 0

    def of(self, row: int, column: int) -> int:
        """Return the number of a tile; rows count downwards."""
        position, state = 0, self._state
        for shift in self._shifts:
            entry = _TABLE[state | (column >> shift & 15) << 4 | row >> shift & 15]
            position = position << 8 | entry & 255
            state = entry & 768
        return self._first + position
