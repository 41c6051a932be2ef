"""The default rendering of float layers in picture formats, which hold 8-bit pixels only.

It is a grey ramp: black at the lowest value of the coarsest level, white at the highest. With a
range per map instead, adjacent maps would not fit together.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from mastaba.catalogue import Catalogue
from mastaba.model.layer import Layer
from mastaba.model.style import Palette, PaletteEntry, Style
from mastaba.render.mosaic import LevelPixels, Window
from mastaba.render.request import MapLayer
from mastaba.render.styled_layer import is_bytes, relief_name
from mastaba.render.tile_cache import TileCache

_TILES: Final = 4
"""Tiles across and down, in the middle of the level, from which the range is taken."""


def in_picture(entry: MapLayer, catalogue: Catalogue, tiles: TileCache) -> MapLayer:
    """Return a layer in a style that a picture format can hold; 8-bit ones stay unchanged.

    Args:
        catalogue: catalogue of the layer.
        tiles: decoded tiles cached by the renderer.

    Raises:
        SlabFormatError, StorageError: the values cannot be read.
    """
    if is_bytes(entry.layer, entry.style):
        return entry
    style = entry.style or Style("", "", "")
    low, high = _range(entry.layer, style, catalogue, tiles)
    ramp = (PaletteEntry(low, 0, 0, 0, 255), PaletteEntry(high, 255, 255, 255, 255))
    return replace(entry, style=replace(style, palette=Palette(ramp, True, no_alpha=True)))


def _range(
    layer: Layer, style: Style, catalogue: Catalogue, tiles: TileCache
) -> tuple[float, float]:
    """Return the values shown as black and white, the lower one first."""
    relief = relief_name(style)
    if relief is not None:
        slope = float(style.processing[relief].get("slope_max", 90))
        return 0.0, {"estompage": 255.0, "pente": max(slope, 1.0), "exposition": 360.0}[relief]
    level = layer.pyramid.coarsest
    limits, matrix = level.limits, level.matrix
    row = max(limits.min_row, (limits.min_row + limits.max_row + 1 - _TILES) // 2)
    col = max(limits.min_col, (limits.min_col + limits.max_col + 1 - _TILES) // 2)
    last_row = min(limits.max_row + 1, row + _TILES)
    last_col = min(limits.max_col + 1, col + _TILES)
    window = Window(
        row * matrix.tile_height,
        last_row * matrix.tile_height,
        col * matrix.tile_width,
        last_col * matrix.tile_width,
    )
    reader = catalogue.readers[layer.id][matrix.id]
    mosaic = LevelPixels(layer.pyramid, reader, tiles).read(window)
    values = mosaic.pixels[:, :, 0]
    values = values.ravel() if mosaic.valid is None else values[mosaic.valid]
    values = values[np.isfinite(values)]
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)
    return (low, high) if low < high else (low, low + 1.0)
