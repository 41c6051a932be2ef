"""Tiles drawn as maps, in a format, style or size that differs from the stored tiles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mastaba.model.tile_matrix_set import TileLimits
from mastaba_ogcapi.getmap import map_response

if TYPE_CHECKING:
    from mastaba.model.style import Style
    from mastaba.web.request import Request
    from mastaba.web.response import Response
    from mastaba_ogcapi.dataset import Collection, Dataset
    from mastaba_ogcapi.gettile import MatrixTiles


class DrawTile:
    """Draws the area of a tile (OGC API Maps, 20-058 clause 14: map tilesets)."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset

    def respond(
        self,
        request: Request,
        collection: Collection,
        style: Style | None,
        in_matrix: MatrixTiles,
        tile_row: int,
        tile_col: int,
    ) -> Response:
        """Return a tile inside the limits as a map of its area.

        Raises:
            RequestError: the request is invalid or exceeds a limit.
            NotAcceptableError: the client accepts none of the offered formats.
            SlabFormatError, StorageError: the data cannot be read.
        """
        # Loaded on first use, like the renderer.
        from mastaba_ogcapi.maparea import Area, level_factor, size_of
        from mastaba_ogcapi.mapplace import wanted_size
        from mastaba_ogcapi.mapquery import MapQueries, MapQuery, ground

        matrix = in_matrix.matrix
        place = TileLimits(tile_row, tile_row, tile_col, tile_col)
        area = Area(matrix.bbox_of(place), in_matrix.offered.tile_matrix_set.crs)
        natural = collection.natural_format(style)
        queries = MapQueries(self._dataset, matrix.tile_width)
        map_format, negotiated = queries.format(request, natural)
        limits = self._dataset.site.catalogue.settings.map
        size = wanted_size(request.query, limits)
        size.check_alone()
        columns, rows = matrix.tile_width, matrix.tile_height
        if (size.width, size.height, size.scale) != (None, None, None):
            columns, rows = size_of(area, size.width, size.height, size.pixel, columns, limits)
        query = MapQuery(
            ((collection, style),),
            area,
            columns,
            rows,
            level_factor(size.millimetres),
            ground(request.query),
            map_format,
            negotiated,
            request.query.get("filename"),
        )
        return map_response(self._dataset, request, query)
