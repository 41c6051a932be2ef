"""Tiles of older values, for those that a value does not have (time.md section 1.5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from mastaba.api.tiles import TilePublisher
from mastaba.errors import RequestError
from mastaba_ows.dimensions import DATETIME, joined
from mastaba_server.messages import FAILURE

if TYPE_CHECKING:
    from mastaba.api.catalogue import Layer, Style
    from mastaba.api.containers import TileReader
    from mastaba.api.tiles import Tiles
    from mastaba.api.web import Request, Response

_KEYS: Final = "Surrogate-Key"


class PreviousTiles(TilePublisher):
    """Serves the stored tiles of a value; of a missing one, that of the newest older value.

    Each answer names the time of what it shows. One from another value lives in caches as long as
    those of the layer, and is purged with either value.

    Args:
        layer, reader, style, missing_status: as of any `TilePublisher`.
        service: the tiles of the other values.
    """

    def __init__(
        self,
        layer: Layer,
        reader: TileReader,
        style: Style | None,
        missing_status: int = 404,
        *,
        service: Tiles,
    ) -> None:
        super().__init__(layer, reader, style, missing_status)
        self._service = service
        self._time = [(DATETIME, joined(layer.interval))] if layer.interval else []

    def respond(self, request: Request, tile_row: int, tile_col: int) -> Response:
        """Return a tile; see `TilePublisher.respond`.

        Raises:
            OverloadedError: an older value cannot be opened at the moment.
        """
        # What has failed may have taken long, and must not be repeated.
        older = None if FAILURE in request.environ else self._older(tile_row, tile_col)
        if older is not None:
            return self._passing(older.respond(request, tile_row, tile_col), tile_row, tile_col)
        response = super().respond(request, tile_row, tile_col)
        response.headers += self._time
        return response

    def find(self, headers: Mapping[str, Any], tile_row: int, tile_col: int) -> Response | None:
        """Return a tile of this value that is easily found; see `TilePublisher.find`."""
        response = super().find(headers, tile_row, tile_col)
        if response is not None:
            response.headers += self._time
        return response

    def at(self, tile_row: int, tile_col: int) -> TilePublisher:
        """Return the publisher of the value whose tile is the answer.

        Raises the errors of `respond`.
        """
        return self._older(tile_row, tile_col) or self

    def has(self, tile_row: int, tile_col: int) -> bool:
        """Return whether this value has a tile."""
        if not self.reader.level.limits.contains(tile_row, tile_col):
            return False
        return self.reader.expect(tile_row, tile_col) is not None

    def _older(self, tile_row: int, tile_col: int) -> PreviousTiles | None:
        """Return what serves a tile that this value lacks; None if it or no value has the tile."""
        if self.has(tile_row, tile_col):
            return None
        matrix = self.reader.level.matrix.id
        for layer in self._service.site.catalogue.previous(self.layer):
            try:
                tiles = self._service.of(layer).matrix(None, matrix)
            except RequestError:
                continue  # it does not have the level
            found = next(filter(self._is_alike, tiles.publishers.values()), None)
            if isinstance(found, PreviousTiles) and found.has(tile_row, tile_col):
                return found
        return None

    def _is_alike(self, other: object) -> bool:
        """Return whether a publisher has the same palette: all styles without one share it."""
        return isinstance(other, PreviousTiles) and other._palette == self._palette

    def _passing(self, response: Response, tile_row: int, tile_col: int) -> Response:
        """Return the response of an older value: an update of this one may have the tile."""
        keys = [value for name, value in response.headers if name == _KEYS]
        changing = (_KEYS, "Cache-Control")
        response.headers = [field for field in response.headers if field[0] not in changing]
        policy = self._service.site.catalogue.layers[self.layer.id].cache_control
        if policy:
            response.headers.append(("Cache-Control", policy))
        if keys:
            own = self.surrogate_keys(tile_row, tile_col).split()
            merged = dict.fromkeys((*own, *keys[0].split()))
            response.headers.append((_KEYS, " ".join(merged)))
        return response
