"""Maps of one collection or of several (OGC API Maps, 20-058)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mastaba.api.catalogue import CRS84
from mastaba.api.web import Response, content_disposition, coordinate
from mastaba.errors import NoSuchValueError, UnknownPathError
from mastaba_ogcapi.crs import in_axis_order
from mastaba_ows.crs import crs_uri

if TYPE_CHECKING:
    from mastaba.api.catalogue import Style
    from mastaba.api.web import Request
    from mastaba_ogcapi.dataset import Collection, Dataset
    from mastaba_ogcapi.mapquery import MapQuery


class GetMap:
    """Answers map requests.

    Args:
        dataset: gives the collections.
        default_size: larger dimension, in pixels, of maps without a requested size.
    """

    def __init__(self, dataset: Dataset, default_size: int) -> None:
        self._dataset = dataset
        self._default_size = default_size

    def collection(self, request: Request, identifier: str, style: str | None = None) -> Response:
        """Return the map of one collection.

        Args:
            style: identifier; None for the default style.

        Raises:
            UnknownPathError: there is no such collection or style.
            RequestError: the request is invalid or exceeds a limit.
            SlabFormatError, StorageError: the data cannot be read.
        """
        found = self._dataset.raster_collection(identifier, "maps")
        wanted = found.layer.default_style if style is None else found.style(style)
        return self._map(request, found, wanted)

    def dataset(self, request: Request) -> Response:
        """Return the map of several collections, the first one at the bottom.

        Raises:
            UnknownPathError: there is nothing to draw.
            RequestError: the request is invalid or exceeds a limit.
            SlabFormatError, StorageError: the data cannot be read.
        """
        if not self._dataset.has_dataset_map:
            raise UnknownPathError("there is no collection of images to draw")
        return self._map(request, None, None)

    def _map(
        self, request: Request, collection: Collection | None, style: Style | None
    ) -> Response:
        # Loaded on first use, like the renderer: stored tiles need neither.
        from mastaba_ogcapi.maparea import OutsideError
        from mastaba_ogcapi.mapquery import MapQueries

        queries = MapQueries(self._dataset, self._default_size)
        try:
            if collection is None:
                query = queries.of_dataset(request)
            else:
                query = queries.of_collection(request, collection, style)
        except (OutsideError, NoSuchValueError):
            return Response(204, [])
        return map_response(self._dataset, request, query)


def map_response(dataset: Dataset, request: Request, query: MapQuery) -> Response:
    """Return a map with headers for its location (20-058 requirement core/map-response).

    A client that has it already gets 304.

    Raises:
        InvalidParameterError: the request exceeds a limit, or the format cannot hold the pixels.
        SlabFormatError, StorageError: the data cannot be read.
    """
    from mastaba_ogcapi.drawing import encoded_map, fitted, prepared_maps
    from mastaba_render.api.geotiff import UNKNOWN
    from mastaba_render.api.maps import cache_control, drawn_response

    query = fitted(dataset.site, query)
    area = query.area
    prepared = prepared_maps(dataset.site, query)
    origin = UNKNOWN
    if query.format.encoder.names_sources:
        shown = [one.layer for one in query.layers]
        origin = dataset.origins.of_map(shown, area.box, area.crs)
    encoded = encoded_map(prepared, query, origin)
    edges = in_axis_order(area.written, area.crs)
    media_type, extension = query.format.media_type, query.format.encoder.extension
    content = [
        ("Content-Type", media_type),
        ("Content-Bbox", ",".join(map(coordinate, edges))),
        ("Content-Disposition", content_disposition(media_type, query.file_name, extension)),
    ]
    if area.crs.code != CRS84:
        content.append(("Content-Crs", crs_uri(area.crs.code)))
    return drawn_response(
        request,
        dataset.site.renderer.admission,
        prepared,
        query if origin == UNKNOWN else (query, origin),
        encoded.memory,
        encoded.pieces,
        always=cache_control(query.cached)
        + [*query.headers]
        + ([("Vary", "Accept")] if query.negotiated else []),
        content=content,
        # A table of sources may be rewritten in place.
        is_dated=origin == UNKNOWN,
    )
