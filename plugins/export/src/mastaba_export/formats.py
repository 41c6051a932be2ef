"""What each format can contain, and what its tiles are."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from mastaba.api.catalogue import TILE_FORMATS, Codec
from mastaba_export.errors import InvalidRequestError
from mastaba_export.payloads import Convert, as_gridded, as_tiff, gzipped, plain

if TYPE_CHECKING:
    from mastaba.api.catalogue import Layer, Level, TileFormat, TileMatrix, TileMatrixSet
    from mastaba_export.request import ExportRequest

EXTENSIONS: Final = {
    "tif": ".tif",
    "cog": ".tif",
    "pmtiles": ".pmtiles",
    "mbtiles": ".mbtiles",
    "gpkg": ".gpkg",
    "dir": "",
    "pyramid": ".json",
}
"""Extension of the name of each format."""

UPLOADED: Final = frozenset({"tif", "cog", "pmtiles"})
"""Formats of which finished parts are uploaded, and leave the disk, while the rest is written."""

MEDIA_TYPES: Final = {"png": "image/png", "jpg": "image/jpeg", "webp": "image/webp"}
"""Media types of the formats of drawn tiles."""

GRIDDED_TILES: Final = "image/tiff"
"""Media type of the tiles of a GeoPackage that is a gridded coverage, and of no others there."""

_EARTH: Final = 2 * math.pi * 6378137.0
"""Metres around the equator of Web Mercator."""
_NEAR: Final = 1e-6
_MERCATOR: Final = frozenset({"EPSG:3857", "EPSG:900913", "EPSG:3785", "EPSG:102100"})


def file_name(layer: str, form: str) -> str:
    """Return a name of a file for a layer: letters, digits, points, hyphens and underscores."""
    text = "".join(c if c.isascii() and (c.isalnum() or c in ".-_") else "_" for c in layer)
    return (text.lstrip(".")[:100] or "layer") + EXTENSIONS[form]


@dataclass(frozen=True, slots=True)
class TileKind:
    """The tiles of an archive.

    Attributes:
        extension: of a file with one tile.
        media_type: of a tile.
        is_copied: whether payloads are the stored bytes.
        convert: makes the conversion of stored tiles of a level; None if they stay as they are.
    """

    extension: str
    media_type: str
    is_copied: bool = True
    convert: Callable[[Level], Convert] | None = None


def kind_of(request: ExportRequest, layer: Layer) -> TileKind:
    """Return what the tiles of an export of a layer are.

    Raises:
        InvalidRequestError: the format cannot contain them.
    """
    if request.is_drawn:
        return _drawn(request, layer)
    form, pyramid = request.format or "", layer.pyramid
    stored = pyramid.format
    _check_written(request, stored)
    extension = "jpg" if stored.codec is Codec.JPEG else stored.extension
    same = TileKind(extension, stored.media_type)
    if form == "pyramid" or (stored.is_picture and form != "dir"):
        return same
    if form == "dir":
        if stored.needs_tiff_header:
            return TileKind(extension, stored.media_type, False, partial(as_tiff, pyramid))
        return same
    if stored.codec is Codec.MVT and form in ("pmtiles", "mbtiles"):
        is_gzip = form == "mbtiles" or request.tile_compression == "gzip"
        change = gzipped if is_gzip else plain
        return TileKind("pbf", stored.media_type, False, lambda _level: change)
    if form == "gpkg" and stored.sample == "float32":
        is_copied = stored.codec in (Codec.RAW, Codec.LZW)
        return TileKind("tif", GRIDDED_TILES, is_copied, partial(as_gridded, pyramid))
    if stored.is_vector:
        raise InvalidRequestError(
            f"{form} contains no vector tiles; use pmtiles, mbtiles or dir", "format"
        )
    remedy = "draw them as PNG (tile format)"
    if stored.sample == "float32":
        remedy = "draw them in a style of the layer, such as one for terrain RGB"
    raise InvalidRequestError(
        f"{form} contains tiles in JPEG, PNG or WEBP, and those of the layer are {stored.name}; "
        f"{remedy}, or use dir, pyramid or cog",
        "format",
    )


def _check_written(request: ExportRequest, stored: TileFormat) -> None:
    """Check that tiles in a format of containers need not be written in slabs, or again.

    Raises:
        InvalidRequestError: they would have to be.
    """
    if stored.name in TILE_FORMATS:
        return
    if request.format == "pyramid":
        remedy = "dir" if stored.is_vector else "pmtiles, mbtiles or dir"
        raise InvalidRequestError(
            f"slab pyramids contain no tiles in {stored.name}; use {remedy}", "format"
        )
    if request.clip:
        raise InvalidRequestError(
            f"tiles in {stored.name} are not written again: remove clip, or use cog", "clip"
        )


def _drawn(request: ExportRequest, layer: Layer) -> TileKind:
    if layer.is_vector:
        raise InvalidRequestError("vector tiles are not drawn; remove style and tms", "style")
    stored = layer.pyramid.format
    name = request.tile_format
    if name is None:
        name = "jpg" if stored.codec is Codec.JPEG and request.style is None else "png"
    return TileKind(name, MEDIA_TYPES[name], False)


def mercator_zoom(matrix: TileMatrix) -> int | None:
    """Return the zoom of a matrix in the quad tree of Web Mercator; None if it is not in it."""
    width, height = matrix.tile_width * matrix.cell_size, matrix.tile_height * matrix.cell_size
    zoom = round(math.log2(_EARTH / width))
    fits = (
        zoom >= 0
        and abs(width * 2**zoom - _EARTH) < _NEAR * _EARTH
        and abs(height - width) < _NEAR * width
        and abs(matrix.origin_x + _EARTH / 2) < _NEAR * _EARTH
        and abs(matrix.origin_y - _EARTH / 2) < _NEAR * _EARTH
    )
    return zoom if fits else None


def zooms_of(
    form: str, tile_matrix_set: TileMatrixSet, matrices: Mapping[str, TileMatrix]
) -> dict[str, int]:
    """Return the zoom of each matrix of an export.

    Raises:
        InvalidRequestError: the format cannot contain the set.
    """
    found: dict[str, int] = {}
    if tile_matrix_set.crs.code in _MERCATOR:
        for name, matrix in matrices.items():
            zoom = mercator_zoom(matrix)
            if zoom is not None:
                found[name] = zoom
    if len(found) == len(matrices):
        return found
    if form in ("pmtiles", "mbtiles"):
        raise InvalidRequestError(
            f"{form} contains tiles of the Web Mercator quad tree only, and "
            f"{tile_matrix_set.id} is another tile matrix set; use gpkg, dir or pyramid, or draw "
            "the tiles in another tile matrix set that the layer offers",
            "format",
        )
    if form == "gpkg":
        _check_one_origin(tile_matrix_set, matrices)
    order = list(tile_matrix_set.matrices)
    return {name: order.index(name) for name in matrices}


def _check_one_origin(tile_matrix_set: TileMatrixSet, matrices: Mapping[str, TileMatrix]) -> None:
    """Check that a GeoPackage can have the matrices: readers take one corner for all of them."""
    origins = {(matrix.origin_x, matrix.origin_y) for matrix in matrices.values()}
    if len(origins) > 1:
        raise InvalidRequestError(
            f"the levels of {tile_matrix_set.id} have different origins; a GeoPackage contains "
            "one of them: choose one level",
            "levels",
        )
    spans = [matrix.cell_size * matrix.tile_width for matrix in matrices.values()]
    for span in spans:
        factor = spans[0] / span
        if abs(factor - round(factor)) > _NEAR * factor:
            raise InvalidRequestError(
                f"the tiles of the levels of {tile_matrix_set.id} are not whole parts of each "
                "other; a GeoPackage contains one of them: choose one level",
                "levels",
            )
