"""Tiles: the address ``/{layer}/{level}/{column}/{row}.{extension}`` (tms.md section 6)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from mastaba.api.tiles import (
    DEFAULT_STYLE,
    LayerTiles,
    MatrixTiles,
    TileGroup,
    Tiles,
    tile_index,
)
from mastaba.api.web import printable
from mastaba.errors import InvalidParameterError, NoSuchValueError, UnknownNameError
from mastaba_tms.addresses import FROM_BOTTOM, ONLY_LEVEL, VERSION
from mastaba_tms.numbering import last_row_above_origin
from mastaba_tms.offered import layer_and_set, set_and_level

if TYPE_CHECKING:
    from mastaba.api.catalogue import Layer
    from mastaba.api.web import Request, Response


NO_VALUES: Final[Mapping[str, str]] = MappingProxyType({})


class GetTile:
    """Answers tile requests for all layers of the service.

    Args:
        tiles: the tiles of these layers.
        layers: these layers by identifier.
        from_bottom: whether clients count rows from the bottom.
    """

    def __init__(self, tiles: Tiles, layers: Mapping[str, Layer], *, from_bottom: bool) -> None:
        self._tiles = tiles
        self._layers = layers
        self._from_bottom = from_bottom

    def described(self, name: str, values: Mapping[str, str]) -> tuple[LayerTiles, str | None]:
        """Return what `layer` does, for documents: the layer itself if no value is named.

        Args:
            values: of dimensions, by name.
        """
        identifier, tile_matrix_set = self._parts(name)
        layer = self._layers.get(identifier)
        if layer is not None and layer.dimensions and not values:
            return LayerTiles(layer, self._tiles), tile_matrix_set
        return self.layer(name, values)

    def layer(
        self, name: str, values: Mapping[str, str] = NO_VALUES, *, lasting: bool = False
    ) -> tuple[LayerTiles, str | None]:
        """Return the layer and the set that the name of a TileMap means.

        Args:
            name: of a layer or of one of its values, and of a set.
            values, lasting: as in `Tiles.layer`.

        Returns:
            the tiles of the layer; the set with the level if the TileMap has only one, None for
            the set in which the layer is stored.

        Raises:
            UnknownNameError: there is no such layer or value. The set is not checked.
            MissingDimensionError, InvalidDimensionError, OverloadedError: as in `Tiles.layer`.
        """
        layer, tile_matrix_set = self._parts(name)
        try:
            return self._tiles.layer(layer, values, lasting=lasting), tile_matrix_set
        except NoSuchValueError:
            raise UnknownNameError(f"there is no layer {printable(name)}", "layer") from None

    def _parts(self, name: str) -> tuple[str, str | None]:
        # A layer may have the joint of layer and set in its identifier.
        return (name, None) if name in self._layers else layer_and_set(name)

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
        """Return a stored tile, or one drawn in another picture format.

        Args:
            request: only its headers and query are used. Drawn tiles are in the style that the
                parameter STYLE names, or else in the default style.
            layer_id: layer identifier, also with a set in which the layer is not stored.
            level: tile matrix identifier.
            column: tile column as sent by the client.
            file_name: tile row and extension as sent by the client.
            mirrored: whether the address always counts rows from the bottom.

        Raises:
            RequestError: a part of the address is invalid or unknown.
            TileOutOfRangeError: the layer has no such tile.
            TileNotFoundError, SlabFormatError, StorageError: as in `TilePublisher.respond`.
        """
        row, _, extension = file_name.rpartition(".")
        tiles, tile_matrix_set = self.layer(layer_id)
        picture = None if extension in tiles.extensions else tiles.pictures.get(extension)
        if picture is None and extension not in tiles.extensions:
            offered = ", ".join([tiles.layer.pyramid.format.extension, *tiles.pictures])
            message = f"the extension of this layer is one of {offered}"
            raise tiles.unsupported(extension, message, "extension")
        tile_col, tile_row = tile_index(column, "column"), tile_index(row, "row")
        if "-" in (column[0], row[0]):
            raise InvalidParameterError("row and column must not be negative", "row")
        in_matrix = _matrix(tiles, tile_matrix_set, level)
        last_row = self._last_row(in_matrix, mirrored=mirrored)
        if last_row is not None:
            tile_row = last_row - tile_row
        if picture is None:
            publisher = in_matrix.publishers[DEFAULT_STYLE]
        else:
            publisher = in_matrix.picture(request.query.get("style", DEFAULT_STYLE), picture)
        return publisher.respond(request, tile_row, tile_col)

    def group(self, base: str) -> TileGroup | None:
        """Return the stored tiles whose paths begin with a base.

        Raises:
            UnknownNameError, TileOutOfRangeError: the layer has no such tiles.
        """
        parts = base.split("/")
        mirrored = len(parts) == 5 and parts[3] == FROM_BOTTOM
        if parts[1:2] != [VERSION] or not (mirrored or len(parts) == 4):
            return None
        tiles, tile_matrix_set = self.layer(parts[2], lasting=True)
        in_matrix = _matrix(tiles, tile_matrix_set, parts[-1])
        stored = in_matrix.stored(DEFAULT_STYLE)
        if stored is None:
            return None
        endings = frozenset(f".{extension}" for extension in tiles.extensions)
        last_row = self._last_row(in_matrix, mirrored=mirrored)
        return TileGroup(
            stored,
            column_first=True,
            endings=endings,
            last_row=last_row,
            layer=stored.layer.id,
            level=stored.reader.level.matrix.id,
        )

    def _last_row(self, in_matrix: MatrixTiles, *, mirrored: bool) -> int | None:
        """Return the row from which rows are counted upwards; None if counted from the top."""
        if mirrored:
            return last_row_above_origin(in_matrix.link.tile_matrix_set, in_matrix.matrix)
        return in_matrix.matrix.matrix_height - 1 if self._from_bottom else None


def _matrix(tiles: LayerTiles, tile_matrix_set: str | None, level: str) -> MatrixTiles:
    """Return the tiles of a level in an address.

    Raises:
        UnknownNameError, TileOutOfRangeError: as in `LayerTiles.matrix`.
    """
    name, only = set_and_level(tiles, tile_matrix_set)
    if only is None:
        return tiles.matrix(name, level)
    if level != ONLY_LEVEL:
        raise UnknownNameError(f"this TileMap has the level {ONLY_LEVEL} only", "tile_matrix")
    return tiles.matrix(name, only)
