"""GetMap: a map of layers, as an image or as data (OGC 06-042 clause 7.3; wms.md section 3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from mastaba.api.encoders import Encoder
from mastaba.api.web import content_disposition, spooled
from mastaba.errors import UnsupportedFormatError
from mastaba_wms import params
from mastaba_wms.params import MapQueries, MapQuery

if TYPE_CHECKING:
    from mastaba.api.maps import EncodedMap, MapImage, Pixels, PreparedMap
    from mastaba.api.services import Site
    from mastaba.api.web import Request, Response

# Clients such as GDAL expect a JPEG to have three channels for any layer (wms.md section 3.4).
_ALWAYS_RGB: Final = "jpeg"


class GetMap:
    """Answers GetMap.

    Args:
        site: gives the renderer.
        queries: reads requests.
    """

    def __init__(self, site: Site, queries: MapQueries) -> None:
        self._site = site
        self._queries = queries

    def respond(self, request: Request, parameters: Mapping[str, str]) -> Response:
        """Return a map, or 304 when the client has it already.

        Raises:
            RequestError: the request is invalid or exceeds a limit.
            SlabFormatError, StorageError: the data cannot be read.
        """
        version = params.version(parameters)
        query = self._queries.read(version, parameters, self._queries.layers(parameters))
        query.encoder.check_options(query.options)
        query = self._drawable(query)
        prepared = self._site.renderer.prepare(query.map)
        # Loaded on first use, like the renderer.
        from mastaba.api.maps import cache_control, drawn_response, identity_of

        encoded = _encoded_map(query, prepared)
        wanted, media_type = query.map, query.encoder.media_type
        layers = [identity_of(entry) for entry in wanted.layers]
        place = (wanted.bbox, wanted.crs.code, wanted.width, wanted.height)
        picture = (media_type, query.background, sorted(query.options.items()))
        return drawn_response(
            request,
            self._site.renderer.admission,
            [prepared],
            (layers, place, wanted.resolution_factor, picture),
            encoded.memory,
            lambda: spooled(encoded.pieces()),
            always=cache_control([entry.layer for entry in wanted.layers]),
            content=[
                ("Content-Type", media_type),
                ("Content-Disposition", content_disposition(media_type, query.file_name)),
            ],
        )

    def _drawable(self, query: MapQuery) -> MapQuery:
        """Return the query with styles that a picture format can hold."""
        if not query.encoder.is_picture:
            return query
        wanted = query.map
        layers = tuple(map(self._site.renderer.in_picture, wanted.layers))
        return replace(query, map=replace(wanted, layers=layers))


def _encoded_map(query: MapQuery, prepared: PreparedMap) -> EncodedMap:
    from mastaba.api.maps import EncodedMap, as_data, as_picture, coloured

    encoder, background = query.encoder, query.background

    def finish(image: MapImage, _row: int) -> Pixels:
        if not encoder.is_picture:
            return as_data(image, background)
        pixels = as_picture(image, background, alpha_possible=encoder.holds_alpha)
        return coloured(pixels) if encoder.name == _ALWAYS_RGB else pixels

    place = query.map.bbox, query.map.crs
    try:
        return EncodedMap(prepared, finish, encoder, query.options, *place)
    except UnsupportedFormatError:
        raise _unfit(encoder) from None


def _unfit(encoder: Encoder) -> UnsupportedFormatError:
    return UnsupportedFormatError(
        f"{encoder.media_type} cannot hold the pixels of these layers in these styles", "FORMAT"
    )
