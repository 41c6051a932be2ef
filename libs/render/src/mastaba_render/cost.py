"""What maps cost of the rates of a client."""

from __future__ import annotations

from typing import Final

from mastaba_server.web.parameters import whole_number

_PIXELS: Final = 65_536
"""A map of 256 × 256 pixels of one layer costs 1, as a stored tile."""
_PROJECTED: Final = 2


def map_cost(size: tuple[str, str], most_pixels: int, layers: int, *, is_projected: bool) -> int:
    """Return the cost of a map; 1 if it is invalid or larger than allowed: it is not drawn.

    Args:
        size: columns and rows, as the client has written them.
        most_pixels: that are allowed.
        layers: number of layers.
        is_projected: whether one of them is in another CRS.
    """
    pixels = 1
    for text in size:
        number = whole_number(text)
        if number is None:
            return 1
        pixels *= number
    if pixels > most_pixels:
        return 1
    cost = max(1, round(pixels / _PIXELS)) * max(1, layers)
    return cost * _PROJECTED if is_projected else cost
