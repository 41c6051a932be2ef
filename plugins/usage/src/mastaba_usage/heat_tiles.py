"""Tiles of heat maps: PNG pictures in the grid of web maps, for any client of ``{z}/{x}/{y}``."""

from __future__ import annotations

import math
import re
import struct
import zlib
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from mastaba_usage.heat import opacity, outlines

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from mastaba.api.catalogue import Layer
    from mastaba_usage.blocks import Block
    from mastaba_usage.heat import Places

SIZE: Final = 256
"""Pixels of a side."""
_COLOUR: Final = (0xC2, 0x57, 0x1A)
_FARTHEST: Final = 85.0511287798066
"""Degrees of latitude at the edge of web maps."""
_PATH: Final = re.compile(
    r"(?P<layer>.+)/(?P<z>0|[1-9][0-9]?)/(?P<x>0|[1-9][0-9]{0,8})/(?P<y>0|[1-9][0-9]{0,8})\.png"
)
_MOST_ZOOM: Final = 28


class TileAddress(NamedTuple):
    """A tile of web maps: zoom, column, and row from the top."""

    z: int
    x: int
    y: int


def tile_of(path: str) -> tuple[str, TileAddress] | None:
    """Return the layer and the place that a path ``LAYER/Z/X/Y.png`` names; None if none."""
    found = _PATH.fullmatch(path)
    if found is None:
        return None
    place = TileAddress(int(found["z"]), int(found["x"]), int(found["y"]))
    if place.z > _MOST_ZOOM or max(place.x, place.y) >> place.z:
        return None
    return found["layer"], place


def tile(layer: Layer, blocks: Sequence[Block], place: TileAddress) -> bytes:
    """Return the picture of a tile: the opacity of a block says how often it was requested.

    Args:
        layer: whose.
        blocks: of one level, with most hits first.
        place: of the tile.
    """
    import numpy as np

    alpha = np.zeros((SIZE, SIZE), np.uint8)
    found = list(outlines(layer, blocks))
    most = max((block.hits for block, _ in found), default=1)
    for block, ring in found:
        _fill(alpha, _pixels(ring, place), round(255 * opacity(block.hits, most)))
    return _png(alpha)


def _pixels(degrees: Places, place: TileAddress) -> NDArray[np.float64]:
    """Return places in longitude and latitude as pixels of a tile, shape (n, 2): x and y."""
    import numpy as np

    latitude = np.radians(np.clip(degrees[:, 1], -_FARTHEST, _FARTHEST))
    x = degrees[:, 0] / 360 + 0.5
    y = 0.5 - np.log(np.tan(latitude) + 1 / np.cos(latitude)) / (2 * math.pi)
    tiles = np.stack([x, y], axis=1) * (1 << place.z) - (place.x, place.y)
    return np.asarray(tiles * SIZE, np.float64)


def _fill(alpha: NDArray[np.uint8], ring: NDArray[np.float64], value: int) -> None:
    """Write a value into the pixels whose centres are in a ring (even-odd)."""
    import numpy as np

    low = np.clip(np.floor(ring.min(axis=0)), 0, SIZE).astype(int)
    high = np.clip(np.ceil(ring.max(axis=0)), 0, SIZE).astype(int)
    if (low >= high).any():
        return
    xs = np.arange(low[0], high[0]) + 0.5
    ys = (np.arange(low[1], high[1]) + 0.5)[:, None]
    inside = np.zeros((ys.size, xs.size), bool)
    for (x1, y1), (x2, y2) in pairwise(ring):
        if y1 == y2:
            continue
        crosses = (y1 > ys) != (y2 > ys)
        inside ^= crosses & (xs < x1 + (ys - y1) * (x2 - x1) / (y2 - y1))
    alpha[low[1] : high[1], low[0] : high[0]][inside] = value


def _png(alpha: NDArray[np.uint8]) -> bytes:
    """Return a picture of one colour with an alpha channel (PNG, third edition)."""
    import numpy as np

    pixels = np.empty((SIZE, SIZE, 4), np.uint8)
    pixels[..., :3] = _COLOUR
    pixels[..., 3] = alpha
    # Each row begins with its filter: none.
    rows = np.concatenate([np.zeros((SIZE, 1), np.uint8), pixels.reshape(SIZE, -1)], axis=1)
    header = struct.pack(">IIBBBBB", SIZE, SIZE, 8, 6, 0, 0, 0)
    chunks: Any = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 6)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )
