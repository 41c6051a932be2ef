"""Surrogate keys: names under which caches in front of the server find its responses.

A purge request names a key, and a cache removes every response that has it. Keys are separated by
spaces. Names in them are percent-encoded, so they contain neither spaces nor slashes of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final
from urllib.parse import quote

from mastaba.model.bbox import BoundingBox
from mastaba.model.layer import Layer
from mastaba.model.pyramid import Pyramid

SURROGATE_KEY: Final = "Surrogate-Key"
"""Name of the header."""

DOCUMENTS_KEY: Final = "documents"
"""Key of documents: any change of what is published may change them."""


def layer_keys(identifier: str, pyramid: Pyramid, variant: str = "") -> tuple[str, ...]:
    """Return the keys that every tile and map of a layer, or of its variant with a key, has."""
    name, own = quote(pyramid.name, ""), (layer_key(variant),) if variant else ()
    return layer_key(identifier), *own, f"pyramid-{name}", f"gen-{pyramid.generation}"


def layer_key(identifier: str) -> str:
    """Return the key of every tile and map of a layer or variant; those of it have both."""
    return f"layer-{quote(identifier, '')}"


def slab_key(identifier: str) -> str:
    """Return the key of the tiles in a slab, without the level, column and row that follow."""
    return f"slab-{quote(identifier, '')}/"


def drawn_key(identifier: str) -> str:
    """Return the key of what is drawn from a layer: maps, tiles of other tile matrix sets."""
    return f"drawn-{quote(identifier, '')}"


def keys_within(layer: Layer, bbox: BoundingBox, limit: int = 5000) -> list[str]:
    """Return the keys of all responses that may show a part of a layer.

    Args:
        layer: as published now.
        bbox: in the CRS of the tile matrix set.
        limit: number of keys. For a larger area, the key of the whole layer is returned.
    """
    keys = [drawn_key(layer.key), *islice(_slabs_within(layer, bbox), limit)]
    return keys if len(keys) <= limit else [layer_key(layer.key)]


def _slabs_within(layer: Layer, bbox: BoundingBox) -> Iterator[str]:
    of_layer = slab_key(layer.key)
    for name, level in layer.pyramid.levels.items():
        # Also outside the limits, which an update may have narrowed.
        tiles = level.matrix.limits_of(bbox)
        if tiles is None:
            continue
        start = f"{of_layer}{quote(name, '')}/"
        width, height = level.tiles_per_width, level.tiles_per_height
        for column in range(tiles.min_col // width, tiles.max_col // width + 1):
            for row in range(tiles.min_row // height, tiles.max_row // height + 1):
                yield f"{start}{column}/{row}"
