"""Headers that show the process, configuration and stored tile behind a response."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import Any

from mastaba.containers.reader import StoredTile, TileReader
from mastaba.errors import MastabaError, escaped
from mastaba.services.base import Site
from mastaba.slab.lookup import location, look_up
from mastaba.tiles.stored import TILE
from mastaba_server.log.access_lines import WSGICallable
from mastaba_server.web.response import Headers


def with_debug_headers(application: WSGICallable, site: Site) -> WSGICallable:
    """Wrap a WSGI application so that responses show their worker and the state of the site.

    ``X-Mastaba-Generation`` is the number of the configuration (1 at the start), a point, and
    the number of changes made to it since. ``X-Mastaba-Worker`` is the process id.
    ``X-Mastaba-Tile`` is the location of a stored tile, or the reason why it is missing.
    """
    state = ("X-Mastaba-Generation", f"{site.reload_count + 1}.{site.revision}")

    def wrapped(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        def start(status: str, headers: Headers, *exc_info: Any) -> Any:
            # Not known earlier: the application is created before the fork.
            more = [*headers, state, ("X-Mastaba-Worker", str(os.getpid()))]
            tile = environ.get(TILE)
            if tile is not None:
                more.append(("X-Mastaba-Tile", _described(tile)))
            return start_response(status, more, *exc_info)

        return application(environ, start)

    return wrapped


def _described(tile: StoredTile | tuple[TileReader, int, int]) -> str:
    try:
        text = str(look_up(*tile) if isinstance(tile, tuple) else location(tile))
    except MastabaError as error:
        text = f"unreadable; reason={json.dumps(str(error))}"
    # A header must be Latin-1 without line breaks.
    return escaped(text).encode("ascii", "backslashreplace").decode()
