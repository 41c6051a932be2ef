"""Styles of stored tiles: shared by the tile protocols that have styles."""

from __future__ import annotations

from mastaba.model.layer import Layer
from mastaba.model.style import Style


def shows_in_stored_tiles(layer: Layer, style: Style) -> bool:
    """Return whether stored tiles can show a style without being decoded.

    They can if the style changes nothing, or if it is a palette and the tile format takes one:
    a palette is part of the file, not of the pixels.
    """
    return style.is_identity or (
        layer.pyramid.takes_palettes and style.palette is not None and not style.processing
    )


def listed_styles(layer: Layer) -> list[Style]:
    """Return the styles of a layer as documents list them for tiles, the default first.

    The styles that stored tiles can show are listed first (wmts.md 2.1). The others are for tiles
    in picture formats, which are drawn.
    """
    return sorted(layer.styles, key=lambda style: not shows_in_stored_tiles(layer, style))
