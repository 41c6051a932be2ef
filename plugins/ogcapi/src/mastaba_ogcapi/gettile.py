"""Tiles: from the names in a path to a stored tile, or to one drawn on demand.

This is the hot path: a few dictionary look-ups lead to the publisher of the tile. What goes
wrong, or asks for more than a stored tile, is sorted out apart, where time does not count.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from mastaba.errors import TileOutOfRangeError, UnknownNameError, UnknownPathError
from mastaba.http.request import Request, printable
from mastaba.http.response import Response
from mastaba.http.tile_response import TilePublisher, check_limits
from mastaba.http.tile_styles import DEFAULT_STYLE, publishers_by_style
from mastaba_ogcapi.errors import NotAcceptableError
from mastaba_ogcapi.negotiation import ANYTHING, normalized, preferred
from mastaba_ogcapi.params import tile_index
from mastaba_ogcapi.tilesets import VECTOR_TILES, stored_name

if TYPE_CHECKING:
    from mastaba.http.derived_tile import DerivedTilePublisher
    from mastaba.model.layer import Layer
    from mastaba.model.style import Style
    from mastaba.model.tile_matrix_set import TileLimits, TileMatrix
    from mastaba_ogcapi.dataset import Collection, Dataset, OfferedSet
    from mastaba_ogcapi.drawtile import DrawTile

    Publisher = TilePublisher | DerivedTilePublisher

MISSING: Final = 204
"""Status of a tile inside the limits that nobody stored (OGC API Tiles, requirement tc-error)."""

RENDERING: Final = frozenset(
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
"""Parameters that ask for a drawn tile (OGC API Maps, 20-058 clause 14)."""

_PROTOBUF: Final = "application/x-protobuf"
_VECTOR_NAMES: Final = frozenset(("mvt", "pbf", VECTOR_TILES, _PROTOBUF))
_PROTOBUF_NAMES: Final = frozenset(("pbf", _PROTOBUF))


class MatrixTiles(NamedTuple):
    """The tiles of one tile matrix.

    Attributes:
        publishers: by style identifier; the empty one is the default style.
    """

    offered: OfferedSet
    matrix: TileMatrix
    limits: TileLimits
    publishers: dict[str, Publisher]


class _CollectionTiles:
    """The tiles of one collection.

    Attributes:
        names: values of ``f`` that ask for the stored format.
        accepted: media types of an Accept header that ask for it.
        sets: by every identifier, tiles by tile matrix identifier.
    """

    __slots__ = ("accepted", "collection", "is_vector", "names", "sets")

    def __init__(self, collection: Collection, dataset: Dataset) -> None:
        self.collection = collection
        layer = collection.layer
        self.is_vector = layer.is_vector
        media_type = layer.pyramid.format.media_type
        if layer.is_vector:
            self.names = _VECTOR_NAMES
            self.accepted: tuple[str, ...] = (VECTOR_TILES, _PROTOBUF)
        else:
            short = stored_name(media_type)
            more = {"jpg": "jpeg", "tiff": "tif"}.get(short, short)
            self.names = frozenset((short, more, media_type, *media_type.split(";")[:1]))
            self.accepted = (media_type, *media_type.split(";")[:1])
        self.sets: dict[str, dict[str, MatrixTiles]] = {}
        for offered in collection.sets:
            self.sets.setdefault(offered.tile_matrix_set.id, _matrices(layer, offered, dataset))
        for offered in collection.sets:
            for name in offered.names:
                self.sets.setdefault(name, self.sets[offered.tile_matrix_set.id])


class GetTile:
    """Answers tile requests.

    Args:
        dataset: with the collections.
        draw: makes the tiles that are not stored as they are asked for.
    """

    def __init__(self, dataset: Dataset, draw: DrawTile) -> None:
        self._dataset = dataset
        self._draw = draw
        # Filled collection by collection at the first request: a start must not wait for the
        # palettes and headers of a thousand that are not looked at.
        self._tiles: dict[str, _CollectionTiles] = {}

    def vector(self, request: Request, identifier: str, address: list[str]) -> Response:
        """Return a vector tile.

        Args:
            identifier: of the collection.
            address: tile matrix set, tile matrix, row and column as the path names them.

        Raises:
            UnknownPathError: there is no such collection.
            InvalidParameterError: it has no vector tiles, or a part of the address or the
                format is none.
            TileOutOfRangeError: the collection has no such tile.
            TileNotFoundError, SlabFormatError, StorageError: as `TilePublisher.respond`.
        """
        tiles = self._tiles.get(identifier) or self._open(identifier)
        if not tiles.is_vector:
            self._dataset.vector_collection(identifier)
        in_matrix, tile_row, tile_col = _find(tiles, address)
        media_type = _vector_media_type(request, in_matrix, tile_row, tile_col)
        response = in_matrix.publishers[DEFAULT_STYLE].respond(request, tile_row, tile_col)
        if media_type != _PROTOBUF:
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
            style: None for the default one.
            address: tile matrix set, tile matrix, row and column as the path names them.

        Raises:
            UnknownPathError: there is no such collection.
            InvalidParameterError: it is one of vector tiles, or a part of the address or a
                parameter is not valid.
            NotAcceptableError: the client takes no format that is offered.
            TileOutOfRangeError: the collection has no such tile.
            TileNotFoundError, SlabFormatError, StorageError: as `TilePublisher.respond`.
        """
        tiles = self._tiles.get(identifier) or self._open(identifier)
        if tiles.is_vector:
            self._dataset.raster_collection(identifier)
        in_matrix, tile_row, tile_col = _find(tiles, address)
        publisher = in_matrix.publishers.get(DEFAULT_STYLE if style is None else style)
        if publisher is None or style == DEFAULT_STYLE:
            raise UnknownPathError(f"the collection has no style {printable(style or '')}")
        if self._is_stored(request, tiles):
            return publisher.respond(request, tile_row, tile_col)
        check_limits(in_matrix.limits, tile_row, tile_col)
        collection = tiles.collection
        wanted = collection.layer.default_style if style is None else collection.style(style)
        return self._draw.respond(request, collection, wanted, in_matrix, tile_row, tile_col)

    def _is_stored(self, request: Request, tiles: _CollectionTiles) -> bool:
        """Tell whether a request asks for a tile as it is stored."""
        if request.query_string:
            parameters = request.query
            if not RENDERING.isdisjoint(parameters):
                return False
            wanted = parameters.get("f")
            if wanted is not None:
                return wanted in tiles.names or normalized(wanted) in tiles.names
        header = request.environ.get("HTTP_ACCEPT")
        if not header or header == ANYTHING:
            return True
        offered = (tiles.accepted, *(item.accepted for item in self._dataset.formats.all))
        position = preferred(header, offered, anything_is_first=True)
        if position is None:
            raise NotAcceptableError("the client takes none of the formats of this tile")
        return position == 0

    def _open(self, identifier: str) -> _CollectionTiles:
        collection = self._dataset.collection(identifier)
        tiles = self._tiles[identifier] = _CollectionTiles(collection, self._dataset)
        return tiles


