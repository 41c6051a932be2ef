"""The WMTS service, which dispatches requests to operations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from mastaba.api.catalogue import Layer
from mastaba.api.services import RootEntry, Service, ServiceSettings, Site
from mastaba.api.tiles import TilePaths, TileQueries
from mastaba.api.web import Request, Response, preferred_media_type
from mastaba.errors import NotAcceptableError, UnknownPathError
from mastaba_ows.errors import MethodNotAllowedError
from mastaba_ows.post import read_once, readable
from mastaba_wmts import params, post, rest
from mastaba_wmts.errors import error_response
from mastaba_wmts.getfeatureinfo import GetFeatureInfo
from mastaba_wmts.gettile import GetTile
from mastaba_wmts.params import MEDIA_TYPES, CapabilitiesRequest, Operation
from mastaba_wmts.themes import themes_schema

_GET_TILE: Final = Operation.GET_TILE.lower()
_KVP: Final = "mastaba.wmts.kvp"
"""Key of the WSGI environment for the request in the body of another, which is read once."""
_ABILITIES: Final = {_GET_TILE: "tiles", Operation.GET_FEATURE_INFO.lower(): "info"}


class WMTSService(Service):
    """WMTS 1.0.0: KVP over GET and POST, XML over POST, and RESTful paths."""

    name = "wmts"
    rank = 40
    title = "WMTS service"
    abilities: ClassVar[tuple[str, ...]] = ("tiles", "info", "legend")
    parameters: ClassVar[frozenset[str]] = frozenset(
        (
            *("acceptformats", "acceptversions", "filename", "format", "i", "info_format"),
            *("infoformat", "inspire", "j", "layer", "provenance", "request", "sections"),
            *("service", "style", "tilecol", "tilematrix", "tilematrixset", "tilerow", "version"),
            *("elevation", "time"),
        )
    )
    operations: ClassVar[tuple[str, ...]] = tuple(map(str.lower, Operation))
    is_raster_only: ClassVar[bool] = True
    allowed_methods: ClassVar[tuple[str, ...]] = ("GET", "POST")
    settings_schema: ClassVar[Mapping[str, Any]] = {
        "restful": {
            "type": "boolean",
            "default": True,
            "description": "Announce the RESTful paths in the capabilities. "
            "Requests for them are answered in any case.",
        },
        "values": {
            "type": "integer",
            "minimum": 1,
            "default": 500,
            "description": "Value elements of a dimension in the capabilities. If there are more "
            "values, they are announced as runs of equal steps.",
        },
        "crs_names": {
            "enum": ["urn", "code"],
            "default": "urn",
            "description": "Form of the names in SupportedCRS: urn, from which GDAL and others "
            "derive the axis order, or code, for clients that expect AUTHORITY:CODE.",
        },
        "themes": {
            **themes_schema(),
            "description": "Groups of layers for catalogues, in the section Themes of the "
            "capabilities. A theme may contain themes.",
        },
    }

    def __init__(self, settings: ServiceSettings, site: Site) -> None:
        # Loaded here, so that listing the plugins loads no lxml.
        from mastaba_wmts.getcapabilities import GetCapabilities

        super().__init__(settings, site)
        layers = self.published_layers()
        self._get_capabilities = GetCapabilities(settings, site, layers)
        self._get_tile = GetTile(layers, site)
        self._get_feature_info = GetFeatureInfo(self._get_tile, site)

    def root_entry(self) -> RootEntry:
        return RootEntry(
            rank=30,
            element="WebMapTileService",
            version=params.VERSION,
            href=f"{self.settings.endpoint_uri}"
            f"?SERVICE=WMTS&VERSION={params.VERSION}&REQUEST=GetCapabilities",
        )

    def ability_of(self, request: Request) -> str:
        path, dimensions_of = request.path, self._get_tile.dimensions_of
        if path:
            if rest.tile_request(path, dimensions_of) is not None:
                return "tiles"
            return "info" if rest.feature_info_request(path, dimensions_of) is not None else ""
        found = _readable(request)
        query = {} if found is None else found.query
        return _ABILITIES.get(query.get("request", "").lower(), "")

    def query_of(self, request: Request) -> str | None:
        return (_readable(request) or request).query_string

    def respond(self, request: Request) -> Response:
        if request.path:
            return self._by_path(request)
        if request.method == "POST":
            request = read_once(request, _KVP, post.as_kvp)
        parameters = request.query
        operation = params.operation(parameters)
        request.name_operation(operation.lower())
        if operation is Operation.GET_TILE:
            tile = params.tile_request(parameters, self._get_tile.dimensions)
            return self._get_tile.respond(request, tile)
        if operation is Operation.GET_CAPABILITIES:
            wanted = params.capabilities_request(parameters)
            return self._get_capabilities.respond(request, wanted, parameters)
        pixel = params.feature_info_request(parameters, self._get_tile.dimensions)
        return self._get_feature_info.respond(pixel)

    def tile_addresses(self) -> list[TilePaths | TileQueries]:
        get_tile = self._get_tile
        return [
            TilePaths(get_tile.group_of_path),
            TileQueries(get_tile.group_of_query, row="tilerow", column="tilecol"),
        ]

    def tile_template(self, layer: Layer, style: str) -> str:
        """Return the template of the paths of stored tiles; see `mastaba_ows.offers`."""
        uri = self.settings.endpoint_uri
        # Paths cannot follow a query, and a style in a path has no slash.
        if "?" in uri or "/" in style:
            return ""
        path = rest.tile_template(rest.resources_uri(uri), layer.id, style=style or None)
        return f"{path}.{layer.pyramid.format.extension}"

    def error_response(self, error: Exception, request: Request) -> Response:
        return error_response(error, restful=bool(request.path))

    def _by_path(self, request: Request) -> Response:
        if request.method != "GET":
            raise MethodNotAllowedError("RESTful paths support only GET")
        dimensions_of = self._get_tile.dimensions_of
        tile = rest.tile_request(request.path, dimensions_of)
        if tile is not None:
            request.name_operation(_GET_TILE)
            return self._get_tile.respond(request, tile)
        if request.path == rest.CAPABILITIES_PATH:
            request.name_operation(Operation.GET_CAPABILITIES.lower())
            media_type = preferred_media_type(request, MEDIA_TYPES)
            if media_type is None:
                raise NotAcceptableError("the capabilities are XML")
            wanted = CapabilitiesRequest(None, media_type)
            return self._get_capabilities.respond(request, wanted, request.query)
        point = rest.feature_info_request(request.path, dimensions_of)
        if point is not None:
            request.name_operation(Operation.GET_FEATURE_INFO.lower())
            return self._get_feature_info.respond(point)
        raise UnknownPathError


def _readable(request: Request) -> Request | None:
    """Return a KVP request, also one that was sent by POST; None if that is invalid."""
    return request if request.method != "POST" else readable(request, _KVP, post.as_kvp)
