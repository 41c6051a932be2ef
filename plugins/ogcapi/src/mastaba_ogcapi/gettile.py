"""Tiles: find the stored tile for a path, or draw one on demand.

This is the hot path: a few dictionary look-ups find the publisher of the tile. Separate
functions, where speed does not matter, handle errors and drawn tiles.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from mastaba.errors import TileOutOfRangeError, UnknownNameError, UnknownPathError
from mastaba.tiles.stored import TilePublisher, check_limits
from mastaba.tiles.styles import DEFAULT_STYLE, publishers_by_style
from mastaba.web.request import Request, printable
from mastaba.web.response import Response
from mastaba_ogcapi.errors import NotAcceptableError
from mastaba_ogcapi.negotiation import ANYTHING, normalized, preferred
from mastaba_ogcapi.params import tile_index
from mastaba_ogcapi.tilesets import VECTOR_TILES, stored_name

if TYPE_CHECKING:
    from mastaba.model.layer import Layer
    from mastaba.model.style import Style
    from mastaba.model.tile_matrix_set import TileLimits, TileMatrix
    from mastaba.tiles.derived import DerivedTilePublisher
    from mastaba_ogcapi.dataset import Collection, Dataset, OfferedSet
    from mastaba_ogcapi.drawtile import DrawTile

    Publisher = TilePublisher | DerivedTilePublisher

MISSING: Final = 204
"""Status for a tile inside the limits that is not stored (OGC API Tiles, requirement tc-error)."""

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
"""Parameters that require a drawn tile (OGC API Maps, 20-058 clause 14)."""

_PROTOBUF: Final = "application/x-protobuf"
_VECTOR_NAMES: Final = frozenset(("mvt", "pbf", VECTOR_TILES, _PROTOBUF))
_PROTOBUF_NAMES: Final = frozenset(("pbf", _PROTOBUF))


class MatrixTiles(NamedTuple):
    """The tiles of one tile matrix.

    Attributes:
        publishers: by style identifier; an empty one means the default style.
    """

    offered: OfferedSet
    matrix: TileMatrix
    limits: TileLimits
    publishers: dict[str, Publisher]


class _CollectionTiles:
    """The tiles of one collection.

    Attributes:
        names: values of ``f`` that request the stored format.
        accepted: media types in an Accept header that request it.
        sets: tiles by any tile matrix set identifier, then by tile matrix identifier.
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
        dataset: gives the collections.
        draw: draws tiles that are not stored in the requested form.
    """

    def __init__(self, dataset: Dataset, draw: DrawTile) -> None:
        self._dataset = dataset
        self._draw = draw
        # Filled for each collection on its first request, so startup does not prepare the
        # palettes and headers of a thousand unused collections.
        self._tiles: dict[str, _CollectionTiles] = {}

    def vector(self, request: Request, identifier: str, address: list[str]) -> Response:
        """Return a vector tile.

        Args:
            identifier: of the collection.
            address: tile matrix set, tile matrix, row and column from the path.

        Raises:
            UnknownPathError: there is no such collection, tile matrix set or tile matrix.
            InvalidParameterError: it has no vector tiles, or the row, column or format is invalid.
            NotAcceptableError: the client accepts no vector tiles.
            TileOutOfRangeError: the collection has no such tile.
            TileNotFoundError, SlabFormatError, StorageError: as in `TilePublisher.respond`.
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
            style: identifier; None for the default style.
            address: tile matrix set, tile matrix, row and column from the path.

        Raises:
            UnknownPathError: there is no such collection, tile matrix set, tile matrix or style.
            InvalidParameterError: it has vector tiles, or the row, column or a parameter is
                invalid.
            NotAcceptableError: the client accepts none of the offered formats.
            TileOutOfRangeError: the collection has no such tile.
            TileNotFoundError, SlabFormatError, StorageError: as in `TilePublisher.respond`.
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
        """Return whether a request asks for a tile as stored."""
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
    """Return the media type for a vector tile: the registered one or the older one."""
    wanted = request.query.get("f") if request.query_string else None
    if wanted is not None:
        wanted = normalized(wanted)
        if wanted in _PROTOBUF_NAMES:
            return _PROTOBUF
        if wanted in _VECTOR_NAMES:
            return VECTOR_TILES
        # An index outside the limits is reported before an invalid format.
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
            # Loaded on first use: stored tiles need no rendering.
            from mastaba.tiles.derived import DerivedTilePublisher

            publisher = partial(
                DerivedTilePublisher, site, layer, offered.link, name, missing_status=MISSING
            )
        matrix = offered.tile_matrix_set.matrices[name]
        publishers: dict[str, Publisher] = publishers_by_style(
            layer, layer.default_style, publisher
        )
        found[name] = MatrixTiles(offered, matrix, limits, publishers)
    return found
