"""metadata.json: the layer as TileJSON 3.0.0 (tms.md section 7)."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from mastaba.api.web import Document, anchor
from mastaba_ows.boxes import bounds, centre, rounded
from mastaba_tms.addresses import ONLY_LEVEL, tile_template

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mastaba.api.catalogue import Attribute, Layer, Table, TileMatrix
    from mastaba_ows.dimensions import DimensionValues
    from mastaba_tms.offered import OfferedTileMap

_ZOOMS: Final = frozenset(map(str, range(31)))
"""Zooms of TileJSON 3.0.0, written as clients write them in addresses."""

_MOST_VALUES: Final = 500
_VALUE: Final = "_value_of_dimension_"


def metadata(
    tile_map: OfferedTileMap,
    endpoint_uri: str,
    dimensions: Sequence[DimensionValues] = (),
    *,
    from_bottom: bool,
) -> Document:
    """Return the document.

    Args:
        tile_map: the layer in one of its sets.
        endpoint_uri: public address of the service.
        dimensions: the values of the layer; empty for one of them.
        from_bottom: whether clients count rows from the bottom.
    """
    layer, zooms = tile_map.layer, _zooms(tile_map)
    min_zoom, max_zoom = min(zooms.values()), max(zooms.values())
    box = layer.geographic_bbox
    document: dict[str, Any] = {
        "tilejson": "3.0.0",
        "name": tile_map.title,
        "description": layer.abstract,
        "tiles": [tile_template(endpoint_uri, tile_map)],
        "scheme": "tms" if from_bottom else "xyz",
        "format": layer.pyramid.format.extension,
        "crs": tile_map.tile_matrix_set.crs.code,
        "minzoom": min_zoom,
        "maxzoom": max_zoom,
        "bounds": bounds(box),
        "center": [*centre(box), zooms[tile_map.whole]],
        # The TileJSON 3.0.0 schema requires it for raster layers too.
        "vector_layers": _vector_layers(layer, zooms),
    }
    if tile_map.level is None and any(level != str(zoom) for level, zoom in zooms.items()):
        document["levels"] = list(tile_map.tile_matrix_set.matrices)
    if not tile_map.tile_matrix_set.is_quadtree:
        document["matrices"] = [_matrix(matrix, zooms[matrix.id]) for matrix in tile_map.matrices]
    if layer.attribution:
        document["attribution"] = anchor(layer.attribution.url, layer.attribution.title)
    if dimensions:
        document["dimensions"] = {
            one.dimension.name: _dimension(tile_map, endpoint_uri, one) for one in dimensions
        }
    return Document(json.dumps(document, ensure_ascii=False), "application/json")


def _dimension(
    tile_map: OfferedTileMap, endpoint_uri: str, values: DimensionValues
) -> dict[str, Any]:
    """Describe a dimension, and give the address of the tiles of a value."""
    name, layer = values.dimension.name, tile_map.layer
    at_value = replace(tile_map, layer=replace(layer, key=f"{layer.id};{name}={_VALUE}"))
    template = tile_template(endpoint_uri, at_value).replace(_VALUE, f"{{{name}}}")
    return {
        "default": values.default,
        # The newest of times.
        "values": list(values.texts[-_MOST_VALUES:]),
        "template": template,
    }


def _zooms(tile_map: OfferedTileMap) -> dict[str, int]:
    """Return the zoom of each level, coarse to fine.

    If all level identifiers are zooms in ascending order, they are used. Otherwise the zoom is
    the level's rank in the tile matrix set, with 0 for the coarsest.
    """
    levels = list(tile_map.limits)
    if tile_map.level is not None:
        return {tile_map.level: int(ONLY_LEVEL)}
    if _ZOOMS.issuperset(levels):
        numbers = [int(level) for level in levels]
        if numbers == sorted(numbers):
            return dict(zip(levels, numbers, strict=True))
    ranks = {level: rank for rank, level in enumerate(tile_map.tile_matrix_set.matrices)}
    return {level: ranks[level] for level in levels}


def _matrix(matrix: TileMatrix, zoom: int) -> dict[str, Any]:
    """Describe a matrix of a set whose levels have no common grid.

    The origin is the upper left corner. Sizes are width before height.
    """
    return {
        "zoom": zoom,
        "origin": [rounded(matrix.origin_x), rounded(matrix.origin_y)],
        "cellSize": matrix.cell_size,
        "tileSize": [matrix.tile_width, matrix.tile_height],
        "matrixSize": [matrix.matrix_width, matrix.matrix_height],
    }


def _vector_layers(layer: Layer, zooms: dict[str, int]) -> list[dict[str, Any]]:
    found: dict[str, list[tuple[int, Table]]] = {}
    for name, level in layer.pyramid.levels.items():
        for table in level.tables if name in zooms else ():
            found.setdefault(table.name, []).append((zooms[name], table))
    return [_vector_layer(name, places) for name, places in found.items()]


def _vector_layer(name: str, places: list[tuple[int, Table]]) -> dict[str, Any]:
    """Describe a table found at some zooms, coarse to fine; the finest zoom has precedence."""
    attributes: dict[str, Attribute] = {}
    for _, table in places:
        attributes.update((attribute.name, attribute) for attribute in table.attributes)
    return {
        "id": name,
        "geometry": places[-1][1].geometry,
        "minzoom": places[0][0],
        "maxzoom": places[-1][0],
        "fields": {attribute.name: attribute.type for attribute in attributes.values()},
        "fieldsCount": len(attributes),
        "fieldsDetails": {attribute.name: _details(attribute) for attribute in attributes.values()},
    }


def _details(attribute: Attribute) -> dict[str, Any]:
    details: dict[str, Any] = {"attribute": attribute.name, "type": attribute.type}
    if attribute.count is not None:
        details["count"] = attribute.count
    if attribute.minimum is not None:
        details["min"] = _plain(attribute.minimum)
    if attribute.maximum is not None:
        details["max"] = _plain(attribute.maximum)
    if attribute.values:
        details["values"] = list(attribute.values)
    return details


def _plain(number: float) -> float | int:
    return int(number) if float(number).is_integer() else number
