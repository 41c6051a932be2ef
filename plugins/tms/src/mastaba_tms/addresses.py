"""Public addresses of the resources of this service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import quote

if TYPE_CHECKING:
    from mastaba_tms.offered import OfferedTileMap

VERSION: Final = "1.0.0"

FROM_BOTTOM: Final = "bottom"
"""Path segment in addresses whose tile rows are always counted from the bottom."""

ONLY_LEVEL: Final = "0"
"""Path segment for the level in addresses of a TileMap of one level. GDAL counts from 0."""


def service_href(endpoint_uri: str) -> str:
    """Return the address of the TileMapService resource."""
    return f"{endpoint_uri}/{VERSION}"


def tile_map_href(endpoint_uri: str, tile_map: OfferedTileMap) -> str:
    """Return the address of a TileMap resource."""
    return f"{endpoint_uri}/{VERSION}/{tile_map.path}"


def level_href(endpoint_uri: str, tile_map: OfferedTileMap, level: str, *, mirrored: bool) -> str:
    """Return the base address for the tiles of a level.

    Args:
        level: identifier of a matrix of the TileMap.
        mirrored: whether to use addresses that always count rows from the bottom.
    """
    middle = f"/{FROM_BOTTOM}" if mirrored else ""
    if tile_map.level is not None:
        level = ONLY_LEVEL
    return f"{tile_map_href(endpoint_uri, tile_map)}{middle}/{quote(level, safe='')}"


def tile_template(
    endpoint_uri: str,
    tile_map: OfferedTileMap,
    placeholders: tuple[str, str, str] = ("{z}", "{x}", "{y}"),
    extension: str | None = None,
) -> str:
    """Return the tile address template with placeholders for level, column and row.

    Args:
        extension: of another format than the stored one.
    """
    level, column, row = placeholders
    extension = extension or tile_map.layer.pyramid.format.extension
    return f"{tile_map_href(endpoint_uri, tile_map)}/{level}/{column}/{row}.{extension}"
