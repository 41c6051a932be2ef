"""The TileMap resource: one layer and its levels (tms.md section 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lxml import etree

from mastaba.http.markup import coordinate
from mastaba_tms.addresses import VERSION, level_href, service_href
from mastaba_tms.numbering import row_limits
from mastaba_tms.xml import add, add_keywords, add_metadata, add_text, document

if TYPE_CHECKING:
    from mastaba.http.response import Document
    from mastaba.model.layer import Attribution, Layer


def tile_map(layer: Layer, endpoint_uri: str, *, from_bottom: bool) -> Document:
    """Return the document.

    Coordinates are easting or longitude before northing or latitude, whatever the CRS.

    Args:
        layer: the layer.
        endpoint_uri: public address of the service.
        from_bottom: whether clients count rows from the bottom.
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
    bbox = layer.native_bbox
    add(
        root,
        "BoundingBox",
        minx=coordinate(bbox.xmin),
        miny=coordinate(bbox.ymin),
        maxx=coordinate(bbox.xmax),
        maxy=coordinate(bbox.ymax),
    )
    finest = layer.pyramid.finest.matrix
    whole = finest.bbox_of(finest.all_tiles)
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
    for order, level in enumerate(layer.pyramid.levels.values()):
        # minrow, maxrow, mincol and maxcol are not in the standard; existing clients read them.
        min_row, max_row = row_limits(level, from_bottom=from_bottom)
        add(
            tile_sets,
            "TileSet",
            href=level_href(endpoint_uri, layer, level.matrix.id),
            minrow=str(min_row),
            maxrow=str(max_row),
            mincol=str(level.limits.min_col),
            maxcol=str(level.limits.max_col),
            units_per_pixel=coordinate(level.matrix.cell_size),
            order=str(order),
        )
    return document(root)


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
