"""The default rendering of float layers in picture formats, which hold 8-bit pixels only.

It is a grey ramp: black at the lowest value of the coarsest level, white at the highest. With a
range per map instead, adjacent maps would not fit together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from mastaba.model.layer import Layer
from mastaba.model.pyramid import Level
from mastaba.model.style import Palette, PaletteEntry, Style
from mastaba_render.layer_map import version_of
from mastaba_render.map_request import MapLayer
from mastaba_render.mosaic import LevelPixels, Mosaic
from mastaba_render.native import Window
from mastaba_render.styles import is_bytes, relief_name
from mastaba_server.threads.recent import Recent

_TILES: Final = 4
"""Tiles across and down, in the middle of the level, from which the range is taken."""


Range = tuple[float, float]

_KNOWN: Final = 1024
"""Layers and variants whose extremes are kept."""


class FloatPictures:
    """Gives float layers a style that picture formats can hold. Shared by all threads.

    The range of a layer is read again only when the stored tiles that it comes from change.
    """

    def __init__(self) -> None:
        self._ranges: Recent[tuple[str, Range]] = Recent(_KNOWN)

    def styled(self, entry: MapLayer, levels: Mapping[str, LevelPixels]) -> MapLayer:
        """Return a layer with float pixels in a style that a picture format can hold."""
        style = entry.style or Style("", "", "")
        low, high = _relief_range(style) or self._stored_range(entry.layer, levels)
        ramp = (PaletteEntry(low, 0, 0, 0, 255), PaletteEntry(high, 255, 255, 255, 255))
        return replace(entry, style=replace(style, palette=Palette(ramp, True, no_alpha=True)))

    def whole_range(self, layer: Layer, levels: Mapping[str, LevelPixels]) -> Range | None:
        """Return the lowest and the highest value of the coarsest level of a float layer.

        Returns:
            None for 8-bit layers, and for a level with more tiles than those of the default
            rendering.

        Raises:
            SlabFormatError, StorageError: the values cannot be read.
        """
        limits = layer.pyramid.coarsest.limits
        across, down = limits.max_col - limits.min_col, limits.max_row - limits.min_row
        if is_bytes(layer, None) or max(across, down) >= _TILES:
            return None
        return self._stored_range(layer, levels)

    def _stored_range(self, layer: Layer, levels: Mapping[str, LevelPixels]) -> Range:
        pixels = levels[layer.pyramid.coarsest.matrix.id]
        window = _middle(layer.pyramid.coarsest)
        stored = pixels.stored(window)
        known = self._ranges.get(layer.key)
        if known is not None and known[0] == version_of(stored):
            return known[1]
        found = _range(pixels.read(window, stored=stored))
        # The version of what was read: a slab may have been replaced meanwhile.
        version = version_of(stored)
        if version is not None:
            self._ranges.add(layer.key, (version, found))
        return found


def _relief_range(style: Style) -> Range | None:
    """Return the values that a relief style computes, the lower one first; None without one."""
    relief = relief_name(style)
    if relief is None:
        return None
    slope = float(style.processing[relief].get("slope_max", 90))
    return 0.0, {"estompage": 255.0, "pente": max(slope, 1.0), "exposition": 360.0}[relief]


def _middle(level: Level) -> Window:
    limits, matrix = level.limits, level.matrix
    rows = _middle_pixels(limits.min_row, limits.max_row, matrix.tile_height)
    columns = _middle_pixels(limits.min_col, limits.max_col, matrix.tile_width)
    return Window(*rows, *columns)


def _middle_pixels(first: int, last: int, size: int) -> tuple[int, int]:
    """Return the first row, or column, of pixels in the middle tiles, and the one after the last.

    Args:
        first, last: rows, or columns, of the tiles.
        size: pixels of a tile.
    """
    start = max(first, (first + last + 1 - _TILES) // 2)
    return start * size, min(last + 1, start + _TILES) * size


def _range(mosaic: Mosaic) -> Range:
    """Return the lowest and the highest value of a window."""
    values = mosaic.pixels[:, :, 0]
    values = values.ravel() if mosaic.valid is None else values[mosaic.valid]
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)
    return (low, high) if low < high else (low, low + 1.0)
