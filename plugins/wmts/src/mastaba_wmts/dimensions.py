"""Dimensions of layers in requests (time.md section 2.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mastaba.api.catalogue import Layer
    from mastaba_ows.dimensions import Dimension

MOST_VALUES: Final = 16
"""Values of a layer in one feature information."""


def tile_dimensions(layer: Layer) -> tuple[Dimension, ...]:
    """Return the dimensions that select tiles: all but those of pixels."""
    return tuple(one for one in layer.dimensions if not one.of_pixels)
