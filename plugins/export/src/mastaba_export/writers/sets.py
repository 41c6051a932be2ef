"""Documents of tile matrix sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mastaba.api.catalogue import TileMatrixSet


def set_document(tile_matrix_set: TileMatrixSet) -> dict[str, Any]:
    """Return the document of a set, as servers read it."""
    crs = tile_matrix_set.crs
    found = {
        "id": tile_matrix_set.id,
        "title": tile_matrix_set.title,
        "description": tile_matrix_set.abstract,
        "keywords": list(tile_matrix_set.keywords),
        "wellKnownScaleSet": tile_matrix_set.scale_set,
        "crs": crs.code,
        "orderedAxes": ["Lon", "Lat"] if crs.is_geographic else ["X", "Y"],
        "tileMatrices": [
            {
                "id": matrix.id,
                "cellSize": matrix.cell_size,
                "scaleDenominator": matrix.scale_denominator(crs),
                "pointOfOrigin": [matrix.origin_x, matrix.origin_y],
                "tileWidth": matrix.tile_width,
                "tileHeight": matrix.tile_height,
                "matrixWidth": matrix.matrix_width,
                "matrixHeight": matrix.matrix_height,
            }
            for matrix in tile_matrix_set.matrices.values()
        ],
    }
    return {key: value for key, value in found.items() if value}
