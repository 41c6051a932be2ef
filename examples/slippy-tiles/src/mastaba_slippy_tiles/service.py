"""PNG tiles of every raster layer in the grid of the web."""

import json
from collections.abc import Mapping
from typing import Any, ClassVar
from urllib.parse import quote

from mastaba.api.catalogue import Layer, TileLimits, TileMatrix
from mastaba.api.services import Service, ServiceSettings, Site
from mastaba.api.tiles import DEFAULT_STYLE, TileGroup, TilePaths, Tiles, tile_index
from mastaba.api.web import Document, Request, Response, message, status_of
from mastaba.errors import (
    InvalidParameterError,
    TileNotFoundError,
    TileOutOfRangeError,
    UnknownNameError,
    UnknownPathError,
    public_message,
)
from mastaba_render.api.maps import (
    Background,
    EncodedMap,
    MapLayer,
    MapRequest,
    as_picture,
    cache_control,
    drawn_response,
)
from mastaba_slippy_tiles.grid import WEB_MERCATOR, level_of, matrix


class SlippyTiles(Service):
    name = "slippy"
    title = "Slippy tiles"
    is_raster_only = True
    draws_maps = True  # the rendering engine is loaded at start
    settings_schema: ClassVar[Mapping[str, Any]] = {
        "max_zoom": {
            "type": "integer",
            "minimum": 0,
            "maximum": 24,
            "default": 19,
            "description": "The last zoom.",
        }
    }

    def __init__(self, settings: ServiceSettings, site: Site) -> None:
        super().__init__(settings, site)
        # Everything that does not depend on the request is created here.
        layers = [layer for layer in self.published_layers() if not layer.is_vector]
        self._layers = {layer.id: layer for layer in layers}
        self._stored = Tiles(site, layers)
        self._zooms = {str(z): matrix(z) for z in range(settings.own.get("max_zoom", 19) + 1)}
        uri = settings.endpoint_uri
        urls = {
            name: f"{uri}/{quote(name, safe='')}/{{z}}/{{x}}/{{y}}.png" for name in self._layers
        }
        self._list = Document(json.dumps(urls), "application/json")

    def respond(self, request: Request) -> Response:
        if not request.path:
            return self._list.respond(request)
        parts = request.path.split("/")[1:]
        if len(parts) != 4 or not parts[3].endswith(".png"):
            raise UnknownPathError("the path is not LAYER/z/x/y.png")
        layer, zoom = self._layers.get(parts[0]), self._zooms.get(parts[1])
        if layer is None or zoom is None:
            raise UnknownNameError("unknown layer or zoom")
        col, row = tile_index(parts[2], "x"), tile_index(parts[3].removesuffix(".png"), "y")
        if not zoom.all_tiles.contains(row, col):
            raise TileOutOfRangeError("the tile is outside the world", ["x", "y"])
        level = level_of(layer, zoom)
        if level is None:
            return self._drawn(request, layer, zoom, TileLimits(row, row, col, col))
        # None is the tile matrix set in which the layer is stored.
        tiles = self._stored.layer(layer.id).matrix(None, level)
        return tiles.publisher(DEFAULT_STYLE).respond(request, row, col)

    def tile_addresses(self) -> list[TilePaths]:
        return [TilePaths(self._stored_tiles)]

    def _stored_tiles(self, base: str) -> TileGroup | None:
        parts = base.split("/")[1:]
        if len(parts) != 2:
            return None
        layer, zoom = self._layers.get(parts[0]), self._zooms.get(parts[1])
        level = level_of(layer, zoom) if layer and zoom else None
        if layer is None or level is None:
            return None
        stored = self._stored.layer(layer.id).matrix(None, level).stored(DEFAULT_STYLE)
        if stored is None:
            return None
        return TileGroup(stored, column_first=True, endings=frozenset((".png",)))

    def _drawn(
        self, request: Request, layer: Layer, zoom: TileMatrix, place: TileLimits
    ) -> Response:
        renderer, box = self.site.renderer, zoom.bbox_of(place)
        # Float values get colours: PNG cannot hold them.
        entry = renderer.in_picture(MapLayer(layer, layer.default_style))
        wanted = MapRequest((entry,), box, WEB_MERCATOR, zoom.tile_width, zoom.tile_height)
        try:
            prepared = renderer.prepare(wanted)  # nothing is read yet
        except InvalidParameterError as error:
            raise TileNotFoundError("the tile needs too many stored tiles") from error
        ground = Background(transparent=True)
        tile = EncodedMap(
            prepared,
            lambda image, row: as_picture(image, ground, alpha_possible=True),
            self.site.encoders["image/png"],
            {},
            box,
            WEB_MERCATOR,
        )
        # Answers 304, or waits until there is memory for one more map, then draws it.
        return drawn_response(
            request,
            renderer.admission,
            [prepared],
            identity=wanted,
            cost=tile.memory,
            encode=tile.pieces,
            always=cache_control([layer]),
            content=[("Content-Type", "image/png")],
        )

    def error_response(self, error: Exception, request: Request) -> Response:
        return message(status_of(error), public_message(error), "text/plain")
