"""Styles where stored tiles go out as they are: shared by the protocols that know styles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from mastaba.model.layer import Layer
from mastaba.model.style import Style

DEFAULT_STYLE: Final = ""
"""Key of the publisher for requests that leave the style open."""

Publisher = TypeVar("Publisher")


def shows_in_stored_tiles(layer: Layer, style: Style) -> bool:
    """Tell whether stored tiles look as a style says, though nothing of them is decoded.

    They do for styles that change nothing, and for palettes where a palette can be put into the
    tile, since it is a part of the file and not of the pixels.
    """
    return style.is_identity or (
        layer.pyramid.takes_palettes and style.palette is not None and not style.processing
    )


def listed_styles(layer: Layer) -> list[Style]:
    """Return the styles that documents list for tiles, the default one first (wmts.md 2.1).

    They are those that stored tiles can show. When that leaves none, the default style of the
    layer is listed all the same, since a layer without style is not valid.
    """
    styles = [style for style in layer.styles if shows_in_stored_tiles(layer, style)]
    return styles or list(layer.styles[:1])


def publishers_by_style(
    layer: Layer, default: Style | None, publisher: Callable[[Style | None], Publisher]
) -> dict[str, Publisher]:
    """Return the publishers of one matrix: one for each palette, one for all other styles.

    Args:
        layer: the layer.
        default: of its styles, the one that ``DEFAULT_STYLE`` stands for.
        publisher: makes the publisher of a style, or of tiles as they are stored for None.
    """
    plain = publisher(None)
    with_palettes = layer.pyramid.takes_palettes
    publishers = {
        style.identifier: publisher(style) if with_palettes and style.palette else plain
        for style in reversed(layer.styles)  # of two styles with one name, the first counts
    }
    publishers[DEFAULT_STYLE] = publishers[default.identifier] if default else plain
    return publishers
