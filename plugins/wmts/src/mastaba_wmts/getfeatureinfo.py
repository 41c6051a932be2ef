"""GetFeatureInfo for one pixel of a tile (OGC 07-057r7 clause 7.3, wmts.md section 4)."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from mastaba.errors import TileNotFoundError, UnsupportedOperationError
from mastaba.model.crs import CRS
from mastaba.model.layer import FeatureInfo
from mastaba.model.tile_matrix_set import TileLimits, TileMatrix
from mastaba.tiles.stored import TilePublisher, check_limits
from mastaba.web.markup import decimal
from mastaba.web.response import Response, content_disposition
from mastaba_wmts.errors import PointOutOfRangeError, UpstreamError
from mastaba_wmts.gettile import GetTile
from mastaba_wmts.params import FeatureInfoRequest, info_format, tile_index

if TYPE_CHECKING:
    from mastaba.services.base import Site
    from mastaba.services.featureinfo.external import ExternalAnswer, ExternalWMS
    from mastaba_wmts.gettile import Publisher


class GetFeatureInfo:
    """Answers GetFeatureInfo with pixel values from the pyramid or the answer of another WMS.

    Args:
        tiles: finds the requested tile.
        site: of the service.
    """

    def __init__(self, tiles: GetTile, site: Site) -> None:
        self._tiles = tiles
        self._site = site

    def respond(self, wanted: FeatureInfoRequest) -> Response:
        """Return the feature information for a pixel.

        Checks are made in the order LAYER, queryable, as in GetTile, INFOFORMAT, I, J.

        Raises:
            UnsupportedOperationError: the layer is not queryable.
            PointOutOfRangeError: I or J is not inside the tile.
            UpstreamError: the other WMS gives no usable answer.
            TileNotFoundError: no tile is stored there, or none can be computed.
            RequestError: the request is invalid, as in `GetTile.find`.
            SlabFormatError, StorageError: the tile cannot be read.
        """
        # Loaded on first use: other requests do not need it.
        from mastaba.services.featureinfo.answers import PixelAnswer, position_of, written

        layer = self._tiles.layer(wanted.tile.layer)
        if layer.feature_info is None:
            raise UnsupportedOperationError("the layer is not queryable", "GetFeatureInfo")
        tile = wanted.tile
        if not wanted.with_format:
            tile = tile._replace(format=layer.pyramid.format.media_type)
        publisher, tile_row, tile_col = self._tiles.find(tile)
        crs, matrix, limits = _grid(publisher)
        check_limits(limits, tile_row, tile_col)
        media_type = info_format(wanted.info_format)
        i, j = tile_index(wanted.i, "I"), tile_index(wanted.j, "J")
        at_fault = [
            name
            for name, index, size in (("I", i, matrix.tile_width), ("J", j, matrix.tile_height))
            if not 0 <= index < size
        ]
        if at_fault:
            raise PointOutOfRangeError("the pixel is not inside the tile", at_fault)
        part: PixelAnswer | ExternalAnswer
        if layer.feature_info.url is None:
            bbox = matrix.bbox_of(TileLimits(tile_row, tile_row, tile_col, tile_col))
            part = PixelAnswer(
                layer.id,
                self._values(publisher, tile_row, tile_col, i, j),
                position_of(bbox, crs, matrix.tile_width, matrix.tile_height, i, j),
            )
        else:
            part = self._ask(layer.feature_info, crs, matrix, tile_row, tile_col, i, j, media_type)
        answer = written([part], media_type)
        headers = [
            ("Content-Type", answer.media_type),
            ("Content-Disposition", content_disposition(media_type)),
            ("X-Content-Type-Options", "nosniff"),
        ]
        if answer.foreign:
            # Pages from another server must not run scripts in this server's origin.
            headers.append(("Content-Security-Policy", "sandbox"))
        return Response(200, headers, answer.body)

    def _values(
        self, publisher: Publisher, tile_row: int, tile_col: int, i: int, j: int
    ) -> tuple[str, ...]:
        """Return one pixel's values as texts with six significant digits."""
        from mastaba.render.mosaic import LevelPixels, Window
        from mastaba.render.pixel import pixel_value

        renderer, layer = self._site.renderer, publisher.layer
        if isinstance(publisher, TilePublisher):
            reader = publisher.reader
            if reader.locate(tile_row, tile_col) is None:
                raise TileNotFoundError("no tile is stored here")
            matrix = reader.level.matrix
            row, column = tile_row * matrix.tile_height + j, tile_col * matrix.tile_width + i
            pixels = LevelPixels(layer.pyramid, reader, renderer.tiles)
            values = pixels.read(Window(row, row + 1, column, column + 1)).pixels[0, 0]
        else:
            publisher.prepare(tile_row, tile_col)
            values = pixel_value(
                self._site.catalogue,
                renderer.tiles,
                publisher.map_request(tile_row, tile_col),
                layer,
                j,
                i,
            )
        return tuple(f"{value:.6g}" for value in values.tolist())

    def _ask(
        self,
        info: FeatureInfo,
        crs: CRS,
        matrix: TileMatrix,
        tile_row: int,
        tile_col: int,
        i: int,
        j: int,
        media_type: str,
    ) -> ExternalAnswer:
        """Return the answer of another WMS, which receives the tile as a map."""
        from mastaba.services.featureinfo import external

        bbox = matrix.bbox_of(TileLimits(tile_row, tile_row, tile_col, tile_col))
        corners = [bbox.xmin, bbox.ymin, bbox.xmax, bbox.ymax]
        if crs.northing_first:
            corners = [bbox.ymin, bbox.xmin, bbox.ymax, bbox.xmax]
        query = external.ExternalQuery(
            crs.code,
            ",".join(map(decimal, corners)),
            matrix.tile_width,
            matrix.tile_height,
            i,
            j,
            media_type,
        )
        try:
            return self._external.ask(info, query)
        except external.UpstreamError as error:
            raise UpstreamError(str(error)) from error

    @cached_property
    def _external(self) -> ExternalWMS:
        from mastaba.services.featureinfo.external import ExternalWMS

        return ExternalWMS()


def _grid(publisher: Publisher) -> tuple[CRS, TileMatrix, TileLimits]:
    if isinstance(publisher, TilePublisher):
        level = publisher.reader.level
        return publisher.layer.pyramid.tile_matrix_set.crs, level.matrix, level.limits
    return publisher.crs, publisher.matrix, publisher.limits
