"""Slabs: index, layout, and the tiles of a pyramid level.

For tools and tests that look into slabs. Services read tiles with `mastaba.api.tiles`.
"""

from mastaba.slab.codecs import Pixels, TileDecoder
from mastaba.slab.index import HEADER_SIZE, MAX_TILE_SIZE, SlabIndex, index_length
from mastaba.slab.index_cache import IndexCache
from mastaba.slab.index_pack import IndexRecord, PackLayout, encode_record, make_pack
from mastaba.slab.index_store import IndexStore
from mastaba.slab.layout import PathLayout, PrefixLayout, SlabLayout
from mastaba.slab.lookup import TileLookup, TileState, look_up
from mastaba.slab.plan import read_tiles
from mastaba.slab.reader import LevelReader, StoredTile
from mastaba.slab.symbolic import SIGNATURE

__all__ = [
    "HEADER_SIZE",
    "MAX_TILE_SIZE",
    "SIGNATURE",
    "IndexCache",
    "IndexRecord",
    "IndexStore",
    "LevelReader",
    "PackLayout",
    "PathLayout",
    "Pixels",
    "PrefixLayout",
    "SlabIndex",
    "SlabLayout",
    "StoredTile",
    "TileDecoder",
    "TileLookup",
    "TileState",
    "encode_record",
    "index_length",
    "look_up",
    "make_pack",
    "read_tiles",
]
