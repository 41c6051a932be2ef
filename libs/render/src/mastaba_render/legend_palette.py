"""The part of a palette that a legend shows, and the unit of its values."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

from mastaba.model.layer import Layer
from mastaba.model.style import Palette, PaletteEntry, Style
from mastaba_render.relief import relief_nodata
from mastaba_render.styles import relief_name

_NEAR: Final = 2e-5
"""Relative distance up to which a stop counts as nodata: 2 for -99999."""


def legend_palette(
    layer: Layer, style: Style, values: tuple[float, float] | None = None
) -> Palette | None:
    """Return the palette of a style without the stops at nodata, or None without a palette.

    Palettes of elevations begin with stops at -99999 and just above it, which would stretch the
    legend over values that do not exist. The nodata value of hillshade, slope and aspect may be
    data as well, so a stop there is omitted only if it is transparent. All values of 8-bit layers
    may be data, so their palettes stay unchanged.

    Args:
        values: lowest and highest value of the layer. A ramp of colours begins at the last stop
            before them and ends at the first one after them. None for the whole palette.
    """
    palette, raster = style.palette, layer.pyramid.raster
    if palette is None or raster is None or layer.pyramid.format.sample == "uint8":
        return palette
    relief = relief_name(style)
    nodata = raster.nodata[0]
    if relief is not None:
        nodata = relief_nodata(relief, style.processing[relief])
    kept = tuple(
        entry
        for entry in palette.entries
        if not math.isclose(entry.value, nodata, rel_tol=_NEAR)
        or (relief is not None and entry.alpha != 0)
    )
    if values is not None and relief is None and palette.rgb_continuous:
        kept = _around(kept, *values)
    return replace(palette, entries=kept or palette.entries)


def legend_unit(layer: Layer, style: Style) -> str | None:
    """Return the unit of the values that a style shows.

    It is ``vertical.unit`` of the layer (elevation.md), and metres if ``vertical`` has none.

    Returns:
        None if it is unknown; empty for hillshade, which has no unit.
    """
    relief = relief_name(style)
    if relief is None:
        vertical = layer.own.get("vertical")
        return str(vertical.get("unit", "m")) if vertical else None
    if relief == "estompage":
        return ""
    return "%" if style.processing[relief].get("unit") == "pourcent" else "°"


def _around(entries: tuple[PaletteEntry, ...], low: float, high: float) -> tuple[PaletteEntry, ...]:
    """Return the entries from the last one up to ``low`` to the first one from ``high``."""
    first = max((i for i, entry in enumerate(entries) if entry.value <= low), default=0)
    last = next((i for i, entry in enumerate(entries) if entry.value >= high), len(entries) - 1)
    part = entries[first : last + 1]
    return part if len(part) > 1 else entries
