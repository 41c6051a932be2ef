"""The part of a palette that a legend shows."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

from mastaba.model.layer import Layer
from mastaba.model.style import Palette, Style
from mastaba.render.relief import relief_nodata
from mastaba.render.styles import relief_name

_NEAR: Final = 2e-5
"""Relative distance up to which a stop counts as nodata: 2 for -99999."""


def legend_palette(layer: Layer, style: Style) -> Palette | None:
    """Return the palette of a style without the stops at nodata, or None without a palette.

    Palettes of elevations begin with stops at -99999 and just above it, which would stretch the
    legend over values that do not exist. The nodata value of hillshade, slope and aspect may be
    data as well, so a stop there is omitted only if it is transparent. All values of 8-bit layers
    may be data, so their palettes stay unchanged.
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
    return replace(palette, entries=kept or palette.entries)
