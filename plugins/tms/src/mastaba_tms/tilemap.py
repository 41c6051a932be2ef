"""The TileMap resource: one layer and its levels (tms.md section 4)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from mastaba.api.web import Document, coordinate
from mastaba_ows.xml import Element, add, add_filled, root_element, serialized
from mastaba_tms.addresses import VERSION, level_href, service_href, tile_map_href
from mastaba_tms.numbering import YOrigin, last_row_above_origin, mirrored
from mastaba_tms.offered import single_levels

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mastaba.api.catalogue import BoundingBox, Layer, Metadata, TileMatrix
    from mastaba_tms.offered import OfferedTileMap


def tile_map_document(tile_map: OfferedTileMap, endpoint_uri: str, y_origin: YOrigin) -> Document:
    """Return the document.

    Coordinates are easting or longitude before northing or latitude in every CRS. Rows are
    counted upward from the origin, as in the standard, unless ``y_origin`` is the top.

    The origin is that of all levels. If the set is not a quadtree, no origin is: that of the
    TileMap is the one of the finest level, and each ``TileSet`` contains its own ``Origin`` and a
    ``TileMap``, the address of a document of this level alone.

    Args:
        tile_map: the layer in one of its sets.
        endpoint_uri: public address of the service.
        y_origin: from the settings.
    """
    layer, finest = tile_map.layer, tile_map.finest
    attributes = {"version": VERSION, "tilemapservice": service_href(endpoint_uri)}
    root = root_element("TileMap", attributes)
    add_description(root, tile_map.title, layer.abstract, layer.keywords)
    for metadata in layer.metadata:
        add_metadata(root, metadata)
    _add_attribution(root, layer)
    add(root, "SRS", tile_map.tile_matrix_set.crs.code)
    whole = _grid_bbox(tile_map, y_origin)
    # GDAL counts tiles from the lower left corner of this box, not from the origin.
    bbox = tile_map.bbox if y_origin is YOrigin.TOP else whole
    corners = zip(("minx", "miny", "maxx", "maxy"), bbox.corners(northing_first=False), strict=True)
    box = {name: coordinate(value) for name, value in corners}
    add(root, "BoundingBox", attributes=box)
    add(root, "Origin", attributes=_corner(whole))
    tile_format = {
        "width": str(finest.tile_width),
        "height": str(finest.tile_height),
        "mime-type": layer.pyramid.format.media_type,
        "extension": layer.pyramid.format.extension,
    }
    add(root, "TileFormat", attributes=tile_format)
    tile_sets = add(root, "TileSets", attributes={"profile": "none"})
    matrices = _matrices(tile_map, y_origin)
    # Without the setting, and if matrices end at different heights.
    by_address = y_origin is YOrigin.BY_ADDRESS or (
        y_origin is YOrigin.BOTTOM
        and any(
            matrix.matrix_height - 1 != last_row_above_origin(tile_map.tile_matrix_set, matrix)
            for matrix in matrices
        )
    )
    alone = {} if y_origin is YOrigin.TOP else single_levels(tile_map)
    # GDAL takes each level for half the one before, unless the orders do not begin at 0.
    for order, matrix in enumerate(matrices, start=1 if alone else 0):
        tile_set = {
            "href": level_href(endpoint_uri, tile_map, matrix.id, mirrored=by_address),
            "units-per-pixel": coordinate(matrix.cell_size),
            "order": str(order),
        }
        attributes = tile_set | _limits(tile_map, matrix, y_origin)
        element = add(tile_sets, "TileSet", attributes=attributes)
        if matrix.id in alone:
            add(element, "Origin", attributes=_corner(matrix.bbox_of(matrix.all_tiles)))
            href = tile_map_href(endpoint_uri, alone[matrix.id])
            add(element, "TileMap", attributes={"href": href})
    return Document(serialized(root, indented=True), "text/xml")


def add_description(root: Element, title: str, abstract: str, keywords: Iterable[str]) -> None:
    """Append ``Title``, ``Abstract``, and ``KeywordList`` unless it is empty (TMS 1.0.0)."""
    add(root, "Title", title)
    add(root, "Abstract", abstract)
    add_filled(root, ("KeywordList", " ".join(keywords)))


def add_metadata(root: Element, metadata: Metadata) -> None:
    """Append ``Metadata``."""
    attributes = {"type": metadata.type, "mime-type": metadata.media_type, "href": metadata.url}
    add(root, "Metadata", attributes=attributes)


def _grid_bbox(tile_map: OfferedTileMap, y_origin: YOrigin) -> BoundingBox:
    """Return the box of the tile grid, the same for all levels."""
    tile_matrix_set, finest = tile_map.tile_matrix_set, tile_map.finest
    limits = finest.all_tiles
    if y_origin is not YOrigin.TOP:
        limits = replace(limits, max_row=last_row_above_origin(tile_matrix_set, finest))
    return finest.bbox_of(limits)


def _corner(box: BoundingBox) -> dict[str, str]:
    return {"x": coordinate(box.xmin), "y": coordinate(box.ymin)}


def _matrices(tile_map: OfferedTileMap, y_origin: YOrigin) -> list[TileMatrix]:
    """Return the matrices to list, coarse to fine.

    GDAL uses the position in the list as the level. So the list begins with the coarsest matrix
    of a quadtree, even if the layer has no tiles in it.
    """
    if (
        y_origin is YOrigin.TOP
        or tile_map.level is not None
        or not tile_map.tile_matrix_set.is_quadtree
    ):
        return tile_map.matrices
    finest = tile_map.finest.cell_size
    matrices = tile_map.tile_matrix_set.matrices.values()
    return [matrix for matrix in matrices if matrix.cell_size >= finest]


def _limits(tile_map: OfferedTileMap, matrix: TileMatrix, y_origin: YOrigin) -> dict[str, str]:
    """Return tile limit attributes, which are not in the standard but used by existing clients."""
    limits = tile_map.limits.get(matrix.id)
    if limits is None:
        return {}
    rows = limits.min_row, limits.max_row
    if y_origin is not YOrigin.TOP:
        rows = mirrored(limits, last_row_above_origin(tile_map.tile_matrix_set, matrix))
    return {
        "minrow": str(rows[0]),
        "maxrow": str(rows[1]),
        "mincol": str(limits.min_col),
        "maxcol": str(limits.max_col),
    }


def _add_attribution(root: Element, layer: Layer) -> None:
    if layer.attribution is None:
        return
    url = layer.attribution.url
    attribution = add(root, "Attribution", attributes={"href": url} if url else {})
    add_filled(attribution, ("Title", layer.attribution.title))
    if logo := layer.attribution.logo:
        attributes = {
            "width": str(logo.width),
            "height": str(logo.height),
            "href": logo.url,
            "mime-type": logo.media_type,
        }
        add(attribution, "Logo", attributes=attributes)
