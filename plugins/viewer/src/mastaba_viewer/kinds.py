"""What the tiles of a layer are to a browser, and which styles show in them as they are stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mastaba.model.layer import Layer
    from mastaba.model.style import Style


def kind(layer: Layer) -> str:
    """Return how the stored tiles of a layer are drawn.

    ``image`` is for those that browsers decode; ``tiff``, ``elevation`` and ``vector`` are the
    business of scripts.
    """
    tile_format = layer.pyramid.format
    if tile_format.is_vector:
        return "vector"
    if tile_format.sample == "float32":
        return "elevation"
    return "tiff" if tile_format.needs_tiff_header else "image"


def format_label(layer: Layer) -> str:
    """Return a short name of what the tiles are."""
    tile_format = layer.pyramid.format
    if tile_format.is_vector:
        return "Vector"
    if tile_format.sample == "float32":
        return "Elevation"
    return tile_format.media_type.removeprefix("image/").upper()


def is_picture(layer: Layer, style: Style | None) -> bool:
    """Tell whether maps of a layer in a style are made for the eye, and not bare values."""
    # Loaded on first use: a server of tiles alone needs nothing of what maps are made with.
    from mastaba.render.styled_layer import is_bytes

    return is_bytes(layer, style)
