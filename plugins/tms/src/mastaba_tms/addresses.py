"""Public addresses of the resources of this service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import quote

if TYPE_CHECKING:
    from mastaba.model.layer import Layer

VERSION: Final = "1.0.0"

FROM_BOTTOM: Final = "bottom"
"""Part of the addresses of tiles whose rows are counted from the bottom in any case."""


def service_href(endpoint_uri: str) -> str:
    """Return the address of the TileMapService resource."""
    return f"{endpoint_uri}/{VERSION}"


def layer_href(endpoint_uri: str, layer: Layer) -> str:
    """Return the address of the TileMap resource of a layer."""
    return f"{endpoint_uri}/{VERSION}/{quote(layer.id, safe='')}"


def level_href(endpoint_uri: str, layer: Layer, level: str, *, mirrored: bool) -> str:
    """Return the address that the tiles of a level lie below.

    Args:
        mirrored: whether that of the tiles whose rows are counted from the bottom.
    """
    middle = f"/{FROM_BOTTOM}" if mirrored else ""
    return f"{layer_href(endpoint_uri, layer)}{middle}/{quote(level, safe='')}"


def tile_template(
    endpoint_uri: str, layer: Layer, placeholders: tuple[str, str, str] = ("{z}", "{x}", "{y}")
) -> str:
    """Return the address of tiles, with placeholders for level, column and row."""
    level, column, row = placeholders
    extension = layer.pyramid.format.extension
    return f"{layer_href(endpoint_uri, layer)}/{level}/{column}/{row}.{extension}"
