"""Tiles of a layer by tile matrix set, tile matrix and style: stored ones and drawn ones."""

from mastaba.services.addresses import TileFinder, TileGroup, TilePaths, TileQueries
from mastaba.services.drawing import can_draw
from mastaba.tiles.published import (
    DEFAULT_STYLE,
    LayerTiles,
    MatrixTiles,
    Publisher,
    Tiles,
    drawn_links,
    picture_formats,
    tile_index,
)
from mastaba.tiles.stored import TilePublisher, check_limits
from mastaba.tiles.styles import listed_styles, shows_in_stored_tiles

__all__ = [
    "DEFAULT_STYLE",
    "LayerTiles",
    "MatrixTiles",
    "Publisher",
    "TileFinder",
    "TileGroup",
    "TilePaths",
    "TilePublisher",
    "TileQueries",
    "Tiles",
    "can_draw",
    "check_limits",
    "drawn_links",
    "listed_styles",
    "picture_formats",
    "shows_in_stored_tiles",
    "tile_index",
]
