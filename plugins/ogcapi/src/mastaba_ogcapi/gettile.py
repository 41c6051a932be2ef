"""Tiles: find the stored tile for a path, or draw one on demand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mastaba.api.catalogue import TileFormat
from mastaba.api.tiles import (
    DEFAULT_STYLE,
    LayerTiles,
    MatrixTiles,
    TileGroup,
    check_limits,
    tile_index,
)
from mastaba.api.web import Request, Response, printable
from mastaba.errors import (
    NoSuchValueError,
    NotAcceptableError,
    UnknownNameError,
    UnsupportedFormatError,
)
from mastaba_ogcapi.dimensions import add_date, shown
from mastaba_ogcapi.negotiation import ANYTHING, normalized, preferred
from mastaba_ogcapi.shown import Shown
from mastaba_ogcapi.tilesets import VECTOR_TILES

if TYPE_CHECKING:
    from mastaba.api.catalogue import Style
    from mastaba_ogcapi.dataset import Collection, Dataset

_RENDERING: Final = frozenset(
    (
        "width",
        "height",
        "scale-denominator",
        "mm-per-pixel",
        "bgcolor",
        "transparent",
        "void-color",
        "void-transparent",
    )
)
"""Parameters that require a drawn tile (OGC API Maps, 20-058 clause 14)."""

_PROTOBUF: Final = "application/x-protobuf"
_VECTOR_NAMES: Final = frozenset(("mvt", "pbf", VECTOR_TILES, _PROTOBUF))
_PROTOBUF_NAMES: Final = frozenset(("pbf", _PROTOBUF))


class GetTile:
    """Answers tile requests for the collections of a dataset."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._tiles = dataset.tiles_by_name

    def _offered(self, identifier: str) -> Collection:
        """Return a collection. Raises `UnknownNameError` if it offers no tiles."""
        collection = self._dataset.collections.get(identifier) or self._dataset.find(identifier)
        if collection is None or not collection.offers("tiles"):
            noun = self._tiles.noun
            raise UnknownNameError(f"there is no {noun} {printable(identifier)}", "layer")
        return collection

    def vector(self, request: Request, identifier: str, address: list[str]) -> Response:
        """Return a vector tile.

        Args:
            identifier: of the collection.
            address: tile matrix set, tile matrix, row and column from the path.

        Raises:
            UnknownNameError: there is no such collection, tile matrix set or tile matrix.
            InvalidParameterError: it has no vector tiles, or the row, column or format is invalid.
            NotAcceptableError: the client accepts no vector tiles.
            TileOutOfRangeError: the collection has no such tile.
            TileNotFoundError, SlabFormatError, StorageError: as in `TilePublisher.respond`.
        """
        collection = self._offered(identifier)
        if not collection.is_vector:
            self._dataset.vector_collection(identifier)
        try:
            found = collection.whole or shown(self._dataset, collection, request)
        except NoSuchValueError:
            return Response(204, [])
        tiles = self._tiles.layer(found.layers[0].key)
        in_matrix, tile_row, tile_col = _find(tiles, address)
        publisher = in_matrix.publishers[DEFAULT_STYLE]
        stored = publisher.layer.pyramid.format
        media_type = _vector_media_type(request, stored, in_matrix, tile_row, tile_col)
        response = publisher.respond(request, tile_row, tile_col)
        if not collection.whole:
            add_date(response, found)
        if media_type != stored.media_type:
            response.headers = [
                (name, media_type if name == "Content-Type" else value)
                for name, value in response.headers
            ]
        return response

    def raster(
        self, request: Request, identifier: str, style: str | None, address: list[str]
    ) -> Response:
        """Return a tile of a map.

        Args:
            identifier: of the collection.
            style: identifier; None for the default style.
            address: tile matrix set, tile matrix, row and column from the path.

        Raises:
            UnknownNameError: there is no such collection, tile matrix set, tile matrix or style.
            InvalidParameterError: it has vector tiles, or the row, column or a parameter is
                invalid.
            NotAcceptableError: the client accepts none of the offered formats.
            TileOutOfRangeError: the collection has no such tile.
            TileNotFoundError, SlabFormatError, StorageError: as in `TilePublisher.respond`.
        """
        collection = self._offered(identifier)
        if collection.is_vector:
            self._dataset.raster_collection(identifier)
        try:
            found = collection.whole or shown(self._dataset, collection, request)
        except NoSuchValueError:
            return Response(204, [])
        tiles = self._tiles.layer(found.layers[0].key)
        in_matrix, tile_row, tile_col = _find(tiles, address)
        if style is None:
            publisher = in_matrix.publishers[DEFAULT_STYLE]
        elif style == DEFAULT_STYLE:
            raise UnknownNameError("the style has no name", "style")
        else:
            publisher = in_matrix.publisher(style)
        if self._is_stored(request, collection):
            response = publisher.respond(request, tile_row, tile_col)
            if not collection.whole:
                add_date(response, found)
            return response
        check_limits(in_matrix.limits, tile_row, tile_col)
        wanted = collection.layer.default_style if style is None else collection.style(style)
        place = in_matrix, tile_row, tile_col
        return self._drawn(request, collection, wanted, place, found)

    def _is_stored(self, request: Request, collection: Collection) -> bool:
        """Return whether a request is for a tile as stored."""
        if request.query_string:
            parameters = request.query
            if not _RENDERING.isdisjoint(parameters):
                return False
            wanted = parameters.get("f")
            if wanted is not None:
                names = collection.stored_names
                return wanted in names or normalized(wanted) in names
        header = request.environ.get("HTTP_ACCEPT")
        position = self._preferred(header, collection) if header else 0
        if position is None:
            raise NotAcceptableError("the client accepts none of the formats of this tile")
        return position == 0

    def _preferred(self, header: str, collection: Collection) -> int | None:
        """Return the preferred format of a tile: 0 for the stored one, None for none of them."""
        if header == ANYTHING:
            return 0
        media_type = collection.layer.pyramid.format.media_type
        stored = (media_type, media_type.partition(";")[0])
        offered = (stored, *(item.accepted for item in self._dataset.tile_formats.all))
        return preferred(header, offered, anything_is_first=True)

    def group(self, base: str) -> TileGroup | None:
        """Return the stored raster tiles whose paths begin with a base.

        Raises:
            RequestError: the collection has no such tiles.
        """
        match base.split("/"):
            case ["", "collections", identifier, "map", "tiles", tile_matrix_set, tile_matrix]:
                style = DEFAULT_STYLE
            case [
                "",
                "collections",
                identifier,
                "styles",
                style,
                "map",
                "tiles",
                tile_matrix_set,
                tile_matrix,
            ] if style != DEFAULT_STYLE:
                pass
            case _:
                return None
        tiles = self._tiles.layer(identifier, lasting=True)
        collection = self._offered(identifier)
        stored = tiles.matrix(tile_matrix_set, tile_matrix).stored(style)
        if stored is None or tiles.is_vector:
            return None
        return TileGroup(
            stored,
            accepts=lambda header: self._preferred(header, collection) == 0,
            layer=stored.layer.id,
            level=stored.reader.level.matrix.id,
        )

    def _drawn(
        self,
        request: Request,
        collection: Collection,
        style: Style | None,
        place: tuple[MatrixTiles, int, int],
        found: Shown,
    ) -> Response:
        """Return a map of the area of a tile (OGC API Maps, 20-058 clause 14: map tilesets)."""
        # Loaded on first use, like the renderer.
        from mastaba_ogcapi.getmap import map_response
        from mastaba_ogcapi.mapquery import MapQueries

        query = MapQueries(self._dataset, place[0].matrix.tile_width).of_tile(
            request, collection, style, *place, found
        )
        return map_response(self._dataset, request, query)


