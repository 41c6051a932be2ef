"""Tiles in a picture format other than the stored one, in any style of the layer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mastaba.errors import TileNotFoundError
from mastaba.model.layer import Layer
from mastaba.model.style import Style
from mastaba.model.tile_matrix_set_link import TileMatrixSetLink
from mastaba.services.base import Site
from mastaba_render.encoded_map import as_picture
from mastaba_render.encoder import Raster
from mastaba_render.map_request import Background, MapImage, MapLayer, MapRequest
from mastaba_render.tiles.derived import DerivedTilePublisher
from mastaba_server.web.response import Response, content_disposition

_BACKGROUND = Background(transparent=True)
"""Formats without alpha are white where there is no data."""


class PictureTilePublisher(DerivedTilePublisher):
    """Serves the tiles of one matrix as pictures, in one style and one format.

    Values that a picture cannot hold are shown as a grey ramp (see `Renderer.in_picture`).

    Args:
        site, layer, link, matrix, missing_status: as for `DerivedTilePublisher`. The set may be
            the one in which the layer is stored.
        style: style to draw; None for the values of the pyramid.
        media_type: of a picture encoder.
    """

    def __init__(
        self,
        site: Site,
        layer: Layer,
        link: TileMatrixSetLink,
        matrix: str,
        style: Style | None,
        media_type: str,
        missing_status: int = 404,
    ) -> None:
        super().__init__(site, layer, link, matrix, None, missing_status)
        self._style = style
        self._media_type = media_type
        self._encoder = site.encoders[media_type]
        self._headers[0] = ("Content-Type", media_type)
        is_native = link.tile_matrix_set is layer.pyramid.tile_matrix_set
        self._reader = site.catalogue.readers_of(layer)[matrix] if is_native else None

    def map_request(self, tile_row: int, tile_col: int) -> MapRequest:
        """Return the map request for a tile inside the limits.

        Raises:
            TileNotFoundError: the layer is stored in this set, and has no such tile.
            SlabFormatError, StorageError: the slab or the range of values cannot be read.
        """
        if self._reader is not None and self._reader.locate(tile_row, tile_col) is None:
            raise TileNotFoundError("no tile is stored here", self.layer.missing_headers)
        entry = self._site.renderer.in_picture(MapLayer(self.layer, self._style))
        return replace(super().map_request(tile_row, tile_col), layers=(entry,))

    def missing(self, status: int) -> Response:
        """Return a blank picture, or a response without a body."""
        if status != 200:
            return Response(status, [])
        shape = self.matrix.tile_height, self.matrix.tile_width
        blank = MapImage(np.zeros((*shape, 3), np.uint8), np.zeros(shape, np.bool_), (0.0,) * 3)
        disposition = ("Content-Disposition", self._disposition(None))
        body = self.encoded(blank, super().map_request(0, 0))
        return Response(200, [self._headers[0], disposition], body)

    def _disposition(self, file_name: str | None) -> str:
        return content_disposition(self._media_type, file_name, self._encoder.extension)

    def encoded(self, image: MapImage, wanted: MapRequest) -> bytes:
        """Return a drawn tile in the picture format."""
        pixels = as_picture(image, _BACKGROUND, alpha_possible=self._encoder.holds_alpha)
        return self._encoder.encode(Raster(pixels, wanted.bbox, wanted.crs), {})
