"""GetMap: a map of layers, in a picture or as data (OGC 06-042 clause 7.3; wms.md section 3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from mastaba.encoding.base import Encoder
from mastaba.errors import UnsupportedFormatError
from mastaba.http.response import Response, content_disposition
from mastaba_wms import params
from mastaba_wms.mapquery import MapQueries, MapQuery

if TYPE_CHECKING:
    from mastaba.render.engine import PreparedMap
    from mastaba.render.request import MapImage, Pixels
    from mastaba.service import Site

# Clients such as GDAL expect three channels of a JPEG, whatever the layer (wms.md section 3.4).
_ALWAYS_RGB: Final = "jpeg"


class GetMap:
    """Answers GetMap.

    Args:
        site: with the renderer.
        queries: reads requests.
    """

    def __init__(self, site: Site, queries: MapQueries) -> None:
        self._site = site
        self._queries = queries

    def respond(self, parameters: Mapping[str, str]) -> Response:
        """Return a map.

        Raises:
            RequestError: the request is not valid, or asks too much.
            SlabFormatError, StorageError: the data cannot be read.
        """
        version = params.version(parameters)
        query = self._queries.read(version, parameters, self._queries.layers(parameters))
        prepared = self._site.renderer.prepare(query.map)
        _check_format(query)
        body = _body(query, prepared)
        media_type = query.encoder.media_type
        headers = [
            ("Content-Type", media_type),
            ("Content-Disposition", content_disposition(media_type, query.file_name)),
        ]
        return Response(200, headers, body)


def _check_format(query: MapQuery) -> None:
    """Refuse what cannot be written before it is drawn."""
    # Loaded on first use, as the renderer: a server that only describes itself needs neither.
    from mastaba.render.styled_layer import is_bytes

    query.encoder.check_options(query.options)
    entry = query.map.layers[0]
    if query.encoder.is_picture and not is_bytes(entry.layer, entry.style):
        raise _unfit(query.encoder)


def _body(query: MapQuery, prepared: PreparedMap) -> bytes:
    from mastaba.render.compose import as_data, as_picture
    from mastaba.render.encoded_map import EncodedMap, collected, coloured

    encoder, background = query.encoder, query.background

    def finish(image: MapImage, _row: int) -> Pixels:
        if not encoder.is_picture:
            return as_data(image, background)
        pixels = as_picture(image, background, alpha_possible=encoder.holds_alpha)
        return coloured(pixels) if encoder.name == _ALWAYS_RGB else pixels

    place = query.map.bbox, query.map.crs
    try:
        encoded = EncodedMap(prepared, finish, encoder, query.options, *place)
    except UnsupportedFormatError:
        raise _unfit(encoder) from None
    return collected(encoded.pieces())


def _unfit(encoder: Encoder) -> UnsupportedFormatError:
    return UnsupportedFormatError(
        f"{encoder.media_type} cannot hold the pixels of these layers in these styles", "FORMAT"
    )
