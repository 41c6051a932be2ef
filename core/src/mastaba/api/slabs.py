"""Slabs: index, layout, and the tiles of a pyramid level.

For tools and tests that look into slabs. Services read tiles with `mastaba.api.tiles`.
"""

from mastaba.slab.codecs import Pixels, TileDecoder
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
    "Pixels",
    "PrefixLayout",
    "SlabIndex",
    "SlabLayout",
    "StoredIndices",
    "StoredTile",
    "TileDecoder",
    "TileLookup",
    "TileState",
    "index_length",
    "look_up",
    "read_tiles",
]
