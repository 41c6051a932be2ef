"""Headers that tell which process and configuration made an answer."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mastaba.service import Site


def with_debug_headers(
    application: Callable[[dict[str, Any], Any], Iterable[bytes]], site: Site
) -> Callable[[dict[str, Any], Any], Iterable[bytes]]:
    """Wrap a WSGI application so that answers name their worker, and the state of the site.

    ``X-Mastaba-Generation`` is the number of the configuration, 1 at the start, and behind a
    point the number of changes made to it since; ``X-Mastaba-Worker`` is the process.
    """
    generation = ("X-Mastaba-Generation", f"{site.generation}.{site.revision}")

    def wrapped(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        def start(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
            # The process is not known before: the application is made before the fork.
            told = [*headers, generation, ("X-Mastaba-Worker", str(os.getpid()))]
            if exc_info is None:
                return start_response(status, told)
            return start_response(status, told, exc_info)

        return application(environ, start)

    return wrapped
