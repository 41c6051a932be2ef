"""Hillshade, coast and contour lines shared by all images of the terrain."""

from __future__ import annotations

import numpy as np

from mastaba_demo.noise import Field
from mastaba_demo.terrain import Terrain

# Vertical exaggeration of levels 0 to 12: coarse levels need more for their relief to show.
_EXAGGERATION = (75, 55, 36, 25, 17, 11.5, 7.5, 4.8, 3.1, 2.3, 1.9, 1.7, 1.6)
_REACH = 4  # distance, in pixels, at which a place is compared with its surroundings

MARGIN = _REACH + 1
"""Pixels around an image that its terrain must include."""


def inner(field: Field, terrain: Terrain) -> Field:
    """Return a field without the margin of its terrain."""
    edge = terrain.margin
    return field[edge:-edge, edge:-edge]


def slopes(terrain: Terrain) -> tuple[Field, Field]:
    """Return the rise per metre eastward and southward, without the margin."""
    edge = terrain.margin
    rows, columns = terrain.elevation.shape
    h = terrain.elevation
    scale = np.float32(0.5 / terrain.cell_size)
    east = h[edge:-edge, edge + 1 : columns - edge + 1] - h[edge:-edge, edge - 1 : -edge - 1]
    south = h[edge + 1 : rows - edge + 1, edge:-edge] - h[edge - 1 : -edge - 1, edge:-edge]
    return east * scale, south * scale


def hillshade(east: Field, south: Field, level: int) -> Field:
    """Return the light from a sun in the north-west: 1 on flat ground, 0 in full shadow."""
    factor = np.float32(_EXAGGERATION[min(level, 12)])
    east, south = east * factor, south * factor
    length = np.sqrt(1 + east * east + south * south)
    # A weaker sun further west shades the slopes that run parallel to the main light.
    main = np.clip((east * 0.52 + south * 0.52 + 0.68) / length, 0, None) / 0.68
    side = np.clip((east * 0.66 + south * 0.12 + 0.74) / length, 0, None) / 0.74
    shade: Field = (0.75 * main + 0.25 * side).astype(np.float32)
    return shade


def prominence(terrain: Terrain, level: int) -> Field:
    """Return how far each pixel is above (up to 1) or below (down to -1) its surroundings."""
    h = terrain.elevation
    edge, reach = terrain.margin, _REACH
    rows, columns = h.shape

    def shifted(down: int, right: int) -> Field:
        return h[edge + down : rows - edge + down, edge + right : columns - edge + right]

    around = shifted(-reach, 0) + shifted(reach, 0) + shifted(0, -reach) + shifted(0, reach)
    scale = _EXAGGERATION[min(level, 12)] / (terrain.cell_size * reach * 0.9)
    result: Field = np.tanh((shifted(0, 0) - around * np.float32(0.25)) * np.float32(scale))
    return result


def coverage(height: Field, steepness: Field, cell_size: float) -> Field:
    """Return the fraction of each pixel above elevation 0: an antialiased coast."""
    result: Field = np.clip(height / np.maximum(steepness * cell_size, 0.05) + 0.5, 0, 1)
    return result


def contour(
    height: Field, steepness: Field, cell_size: float, interval: float, width: float
) -> Field:
    """Return the opacity, 0 to 1, of antialiased contour lines.

    Args:
        height: metres.
        steepness: rise per metre.
        cell_size: metres per pixel.
        interval: metres between lines.
        width: pixels.
    """
    away = np.abs(height - np.round(height / interval) * interval)
    # The lower limit keeps lines from turning into blots on flat ground.
    pixels = away / np.maximum(steepness * cell_size, interval * 0.02)
    result: Field = np.clip(width / 2 + 0.5 - pixels, 0, 1)
    return result
