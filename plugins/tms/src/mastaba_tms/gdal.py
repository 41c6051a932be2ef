"""gdal.xml: layer description for the TMS mini-driver of GDAL's WMS driver (tms.md section 8)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mastaba.api.web import Document, coordinate
from mastaba.errors import UnsupportedOperationError
from mastaba_ows.xml import add, root_element, serialized
from mastaba_tms.addresses import ONLY_LEVEL, tile_template
from mastaba_tms.offered import single_levels

if TYPE_CHECKING:
    from collections.abc import Collection

    from mastaba_tms.offered import OfferedTileMap

_READABLE: Final = ("image/jpeg", "image/png", "image/tiff")
"""Media types of stored tiles that GDAL can read: samples alone have no size."""
_RGBA: Final = 4


def gdal_description(
    tile_map: OfferedTileMap, pictures: Collection[str], endpoint_uri: str, *, from_bottom: bool
) -> Document:
    """Return the document. Tiles that GDAL cannot read as stored are read as images.

    Args:
        tile_map: the layer in one of its sets.
        pictures: extensions of the image formats in which its tiles can also be drawn.
        endpoint_uri: public address of the service.
        from_bottom: whether clients count rows from the bottom.

    Raises:
        UnsupportedOperationError: GDAL cannot describe this layer.
    """
    _check(tile_map, from_bottom)
    pyramid = tile_map.layer.pyramid
    assert pyramid.raster is not None
    matrix = tile_map.finest
    if tile_map.level is None:
        # GDAL assumes that a matrix has 2^level rows and columns. A matrix may have fewer, but the
        # window covers the whole square.
        level, columns, rows = matrix.id, 1, 1
        span = 2 ** int(matrix.id)
        right = matrix.origin_x + span * matrix.tile_width * matrix.cell_size
        bottom = matrix.origin_y - span * matrix.tile_height * matrix.cell_size
    else:
        level, columns, rows = ONLY_LEVEL, matrix.matrix_width, matrix.matrix_height
        whole = matrix.bbox_of(matrix.all_tiles)
        right, bottom = whole.xmax, whole.ymin
    is_stored = pyramid.format.media_type in _READABLE
    extension = pyramid.format.extension if is_stored else _drawn(pictures)
    places = ("${z}", "${x}", "${y}")
    root = root_element("GDAL_WMS")
    service = add(root, "Service", attributes={"name": "TMS"})
    add(service, "ServerUrl", tile_template(endpoint_uri, tile_map, places, extension))
    window = add(root, "DataWindow")
    for name, text in (
        ("UpperLeftX", coordinate(matrix.origin_x)),
        ("UpperLeftY", coordinate(matrix.origin_y)),
        ("LowerRightX", coordinate(right)),
        ("LowerRightY", coordinate(bottom)),
        ("TileLevel", level),
        ("TileCountX", str(columns)),
        ("TileCountY", str(rows)),
        ("YOrigin", "bottom" if from_bottom else "top"),
    ):
        add(window, name, text)
    add(root, "Projection", tile_map.tile_matrix_set.crs.code)
    add(root, "BlockSizeX", str(matrix.tile_width))
    add(root, "BlockSizeY", str(matrix.tile_height))
    add(root, "ZeroBlockHttpCodes", "204,404")
    add(root, "BandsCount", str(pyramid.raster.channels if is_stored else _RGBA))
    if is_stored and pyramid.format.sample == "float32":
        add(root, "DataType", "Float32")
    # GDAL recognises the file by its first bytes, which must be the root element.
    return Document(serialized(root, declared=False, indented=True), "text/xml")


def _drawn(pictures: Collection[str]) -> str:
    """Return the extension of the image format that loses least."""
    if not pictures:
        raise UnsupportedOperationError("GDAL cannot read the tiles of this layer")
    return "png" if "png" in pictures else next(iter(pictures))


def _check(tile_map: OfferedTileMap, from_bottom: bool) -> None:
    tile_matrix_set = tile_map.tile_matrix_set
    if tile_map.layer.pyramid.raster is None:
        raise UnsupportedOperationError("A vector layer has no description for GDAL")
    if tile_map.level is not None:
        return
    if not tile_matrix_set.is_quadtree:
        finest = single_levels(tile_map)[tile_map.finest.id]
        raise UnsupportedOperationError(
            "The tile matrix set of this layer is not a quadtree. Each level has a description of "
            f"its own, such as {finest.path}/gdal.xml"
        )
    matrices = list(tile_matrix_set.matrices.values())
    if (matrices[0].matrix_width, matrices[0].matrix_height) != (1, 1):
        raise UnsupportedOperationError(
            "The coarsest matrix of the set of this layer has more than one tile"
        )
    ranks = {matrix.id: str(rank) for rank, matrix in enumerate(matrices)}
    if any(ranks[level] != level for level in tile_map.limits):
        raise UnsupportedOperationError(
            "The levels of this layer are not numbered from the coarsest matrix of its set"
        )
    if from_bottom and any(
        matrix.matrix_height != 2 ** int(matrix.id) for matrix in tile_map.matrices
    ):
        raise UnsupportedOperationError(
            "Rows are counted from the bottom of a matrix that is not a full square"
        )
