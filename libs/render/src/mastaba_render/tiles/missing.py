"""Responses for tiles within the limits that are not stored, if that is not an error."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from mastaba.model.bbox import BoundingBox
from mastaba.model.crs import WGS84
from mastaba.model.format import TileFormat
from mastaba.model.layer import Layer
from mastaba.model.pyramid import RasterSpecification
from mastaba.model.style import Palette
from mastaba.model.tile_matrix_set import TileMatrix
from mastaba_render.encoder import Raster
from mastaba_render.encoding.tile_format import encoded_tile
from mastaba_server.web.response import Response, content_disposition

_MOST_SAMPLES = 512 * 512
"""Maximum for a cached tile: a megabyte of floats."""

# Tile formats do not contain a location.
_NOWHERE = BoundingBox(0.0, 0.0, 1.0, 1.0)


def missing_tile(
    status: int, layer: Layer, matrix: TileMatrix, palette: Palette | None
) -> Response:
    """Return the response that a layer sets for its missing tiles.

    Args:
        status: 204, or 200 for a blank tile: all nodata, or empty for vector layers.
        palette: palette of the layer's tiles.
    """
    if status != 200:
        return Response(status, [])
    pyramid = layer.pyramid
    body = b""
    if pyramid.raster is not None:
        # Some formats are not compressed: large tiles are not cached.
        samples = matrix.tile_width * matrix.tile_height * pyramid.raster.channels
        blank = _blank if samples <= _MOST_SAMPLES else _blank.__wrapped__
        body = blank(pyramid.format, pyramid.raster, matrix.tile_width, matrix.tile_height, palette)
    headers = [
        ("Content-Type", pyramid.format.media_type),
        ("Content-Disposition", content_disposition(pyramid.format.media_type)),
    ]
    return Response(200, headers, body)


@lru_cache(maxsize=16)
def _blank(
    tile_format: TileFormat,
    raster: RasterSpecification,
    width: int,
    height: int,
    palette: Palette | None,
) -> bytes:
    pixels = np.full((height, width, raster.channels), raster.nodata, tile_format.sample)
    return encoded_tile(Raster(pixels, _NOWHERE, WGS84, raster.nodata), tile_format, palette)
