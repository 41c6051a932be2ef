"""GetFeatureInfo for one pixel of a tile (OGC 07-057r7 clause 7.3, wmts.md section 4)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from mastaba.api.catalogue import TileLimits
from mastaba.api.tiles import DEFAULT_STYLE, check_limits, tile_index
from mastaba.api.web import decimal
from mastaba.errors import TileNotFoundError, UnsupportedOperationError
from mastaba_wmts.errors import PointOutOfRangeError
from mastaba_wmts.gettile import GetTile
from mastaba_wmts.params import FeatureInfoRequest, TileRequest, info_format

if TYPE_CHECKING:
    from mastaba.api.catalogue import Layer
    from mastaba.api.services import Site
    from mastaba.api.tiles import Publisher
    from mastaba.api.web import Response
    from mastaba_ows.featureinfo.answers import LayerAnswer
    from mastaba_ows.featureinfo.external import ExternalWMS


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
        from mastaba_ows.featureinfo.answers import (
            PixelAnswer,
            feature_info_response,
            position_of,
            source_of,
        )

        layer = self._tiles.layer(wanted.tile)
        source = layer.feature_info
        if source is None or ("wmts", "info") in layer.withheld:
            raise UnsupportedOperationError("the layer is not queryable", "GetFeatureInfo")
        tile = wanted.tile
        if not wanted.with_format:
            tile = tile._replace(format=layer.pyramid.format.media_type)
        tiles = self._tiles.values(tile)
        in_matrix, _, tile_row, tile_col = self._tiles.find(tiles[0])
        crs, matrix = in_matrix.link.tile_matrix_set.crs, in_matrix.matrix
        check_limits(in_matrix.limits, tile_row, tile_col)
        media_type = info_format(wanted.info_format)
        i, j = tile_index(wanted.i, "I"), tile_index(wanted.j, "J")
        width, height = matrix.tile_width, matrix.tile_height
        outside = [
            name
            for name, index, size in (("I", i, width), ("J", j, height))
            if not 0 <= index < size
        ]
        if outside:
            raise PointOutOfRangeError("the pixel is not inside the tile", outside)
        bbox = matrix.bbox_of(TileLimits(tile_row, tile_row, tile_col, tile_col))
        parts: list[LayerAnswer]
        if source.url is None:
            position = position_of(bbox, crs, width, height, i, j)
            size = width, height
            parts = [
                PixelAnswer(
                    shown.key,
                    values,
                    position,
                    source_of(self._site, shown, bbox, crs, size, i, j),
                )
                for shown, values in self._pixels(tiles, i, j)
            ]
        else:
            # The other WMS receives the tile as a map.
            corners = bbox.corners(northing_first=crs.northing_first)
            forwarded = {
                "CRS": crs.code,
                "BBOX": ",".join(map(decimal, corners)),
                "WIDTH": str(width),
                "HEIGHT": str(height),
                "I": str(i),
                "J": str(j),
                "FEATURE_COUNT": "1",
            }
            parts = [self._external.ask(source, media_type, forwarded)]
        return feature_info_response(parts, media_type, with_sources=wanted.with_sources)

    def _pixels(
        self, tiles: Sequence[TileRequest], i: int, j: int
    ) -> list[tuple[Layer, tuple[str, ...]]]:
        """Return layer and values of a pixel of each of some tiles; of those that are stored."""
        found, missing = [], None
        for tile in tiles:
            try:
                in_matrix, _, tile_row, tile_col = self._tiles.find(tile)
                # The format and the style of the tile do not matter.
                stored = in_matrix.stored(DEFAULT_STYLE)
                publisher = in_matrix.publishers[DEFAULT_STYLE]
                if stored is not None:
                    publisher = stored.at(tile_row, tile_col)
                values = self._values(publisher, tile_row, tile_col, i, j)
                found.append((publisher.layer, values))
            except TileNotFoundError as error:
                missing = error
        if missing is not None and not found:
            raise missing
        return found

    def _values(
        self, publisher: Publisher, tile_row: int, tile_col: int, i: int, j: int
    ) -> tuple[str, ...]:
        """Return one pixel's values as texts with six significant digits."""
        values = publisher.pixel_value(self._site, tile_row, tile_col, j, i)
        return tuple(f"{value:.6g}" for value in values.tolist())

    @cached_property
    def _external(self) -> ExternalWMS:
        from mastaba_ows.featureinfo.external import ExternalWMS

        return ExternalWMS()
