"""How a service writes the addresses of its stored tiles.

The server answers requests for these addresses from a table (`mastaba.site.tile_table`),
without calling the service for each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from mastaba_server.web.response import Response


class TileFinder(Protocol):
    """The stored tiles of one tile matrix in one style; a `mastaba.api.tiles.TilePublisher`."""

    def find(self, headers: Mapping[str, str], tile_row: int, tile_col: int) -> Response | None:
        """Return a tile, or 304 if the client already has it; None if ``respond`` must decide.

        Args:
            headers: of the request, by their keys in the WSGI environment.

        Raises:
            MastabaError: the tile cannot be read.
        """


@dataclass(frozen=True, slots=True, eq=False)
class TileGroup:
    """The tiles whose addresses differ only in the two indices. Compared by identity, for speed.

    Attributes:
        tiles: what answers them; in exactly these cases, `Service.respond` returns the response of
            ``tiles.respond``, unchanged.
        column_first: whether the column precedes the row in a path.
        endings: what follows the second index in a path, such as ``.png``; empty for nothing.
        last_row: rows are counted from this one upwards; None if they are counted from the top.
        accepts: returns whether an Accept header, which is not empty, requests the tile as stored;
            None if the header does not matter.
        layer: identifier of their layer; if it is empty, views never share the tiles.
        level: identifier of their tile matrix.
    """

    tiles: TileFinder
    column_first: bool = False
    endings: frozenset[str] = frozenset(("",))
    last_row: int | None = None
    accepts: Callable[[str], bool] | None = None
    layer: str = ""
    level: str = ""


@dataclass(frozen=True, slots=True)
class TilePaths:
    """Addresses that are paths: ``{base}/{row}/{column}`` or ``{base}/{column}/{row}``.

    Attributes:
        group: returns the tiles with a base; None if there are none, or if other parts of the
            request matter. The base is below the root path of the service, and decoded:
            ``/1.0.0/ORTHO/14``. A `MastabaError` is the same as None. Results are kept.
    """

    group: Callable[[str], TileGroup | None]


@dataclass(frozen=True, slots=True)
class TileQueries:
    """Addresses that are queries at the root path of the service.

    Attributes:
        group: returns the tiles for all parameters but row and column, as in `TilePaths`. The
            parameters are decoded, with names in lower case. For a parameter that it does not know
            it returns None.
        row: name of the parameter for the row; ASCII letters, in any case.
        column: of the parameter for the column.
    """

    group: Callable[[Mapping[str, str]], TileGroup | None]
    row: str
    column: str
