"""Which tiles are stored: a browser that asks for others would log each of them as an error."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from mastaba.errors import UnknownPathError
from mastaba.http.response import Document
from mastaba_viewer.grids import block_size

if TYPE_CHECKING:
    from mastaba.model.layer import Layer
    from mastaba.service import Site


def stored_tiles(layer: Layer, site: Site, tile_matrix: str, row: str, col: str) -> Document:
    """Return which tiles of a block are stored: for each of its rows, 1 or 0 for each column.

    Args:
        row, col: of the block, in blocks of `grids.block_size`.

    Raises:
        UnknownPathError: the layer has no such block.
        SlabFormatError, StorageError: it cannot be read.
    """
    reader = site.catalogue.readers[layer.id].get(tile_matrix)
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
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise UnknownPathError("there is no such block of tiles")
    return int(text)
