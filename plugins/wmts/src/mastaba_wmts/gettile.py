"""GetTile: find and return the requested tile.

This is the hot path: a few dictionary look-ups find the publisher of the tile. Separate
functions, where speed does not matter, work out errors.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from mastaba.errors import (
    MissingParameterError,
    TileOutOfRangeError,
    UnknownNameError,
    UnsupportedFormatError,
)
from mastaba.model.layer import Layer
from mastaba.model.style import Style
from mastaba.model.tile_matrix_set import TileLimits, TileMatrixSet
from mastaba.model.tile_matrix_set_link import links
from mastaba.tiles.stored import TilePublisher, check_limits
from mastaba.tiles.styles import listed_styles, publishers_by_style
from mastaba.web.request import Request, printable
from mastaba.web.response import Response
from mastaba_wmts.params import TileRequest, tile_index

if TYPE_CHECKING:
    from mastaba.services.base import Site
    from mastaba.tiles.derived import DerivedTilePublisher

    Publisher = TilePublisher | DerivedTilePublisher


class _MatrixTiles(NamedTuple):
    """The tiles of one tile matrix.

    Attributes:
        publishers: by style identifier; an empty one means the default style.
    """

    limits: TileLimits
    publishers: dict[str, Publisher]


class _SetTiles(NamedTuple):
    """The tiles of one tile matrix set, by tile matrix identifier."""

    tile_matrix_set: TileMatrixSet
    matrices: dict[str, _MatrixTiles]


class _LayerTiles:
    """The tiles of one layer.

    Attributes:
        media_type: of all its tiles, in lower case.
        extensions: for its RESTful paths.
        sets: by own and by published identifier.
    """

    __slots__ = ("extensions", "layer", "media_type", "sets")

    def __init__(self, layer: Layer, site: Site) -> None:
        self.layer = layer
        tile_format = layer.pyramid.format
        self.media_type = tile_format.media_type.lower()
        self.extensions = frozenset((tile_format.extension, *tile_format.extension_aliases))
        native = _stored_tiles(layer, site)
        self.sets = {layer.pyramid.tile_matrix_set.id: native, layer.levels_id: native}
        if layer.extra_tile_matrix_sets:
            for name, tiles in _derived_tiles(layer, site).items():
                self.sets.setdefault(name, tiles)

    def check_format(self, wanted: TileRequest) -> None:
        asked = wanted.format if wanted.extension is None else wanted.extension
        if not asked:
            raise MissingParameterError("the parameter FORMAT is missing", "Format")
        if wanted.extension not in self.extensions and asked.lower() != self.media_type:
            media_type = self.layer.pyramid.format.media_type
            raise UnsupportedFormatError(
                f"the tiles of this layer are {media_type}, not {printable(asked)}", "Format"
            )


class GetTile:
    """Answers GetTile for the layers of one service.

    Args:
        layers: the published layers.
        site: of the service.
    """

    def __init__(self, layers: Iterable[Layer], site: Site) -> None:
        self._layers = {layer.id: layer for layer in layers}
        self._site = site
        # Filled for each layer on its first request, so startup does not prepare the palettes
        # and headers of a thousand unused layers.
        self._tiles: dict[str, _LayerTiles] = {}

    def respond(self, request: Request, wanted: TileRequest) -> Response:
        """Return the requested tile.

        Raises:
            TileNotFoundError: no tile is stored there.
            SlabFormatError, StorageError: it cannot be read.
            RequestError: as in `find`.
        """
        publisher, tile_row, tile_col = self.find(wanted)
        return publisher.respond(request, tile_row, tile_col)

    def find(self, wanted: TileRequest) -> tuple[Publisher, int, int]:
        """Return the publisher, row and column of the requested tile.

        If the request is otherwise valid, the publisher checks the limits.

        Checks are made in the order LAYER, TILEMATRIXSET, TILEMATRIX, TILECOL, TILEROW, limits,
        FORMAT, STYLE (wmts.md section 3).

        Raises:
            MissingParameterError: a parameter is absent or (except STYLE) empty.
            UnknownNameError: layer, tile matrix set, tile matrix or style is not offered.
            InvalidParameterError: an index is not an integer.
            TileOutOfRangeError: the indices are outside the limits, or the layer has no tiles in
                this matrix of the set.
            UnsupportedFormatError: not the format of the layer.
        """
        tiles = self._tiles.get(wanted.layer or "") or self._open(wanted.layer)
        in_set = tiles.sets.get(wanted.tile_matrix_set or "")
        if in_set is None:
            raise _unknown_set(wanted)
        in_matrix = in_set.matrices.get(wanted.tile_matrix or "")
        if in_matrix is None:
            raise _unknown_matrix(wanted, in_set.tile_matrix_set)
        tile_col = tile_index(wanted.tile_col, "TileCol")
        tile_row = tile_index(wanted.tile_row, "TileRow")
        publisher = in_matrix.publishers.get(wanted.style) if wanted.style is not None else None
        if publisher is None or (
            wanted.format != tiles.media_type and wanted.extension not in tiles.extensions
        ):
            # An index outside the limits is reported before an invalid format or style.
            check_limits(in_matrix.limits, tile_row, tile_col)
            tiles.check_format(wanted)
            if publisher is None:
                raise _unknown_style(wanted)
        return publisher, tile_row, tile_col

    def layer(self, name: str | None) -> Layer:
        """Return a published layer.

        Raises:
            MissingParameterError: no name is given.
            UnknownNameError: there is no such layer.
        """
        if not name:
            raise MissingParameterError("the parameter LAYER is missing", "Layer")
        layer = self._layers.get(name)
        if layer is None:
            raise UnknownNameError(f"there is no layer {printable(name)}", "Layer")
        return layer

    def _open(self, name: str | None) -> _LayerTiles:
        layer = self.layer(name)
        tiles = self._tiles[layer.id] = _LayerTiles(layer, self._site)
        return tiles


def _stored_tiles(layer: Layer, site: Site) -> _SetTiles:
    """Return the tiles of the set in which a layer is stored."""
    default = _default_style(layer)
    matrices = {
        name: _MatrixTiles(
            reader.level.limits,
            publishers_by_style(layer, default, partial(TilePublisher, layer, reader)),
        )
        for name, reader in site.catalogue.readers[layer.id].items()
    }
    return _SetTiles(layer.pyramid.tile_matrix_set, matrices)


def _derived_tiles(layer: Layer, site: Site) -> dict[str, _SetTiles]:
    """Return the tiles of a layer's extra sets, by own and by published identifier."""
    # Loaded on first use: stored tiles need no rendering.
    from mastaba.tiles.derived import DerivedTilePublisher

    default = _default_style(layer)
    found: dict[str, _SetTiles] = {}
    for link in links(layer):
        matrices = {
            name: _MatrixTiles(
                limits,
                publishers_by_style(
                    layer, default, partial(DerivedTilePublisher, site, layer, link, name)
                ),
            )
            for name, limits in link.limits.items()
        }
        tiles = _SetTiles(link.tile_matrix_set, matrices)
        found[link.tile_matrix_set.id] = found[link.levels_id] = tiles
    return found


def _default_style(layer: Layer) -> Style | None:
    """Return the style that capabilities list first; vector layers have none."""
    return next(iter(listed_styles(layer)), None)


def _unknown_set(wanted: TileRequest) -> Exception:
    name = wanted.tile_matrix_set
    if not name:
        return MissingParameterError("the parameter TILEMATRIXSET is missing", "TileMatrixSet")
    return UnknownNameError(
        f"the layer is not offered in a tile matrix set {printable(name)}", "TileMatrixSet"
    )


def _unknown_matrix(wanted: TileRequest, tile_matrix_set: TileMatrixSet) -> Exception:
    name = wanted.tile_matrix
    if not name:
        return MissingParameterError("the parameter TILEMATRIX is missing", "TileMatrix")
    if name in tile_matrix_set.matrices:
        return TileOutOfRangeError(
            f"the layer has no tiles in the tile matrix {printable(name)}", ["TileMatrix"]
        )
    return UnknownNameError(f"there is no tile matrix {printable(name)}", "TileMatrix")


def _unknown_style(wanted: TileRequest) -> Exception:
    if wanted.style is None:
        return MissingParameterError("the parameter STYLE is missing", "Style")
    return UnknownNameError(f"the layer has no style {printable(wanted.style)}", "Style")