def _find(tiles: _CollectionTiles, address: list[str]) -> tuple[MatrixTiles, int, int]:
    name, matrix, row, col = address
    in_set = tiles.sets.get(name)
    if in_set is None:
        raise UnknownPathError(
            f"the collection is not offered in a tile matrix set {printable(name)}"
        )
    in_matrix = in_set.get(matrix)
    if in_matrix is None:
        raise _unknown_matrix(matrix, next(iter(in_set.values())).offered)
    return in_matrix, tile_index(row, "tileRow"), tile_index(col, "tileCol")


def _unknown_matrix(name: str, offered: OfferedSet) -> Exception:
    if name in offered.tile_matrix_set.matrices:
        return TileOutOfRangeError(
            f"the collection has no tiles in the tile matrix {printable(name)}", ["tileMatrix"]
        )
    return UnknownPathError(f"there is no tile matrix {printable(name)}")


def _vector_media_type(
    request: Request, in_matrix: MatrixTiles, tile_row: int, tile_col: int
) -> str:
    """Return the name under which a vector tile is sent: the registered one, or the older one."""
    wanted = request.query.get("f") if request.query_string else None
    if wanted is not None:
        wanted = normalized(wanted)
        if wanted in _PROTOBUF_NAMES:
            return _PROTOBUF
        if wanted in _VECTOR_NAMES:
            return VECTOR_TILES
        # An index out of the limits is reported rather than a wrong format.
        check_limits(in_matrix.limits, tile_row, tile_col)
        raise UnknownNameError(f"there is no format {printable(wanted)}", "f")
    header = request.environ.get("HTTP_ACCEPT")
    if not header or header == ANYTHING:
        return VECTOR_TILES
    position = preferred(header, ((VECTOR_TILES,), (_PROTOBUF,)))
    if position is None:
        raise NotAcceptableError(f"vector tiles are {VECTOR_TILES}")
    return _PROTOBUF if position else VECTOR_TILES


def _matrices(layer: Layer, offered: OfferedSet, dataset: Dataset) -> dict[str, MatrixTiles]:
    site = dataset.site
    found = {}
    for name, limits in offered.limits.items():
        publisher: Callable[[Style | None], Publisher]
        if offered.link is None:
            reader = site.catalogue.readers[layer.id][name]
            publisher = partial(TilePublisher, layer, reader, missing_status=MISSING)
        else:
            # A server of stored tiles alone needs nothing of what maps are made with.
            from mastaba.http.derived_tile import DerivedTilePublisher

            publisher = partial(
                DerivedTilePublisher, site, layer, offered.link, name, missing_status=MISSING
            )
        matrix = offered.tile_matrix_set.matrices[name]
        publishers: dict[str, Publisher] = publishers_by_style(
            layer, layer.default_style, publisher
        )
        found[name] = MatrixTiles(offered, matrix, limits, publishers)
    return found
