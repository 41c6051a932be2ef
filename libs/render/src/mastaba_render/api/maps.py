"""Maps: what to draw, the prepared map, and its encoded response."""

from mastaba.model.tile_matrix_set import COARSEST
from mastaba_render.compose import joined
from mastaba_render.cost import map_cost
from mastaba_render.encoded_map import EncodedMap, as_data, as_picture, coloured, finish_for
from mastaba_render.engine import Renderer
from mastaba_render.extent import is_plausible, tiles_around, transformed_box, turn_of
from mastaba_render.ground import TURN, GroundBox, across_antimeridian, box_on_ground
from mastaba_render.layer_map import PreparedMap, SideBySide, Sources
from mastaba_render.legend_palette import legend_palette, legend_unit
from mastaba_render.map_request import Background, MapImage, MapLayer, MapRequest, Mask, Pixels
from mastaba_render.map_response import (
    Drawable,
    cache_control,
    drawn_keys,
    drawn_response,
    identity_of,
)
from mastaba_render.mosaic import LevelPixels, Mosaic, StoredTiles, overlap
from mastaba_render.native import Window
from mastaba_render.styles import is_bytes, relief_name, styled
from mastaba_render.tiles.derived import DerivedTilePublisher

__all__ = [
    "COARSEST",
    "TURN",
    "Background",
    "DerivedTilePublisher",
    "Drawable",
    "EncodedMap",
    "GroundBox",
    "LevelPixels",
    "MapImage",
    "MapLayer",
    "MapRequest",
    "Mask",
    "Mosaic",
    "Pixels",
    "PreparedMap",
    "Renderer",
    "SideBySide",
    "Sources",
    "StoredTiles",
    "Window",
    "across_antimeridian",
    "as_data",
    "as_picture",
    "box_on_ground",
    "cache_control",
    "coloured",
    "drawn_keys",
    "drawn_response",
    "finish_for",
    "identity_of",
    "is_bytes",
    "is_plausible",
    "joined",
    "legend_palette",
    "legend_unit",
    "map_cost",
    "overlap",
    "relief_name",
    "styled",
    "tiles_around",
    "transformed_box",
    "turn_of",
]
