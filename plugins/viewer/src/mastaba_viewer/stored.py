"""Information about which tiles are stored.

The scripts use it to avoid requests for missing tiles, which browsers log as errors.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from mastaba.api.web import Document
from mastaba.errors import UnknownPathError
from mastaba_ows.parameters import whole_number
from mastaba_viewer.grids import block_size

if TYPE_CHECKING:
    from mastaba.api.catalogue import Layer
    from mastaba.api.services import Site


def stored_tiles(layer: Layer, site: Site, tile_matrix: str, row: str, col: str) -> Document:
    """Return which tiles of a block are stored.

    The document has one text per tile row, with 1 (stored) or 0 for each tile column.

    Args:
        layer: layer of the tiles.
        site: site of the layer.
        tile_matrix: identifier of the tile matrix.
        row: row of the block, in units of `grids.block_size`.
        col: column of the block, in units of `grids.block_size`.

    Raises:
        UnknownPathError: the layer has no such block.
        SlabFormatError, StorageError: the slab cannot be read.
    """
    reader = site.catalogue.readers_of(layer).get(tile_matrix)
    if reader is None:
        raise UnknownPathError("the layer has no such tile matrix")
    level = reader.level
    height, width = block_size(level)
    top, left = _index(row) * height, _index(col) * width
    limits = level.limits
    if top > limits.max_row or left > limits.max_col:
        raise UnknownPathError("the layer has no such tiles")
    rows = [
        "".join(
            "1" if limits.contains(y, x) and reader.locate(y, x) is not None else "0"
            for x in range(left, left + width)
        )
        for y in range(top, top + height)
    ]
    return Document(json.dumps({"rows": rows}, separators=(",", ":")), "application/json")


def _index(text: str) -> int:
    number = whole_number(text)
    if number is None:
        raise UnknownPathError("invalid row or column of a block of tiles")
    return number
