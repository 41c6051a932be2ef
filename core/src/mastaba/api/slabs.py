"""Index stores, and the readers of the levels of a pyramid. Services read `mastaba.api.tiles`."""

from mastaba.api._deprecated import moved_names
from mastaba.containers.reader import StoredTile
from mastaba.slab.index import HEADER_SIZE, SlabIndex
from mastaba.slab.reader import LevelReader
from mastaba.slab.stored_indices import IndexStore, LevelSlabs, StoredIndices
from mastaba.slab.symbolic import SIGNATURE

__all__ = [
    "HEADER_SIZE",
    "SIGNATURE",
    "IndexStore",
    "LevelReader",
    "LevelSlabs",
    "SlabIndex",
    "StoredIndices",
    "StoredTile",
]

__getattr__ = moved_names(
    __name__,
    {
        "mastaba.tooling.slabs": "MAX_TILE_SIZE IndexCache PathLayout PrefixLayout SlabLayout "
        "TileLookup TileState index_length look_up",
        "mastaba_render.api.decoding": "Pixels TileDecoder read_tiles",
    },
)
