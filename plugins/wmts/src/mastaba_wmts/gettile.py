"""GetTile: from the names in a request to a stored tile.

This is the hot path: a few dictionary look-ups lead to the publisher of the tile. What goes
wrong is sorted out apart, where time does not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from mastaba.errors import (
    MissingParameterError,
    TileOutOfRangeError,
    UnknownNameError,
    UnsupportedFormatError,
)
from mastaba.http.request import Request, printable
from mastaba.http.response import Response
from mastaba.http.tile_response import TilePublisher
from mastaba.model.layer import Layer
from mastaba.slab.reader import LevelReader
from mastaba_wmts.params import TileRequest, tile_index
from mastaba_wmts.styles import listed_styles, takes_palettes

_DEFAULT_STYLE: Final = ""


class _LayerTiles:
    """The tiles of one layer.

    Attributes:
        media_type: of all its tiles, in lower case.
        extensions: those of its RESTful paths.
        matrices: for each identifier of a tile matrix set, publishers by style identifier (the
            empty one is the default style) by tile matrix identifier.
    """

    __slots__ = ("extensions", "layer", "matrices", "media_type")

    def __init__(self, layer: Layer, readers: Mapping[str, LevelReader]) -> None:
        self.layer = layer
        tile_format = layer.pyramid.format
        self.media_type = tile_format.media_type.lower()
        self.extensions = frozenset((tile_format.extension, *tile_format.extension_aliases))
        native = {name: _by_style(layer, reader) for name, reader in readers.items()}
        self.matrices: dict[str, dict[str, dict[str, TilePublisher]]] = {
            layer.pyramid.tile_matrix_set.id: native,
            layer.levels_id: native,
        }

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
        layers: those published.
        readers: for each layer identifier, the reader of each level by tile matrix identifier.
    """

    def __init__(
        self, layers: Iterable[Layer], readers: Mapping[str, Mapping[str, LevelReader]]
    ) -> None:
        self._layers = {layer.id: layer for layer in layers}
        self._readers = readers
        # Filled layer by layer at the first request: a start must not wait for the palettes and
        # headers of a thousand layers that are not looked at.
        self._tiles: dict[str, _LayerTiles] = {}

    def respond(self, request: Request, wanted: TileRequest) -> Response:
        """Return the tile that a request names.

        Faults are found in the order LAYER, TILEMATRIXSET, TILEMATRIX, TILECOL, TILEROW, limits,
        FORMAT, STYLE (wmts.md section 3).

        Raises:
            MissingParameterError: a parameter is absent, or (but for STYLE) empty.
            UnknownNameError: layer, tile matrix set, tile matrix or style is not offered.
            InvalidParameterError: an index is not an integer.
            TileOutOfRangeError: the indices are outside the limits, or the layer has no tiles in
                this matrix of the set.
            UnsupportedFormatError: not the format of the layer.
            TileNotFoundError: no tile is stored there.
            SlabFormatError, StorageError: it cannot be read.
        """
        tiles = self._tiles.get(wanted.layer or "") or self._open(wanted.layer)
        matrices = tiles.matrices.get(wanted.tile_matrix_set or "")
        if matrices is None:
            raise _unknown_set(wanted)
        publishers = matrices.get(wanted.tile_matrix or "")
        if publishers is None:
            raise _unknown_matrix(wanted, tiles)
        tile_col = tile_index(wanted.tile_col, "TileCol")
        tile_row = tile_index(wanted.tile_row, "TileRow")
        publisher = publishers.get(wanted.style) if wanted.style is not None else None
        if publisher is None or (
            wanted.format != tiles.media_type and wanted.extension not in tiles.extensions
        ):
            # An index out of the limits is reported rather than a wrong format or style.
            _check_limits(next(iter(publishers.values())), tile_row, tile_col)
            tiles.check_format(wanted)
            if publisher is None:
                raise _unknown_style(wanted)
        return publisher.respond(request, tile_row, tile_col)

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
        tiles = self._tiles[layer.id] = _LayerTiles(layer, self._readers[layer.id])
        return tiles


def _by_style(layer: Layer, reader: LevelReader) -> dict[str, TilePublisher]:
    """Return the publishers of one level: one for each palette, one for all other styles."""
    plain = TilePublisher(layer, reader, None)
    with_palettes = takes_palettes(layer)
    publishers = {
        style.identifier: (
            TilePublisher(layer, reader, style) if with_palettes and style.palette else plain
        )
        for style in reversed(layer.styles)  # of two styles with one name, the first counts
    }
    default = listed_styles(layer)
    publishers[_DEFAULT_STYLE] = publishers[default[0].identifier] if default else plain
    return publishers


def _check_limits(publisher: TilePublisher, tile_row: int, tile_col: int) -> None:
    limits = publisher.reader.level.limits
    at_fault = []
    if not limits.min_row <= tile_row <= limits.max_row:
        at_fault.append("row")
    if not limits.min_col <= tile_col <= limits.max_col:
        at_fault.append("col")
    if at_fault:
        raise TileOutOfRangeError("there is no such tile in this layer", at_fault)


def _unknown_set(wanted: TileRequest) -> Exception:
    name = wanted.tile_matrix_set
    if not name:
        return MissingParameterError("the parameter TILEMATRIXSET is missing", "TileMatrixSet")
    return UnknownNameError(
        f"the layer is not offered in a tile matrix set {printable(name)}", "TileMatrixSet"
    )


def _unknown_matrix(wanted: TileRequest, tiles: _LayerTiles) -> Exception:
    name = wanted.tile_matrix
    if not name:
        return MissingParameterError("the parameter TILEMATRIX is missing", "TileMatrix")
    if name in tiles.layer.pyramid.tile_matrix_set.matrices:
        return TileOutOfRangeError(
            f"the layer has no tiles in the tile matrix {printable(name)}", ["TileMatrix"]
        )
    return UnknownNameError(f"there is no tile matrix {printable(name)}", "TileMatrix")


def _unknown_style(wanted: TileRequest) -> Exception:
    if wanted.style is None:
        return MissingParameterError("the parameter STYLE is missing", "Style")
    return UnknownNameError(f"the layer has no style {printable(wanted.style)}", "Style")
