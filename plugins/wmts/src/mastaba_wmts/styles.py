"""Which styles a layer offers over WMTS, where stored tiles go out as they are."""

from __future__ import annotations

from mastaba.model.format import Codec
from mastaba.model.layer import Layer
from mastaba.model.style import Style


def takes_palettes(layer: Layer) -> bool:
    """Tell whether a palette can be put into the stored tiles: into one-channel PNG only."""
    raster = layer.pyramid.raster
    return layer.pyramid.format.codec is Codec.PNG and raster is not None and raster.channels == 1


def listed_styles(layer: Layer) -> list[Style]:
    """Return the styles that capabilities list, the default one first (wmts.md section 2.1).

    They are those whose effect stored tiles can show: the ones that change nothing, and palettes
    where a palette can be put into the tile. When that leaves none, the default style of the
    layer is listed all the same, since a layer without style is not valid.
    """
    with_palettes = takes_palettes(layer)
    styles = [
        style
        for style in layer.styles
        if style.is_identity or (with_palettes and style.palette and not style.processing)
    ]
    return styles or list(layer.styles[:1])
