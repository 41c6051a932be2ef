"""layers.json: everything that the scripts of the page know of layers and grids."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from mastaba.http.response import Document
from mastaba_viewer.endpoints import resources, tile_source

if TYPE_CHECKING:
    from mastaba.model.bbox import BoundingBox
    from mastaba.model.layer import Layer
    from mastaba.model.tile_matrix_set import TileMatrixSet
    from mastaba.service import Service


def layers_document(layers: Iterable[Layer], services: Mapping[str, Service]) -> Document:
    """Return the document: layers in the order given, and the tile matrix sets that they use."""
    layers = list(layers)
    sets = {layer.pyramid.tile_matrix_set.id: layer.pyramid.tile_matrix_set for layer in layers}
    content = {
        "tileMatrixSets": {name: _set(tile_matrix_set) for name, tile_matrix_set in sets.items()},
        "layers": [_layer(layer, services) for layer in layers],
    }
    return Document(json.dumps(content, ensure_ascii=False), "application/json")


def format_label(layer: Layer) -> str:
    """Return a short name of what the tiles are."""
    tile_format = layer.pyramid.format
    if tile_format.is_vector:
        return "Vector"
    if tile_format.sample == "float32":
        return "Elevation"
    return tile_format.media_type.removeprefix("image/").upper()


def _layer(layer: Layer, services: Mapping[str, Service]) -> dict[str, Any]:
    pyramid = layer.pyramid
    raster = pyramid.raster
    attribution = layer.attribution
    tables = {table.name: table for level in pyramid.levels.values() for table in level.tables}
    return {
        "id": layer.id,
        "title": layer.title,
        "abstract": layer.abstract,
        "kind": _kind(layer),
        "format": format_label(layer),
        "mediaType": pyramid.format.media_type,
        "nodata": list(raster.nodata) if raster else [],
        "tileMatrixSet": pyramid.tile_matrix_set.id,
        "levels": {
            name: [
                level.limits.min_row,
                level.limits.max_row,
                level.limits.min_col,
                level.limits.max_col,
            ]
            for name, level in pyramid.levels.items()
        },
        "nativeBbox": _edges(layer.native_bbox),
        "geographicBbox": _edges(layer.geographic_bbox),
        "tables": [{"name": table.name, "geometry": table.geometry} for table in tables.values()],
        "attribution": (
            {"title": attribution.title, "url": attribution.url} if attribution else None
        ),
        "tiles": tile_source(layer, services),
        "resources": resources(layer, services),
    }


def _kind(layer: Layer) -> str:
    tile_format = layer.pyramid.format
    if tile_format.is_vector:
        return "vector"
    if tile_format.sample == "float32":
        return "elevation"
    return "tiff" if tile_format.needs_tiff_header else "image"


def _set(tile_matrix_set: TileMatrixSet) -> dict[str, Any]:
    crs = tile_matrix_set.crs
    return {
        "crs": crs.code,
        "geographic": crs.is_geographic,
        "matrices": [
            {
                "id": matrix.id,
                "cellSize": matrix.cell_size,
                "originX": matrix.origin_x,
                "originY": matrix.origin_y,
                "tileWidth": matrix.tile_width,
                "tileHeight": matrix.tile_height,
                "matrixHeight": matrix.matrix_height,
            }
            for matrix in tile_matrix_set.matrices.values()
        ],
    }


def _edges(bbox: BoundingBox) -> list[float]:
    return [bbox.xmin, bbox.ymin, bbox.xmax, bbox.ymax]
