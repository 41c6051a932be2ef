"""Tiles: the address ``/{layer}/{level}/{column}/{row}.{extension}`` (tms.md section 6).

This is the hot path: one look-up for each part of the address, in tables built at construction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from mastaba.errors import (
    InvalidParameterError,
    TileOutOfRangeError,
    UnknownNameError,
    UnsupportedFormatError,
)
from mastaba.tiles.stored import TilePublisher
from mastaba.web.request import printable
from mastaba_tms.numbering import last_row, last_row_above_origin

if TYPE_CHECKING:
    from mastaba.model.layer import Layer
    from mastaba.slab.reader import LevelReader
    from mastaba.web.request import Request
    from mastaba.web.response import Response

_MAX_DIGITS: Final = 10
"""Row and column numbers in any matrix have at most this many digits."""


class _LevelTiles(NamedTuple):
    publisher: TilePublisher
    last_row: int | None  # None when rows are counted from the top
    last_row_above_origin: int  # for addresses that always count from the bottom


class _LayerTiles(NamedTuple):
    layer: Layer
    extensions: frozenset[str]
    levels: dict[str, _LevelTiles]


class GetTile:
    """Answers tile requests for all layers of the service.

    Args:
        layers: the published layers.
        readers: level readers by layer and level identifier.
        from_bottom: whether clients count rows from the bottom.
    """

    def __init__(
        self,
        layers: Iterable[Layer],
        readers: Mapping[str, Mapping[str, LevelReader]],
        *,
        from_bottom: bool,
    ) -> None:
        self._layers = {
            layer.id: _layer_tiles(layer, readers[layer.id], from_bottom) for layer in layers
        }

    def respond(
        self,
        request: Request,
        layer_id: str,
        level: str,
        column: str,
        file_name: str,
        *,
        mirrored: bool = False,
    ) -> Response:
        """Return a stored tile.

        Args:
            request: only its headers and query are used.
            layer_id: layer identifier.
            level: tile matrix identifier.
            column: tile column as sent by the client.
            file_name: tile row and extension as sent by the client.
            mirrored: whether the address always counts rows from the bottom.

        Raises:
            InvalidParameterError: a part of the address is invalid or unknown.
            TileOutOfRangeError: the layer has no such tile.
            TileNotFoundError, SlabFormatError, StorageError: as in `TilePublisher.respond`.
        """
        row, _, extension = file_name.rpartition(".")
        try:
            layer, extensions, levels = self._layers[layer_id]
        except KeyError:
            raise UnknownNameError(f"Unknown layer {printable(layer_id)}", "layer") from None
        if extension not in extensions:
            raise UnsupportedFormatError(
                f"The extension of this layer is {layer.pyramid.format.extension}", "extension"
            )
        tile_col = _index(column, "column")
        tile_row = _index(row, "row")
        try:
            publisher, last, last_above_origin = levels[level]
        except KeyError:
            raise _no_level(layer, level) from None
        if mirrored:
            last = last_above_origin
        if last is not None:
            tile_row = last - tile_row
        return publisher.respond(request, tile_row, tile_col)


def _layer_tiles(
    layer: Layer, readers: Mapping[str, LevelReader], from_bottom: bool
) -> _LayerTiles:
    tile_format = layer.pyramid.format
    levels = {
        level: _LevelTiles(
            TilePublisher(layer, reader, layer.default_style),
            last_row(reader.level) if from_bottom else None,
            last_row_above_origin(layer.pyramid.tile_matrix_set, reader.level.matrix),
        )
        for level, reader in readers.items()
    }
    extensions = frozenset((tile_format.extension, *tile_format.extension_aliases))
    return _LayerTiles(layer, extensions, levels)


def _index(text: str, name: str) -> int:
    """Return a row or column number from ASCII digits only."""
    if not (text.isdigit() and text.isascii()):
        raise InvalidParameterError(f"The {name} is not an integer", name)
    if len(text) > _MAX_DIGITS:
        # Not passed to int(), whose cost grows with the square of the length.
        raise TileOutOfRangeError("There is no such tile in this layer", [name])
    return int(text)


def _no_level(layer: Layer, level: str) -> UnknownNameError | TileOutOfRangeError:
    if level in layer.pyramid.tile_matrix_set.matrices:
        return TileOutOfRangeError(f"The layer has no data at level {level}", ["level"])
    return UnknownNameError(f"Unknown level {printable(level)}", "level")
