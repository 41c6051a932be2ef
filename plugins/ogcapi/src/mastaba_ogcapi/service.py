"""The OGC API service, which dispatches paths (ogcapi.md section 1)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, lru_cache
from importlib.resources import files
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import quote

from mastaba.api.services import Download, RootEntry, Service, ServiceSettings, Site
from mastaba.api.tiles import TilePaths
from mastaba.api.web import Document, Request, Response, preferred_language
from mastaba.errors import InvalidParameterError, MissingDimensionError
from mastaba_ogcapi import params
from mastaba_ogcapi.collections import meeting
from mastaba_ogcapi.coverages.choice import chosen_coverage
from mastaba_ogcapi.coverages.documents import coverage_downloads
from mastaba_ogcapi.coverages.getcoverage import GetCoverage
from mastaba_ogcapi.coverages.parts import has_parts, parts_path
from mastaba_ogcapi.coverages.settings import LAYER_SCHEMA, SETTINGS_SCHEMA, SWITCH
from mastaba_ogcapi.dataset import Dataset
from mastaba_ogcapi.dimensions import (
    count_of_coordinates,
    datetime_header,
    most_values,
    names_value,
)
from mastaba_ogcapi.errors import error_response
from mastaba_ogcapi.getmap import GetMap
from mastaba_ogcapi.gettile import GetTile
from mastaba_ogcapi.links import collection_address
from mastaba_ogcapi.negotiation import LANGUAGES, document_kind
from mastaba_ogcapi.resources import (
    DESCRIPTIONS,
    OF_COVERAGES,
    Resource,
    api_resource,
    collection_resource,
    collections_resource,
    find_resource,
)
from mastaba_ows.links import HTML, JSON
from mastaba_ows.parameters import integer
from mastaba_ows.versions import address_name
from mastaba_render.api.maps import map_cost
from mastaba_server.threads.recent import Recent

if TYPE_CHECKING:
    from mastaba.api.catalogue import Layer
    from mastaba_ogcapi.coverages.getzarr import GetZarr

_DEFAULT_SIZE: Final = 256
_MAX_DOCUMENTS: Final = 4096
_MOST_OF_VALUES: Final = 64
_ROOM_OF_VALUES: Final = 128 * 1024 * 1024
"""Bytes of documents of values; those that are rarely used are compressed."""
_MOST_OFFSET: Final = 10**9
_ADDRESS: Final = -4
"""A tile path ends with tile matrix set, tile matrix, row and column."""


_FILES: Final = {
    "/static/ogcapi.css": "text/css; charset=utf-8",
    "/static/api.js": "text/javascript; charset=utf-8",
}
"""Media types of the files that pages load."""

_API: Final = "/api"
_OF_DATASET: Final = "/map"
"""Path of the map of several collections."""
_POLICY: Final = (
    "default-src 'none'; style-src 'self'; {more}; base-uri 'none'; frame-ancestors 'self'"
)
_OF_PAGES: Final = "img-src 'self'; form-action 'none'"
_OF_API: Final = "img-src 'self' blob:; script-src 'self'; connect-src 'self'; form-action 'self'"
"""The page that sends requests has a script and shows the images that it gets."""
_DOCUMENT, _GET_MAP, _GET_TILE = "getcapabilities", "getmap", "gettile"
_GET_COVERAGE: Final = "getcoverage"
"""Operations for metrics, by their names in WMS, WMTS and WCS."""


class OGCAPIService(Service):
    """OGC API Common, Tiles and Maps."""

    name = "ogcapi"
    rank = 50
    title = "OGC API service"
    draws_maps = True
    abilities: ClassVar[tuple[str, ...]] = ("tiles", "maps", "coverages")
    parameters: ClassVar[frozenset[str]] = frozenset(
        (
            *("bbox", "bbox-crs", "bgcolor", "center", "center-crs", "collection", "collections"),
            *("compression", "crs", "datetime", "exclude-properties", "f", "filename", "fit"),
            *("height", "interleave", "level", "limit", "mask", "mm-per-pixel", "offset"),
            *("overview-count", "pad", "predictor", "properties", "resolution", "scale-axes"),
            *("scale-denominator", "scale-factor", "scale-size", "scaleaxes", "scalefactor"),
            *("scalesize", "sparse", "subset", "subset-crs", "tile-height", "tile-width"),
            *("tiling", "transparent", "void-color", "void-transparent", "width"),
        )
    )
    operations: ClassVar[tuple[str, ...]] = (_DOCUMENT, _GET_MAP, _GET_TILE, _GET_COVERAGE)
    exposed_headers = (
        "Content-Crs, Content-Bbox, Content-Datetime, Content-Interpolation, Link, Accept-Ranges, "
        "Content-Range, Content-Disposition, Preference-Applied, Values-Scale, Values-Offset, "
        "ETag, OGCAPI-datetime"
    )
    layer_schema: ClassVar[Mapping[str, Any]] = {SWITCH: LAYER_SCHEMA}
    settings_schema: ClassVar[Mapping[str, Any]] = {
        "tiles": {"type": "boolean", "default": True, "description": "Whether tiles are offered."},
        "maps": {"type": "boolean", "default": True, "description": "Whether maps are offered."},
        "default_size": {
            "type": "integer",
            "minimum": 64,
            "maximum": 4096,
            "default": _DEFAULT_SIZE,
            "description": "Pixels of the larger dimension of a map whose size is not given.",
        },
        SWITCH: SETTINGS_SCHEMA,
    }

    def __init__(self, settings: ServiceSettings, site: Site) -> None:
        super().__init__(settings, site)
        self._dataset = Dataset(
            settings, site, self.published_layers(), cors=bool(self.cross_origin)
        )
        self._get_tile = GetTile(self._dataset)
        default_size = int(settings.own.get("default_size", _DEFAULT_SIZE))
        self._get_map = GetMap(self._dataset, default_size)
        self._default_size = str(default_size)
        limits = self._dataset.coverages
        self._get_coverage = None if limits is None else GetCoverage(self._dataset, limits)
        self._documents: dict[tuple[tuple[str, ...], str], Document] = {}
        self._kinds: dict[tuple[str, ...], dict[str, str]] = {}
        self._of_values: Recent[tuple[Layer, Document]] = Recent(_MOST_OF_VALUES, _ROOM_OF_VALUES)

    def root_entry(self) -> RootEntry:
        uri = self.settings.endpoint_uri
        return RootEntry(40, "OGCAPI", "1.0", uri, f"{uri}/collections?f=json", media_type=JSON)

    def page_uri(self) -> str:
        return self.settings.endpoint_uri

    def ability_of(self, request: Request) -> str:
        parts = request.path.split("/")
        if _named_tile(parts) is not None:
            return "tiles"
        match parts[1:]:
            case ["map"] | ["collections", _, "map"] | ["collections", _, "styles", _, "map"]:
                return "maps"
            case ["collections", _, "coverage"]:
                return "coverages"
            case ["collections", _, "zarr", *path] if _is_chunk(path):
                return "coverages"
            case _:
                return ""

    def cost(self, request: Request) -> int:
        if self.ability_of(request) != "maps":
            return 1
        query, site = request.query, self.site
        size = (query.get("width", self._default_size), query.get("height", self._default_size))
        layers = query.get("collections", "").count(",") + 1
        if request.path == _OF_DATASET and "collections" not in query:
            layers = len(self._dataset.default_collections)
        if self._dataset.dimensions:
            layers *= most_values(query, self._dataset.dimensions)
        most_pixels = site.catalogue.settings.map.max_pixels
        return map_cost(size, most_pixels, layers, is_projected="crs" in query)

    def query_of(self, request: Request) -> str | None:
        query = super().query_of(request)
        if query is None or request.path != _OF_DATASET or "collections" in request.query:
            return query
        names = (quote(item.id, safe="") for item in self._dataset.default_collections)
        return f"collections={','.join(names)}"

    def respond(self, request: Request) -> Response:
        """Answer a request for a tile, a map or a document.

        Raises:
            UnknownPathError: the path is unknown.
            MastabaError: as in the operations.
        """
        parts = request.path.split("/")
        named = _named_tile(parts) if self._dataset.tiles else None
        if named is not None:
            request.name_operation(_GET_TILE)
            identifier, style, is_vector = named
            if is_vector:
                return self._get_tile.vector(request, identifier, parts[_ADDRESS:])
            return self._get_tile.raster(request, identifier, style, parts[_ADDRESS:])
        response = self._map(request, parts) if parts[-1] == "map" else None
        if response is None:
            response = self._coverage(request, parts)
        if response is None:
            request.name_operation(_DOCUMENT)
            response = self._document(request, parts[1:])
        return response

    def tile_addresses(self) -> list[TilePaths]:
        if not self._dataset.tiles:
            return []
        return [TilePaths(self._get_tile.group)]

    def downloads(self, layer: Layer) -> list[Download]:
        collection = self._dataset.collections.get(layer.id)
        if collection is None or not collection.has_coverage:
            return []
        return coverage_downloads(self._dataset, collection)

    def parts_path(self, layer: Layer) -> str:
        """Return the path of the parts of a layer; see `mastaba_ows.offers.parts_address`."""
        if layer.id not in self._dataset.collections:
            return ""
        collection = self._dataset.of_layer(layer)
        if not (collection.has_coverage and has_parts(self._dataset, collection)):
            return ""
        return parts_path(collection)

    def zoom_tiles(self, layer: Layer) -> str:
        """Return the template of the tiles of a layer; see `mastaba_ows.offers.zoom_tiles`."""
        collection = self._dataset.collections[layer.id]
        if not (collection.has_vector_tiles or collection.has_map_tiles):
            return ""
        family = ("tiles",) if layer.is_vector else ("map", "tiles")
        identifier = layer.pyramid.tile_matrix_set.id
        name = self._dataset.registered_names.get(identifier, identifier)
        shown = address_name(self.site.catalogue, layer)
        href = collection_address(self._dataset.uri, shown, *family, name)
        return f"{href}/{{z}}/{{y}}/{{x}}?f={layer.pyramid.format.short_name}"

    def tile_template(self, layer: Layer, style: str) -> str:
        """Return the template of the paths of stored tiles; see `mastaba_ows.offers`."""
        family = ("tiles",) if layer.is_vector else ("map", "tiles")
        styled = ("styles", style) if style and not layer.is_vector else ()
        href = collection_address(self._dataset.uri, layer.id, *styled, *family)
        name = layer.pyramid.format.short_name
        return f"{href}/{{TileMatrixSet}}/{{TileMatrix}}/{{TileRow}}/{{TileCol}}?f={name}"

    def error_response(self, error: Exception, request: Request) -> Response:
        return error_response(error, request)

    def _map(self, request: Request, parts: list[str]) -> Response | None:
        """Return the answer to a map request; None if the path is not for a map."""
        if not self._dataset.maps:
            return None
        request.name_operation(_GET_MAP)
        match parts[1:]:
            case ["map"]:
                return self._get_map.dataset(request)
            case ["collections", identifier, "map"]:
                return self._get_map.collection(request, identifier)
            case ["collections", identifier, "styles", style, "map"]:
                return self._get_map.collection(request, identifier, style)
            case _:
                return None

    def _coverage(self, request: Request, parts: list[str]) -> Response | None:
        """Return the answer to a download; None if the path is not for one."""
        match parts[1:]:
            case ["collections", identifier, "coverage"] if self._get_coverage:
                request.name_operation(_GET_COVERAGE)
                response = self._get_coverage.collection(request, identifier)
                return self._document(request, parts[1:]) if response is None else response
            case ["collections", identifier, "zarr", *path] if self._get_coverage:
                request.name_operation(_GET_COVERAGE if _is_chunk(path) else _DOCUMENT)
                return self._get_zarr.respond(request, identifier, path)
            case _:
                return None

    @cached_property
    def _get_zarr(self) -> GetZarr:
        # Loaded on first use, with the libraries of coverages.
        from mastaba_ogcapi.coverages.getzarr import GetZarr

        return GetZarr(self._dataset)

    def _document(self, request: Request, path: list[str]) -> Response:
        if request.path in _FILES:
            return _static(request)
        if request.path == _API:
            return self._definition(request)
        if path == ["collections"] and "bbox" in request.query:
            return self._filtered_collections(request)
        if "offset" in request.query and len(path) == 2 and path[0] == "collections":
            found = self._further_values(request, path[1])
            if found is not None:
                return found
        if path[:1] == ["collections"] and path[2:] in OF_COVERAGES:
            return self._of_coverage(request, path)
        return self._made(request, path) if "~" in request.path else self._kept(request, path)

    def _of_coverage(self, request: Request, path: list[str]) -> Response:
        """Return a document about the coverage of a collection, or of the value that is meant."""
        try:
            found, _ = chosen_coverage(self._dataset, path[1], request)
        except MissingDimensionError:
            # The collection links to documents that describe it, and so without a value. The parts
            # of a value have addresses that name it.
            found = self._dataset.collection(path[1])
            if path[2:] not in DESCRIPTIONS or names_value(request, found.layer):
                raise
        path = ["collections", found.id, *path[2:]]
        if found.id == found.layer.id:
            response = self._kept(request, path)
        else:
            response = self._made(request, path, found.layer)
        response.headers = [*response.headers, *datetime_header((found.layer,))]
        return response

    def _kept(self, request: Request, path: list[str]) -> Response:
        """Return a document of a published resource, which is made once."""
        address = tuple(path)
        kinds = self._kinds.get(address)
        if kinds is None:
            # Unknown paths are not cached, so the published resources limit the cache.
            kinds = _kinds(find_resource(self._dataset, path))
            _remember(self._kinds, address, kinds)
        kind = document_kind(request, kinds)
        key = (address, kind)
        document = self._documents.get(key)
        if document is None:
            document = _document(find_resource(self._dataset, path), kind)
            # Two threads may build it at the same time; both results are equal.
            _remember(self._documents, key, document)
        return _secured(document.respond(request), document.media_type)

    def _made(self, request: Request, path: list[str], layer: Layer | None = None) -> Response:
        """Return a document of a version or value, of which there may be many.

        Args:
            layer: which a document about its coverage is remembered for; None remembers nothing.
        """
        resource = find_resource(self._dataset, path)
        kind = document_kind(request, _kinds(resource))
        key = (tuple(path), kind)
        known = None if layer is None else self._of_values.get(key)
        if known is not None and known[0] is layer:
            document = known[1]
        else:
            document = _document(resource, kind)
            if layer is not None:
                self._of_values.add(key, (layer, document), len(document.body))
        response = _secured(document.respond(request), document.media_type)
        if any("~" in part for part in path):
            # A version never changes.
            response.headers.append(("Cache-Control", "max-age=86400"))
        return response

    def _further_values(self, request: Request, identifier: str) -> Response | None:
        """Return a collection with values of its dimensions that are not listed first.

        None if all are.
        """
        offset = integer(request.query["offset"], "offset", 0, _MOST_OFFSET)
        count = count_of_coordinates(self._dataset, self._dataset.collection(identifier).layer)
        if not offset or not count:
            return None
        if offset >= count:
            raise InvalidParameterError(f"there are {count} values", "offset")
        resource = collection_resource(self._dataset, identifier, offset)
        document = _document(resource, document_kind(request, _kinds(resource)))
        return _secured(document.respond(request), document.media_type)

    def _definition(self, request: Request) -> Response:
        name, lang = request.query.get("collection"), preferred_language(request, LANGUAGES)
        chosen = params.collection(self._dataset, name) if name else None
        resource = api_resource(self._dataset, chosen, lang)
        kind = document_kind(request, _kinds(resource))
        key = ((_API,), f"{kind} {lang}")
        document = None if chosen else self._documents.get(key)
        if document is None:
            document = _document(resource, kind)
            if not chosen:
                _remember(self._documents, key, document)
        response = document.respond(request)
        response.headers = [
            (header, f"{value}, Accept-Language" if header == "Vary" else value)
            for header, value in response.headers
        ]
        return _secured(response, document.media_type, _OF_API)

    def _filtered_collections(self, request: Request) -> Response:
        edges = params.box(request.query["bbox"], "bbox", cyclic=0)
        found = meeting(self._dataset.collections.values(), edges)
        resource = collections_resource(self._dataset, found)
        document = _document(resource, document_kind(request, _kinds(resource)))
        return _secured(document.respond(request), document.media_type)


def _named_tile(parts: list[str]) -> tuple[str, str | None, bool] | None:
    """Return what a path says of a tile: collection, style, and whether it is a vector tile.

    Args:
        parts: of the path; the first is empty.

    Returns:
        None if the path is not for a tile.
    """
    match parts[1:_ADDRESS]:
        case ["collections", identifier, "styles", style, "map", "tiles"]:
            return identifier, style, False
        case ["collections", identifier, "map", "tiles"]:
            return identifier, None, False
        case ["collections", identifier, "tiles"]:
            return identifier, None, True
        case _:
            return None


def _is_chunk(path: list[str]) -> bool:
    """Return whether a path below a Zarr group is for a chunk; if not, it is for a document."""
    return len(path) > 1 and not path[-1].startswith(".")


def _static(request: Request) -> Response:
    response = _file(request.path).respond(request)
    response.headers.append(("Cache-Control", "no-cache"))
    return _secured(response, HTML)


@lru_cache(maxsize=len(_FILES))
def _file(path: str) -> Document:
    name = PurePosixPath(path).name
    content = files("mastaba_ogcapi").joinpath("static", name).read_bytes()
    return Document(content, _FILES[path])


def _kinds(resource: Resource) -> dict[str, str]:
    return {name: form.media_type for name, form in resource.items()}


def _document(resource: Resource, kind: str) -> Document:
    form = resource[kind]
    is_page = form.media_type == HTML
    return Document(form.text(), f"{HTML}; charset=utf-8" if is_page else form.media_type)


def _secured(response: Response, media_type: str, policy: str = _OF_PAGES) -> Response:
    if media_type.startswith(HTML):
        response.headers += [
            ("Content-Security-Policy", _POLICY.format(more=policy)),
            ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", "same-origin"),
        ]
    return response


def _remember(cache: dict[Any, Any], key: object, value: object) -> None:
    if len(cache) >= _MAX_DOCUMENTS:
        cache.clear()
    cache[key] = value
