"""The inside of slabs: layout, index, and tiles by level."""

from typing import NoReturn

from mastaba.containers.index_cache import IndexCache
from mastaba.slab.index import MAX_TILE_SIZE, index_length
from mastaba.slab.layout import PathLayout, PrefixLayout, SlabLayout
from mastaba.slab.lookup import TileLookup, TileState, look_up

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
]


def __getattr__(name: str) -> NoReturn:
    if name == "read_tiles":
        name = "read_tiles; import it from mastaba_render.api.decoding (mastaba-render)"
    raise AttributeError(f"module {__name__!r} has no attribute {name}")
