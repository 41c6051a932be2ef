"""Stored tiles that pages of other origins may read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from mastaba.api.tiles import TileFinder, TileGroup
from mastaba.api.web import CrossOrigin, Response


@dataclass(frozen=True, slots=True)
class SharedTiles:
    """A `TileFinder` that adds the headers of a service for other origins."""

    tiles: TileFinder
    cors: CrossOrigin

    def find(self, headers: Mapping[str, str], tile_row: int, tile_col: int) -> Response | None:
        response = self.tiles.find(headers, tile_row, tile_col)
        if response is not None:
            response.headers = response.headers + self.cors.headers(headers)
        return response


def shared(
    group: Callable[[str], TileGroup | None], cors: CrossOrigin
) -> Callable[[str], TileGroup | None]:
    """Return a function for `TilePaths` whose tiles have these headers."""

    def shared_group(base: str) -> TileGroup | None:
        found = group(base)
        return found and replace(found, tiles=SharedTiles(found.tiles, cors))

    return shared_group
