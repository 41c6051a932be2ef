"""GetTile: find and return the requested tile."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from mastaba.api.tiles import (
    LayerTiles,
    MatrixTiles,
    TileGroup,
    Tiles,
    check_limits,
    listed_styles,
    tile_index,
)
from mastaba.api.web import Request, Response, printable
from mastaba.errors import MissingParameterError, UnknownNameError
from mastaba_ows.dimensions import Dimension, parameter_names
from mastaba_wmts import rest
from mastaba_wmts.dimensions import MOST_VALUES, tile_dimensions
from mastaba_wmts.params import Operation, TileRequest, operation, tile_request

if TYPE_CHECKING:
    from mastaba.api.catalogue import Layer, Style
    from mastaba.api.services import Site
    from mastaba.api.tiles import Publisher

_PARAMETERS: Final = frozenset(
    ("service", "version", "request", "layer", "style", "format", "tilematrixset", "tilematrix")
)
"""Parameters of a stored tile except row and column, in lower case."""


class GetTile:
    """Answers GetTile for the layers of one service.

    Args:
        layers: the published layers.
        site: of the service.

    Attributes:
        dimensions: of all layers.
    """

    def __init__(self, layers: Iterable[Layer], site: Site) -> None:
        layers = list(layers)
        self._tiles = Tiles(site, layers, _default_style)
        self._catalogue = site.catalogue
        self._by_layer = {layer.id: tile_dimensions(layer) for layer in layers}
        names = {one.name: one for found in self._by_layer.values() for one in found}
        self.dimensions = tuple(names.values())
        self._parameters = _PARAMETERS | parameter_names(self.dimensions)

    def dimensions_of(self, name: str) -> Sequence[Dimension]:
        """Return the dimensions of a layer whose values may be in paths; none if it is unknown."""
        return self._by_layer.get(name) or self._by_layer.get(name.partition("~")[0], ())

    def values(self, wanted: TileRequest) -> list[TileRequest]:
        """Return a request for each value that a request means, newest first, at most 16.

        Raises:
            RequestError: there is no such layer, or the values are refused.
        """
        layer = self.layer(wanted)
        if not layer.dimensions:
            return [wanted]
        found = self._catalogue.resolve(wanted.layer or "", wanted.values, MOST_VALUES)
        if len(found.layers) == 1:
            return [wanted]
        return [wanted._replace(layer=one.key, values={}) for one in found.layers]

    def respond(self, request: Request, wanted: TileRequest) -> Response:
        """Return the requested tile.

        Raises:
            TileNotFoundError: no tile is stored there.
            SlabFormatError, StorageError: it cannot be read.
            RequestError: as in `find`.
        """
        _, publisher, tile_row, tile_col = self.find(wanted)
        return publisher.respond(request, tile_row, tile_col)

    def find(self, wanted: TileRequest) -> tuple[MatrixTiles, Publisher, int, int]:
        """Return the tiles of the requested matrix, and publisher, row and column of the tile.

        If the request is otherwise valid, the publisher checks the limits.

        Checks are made in the order LAYER, TILEMATRIXSET, TILEMATRIX, TILECOL, TILEROW, limits,
        FORMAT, STYLE (wmts.md section 3).

        Raises:
            MissingParameterError: a parameter is absent or (except STYLE) empty.
            UnknownNameError: layer, tile matrix set, tile matrix or style is not offered.
            InvalidParameterError: an index is not an integer.
            TileOutOfRangeError: the indices are outside the limits, or the layer has no tiles in
                this matrix of the set.
            UnsupportedFormatError: neither the format of the layer nor a picture format.
        """
        try:
            tiles = self._tiles.layer(wanted.layer or "", wanted.values)
            in_matrix = tiles.matrix(wanted.tile_matrix_set or "", wanted.tile_matrix or "")
        except UnknownNameError as error:
            raise _missing(wanted, error) or error from None
        tile_col = tile_index(wanted.tile_col, "TileCol")
        tile_row = tile_index(wanted.tile_row, "TileRow")
        publisher = None if wanted.style is None else in_matrix.publishers.get(wanted.style)
        if publisher is None or (
            wanted.format != tiles.media_type and wanted.extension not in tiles.extensions
        ):
            # An index outside the limits is reported before an invalid format or style.
            check_limits(in_matrix.limits, tile_row, tile_col)
            picture = _picture(wanted, tiles)
            if wanted.style is None:
                raise MissingParameterError("the parameter STYLE is missing", "Style")
            if picture is None:
                publisher = in_matrix.publisher(wanted.style)
            else:
                publisher = in_matrix.picture(wanted.style, picture)
        return in_matrix, publisher, tile_row, tile_col

    def group_of_path(self, base: str) -> TileGroup | None:
        """Return the stored tiles whose RESTful paths begin with a base.

        Raises:
            RequestError: the layer has no such tiles.
        """
        wanted = rest.matrix_request(base, self.dimensions_of)
        if wanted is None:
            return None
        extensions = self._lasting(wanted).extensions
        return self._group(wanted, frozenset(f".{extension}" for extension in extensions))

    def group_of_query(self, parameters: Mapping[str, str]) -> TileGroup | None:
        """Return the stored tiles that parameters other than row and column request.

        Raises:
            RequestError: the parameters are invalid, or the layer has no such tiles.
        """
        if (
            not parameters.keys() <= self._parameters
            or operation(parameters) is not Operation.GET_TILE
        ):
            return None
        wanted = tile_request(parameters, self.dimensions)
        tiles = self._lasting(wanted)
        return self._group(wanted) if wanted.format == tiles.media_type else None

    def _group(
        self, wanted: TileRequest, endings: frozenset[str] = frozenset(("",))
    ) -> TileGroup | None:
        if wanted.style is None:
            return None
        tiles = self._lasting(wanted)
        in_matrix = tiles.matrix(wanted.tile_matrix_set or "", wanted.tile_matrix or "")
        stored = in_matrix.stored(wanted.style)
        return (
            None
            if stored is None
            else TileGroup(
                stored, endings=endings, layer=stored.layer.id, level=stored.reader.level.matrix.id
            )
        )

    def _lasting(self, wanted: TileRequest) -> LayerTiles:
        """Return what a request means unless that may change while the data does not."""
        return self._tiles.layer(wanted.layer or "", wanted.values, lasting=True)

    def layer(self, wanted: TileRequest) -> Layer:
        """Return the layer, or the value of one, that a request names.

        Raises:
            MissingParameterError: no name is given.
            UnknownNameError: there is no such layer.
        """
        if not wanted.layer:
            raise MissingParameterError("the parameter LAYER is missing", "Layer")
        return self._tiles.layer(wanted.layer, wanted.values).layer


def _default_style(layer: Layer) -> Style | None:
    """Return the style that capabilities list first; vector layers have none."""
    return next(iter(listed_styles(layer)), None)


def _missing(wanted: TileRequest, error: UnknownNameError) -> MissingParameterError | None:
    """Return the error for a name that is unknown because it is absent or empty."""
    name = error.parameter or ""
    if getattr(wanted, name):
        return None
    spelt = name.replace("_", "")
    return MissingParameterError(f"the parameter {spelt.upper()} is missing", name)


def _picture(wanted: TileRequest, tiles: LayerTiles) -> str | None:
    """Return the requested picture format; None for the format of the stored tiles."""
    if wanted.extension is not None:
        if wanted.extension in tiles.extensions:
            return None
        requested, found = wanted.extension, tiles.pictures.get(wanted.extension)
    else:
        requested = (wanted.format or "").lower()
        if requested == tiles.media_type:
            return None
        found = requested if requested in tiles.pictures.values() else None
    if not requested:
        raise MissingParameterError("the parameter FORMAT is missing", "Format")
    if found is None:
        offered = ", ".join(dict.fromkeys([tiles.media_type, *tiles.pictures.values()]))
        message = f"the formats of this layer are {offered}, not {printable(requested)}"
        raise tiles.unsupported(requested, message, "Format")
    return found
