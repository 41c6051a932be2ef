"""What the addresses in the log of a front server mean: as the server itself reads them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

from mastaba.api.services import ServiceSettings, Site
from mastaba.api.tiles import TileGroup, TilePaths, TileQueries
from mastaba.api.web import parse_query
from mastaba.errors import MastabaError

_MOST_GROUPS: Final = 4096
_MOST_DIGITS: Final = 18


class Route(NamedTuple):
    """A service that answers.

    Attributes:
        service: its name; empty if none answers.
        virtual: name of the virtual service; empty for the main services.
        root_path: of the service, in the server.
    """

    service: str = ""
    virtual: str = ""
    root_path: str = ""


class Addresses:
    """The addresses of a site.

    Args:
        site: the configuration.
    """

    def __init__(self, site: Site) -> None:
        self._site = site
        self._routes: dict[str, Route] = {}
        main = [(name, "", one) for name, one in site.catalogue.services.items()]
        virtual = [
            (name, key, settings)
            for key, one in site.catalogue.virtual.items()
            for name, settings in one.services.items()
            if name in site.services
        ]
        kinds = site.plugins.services
        # Of services with the same path, that of the lowest rank answers.
        routes = sorted(
            [*main, *virtual], key=lambda one: (kinds[one[0]].is_fallback, kinds[one[0]].rank)
        )
        for public in (True, False):
            for name, key, settings in routes:
                path = _public_path(settings) if public else settings.root_path
                self._routes.setdefault(path, Route(name, key, settings.root_path))
        self._depths = sorted({path.count("/") for path in self._routes}, reverse=True)
        self._groups: dict[Hashable, TileGroup | None] = {}
        self._paths: dict[str, TilePaths] = {}
        self._queries: dict[str, TileQueries] = {}
        for name, service in site.services.items():
            for form in service.tile_addresses():
                if isinstance(form, TilePaths):
                    self._paths[name] = form
                else:
                    self._queries[name] = form

    def inner_path(self, path: str) -> tuple[Route, str]:
        """Return who answers a path, and the path that the server gets for it.

        Args:
            path: as clients see it, percent-encoded.
        """
        path = unquote(path)
        segments = path.split("/")
        for depth in self._depths:
            start = "/".join(segments[: depth + 1])
            route = self._routes.get(start)
            if route is not None:
                return route, route.root_path + path[len(start) :]
        return Route(), path

    def below(self, route: Route, path: str) -> str | None:
        """Return the path below the root path of a service; None if it does not answer."""
        below = path[len(route.root_path) :].removesuffix("/")
        kind = self._site.plugins.services.get(route.service)
        if kind is None or (kind.is_fallback and below not in kind.fallback_paths):
            return None
        return below

    def tiles(self, service: str, below: str, query: str) -> TileGroup | None:
        """Return the stored tiles of which an address names one; None for any other address.

        Args:
            below: path below the root path of the service, decoded.
            query: percent-encoded.
        """
        if query:
            queries = self._queries.get(service)
            return None if queries is None or below else self._by_query(service, queries, query)
        paths = self._paths.get(service)
        return None if paths is None else self._by_path(service, paths, below)

    def _by_path(self, service: str, form: TilePaths, below: str) -> TileGroup | None:
        start, _, last = below.rpartition("/")
        base, _, first = start.rpartition("/")
        second, dot, extension = last.partition(".")
        if not (_is_number(first) and _is_number(second)):
            return None
        group = self._known((service, base), lambda: form.group(base))
        return group if group is not None and dot + extension in group.endings else None

    def _by_query(self, service: str, form: TileQueries, query: str) -> TileGroup | None:
        rest = parse_query(query)
        row, column = (rest.pop(name.lower(), "") for name in (form.row, form.column))
        if not (_is_number(row) and _is_number(column)):
            return None
        return self._known((service, *rest.items()), lambda: form.group(rest))

    def _known(self, key: Hashable, find: Callable[[], TileGroup | None]) -> TileGroup | None:
        if key not in self._groups:
            if len(self._groups) >= _MOST_GROUPS:
                self._groups.clear()
            try:
                self._groups[key] = find()
            except MastabaError:
                self._groups[key] = None
        return self._groups[key]


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS


def _public_path(settings: ServiceSettings) -> str:
    return urlsplit(settings.endpoint_uri).path.rstrip("/")
