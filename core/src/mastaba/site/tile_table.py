"""The table of stored tiles and documents: answers them without a WSGI call.

Most requests are for tiles, and most tile requests differ from one before only in row and column.
The rest of such an address is looked up in a dictionary. Its meaning comes from the service, which
is asked once (`Service.tile_addresses`). Whatever is not certainly a stored tile has no answer
here, and takes the general path, which gives the same answer to the requests answered here.

A document whose service promises that only path and query decide on it (`Document.respond`) is
answered here from its second request on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeVar

from mastaba.errors import MastabaError
from mastaba.services.addresses import TileGroup, TilePaths, TileQueries
from mastaba.services.base import Service, Site
from mastaba_server.web.request import parse_query
from mastaba_server.web.response import Headers, Response

logger = logging.getLogger("mastaba.request")

_MAX_DIGITS: Final = 18
# Clients choose addresses, so their number and length must be limited.
_MAX_GROUPS: Final = 4096
_MOST_GROUPS: Final = 65_536
_MAX_BASE: Final = 1000

AnswerDocument = Callable[[Mapping[str, Any]], "Response"]
"""Returns a document for the headers of a request."""
FindStored = Callable[[Mapping[str, Any], int, int], "Response | None"]
"""`TileFinder.find`"""
AroundTiles = Callable[[str, FindStored], FindStored]
"""Wraps what finds the tiles of a service; see the hook ``wsgi_middleware``."""
AroundDocument = Callable[[Mapping[str, Any], AnswerDocument], AnswerDocument]
"""Wraps what answers a document; see the hook ``wsgi_middleware``."""

AllHeaders = Callable[[Response, Mapping[str, Any]], Headers]
"""Returns the headers of a response with those that the application adds, for those of its
request."""


@dataclass(eq=False, slots=True)
class Known:
    """The tiles with one base; compared by identity."""

    group: TileGroup
    all_headers: AllHeaders


Form = TilePaths | TileQueries
Wrap = Callable[[FindStored], FindStored]
_Groups = dict[str, Known | None]
_T = TypeVar("_T")


class TileTable:
    """The stored tiles of one site.

    Args:
        site: whose tiles these are.
        find_service: returns the service for a path without a final slash, and the path below its
            root path.
        headers_of: returns for a service what completes the headers of its responses.
        around: wrap what finds tiles, the first one innermost.
        around_documents: wrap what answers documents, the first one innermost; None if documents
            must take the general path.
    """

    def __init__(
        self,
        site: Site,
        find_service: Callable[[str], tuple[Service | None, str]],
        headers_of: Callable[[Service], AllHeaders],
        around: Sequence[AroundTiles] = (),
        around_documents: Sequence[AroundDocument] | None = (),
    ) -> None:
        self._scoreboard = site.scoreboard
        self._find_service = find_service
        self._roots = [service.settings.root_path for service in site.services.values()]
        self._by_service: dict[str, Callable[[Any], Known | None]] = {}
        self._by_path: _Groups = {}
        self._misses: _Groups = {}
        self._opened = site.catalogue.opened
        self._by_query: dict[str, _QueryTable] = {}
        self._documents: dict[tuple[str, str, str], tuple[AnswerDocument, AllHeaders]] = {}
        self._around_documents = around_documents
        for service in site.services.values():
            root = service.settings.root_path
            for form in forms_of(service):
                if find_service(root)[0] is not service:
                    continue  # another service has the same root path
                wraps = [partial(wrap, service.name) for wrap in around]
                find = self._finder(service, form, wraps, headers_of(service))
                if isinstance(form, TilePaths):
                    self._by_service[service.name] = find
                else:
                    self._add_queries(root, form, find)

    def _finder(
        self, service: Service, form: Form, wraps: Sequence[Wrap], all_headers: AllHeaders
    ) -> Callable[[Any], Known | None]:
        """Return what finds the tiles with a base in the form of a service."""
        return partial(known, form.group, wraps, all_headers)

    def _add_queries(
        self, root: str, form: TileQueries, find: Callable[[Any], Known | None]
    ) -> None:
        table = _QueryTable(form, find, self._remember)
        self._by_query.update({root: table, f"{root}/": table})

    def answer(self, path: str, query: str, headers: Mapping[str, Any]) -> Response | None:
        """Return the response to a GET request; None leaves it to the general path.

        A tile on another machine keeps the calling thread waiting, as on the general path.

        Args:
            path: decoded, one character per byte.
            query: still percent-encoded.
            headers: of the request, by their keys in the WSGI environment; other keys are ignored.

        Raises:
            Exception: any error of the tiles, for the general path, which gets it as `FAILURE` and
                reports it: what has failed may have taken long, and must not be repeated.
        """
        if query:
            table = self._by_query.get(path)
            found = None if table is None else table.find(query)
        else:
            found = self._find_path(path)
        if found is None:
            return self._document(path, query, headers)
        found_group, row, column = found
        group = found_group.group
        if group.last_row is not None:
            row = group.last_row - row
        if group.accepts is not None:
            accepted = headers.get("HTTP_ACCEPT")
            if accepted and not group.accepts(accepted):
                return None
        response = None
        state = self._scoreboard.begin()
        try:
            response = group.tiles.find(headers, row, column)
        finally:
            self._scoreboard.end(state, answered=response is not None)
        if response is not None:
            response.headers = found_group.all_headers(response, headers)
        return response

    def add_document(
        self,
        environ: Mapping[str, Any],
        answer: AnswerDocument,
        all_headers: AllHeaders,
        tag: str = "",
    ) -> None:
        """Answer further GET requests for the same document, unless middleware must see them.

        Args:
            environ: of a request that the service has answered with the document.
            tag: of the class of clients that gets it.
        """
        path = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
        query = environ.get("QUERY_STRING", "")
        if self._around_documents is None or len(path) + len(query) > _MAX_BASE:
            return
        try:
            for wrap in self._around_documents:
                answer = wrap(environ, answer)
        except Exception:
            logger.exception("around_document failed for %r", path)
            return
        _remember(self._documents, (path, query, tag), (answer, all_headers))

    def _document(
        self, path: str, query: str, headers: Mapping[str, Any], tag: str = ""
    ) -> Response | None:
        found = self._documents.get((path, query, tag))
        if found is None:
            return None
        answer, all_headers = found
        state = self._scoreboard.begin()
        try:
            response = answer(headers)
        finally:
            self._scoreboard.end(state)
        response.headers = all_headers(response, headers)
        return response

    def _find_path(self, path: str) -> tuple[Known, int, int] | None:
        if not path.isascii():
            return None  # digits of other scripts are not numbers here
        start, _, last = path.rpartition("/")
        base, _, first = start.rpartition("/")
        try:
            found = self._by_path[base]
        except KeyError:
            found = self._open_path(base, path)
        if found is None:
            return None
        group = found.group
        second, dot, extension = last.partition(".")
        if dot + extension not in group.endings or not (first.isdigit() and second.isdigit()):
            return None
        if len(first) > _MAX_DIGITS or len(second) > _MAX_DIGITS:
            return None
        row, column = int(first), int(second)
        return found, *((column, row) if group.column_first else (row, column))

    def _open_path(self, base: str, path: str) -> Known | None:
        """Ask the service for the tiles with the base of a path, and remember the answer."""
        if base in self._misses:
            return None
        service, below = self._find_service(path)
        found = None
        # A service with a longer root path may answer some paths with this base.
        if service is not None and not any(root.startswith(f"{base}/") for root in self._roots):
            find = self._by_service.get(service.name)
            end = len(base) - (len(path) - len(below))
            if find is not None and end >= 0:
                found = find(below[:end])
        if len(base) <= _MAX_BASE:
            self._remember(self._misses if found is None else self._by_path, base, found)
        return found

    def _remember(self, known: _Groups, address: str, found: Known | None) -> None:
        # Variants of a layer have groups of their own.
        most = _MAX_GROUPS
        if len(known) >= most and found is not None:
            levels = sum(len(layer.pyramid.levels) for layer in self._opened.values())
            most = min(most + 2 * levels, _MOST_GROUPS)
        _remember(known, address, found, most)


class _QueryTable:
    """The groups of a service by the parameters other than row and column."""

    def __init__(
        self,
        form: TileQueries,
        group: Callable[[Mapping[str, str]], Known | None],
        remember: Callable[[_Groups, str, Known | None], None],
    ) -> None:
        self._group = group
        self._remember = remember
        # In the spelling of nearly all clients.
        self._row = f"&{form.row.upper()}="
        self._column = f"&{form.column.upper()}="
        self._groups: _Groups = {}
        self._misses: _Groups = {}

    def find(self, query: str) -> tuple[Known, int, int] | None:
        """Return the tiles that a query requests, row and column."""
        if not query.isascii():
            return None
        row, rest = _taken(f"&{query}", self._row)
        column, rest = _taken(rest, self._column)
        if not (row.isdigit() and column.isdigit()):
            return None
        if len(row) > _MAX_DIGITS or len(column) > _MAX_DIGITS:
            return None
        try:
            group = self._groups[rest]
        except KeyError:
            if rest in self._misses:
                return None
            group = self._group(parse_query(rest))
            if len(rest) <= _MAX_BASE:
                self._remember(self._misses if group is None else self._groups, rest, group)
        return None if group is None else (group, int(row), int(column))


def _taken(query: str, item: str) -> tuple[str, str]:
    """Return the value of such an item of a query, in any case, and the query without it."""
    start = query.find(item)
    if start < 0:
        start = query.upper().find(item)
        if start < 0:
            return "", query
    end = query.find("&", start + 1)
    if end < 0:
        end = len(query)
    return query[start + len(item) : end], query[:start] + query[end:]


@dataclass(frozen=True, slots=True)
class _Wrapped:
    """A `TileFinder` with wrappers around it."""

    find: FindStored


def forms_of(service: Service) -> list[Form]:
    """Return the forms of addresses of a service; none if it fails."""
    try:
        forms = list(service.tile_addresses())
        if not all(isinstance(form, TilePaths | TileQueries) for form in forms):
            raise TypeError(f"{forms!r} are not TilePaths and TileQueries")
        return forms
    except Exception:
        logger.exception(
            "the service %r fails in tile_addresses; all its tiles take the general path",
            service.name,
        )
        return []


def known(
    find: Callable[[_T], TileGroup | None],
    wraps: Sequence[Wrap],
    all_headers: AllHeaders,
    address: _T,
) -> Known | None:
    """Return the tiles with a base, in their wrappers, or None."""
    try:
        group = find(address)
        if group is None:
            return None
        for wrap in wraps:
            group = replace(group, tiles=_Wrapped(wrap(group.tiles.find)))
    except MastabaError:
        return None  # the general path reports it
    except Exception:
        logger.exception("tile_addresses failed for %r", address)
        return None
    return Known(group, all_headers)


def _remember(known: dict[_T, Any], address: _T, found: object, most: int = _MAX_GROUPS) -> None:
    if len(known) >= most:
        for oldest in list(known)[: most // 2]:
            known.pop(oldest, None)
    known[address] = found
