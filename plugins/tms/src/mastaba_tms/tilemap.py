"""The TileMap resource: one layer and its levels (tms.md section 4)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lxml import etree

from mastaba.web.markup import coordinate
from mastaba_tms.addresses import VERSION, level_href, service_href
from mastaba_tms.numbering import YOrigin, last_row, last_row_above_origin, mirrored
from mastaba_tms.xml import add, add_keywords, add_metadata, add_text, document

if TYPE_CHECKING:
    from mastaba.model.bbox import BoundingBox
    from mastaba.model.layer import Attribution, Layer
    from mastaba.model.tile_matrix_set import TileMatrix
    from mastaba.web.response import Document


def tile_map(layer: Layer, endpoint_uri: str, y_origin: YOrigin) -> Document:
    """Return the document.

    Coordinates are easting or longitude before northing or latitude in every CRS. Rows are
    counted upward from the origin, as in the standard, unless ``y_origin`` is the top.

    Args:
        layer: the layer.
        endpoint_uri: public address of the service.
        y_origin: from the settings.
    """
    root = etree.Element("TileMap", version=VERSION, tilemapservice=service_href(endpoint_uri))
    add(root, "Title", layer.title)
    add(root, "Abstract", layer.abstract)
    add_keywords(root, layer.keywords)
    for metadata in layer.metadata:
        add_metadata(root, metadata)
    if layer.attribution:
        _add_attribution(root, layer.attribution)
    add(root, "SRS", layer.pyramid.tile_matrix_set.crs.code)
    finest = layer.pyramid.finest.matrix
    whole = _grid_bbox(layer, y_origin)
    # GDAL counts tiles from the lower left corner of this box, not from the origin.
    bbox = layer.native_bbox if y_origin is YOrigin.TOP else whole
    add(
        root,
        "BoundingBox",
        minx=coordinate(bbox.xmin),
        miny=coordinate(bbox.ymin),
        maxx=coordinate(bbox.xmax),
        maxy=coordinate(bbox.ymax),
    )
    add(root, "Origin", x=coordinate(whole.xmin), y=coordinate(whole.ymin))
    add(
        root,
        "TileFormat",
        width=str(finest.tile_width),
        height=str(finest.tile_height),
        mime_type=layer.pyramid.format.media_type,
        extension=layer.pyramid.format.extension,
    )
    tile_sets = add(root, "TileSets", profile="none")
    for order, matrix in enumerate(_matrices(layer, y_origin)):
        add(
            tile_sets,
            "TileSet",
            href=level_href(
                endpoint_uri, layer, matrix.id, mirrored=y_origin is YOrigin.BY_ADDRESS
            ),
            units_per_pixel=coordinate(matrix.cell_size),
            order=str(order),
            **_limits(layer, matrix, y_origin),
        )
    return document(root)


def _grid_bbox(layer: Layer, y_origin: YOrigin) -> BoundingBox:
    """Return the box of the tile grid, the same for all levels."""
    tile_matrix_set, finest = layer.pyramid.tile_matrix_set, layer.pyramid.finest.matrix
    limits = finest.all_tiles
    if y_origin is YOrigin.BY_ADDRESS:
        limits = replace(limits, max_row=last_row_above_origin(tile_matrix_set, finest))
    return finest.bbox_of(limits)


def _matrices(layer: Layer, y_origin: YOrigin) -> list[TileMatrix]:
    """Return the matrices to list, coarse to fine.

    GDAL uses the position in the list as the level. So the list begins with the coarsest matrix
    of a quadtree, even if the layer has no tiles in it.
    """
    pyramid = layer.pyramid
    stored = [level.matrix for level in pyramid.levels.values()]
    if y_origin is YOrigin.TOP or not pyramid.tile_matrix_set.is_quadtree:
        return stored
    finest = pyramid.finest.matrix.cell_size
    matrices = pyramid.tile_matrix_set.matrices.values()
    return [matrix for matrix in matrices if matrix.cell_size >= finest]


def _limits(layer: Layer, matrix: TileMatrix, y_origin: YOrigin) -> dict[str, str]:
    """Return tile limit attributes, which are not in the standard but used by existing clients."""
    level = layer.pyramid.levels.get(matrix.id)
    if level is None:
        return {}
    limits = level.limits
    rows = limits.min_row, limits.max_row
    if y_origin is YOrigin.BOTTOM:
        rows = mirrored(limits, last_row(level))
    elif y_origin is YOrigin.BY_ADDRESS:
        rows = mirrored(limits, last_row_above_origin(layer.pyramid.tile_matrix_set, matrix))
    return {
        "minrow": str(rows[0]),
        "maxrow": str(rows[1]),
        "mincol": str(limits.min_col),
        "maxcol": str(limits.max_col),
    }


def _add_attribution(root: etree._Element, attribution: Attribution) -> None:
    element = add(root, "Attribution", href=attribution.url)
    add_text(element, "Title", attribution.title)
    if attribution.logo:
        logo = attribution.logo
        add(
            element,
            "Logo",
            width=str(logo.width),
            height=str(logo.height),
            href=logo.url,
            mime_type=logo.media_type,
        )
