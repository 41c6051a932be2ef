"""Styles of stored tiles: shared by the tile protocols that have styles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from mastaba.model.layer import Layer
from mastaba.model.style import Style

DEFAULT_STYLE: Final = ""
"""Key of the publisher for requests without a style."""

Publisher = TypeVar("Publisher")


def shows_in_stored_tiles(layer: Layer, style: Style) -> bool:
    """Return whether stored tiles can show a style without being decoded.

    They can if the style changes nothing, or if it is a palette and the tile format takes one:
    a palette is part of the file, not of the pixels.
    """
    return style.is_identity or (
        layer.pyramid.takes_palettes and style.palette is not None and not style.processing
    )


def listed_styles(layer: Layer) -> list[Style]:
    """Return the styles that documents list for tiles, the default first (wmts.md 2.1).

    These are the styles that stored tiles can show. If there are none, the layer's default style
    is listed, since a layer without a style is invalid.
    """
    styles = [style for style in layer.styles if shows_in_stored_tiles(layer, style)]
    return styles or list(layer.styles[:1])


def publishers_by_style(
    layer: Layer, default: Style | None, publisher: Callable[[Style | None], Publisher]
) -> dict[str, Publisher]:
    """Return the publishers of one matrix by style: one per palette, one for all other styles.

    Args:
        layer: the layer.
        default: the style of the layer that ``DEFAULT_STYLE`` means.
        publisher: creates the publisher of a style; None means tiles as they are stored.
    """
    plain = publisher(None)
    with_palettes = layer.pyramid.takes_palettes
    publishers = {
        style.identifier: publisher(style) if with_palettes and style.palette else plain
        for style in reversed(layer.styles)  # the first of duplicate identifiers counts
    }
    publishers[DEFAULT_STYLE] = publishers[default.identifier] if default else plain
    return publishers
