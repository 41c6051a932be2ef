"""The tile matrix sets in which a layer can be shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mastaba.api.catalogue import TileMatrixSetLink, bbox_in, links

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mastaba.api.catalogue import BoundingBox, Layer, Level, TileLimits, TileMatrixSet
    from mastaba.api.services import Site

_SMALLEST_BLOCK: Final = 4
"""Tiles per side. A slab may contain a single tile, which is too little for one request."""

_LARGEST_BLOCK: Final = 64
"""Tiles per side. It limits the cost of a request if slabs are very large."""


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
    crs = tile_matrix_set.crs
    return {
        "id": tile_matrix_set.id,
        "crs": crs.code,
        "geographic": crs.is_geographic,
        "northingFirst": crs.northing_first,
        "metresPerUnit": crs.metres_per_unit,
        "bbox": [bbox.xmin, bbox.ymin, bbox.xmax, bbox.ymax],
        "limits": {
            name: [edges.min_row, edges.max_row, edges.min_col, edges.max_col]
            for name, edges in limits.items()
        },
        "matrices": [
            {
                "id": matrix.id,
                "cellSize": matrix.cell_size,
                "originX": matrix.origin_x,
                "originY": matrix.origin_y,
                "tileWidth": matrix.tile_width,
                "tileHeight": matrix.tile_height,
                "matrixWidth": matrix.matrix_width,
                "matrixHeight": matrix.matrix_height,
            }
            for matrix in tile_matrix_set.matrices.values()
        ],
    }
