"""Slabs: index, layout, and the tiles of a pyramid level.

For tools and tests that look into slabs. Services read tiles with `mastaba.api.tiles`.
"""

from mastaba.api._deprecated import former_names
from mastaba.slab.index import HEADER_SIZE, MAX_TILE_SIZE, SlabIndex, index_length
from mastaba.slab.index_cache import IndexCache
from mastaba.slab.layout import PathLayout, PrefixLayout, SlabLayout
from mastaba.slab.lookup import TileLookup, TileState, look_up
from mastaba.slab.plan import read_tiles
from mastaba.slab.reader import LevelReader, StoredTile
from mastaba.slab.stored_indices import IndexStore, LevelSlabs, StoredIndices
from mastaba.slab.symbolic import SIGNATURE

__all__ = [
    "HEADER_SIZE",
    "MAX_TILE_SIZE",
    "SIGNATURE",
    "IndexCache",
    "IndexStore",
    "LevelReader",
    "LevelSlabs",
    "PathLayout",
    "PrefixLayout",
    "SlabIndex",
    "SlabLayout",
    "StoredIndices",
    "StoredTile",
    "TileLookup",
    "TileState",
    "index_length",
    "look_up",
    "read_tiles",
]

__getattr__ = former_names(
    __name__,
    {name: (f"mastaba_render.api.decoding.{name}", "0.3") for name in ("Pixels", "TileDecoder")},
)
