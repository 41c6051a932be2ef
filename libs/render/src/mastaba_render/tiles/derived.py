"""Tiles of a set in which a layer is not stored: shared by all tile protocols.

Such a tile is a small map, encoded in the format family of the pyramid (slab.md section 4.4).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy.typing as npt

from mastaba.errors import InvalidParameterError, TileNotFoundError
from mastaba.model.layer import Layer
from mastaba.model.style import Style
from mastaba.model.tile_matrix_set import TileLimits
from mastaba.model.tile_matrix_set_link import TileMatrixSetLink
from mastaba.services.base import Site
from mastaba.tiles.stored import check_limits
from mastaba_render.encoded_map import as_data
from mastaba_render.encoder import Raster
from mastaba_render.encoding.tile_format import encoded_tile
from mastaba_render.layer_map import PreparedMap
from mastaba_render.map_request import Background, MapImage, MapLayer, MapRequest
from mastaba_render.map_response import drawn_keys, drawn_response
from mastaba_render.tiles.missing import missing_tile
from mastaba_server.web.request import Request
from mastaba_server.web.response import Response, content_disposition

MAX_SOURCE_TILES: Final = 3
"""In each direction; a tile that needs more is not produced."""


class DerivedTilePublisher:
    """Serves the tiles of one matrix of an extra tile matrix set, in one style.

    The counterpart of `TilePublisher` for tiles that are not stored.

    Args:
        site: renders and encodes.
        layer: a raster layer.
        link: the part of the set that the layer offers.
        matrix: identifier of a matrix of the set.
        style: only a palette on one-channel PNG changes a tile; other styles are ignored.
        missing_status: HTTP status for a tile that cannot be produced, unless the layer sets
            another.

    Attributes:
        crs, matrix: of the tiles.
        limits: limits of the tiles offered.
    """

    def __init__(
        self,
        site: Site,
        layer: Layer,
        link: TileMatrixSetLink,
        matrix: str,
        style: Style | None,
        missing_status: int = 404,
    ) -> None:
        tile_format = layer.pyramid.format
        self.layer = layer
        self.limits: TileLimits = link.limits[matrix]
        self.crs = link.tile_matrix_set.crs
        self.matrix = link.tile_matrix_set.matrices[matrix]
        self._site = site
        self._missing_status = layer.missing_tile_status or missing_status
        self._media_type = tile_format.media_type
        self._palette = style.palette if style and layer.pyramid.takes_palettes else None
        self._headers = [("Content-Type", tile_format.media_type)]
        if layer.cache_control:
            self._headers.append(("Cache-Control", layer.cache_control))
        self._headers += drawn_keys([layer])
        self._headers += layer.headers
        self._limits_of_map = replace(
            site.catalogue.settings.map,
            max_layers=1,
            max_width=self.matrix.tile_width,
            max_height=self.matrix.tile_height,
            max_pixels=self.matrix.tile_width * self.matrix.tile_height,
            max_tiles_x=MAX_SOURCE_TILES,
            max_tiles_y=MAX_SOURCE_TILES,
            overviews=False,
        )

    def respond(self, request: Request, tile_row: int, tile_col: int) -> Response:
        """Return a tile, 304 if the client already has it, or the status for missing tiles.

        If the storage has versions of its slabs, nothing is decoded for a client that already has
        the tile.

        Raises:
            TileOutOfRangeError: outside the limits; ``parameters`` names ``row`` and/or ``col``.
            TileNotFoundError: the tile needs too many source tiles or is outside the CRS of the
                layer, and that is an error for this layer.
            SlabFormatError, StorageError: the source tiles cannot be read.
        """
        check_limits(self.limits, tile_row, tile_col)
        try:
            wanted = self.map_request(tile_row, tile_col)
            prepared = self.prepare(wanted)
        except TileNotFoundError:
            if self._missing_status == 404:
                raise
            response = self.missing(self._missing_status)
            response.headers += self.layer.missing_headers
            return response
        name = request.query.get("filename")
        return drawn_response(
            request,
            self._site.renderer.admission,
            [prepared],
            (wanted, self._media_type, self.matrix, self._palette),
            prepared.memory,
            lambda: self.encoded(prepared.draw(), wanted),
            always=self._headers[1:],
            content=[
                self._headers[0],
                ("Content-Disposition", self._disposition(name)),
            ],
        )

    def _disposition(self, file_name: str | None) -> str:
        return content_disposition(self._media_type, file_name)

    def missing(self, status: int) -> Response:
        """Return the response for a tile that does not exist, if that is not an error.

        Args:
            status: 200 for a blank tile, or 204.
        """
        return missing_tile(status, self.layer, self.matrix, self._palette)

    def prepare(self, wanted: MapRequest) -> PreparedMap:
        """Return the map of a tile, without reading anything yet.

        Args:
            wanted: the result of `map_request` for a tile inside the limits.

        Raises:
            TileNotFoundError: the tile needs too many source tiles, or is outside the CRS of the
                layer.
        """
        try:
            prepared = self._site.renderer.prepare(wanted, self._limits_of_map)
        except InvalidParameterError:
            text = "too many stored tiles are needed to draw the tile"
            raise TileNotFoundError(text, self.layer.missing_headers) from None
        if prepared.is_empty:
            text = "the tile is outside the CRS of the stored tiles"
            raise TileNotFoundError(text, self.layer.missing_headers)
        return prepared

    def pixel_value(
        self, site: Site, tile_row: int, tile_col: int, row: int, column: int
    ) -> npt.NDArray[Any]:
        """Return the value of one pixel of a tile; see `Publisher`."""
        wanted = self.map_request(tile_row, tile_col)
        self.prepare(wanted)
        return site.renderer.pixel_value(wanted, self.layer, row, column)

    def map_request(self, tile_row: int, tile_col: int) -> MapRequest:
        """Return the map request for a tile inside the limits, without style."""
        place = TileLimits(tile_row, tile_row, tile_col, tile_col)
        return MapRequest(
            (MapLayer(self.layer, None),),
            self.matrix.bbox_of(place),
            self.crs,
            self.matrix.tile_width,
            self.matrix.tile_height,
        )

    def encoded(self, image: MapImage, wanted: MapRequest) -> bytes:
        """Return a drawn tile in the format of the tiles."""
        pixels = as_data(image, Background())
        raster = Raster(pixels, wanted.bbox, wanted.crs, image.nodata)
        return encoded_tile(raster, self.layer.pyramid.format, self._palette)
