"""The TMS service, which dispatches paths to tiles and documents (tms.md section 1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from mastaba.api.services import RootEntry, Service, services_xml
from mastaba.api.tiles import TilePaths, Tiles
from mastaba.api.web import Document
from mastaba.errors import UnknownPathError
from mastaba_ows.dimensions import requested_values
from mastaba_ows.versions import address_name, document_headers
from mastaba_tms.addresses import FROM_BOTTOM, VERSION, service_href, tile_template
from mastaba_tms.errors import error_report
from mastaba_tms.gettile import GetTile
from mastaba_tms.numbering import YOrigin
from mastaba_tms.offered import OfferedTileMap

if TYPE_CHECKING:
    from mastaba.api.catalogue import Layer
    from mastaba.api.services import ServiceSettings, Site
    from mastaba.api.web import Request, Response

_DOCUMENT, _GET_TILE = "getcapabilities", "gettile"
"""Operations for metrics, by their names in WMTS."""


class TileMapServer(Service):
    """Tile Map Service 1.0.0."""

    name: ClassVar[str] = "tms"
    rank: ClassVar[int] = 30
    title: ClassVar[str] = "TMS service"
    abilities: ClassVar[tuple[str, ...]] = ("tiles",)
    parameters: ClassVar[frozenset[str]] = frozenset(("filename", "style"))
    operations: ClassVar[tuple[str, ...]] = (_DOCUMENT, _GET_TILE)
    settings_schema: ClassVar[Mapping[str, Any]] = {
        "y_origin": {
            "description": "Where rows are counted from: top, as in the tile matrix set, or "
            "bottom, as in the Tile Map Service Specification; for tiles and documents together. "
            "Without it, tiles are counted from the top, and TileMap documents give addresses "
            "of tiles that are counted from the bottom",
            "enum": ["top", "bottom"],
        },
    }

    def __init__(self, settings: ServiceSettings, site: Site) -> None:
        super().__init__(settings, site)
        self._y_origin = YOrigin(settings.own.get("y_origin"))
        self._from_bottom = self._y_origin is YOrigin.BOTTOM
        self._layers = {layer.id: layer for layer in self.published_layers()}
        tiles = Tiles(site, self._layers.values())
        self._get_tile = GetTile(tiles, self._layers, from_bottom=self._from_bottom)
        self._documents: dict[tuple[str, ...], Document] = {}
        dimensions = {one.name: one for layer in self._layers.values() for one in layer.dimensions}
        self._dimensions = tuple(dimensions.values())

    def ability_of(self, request: Request) -> str:
        parts = request.path.split("/")
        is_tile = len(parts) == 6 or (len(parts) == 7 and parts[3] == FROM_BOTTOM)
        return "tiles" if is_tile else ""

    def respond(self, request: Request) -> Response:
        """Answer a request for a tile or a document.

        Raises:
            UnknownPathError: the path is unknown.
            MastabaError: as in the operations.
        """
        parts = request.path.split("/")
        if len(parts) > 1 and parts[1] != VERSION:
            raise UnknownPathError(f"The version is not {VERSION}")
        if len(parts) == 6:
            request.name_operation(_GET_TILE)
            return self._get_tile.respond(request, parts[2], parts[3], parts[4], parts[5])
        if len(parts) == 7 and parts[3] == FROM_BOTTOM:
            request.name_operation(_GET_TILE)
            return self._get_tile.respond(request, parts[2], *parts[4:], mirrored=True)
        request.name_operation(_DOCUMENT)
        key = tuple(parts[1:])
        values = {}
        if request.query_string and self._dimensions:
            values = requested_values(request.query, self._dimensions)
        document = None if values else self._documents.get(key)
        if document is None:
            document, is_constant = self._build(key, values)
            if values or not is_constant:
                # A value or a version, of which there may be many.
                response = document.respond(request)
                if "~" in request.path:
                    layer = self._get_tile.layer(key[1])[0].layer
                    response.headers += document_headers(self.site.catalogue, layer)
                return response
            # Two threads may build it at the same time; both results are equal.
            self._documents[key] = document
        return document.respond(request, is_constant=True)

    def tile_addresses(self) -> list[TilePaths]:
        return [TilePaths(self._get_tile.group)]

    def zoom_tiles(self, layer: Layer) -> str:
        """Return the template of the tiles of a layer; see `mastaba_ows.offers.zoom_tiles`."""
        if self._from_bottom:
            return ""
        return tile_template(self.settings.endpoint_uri, self._published(OfferedTileMap(layer)))

    def tile_template(self, layer: Layer, style: str) -> str:
        """Return the template of the paths of stored tiles; see `mastaba_ows.offers`."""
        places = "{TileMatrix}", "{TileCol}", "{TileRow}"
        return tile_template(self.settings.endpoint_uri, OfferedTileMap(layer), places)

    def error_response(self, error: Exception, request: Request) -> Response:
        return error_report(error)

    def root_entry(self) -> RootEntry:
        return RootEntry(
            rank=10,
            element="TileMapService",
            version=VERSION,
            href=f"{service_href(self.settings.endpoint_uri)}/",
        )

    def _published(self, tile_map: OfferedTileMap) -> OfferedTileMap:
        """Return a TileMap whose addresses are those of the published version, if wanted."""
        layer = tile_map.layer
        name = address_name(self.site.catalogue, layer)
        return replace(tile_map, layer=replace(layer, key=name))

    def _build(self, path: tuple[str, ...], values: Mapping[str, str]) -> tuple[Document, bool]:
        """Return a document, and whether the configuration alone decides what it contains."""
        # Loaded on first use, so that listing the plugins loads no lxml.
        from mastaba_tms.gdal import gdal_description
        from mastaba_tms.metadata import metadata
        from mastaba_tms.offered import tile_map_in
        from mastaba_tms.tilemap import tile_map_document
        from mastaba_tms.tilemapservice import tile_map_service

        if not path:
            lines = [(self.settings.title, self.root_entry())]
            return Document(services_xml(lines), "application/xml"), True
        if len(path) == 1:
            catalogue, layers = self.site.catalogue, self._layers.values()
            return tile_map_service(self.settings, catalogue, layers), True
        uri = self.settings.endpoint_uri
        builders: dict[tuple[str, ...], Callable[[OfferedTileMap], Document]] = {
            (): lambda tile_map: tile_map_document(tile_map, uri, self._y_origin),
            ("metadata.json",): lambda tile_map: metadata(
                self._published(tile_map),
                uri,
                self.site.catalogue.values_of(layer) if is_whole else (),
                from_bottom=self._from_bottom,
            ),
            ("gdal.xml",): lambda tile_map: gdal_description(
                tile_map, tiles.pictures, uri, from_bottom=self._from_bottom
            ),
        }
        build = builders.get(path[2:])
        if build is None or not path[1]:
            raise UnknownPathError("Unknown tms request path")
        tiles, name = self._get_tile.described(path[1], values)
        layer = tiles.layer
        is_whole = layer.key == layer.id
        is_constant = is_whole and all(one.default != "now" for one in layer.dimensions)
        return build(tile_map_in(tiles, name)), is_constant
