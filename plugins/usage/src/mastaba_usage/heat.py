"""The heat map: how often each block of tiles of a layer was requested (access.md section 6.2)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from mastaba.api.catalogue import CRS, Layer, TileMatrix
    from mastaba_usage.cells import Cell

SHIFT: Final = 6
"""Binary logarithm of the rows and columns of a block, in tiles."""
_STEPS: Final = 8
"""Segments of an edge, in CRSs in which meridians and parallels are not straight."""
_STRAIGHT: Final = "EPSG:3857"


class Block(NamedTuple):
    """A block of tiles of one level.

    Attributes:
        level: identifier of the tile matrix.
        row, col: of the block, from the upper left corner of the matrix.
        hits: tiles that were sent, or not changed.
    """

    level: str
    row: int
    col: int
    hits: int


def name_of(row: int, col: int) -> str:
    """Return the name of a block in a file of counters.

    Args:
        row, col: of the block.
    """
    return f"{row}/{col}"


def place_of(cell: Cell) -> tuple[int, int] | None:
    """Return row and column of a block from its cell; None for a cell of all that had no room."""
    row, slash, col = cell.ability.partition("/")
    return (int(row), int(col)) if slash and cell.level else None


def features(layer: Layer, blocks: Sequence[Block]) -> list[dict[str, Any]]:
    """Return blocks as GeoJSON features (RFC 7946): polygons in CRS84, counterclockwise.

    Blocks of levels that the layer no longer has, and those beyond what its CRS can express, are
    left out.
    """
    found = []
    tile_matrix_set = layer.pyramid.tile_matrix_set
    for block in blocks:
        matrix = tile_matrix_set.matrices.get(block.level)
        ring = None if matrix is None else _ring(matrix, tile_matrix_set.crs, block)
        if ring is not None:
            found.append(
                {
                    "type": "Feature",
                    "geometry": {"type": "Polygon", "coordinates": [ring]},
                    "properties": {"level": block.level, "hits": block.hits},
                }
            )
    return found


def collection(layer: Layer, blocks: Sequence[Block], period: tuple[str, str]) -> dict[str, Any]:
    """Return the GeoJSON document of a heat map.

    Args:
        layer: whose.
        blocks: with most hits first.
        period: first and last day.
    """
    return {
        "type": "FeatureCollection",
        "layer": layer.id,
        "from": period[0],
        "to": period[1],
        "features": features(layer, blocks),
    }


def drawn(found: Sequence[Mapping[str, Any]]) -> tuple[str, list[tuple[str, float, int]]]:
    """Return what a page needs to draw features in longitude and latitude.

    Returns:
        ``viewBox`` of the SVG; for each feature the path, the opacity, and hits.
    """
    rings = [one["geometry"]["coordinates"][0] for one in found]
    places = [place for ring in rings for place in ring] or [(-180.0, -90.0), (180.0, 90.0)]
    xs, ys = [x for x, _ in places], [-y for _, y in places]
    box = min(xs), min(ys), max(xs) - min(xs), max(ys) - min(ys)
    most = max((one["properties"]["hits"] for one in found), default=1)
    shapes = []
    for one, ring in zip(found, rings, strict=True):
        hits = one["properties"]["hits"]
        path = "M" + "L".join(f"{x:.6f} {-y:.6f}" for x, y in ring[:-1]) + "Z"
        # Few areas have most hits.
        shapes.append((path, round(0.1 + 0.9 * math.log1p(hits) / math.log1p(most), 3), hits))
    return " ".join(f"{number:.6f}" for number in box), shapes


def _ring(matrix: TileMatrix, crs: CRS, block: Block) -> list[list[float]] | None:
    # Not at the top: the command line imports this module for any command.
    import numpy as np

    from mastaba.api.catalogue import WGS84, TileLimits, transform_points

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
    ring: list[list[float]] = np.stack([longitude, latitude], axis=1).round(7).tolist()
    return ring