def _find(tiles: LayerTiles, address: list[str]) -> tuple[MatrixTiles, int, int]:
    tile_matrix_set, tile_matrix, row, col = address
    in_matrix = tiles.matrix(tile_matrix_set, tile_matrix)
    return in_matrix, tile_index(row, "tileRow"), tile_index(col, "tileCol")


def _vector_media_type(
    request: Request, stored: TileFormat, in_matrix: MatrixTiles, tile_row: int, tile_col: int
) -> str:
    """Return the media type for a vector tile; of MVT, the registered one or the older one."""
    names = _VECTOR_NAMES
    media_types: tuple[str, ...] = (VECTOR_TILES, _PROTOBUF)
    if stored.short_name != "mvt":
        names, media_types = frozenset((stored.extension, stored.media_type)), (stored.media_type,)
    wanted = request.query.get("f") if request.query_string else None
    if wanted is not None:
        wanted = normalized(wanted)
        if wanted in names:
            return media_types[-1 if wanted in _PROTOBUF_NAMES else 0]
        # An index outside the limits is reported before an invalid format.
        check_limits(in_matrix.limits, tile_row, tile_col)
        raise UnsupportedFormatError(f"there is no format {printable(wanted)}", "f")
    header = request.environ.get("HTTP_ACCEPT")
    if not header or header == ANYTHING:
        return media_types[0]
    position = preferred(header, tuple((name,) for name in media_types))
    if position is None:
        raise NotAcceptableError(f"vector tiles are {media_types[0]}")
    return media_types[position]
