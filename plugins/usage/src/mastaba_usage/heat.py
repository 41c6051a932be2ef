"""The heat map: how often each block of tiles of a layer was requested (access.md section 6.2)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from mastaba.api.catalogue import WGS84, TileLimits, transform_points
from mastaba_server.web.pieces import json_pieces
from mastaba_usage.blocks import SHIFT

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from mastaba.api.catalogue import CRS, Layer, TileMatrix
    from mastaba_usage.blocks import Block

Places: TypeAlias = "NDArray[np.float64]"
"""Longitude and latitude in degrees, shape (n, 2)."""

_STEPS: Final = 8
"""Segments of an edge, in CRSs in which meridians and parallels are not straight."""
_STRAIGHT: Final = "EPSG:3857"


def outlines(layer: Layer, blocks: Iterable[Block]) -> Iterator[tuple[Block, Places]]:
    """Yield blocks with their rings in CRS84, counterclockwise.

    Blocks of levels that the layer no longer has, and those beyond what its CRS can express, are
    left out.
    """
    tile_matrix_set = layer.pyramid.tile_matrix_set
    for block in blocks:
        matrix = tile_matrix_set.matrices.get(block.level)
        ring = None if matrix is None else _ring(matrix, tile_matrix_set.crs, block)
        if ring is not None:
            yield block, ring


def collection(layer: Layer, blocks: Sequence[Block], period: tuple[str, str]) -> Iterator[bytes]:
    """Yield the parts of the GeoJSON document of a heat map (RFC 7946), as polygons.

    Args:
        layer: whose.
        blocks: with most hits first.
        period: first and last day.
    """
    head = {
        "type": "FeatureCollection",
        "layer": layer.id,
        "from": period[0],
        "to": period[1],
    }
    features = (
        {
            "type": "Feature",
            "geometry": {"type": "Polygon", "coordinates": [ring.tolist()]},
            "properties": {"level": block.level, "hits": block.hits},
        }
        for block, ring in outlines(layer, blocks)
    )
    return json_pieces(head, "features", features)


def drawn(layer: Layer, blocks: Sequence[Block]) -> tuple[str, list[tuple[str, float, int]]]:
    """Return what a page needs to draw blocks in longitude and latitude.

    Returns:
        ``viewBox`` of the SVG; for each block the path, the opacity, and hits.
    """
    import numpy as np

    found = list(outlines(layer, blocks))
    world = np.array([(-180.0, -90.0), (180.0, 90.0)])
    places = np.concatenate([ring for _, ring in found] or [world])
    west, south = places.min(axis=0)
    east, north = places.max(axis=0)
    box = west, -north, east - west, north - south
    most = max((block.hits for block, _ in found), default=1)
    shapes = [
        (
            "M" + "L".join(f"{x:.6f} {-y:.6f}" for x, y in ring[:-1].tolist()) + "Z",
            opacity(block.hits, most),
            block.hits,
        )
        for block, ring in found
    ]
    return " ".join(f"{number:.6f}" for number in box), shapes


def opacity(hits: int, most: int) -> float:
    """Return how opaque an area is: by the logarithm, because few areas have most hits."""
    return round(0.1 + 0.9 * math.log1p(hits) / math.log1p(most), 3)


def of_one_level(layer: Layer, blocks: Sequence[Block]) -> tuple[str, list[Block]]:
    """Return a level that the layer has, that of the block with most hits, and its blocks.

    Args:
        layer: whose.
        blocks: with most hits first.
    """
    levels = layer.pyramid.levels
    level = next((one.level for one in blocks if one.level in levels), "")
    return level, [one for one in blocks if one.level == level]


def _ring(matrix: TileMatrix, crs: CRS, block: Block) -> Places | None:
    import numpy as np

    size = 1 << SHIFT
    top, left = block.row * size, block.col * size
    tiles = TileLimits(top, top + size - 1, left, left + size - 1).intersection(matrix.all_tiles)
    if tiles is None:
        return None
    box = matrix.bbox_of(tiles)
    steps = 1 if crs.is_geographic or crs.code == _STRAIGHT else _STEPS
    parts = np.arange(steps) / steps
    zeros, ones = np.zeros(steps), np.ones(steps)
    # Around the box from its lower left corner.
    across = np.concatenate([parts, ones, 1 - parts, zeros, [0.0]])
    up = np.concatenate([zeros, parts, ones, 1 - parts, [0.0]])
    x = box.xmin + across * (box.xmax - box.xmin)
    y = box.ymin + up * (box.ymax - box.ymin)
    longitude, latitude = transform_points(crs, WGS84, x, y)
    if not (np.isfinite(longitude).all() and np.isfinite(latitude).all()):
        return None
    return np.stack([longitude, latitude], axis=1).round(7)
