"""The tile matrix sets in which a layer can be shown."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from mastaba.api.catalogue import TileMatrixSetLink, bbox_in, links

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mastaba.api.catalogue import (
        BoundingBox,
        Layer,
        Level,
        TileLimits,
        TileMatrix,
        TileMatrixSet,
    )
    from mastaba.api.services import Site

_SMALLEST_BLOCK: Final = 4
"""Tiles per side. A slab may contain a single tile, which is too little for one request."""

_LARGEST_BLOCK: Final = 64
"""Tiles per side. It limits the cost of a request if slabs are very large."""

_COARSER: Final = 2
_FINER: Final = 3
"""Cell sizes of the map beyond those of the levels, at which tiles are scaled."""


def extra_links(layer: Layer, site: Site) -> list[TileMatrixSetLink]:
    """Return the links to tile matrix sets other than the one in which the layer is stored."""
    if layer.is_vector or not site.catalogue.settings.tile_reprojection:
        return []
    return links(layer)


def plain_names(layer: Layer, site: Site) -> dict[str, str]:
    """Return the names of the sets in OGC API, by identifier."""
    names = [layer.pyramid.tile_matrix_set.id]
    names += [link.tile_matrix_set.id for link in extra_links(layer, site)]
    return {name: name for name in names}


def published_names(layer: Layer, site: Site) -> dict[str, str]:
    """Return the names of the sets in WMTS, by identifier."""
    names = {layer.pyramid.tile_matrix_set.id: layer.levels_id}
    for link in extra_links(layer, site):
        names.setdefault(link.tile_matrix_set.id, link.levels_id)
    return names


def block_size(level: Level) -> tuple[int, int]:
    """Return the rows and columns of tiles looked up per request: mostly those of a slab."""

    def block(size: int) -> int:
        whole_slabs = size * -(-_SMALLEST_BLOCK // size)
        return min(whole_slabs, _LARGEST_BLOCK)

    return block(level.tiles_per_height), block(level.tiles_per_width)


def grids(layer: Layer, site: Site) -> list[dict[str, Any]]:
    """Return the sets for the scripts, starting with the one in which the layer is stored."""
    pyramid = layer.pyramid
    limits = {name: level.limits for name, level in pyramid.levels.items()}
    blocks = {name: block_size(level) for name, level in pyramid.levels.items()}
    native = _grid(pyramid.tile_matrix_set, limits, layer.native_bbox) | {"blocks": blocks}
    found = {pyramid.tile_matrix_set.id: native}
    for link in extra_links(layer, site):
        box = bbox_in(layer, link.tile_matrix_set.crs)
        assert box is not None, "a set without anything of the layer is not linked"
        grid = _grid(link.tile_matrix_set, link.limits, box)
        found.setdefault(link.tile_matrix_set.id, grid)
    return list(found.values())


def _grid(
    tile_matrix_set: TileMatrixSet, limits: Mapping[str, TileLimits], bbox: BoundingBox
) -> dict[str, Any]:
    crs, matrices = tile_matrix_set.crs, list(tile_matrix_set.matrices.values())
    levels = [matrix for matrix in matrices if matrix.id in limits]
    return {
        "id": tile_matrix_set.id,
        "crs": crs.code,
        "northingFirst": crs.northing_first,
        # Clients put zoom numbers in the place of such identifiers.
        "hasZooms": all(matrix.id == str(rank) for rank, matrix in enumerate(matrices)),
        "bbox": [bbox.xmin, bbox.ymin, bbox.xmax, bbox.ymax],
        "limits": {name: _edges(found) for name, found in limits.items()},
        "resolutions": _resolutions(matrices, levels),
        "matrices": [
            {
                "id": matrix.id,
                "cellSize": matrix.cell_size,
                "originX": matrix.origin_x,
                "originY": matrix.origin_y,
                "tileWidth": matrix.tile_width,
                "tileHeight": matrix.tile_height,
                "matrixHeight": matrix.matrix_height,
                "tiles": _edges(_covered(matrix, levels, limits)),
            }
            for matrix in matrices
        ],
    }


def _edges(limits: TileLimits | None) -> list[int]:
    if limits is None:
        return [0, -1, 0, -1]
    return [limits.min_row, limits.max_row, limits.min_col, limits.max_col]


def _covered(
    matrix: TileMatrix, levels: list[TileMatrix], limits: Mapping[str, TileLimits]
) -> TileLimits | None:
    """Return which tiles of a matrix contain something of the level with the nearest cell size.

    Coarse levels may have a larger extent than fine ones.
    """

    def distance(level: TileMatrix) -> float:
        return abs(math.log(level.cell_size / matrix.cell_size))

    level = min(levels, key=distance)
    return matrix.limits_of(level.bbox_of(limits[level.id]))


def _resolutions(matrices: list[TileMatrix], levels: list[TileMatrix]) -> list[float]:
    """Return the cell sizes of the map: those of the levels, and some coarser and finer ones."""
    first, last = matrices.index(levels[0]), matrices.index(levels[-1])
    start, stop = first - _COARSER, last + _FINER + 1
    cells = [matrix.cell_size for matrix in matrices[max(0, start) : stop]]
    coarser = [cells[0] * 2**step for step in range(-start, 0, -1)]
    finer = [cells[-1] / 2**step for step in range(1, stop - len(matrices) + 1)]
    return [*coarser, *cells, *finer]
