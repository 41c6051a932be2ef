"""Thumbnails of layers: one cheap request for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from mastaba.api.catalogue import Codec
from mastaba_viewer.kinds import is_picture, kind
from mastaba_viewer.legends import table_colour
from mastaba_viewer.sources.common import picture_formats, publisher, segment
from mastaba_viewer.sources.ogcapi import tile_source
from mastaba_viewer.sources.tms import tms_source
from mastaba_viewer.sources.wms import get_map
from mastaba_viewer.sources.wmts import wmts_source

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mastaba.api.catalogue import Layer
    from mastaba.api.services import Site

_WIDTH: Final = 440
_HEIGHT: Final = 260
_SMALLEST: Final = 16
_MAX_TILES: Final = 36
"""Most source tiles of one map, so that even a list of a thousand layers stays cheap."""


@dataclass(frozen=True, slots=True)
class Thumbnail:
    """The source of a thumbnail.

    Attributes:
        url: URL of the image or tile.
        tile: description of the tile for the script that draws it; None if browsers show it.
    """

    url: str
    tile: Mapping[str, Any] | None = None


def thumbnail(layer: Layer, site: Site) -> Thumbnail | None:
    """Return a map of the whole layer, or else one of its tiles, or None if neither is served."""
    url = _map_url(layer, site)
    return Thumbnail(url) if url is not None else _tile(layer, site)


def _map_url(layer: Layer, site: Site) -> str | None:
    service, style, formats = publisher("wms", layer, site), layer.default_style, None
    if service is None or style is None or "," in layer.id + style.identifier:
        return None
    if is_picture(layer, style):
        formats = picture_formats(site)
    if not formats or not _is_cheap(layer, site):
        return None
    opaque = layer.pyramid.format.codec is Codec.JPEG and "image/jpeg" in formats
    media_type = "image/jpeg" if opaque else formats[0]
    bbox, crs = layer.native_bbox, layer.pyramid.tile_matrix_set.crs
    edges = (bbox.xmin, bbox.ymin, bbox.xmax, bbox.ymax)
    if crs.northing_first:
        edges = (bbox.ymin, bbox.xmin, bbox.ymax, bbox.xmax)
    width, height = bbox.xmax - bbox.xmin, bbox.ymax - bbox.ymin
    scale = max(width / _WIDTH, height / _HEIGHT)
    values = {
        "CRS": crs.code,
        "BBOX": ",".join(map(repr, edges)),
        "WIDTH": str(max(_SMALLEST, round(width / scale))),
        "HEIGHT": str(max(_SMALLEST, round(height / scale))),
        "FORMAT": media_type,
        "TRANSPARENT": "FALSE" if opaque else "TRUE",
    }
    return _filled(get_map(layer, style.identifier, service.settings.endpoint_uri), values)


def _is_cheap(layer: Layer, site: Site) -> bool:
    settings, limits = site.catalogue.settings.map, layer.pyramid.coarsest.limits
    columns = limits.max_col - limits.min_col + 1
    rows = limits.max_row - limits.min_row + 1
    return (
        columns * rows <= _MAX_TILES
        and columns <= settings.max_tiles_x
        and rows <= settings.max_tiles_y
        and settings.max_width >= _WIDTH
        and settings.max_height >= _HEIGHT
    )


def _tile(layer: Layer, site: Site) -> Thumbnail | None:
    """Return the tile in the middle of the coarsest level, which most likely exists."""
    makers = (tms_source, wmts_source, tile_source)
    source = next((found for make in makers if (found := make(layer, site)) is not None), None)
    if source is None or not source["styles"]:
        return None
    level, style = layer.pyramid.coarsest, source["styles"][0]
    matrix, limits = level.matrix, level.limits
    row = (limits.min_row + limits.max_row) // 2
    values = {
        "TileMatrixSet": segment(source["sets"][layer.pyramid.tile_matrix_set.id]),
        "TileMatrix": segment(matrix.id),
        "TileRow": str(matrix.matrix_height - 1 - row if source["fromBottom"] else row),
        "TileCol": str((limits.min_col + limits.max_col) // 2),
    }
    url = _filled(style["template"], values)
    if style["draws"] == "image":
        return Thumbnail(url)
    raster = layer.pyramid.raster
    return Thumbnail(
        url,
        {
            "url": url,
            "draws": kind(layer),
            "mediaType": layer.pyramid.format.media_type,
            "nodata": list(raster.nodata) if raster else [],
            "tables": [
                {"name": table.name, "colour": table_colour(table.name, place)}
                for place, table in enumerate(level.tables)
            ],
            "width": matrix.tile_width,
            "height": matrix.tile_height,
            "metresPerPixel": matrix.cell_size * layer.pyramid.tile_matrix_set.crs.metres_per_unit,
        },
    )


def _filled(template: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        template = template.replace(f"{{{name}}}", value)
    return template
