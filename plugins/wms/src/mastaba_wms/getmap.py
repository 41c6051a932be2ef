"""GetMap: a map of layers, as an image or as data (OGC 06-042 clause 7.3; wms.md section 3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from mastaba.api.web import content_disposition
from mastaba.errors import UnsupportedFormatError
from mastaba_ows.offers import sources_in
from mastaba_render.api.geotiff import UNKNOWN, Origins
from mastaba_render.api.maps import (
    EncodedMap,
    cache_control,
    drawn_response,
    finish_for,
)
from mastaba_wms.params import MapQueries
from mastaba_wms.versions import required_version

if TYPE_CHECKING:
    from mastaba.api.services import Site
    from mastaba.api.web import Request, Response

# Clients such as GDAL expect a JPEG to have three channels for any layer (wms.md section 3.4).
_ALWAYS_RGB: Final = "jpeg"


class GetMap:
    """Answers GetMap.

    Args:
        site: gives the renderer, and the sources of layers.
        queries: reads requests.
    """

    def __init__(self, site: Site, queries: MapQueries) -> None:
        self._site = site
        self._queries = queries
        self._origins = Origins(partial(sources_in, site))

    def respond(self, request: Request, parameters: Mapping[str, str]) -> Response:
        """Return a map, or 304 when the client has it already.

        Raises:
            RequestError: the request is invalid or exceeds a limit.
            SlabFormatError, StorageError: the data cannot be read.
        """
        version = required_version(parameters)
        query = self._queries.read(version, parameters, self._queries.layers(parameters))
        encoder, background, wanted = query.encoder, query.background, query.map
        if query.options:
            encoder.check_options(query.options)
        renderer = self._site.renderer
        if encoder.is_picture:
            layers = tuple(map(renderer.in_picture, wanted.layers))
            if layers != wanted.layers:
                wanted = replace(wanted, layers=layers)
                query = replace(query, map=wanted)
        prepared = renderer.prepare(wanted, query.limits)
        origin = UNKNOWN
        if encoder.names_sources:
            shown = [one.layer for one in wanted.layers]
            origin = self._origins.of_map(shown, wanted.bbox, wanted.crs)
        finish = finish_for(encoder, background, in_colour=encoder.name == _ALWAYS_RGB)
        try:
            encoded = EncodedMap(
                prepared, finish, encoder, query.options, wanted.bbox, wanted.crs, origin
            )
        except UnsupportedFormatError:
            raise UnsupportedFormatError(
                f"{encoder.media_type} cannot hold the pixels of these layers in these styles",
                "FORMAT",
            ) from None
        media_type, extension = encoder.media_type, encoder.extension
        content = [
            ("Content-Type", media_type),
            ("Content-Disposition", content_disposition(media_type, query.file_name, extension)),
        ]
        return drawn_response(
            request,
            renderer.admission,
            [prepared],
            query if origin == UNKNOWN else (query, origin),
            encoded.memory,
            encoded.pieces,
            always=[*cache_control(query.cached), *query.warnings],
            content=content,
            # A table of sources may be rewritten in place.
            is_dated=origin == UNKNOWN,
        )
