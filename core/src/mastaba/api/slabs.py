"""Index stores, and the readers of the levels of a pyramid. Services read `mastaba.api.tiles`."""

from mastaba.api._deprecated import former_names
from mastaba.slab.index import HEADER_SIZE, SlabIndex
from mastaba.slab.plan import read_located
from mastaba.slab.reader import LevelReader, StoredTile
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
    "read_located",
]

_TOOLING = (
    "MAX_TILE_SIZE IndexCache PathLayout PrefixLayout SlabLayout TileLookup TileState "
    "index_length look_up read_tiles"
)

__getattr__ = former_names(
    __name__,
    {
        **{name: (f"mastaba.tooling.slabs.{name}", "2.0") for name in _TOOLING.split()},
        **{
            name: (f"mastaba_render.api.decoding.{name}", "2.0")
            for name in ("Pixels", "TileDecoder")
        },
    },
)
