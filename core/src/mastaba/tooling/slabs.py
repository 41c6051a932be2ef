"""The inside of slabs: layout, index, and tiles by level."""

from mastaba.slab.index import MAX_TILE_SIZE, index_length
from mastaba.slab.index_cache import IndexCache
from mastaba.slab.layout import PathLayout, PrefixLayout, SlabLayout
from mastaba.slab.lookup import TileLookup, TileState, look_up
from mastaba.slab.plan import read_tiles

__all__ = [
    "MAX_TILE_SIZE",
    "IndexCache",
    "PathLayout",
    "PrefixLayout",
    "SlabLayout",
    "TileLookup",
    "TileState",
    "index_length",
    "look_up",
    "read_tiles",
]
