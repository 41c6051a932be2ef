"""How a browser can show the tiles of a layer."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mastaba.api.catalogue import Layer, Style


def kind(layer: Layer) -> str:
    """Return how the stored tiles of a layer are drawn.

    Browsers decode ``image`` tiles; scripts decode ``tiff``, ``elevation`` and ``vector`` tiles.
    """
    tile_format = layer.pyramid.format
    if tile_format.is_vector:
        return "vector"
    if tile_format.sample == "float32":
        return "elevation"
    return "tiff" if tile_format.needs_tiff_header else "image"


def format_label(layer: Layer) -> str:
    """Return a short name of the tile format."""
    tile_format = layer.pyramid.format
    if tile_format.is_vector:
        return "Vector"
    if tile_format.sample == "float32":
        return "Elevation"
    return tile_format.media_type.removeprefix("image/").upper()


def is_picture(layer: Layer, style: Style | None) -> bool:
    """Return whether maps of a layer in a style are images for viewing, not raw values."""
    # Imported on first use: a server without maps does not need the rendering modules.
    from mastaba_render.api.maps import is_bytes

    return is_bytes(layer, style)
