"""Tiles: the address ``/{layer}/{level}/{column}/{row}.{extension}`` (tms.md section 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mastaba.api.tiles import DEFAULT_STYLE, MatrixTiles, TileGroup, Tiles, tile_index
from mastaba.errors import InvalidParameterError, UnsupportedFormatError
from mastaba_tms.addresses import FROM_BOTTOM, VERSION
from mastaba_tms.numbering import last_row_above_origin

if TYPE_CHECKING:
    from mastaba.api.web import Request, Response


class GetTile:
    """Answers tile requests for all layers of the service.

    Args:
        tiles: the tiles of these layers.
        from_bottom: whether clients count rows from the bottom.
    """

    def __init__(self, tiles: Tiles, *, from_bottom: bool) -> None:
        self._tiles = tiles
        self._from_bottom = from_bottom

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
            layer_id: layer identifier.
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
        tiles = self._tiles.layer(layer_id)
        picture = None if extension in tiles.extensions else tiles.pictures.get(extension)
        if picture is None and extension not in tiles.extensions:
            offered = ", ".join([tiles.layer.pyramid.format.extension, *tiles.pictures])
            raise UnsupportedFormatError(
                f"the extension of this layer is one of {offered}", "extension"
            )
        tile_col, tile_row = tile_index(column, "column"), tile_index(row, "row")
        if "-" in (column[0], row[0]):
            raise InvalidParameterError("row and column must not be negative", "row")
        in_matrix = tiles.matrix(None, level)
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
        tiles = self._tiles.layer(parts[2])
        in_matrix = tiles.matrix(None, parts[-1])
        stored = in_matrix.stored(DEFAULT_STYLE)
        if stored is None:
            return None
        endings = frozenset(f".{extension}" for extension in tiles.extensions)
        last_row = self._last_row(in_matrix, mirrored=mirrored)
        return TileGroup(stored, column_first=True, endings=endings, last_row=last_row)

    def _last_row(self, in_matrix: MatrixTiles, *, mirrored: bool) -> int | None:
        """Return the row from which rows are counted upwards; None if counted from the top."""
        if mirrored:
            return last_row_above_origin(in_matrix.link.tile_matrix_set, in_matrix.matrix)
        return in_matrix.matrix.matrix_height - 1 if self._from_bottom else None
