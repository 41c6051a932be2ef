"""Counts each answer in one cell."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mastaba.api.access import GRANT, Grant
from mastaba.api.web import Request
from mastaba.errors import MastabaError
from mastaba_usage.blocks import SHIFT, name_of
from mastaba_usage.cells import HEAT_SUFFIX, Cell, CellFile
from mastaba_usage.naming import Known, named
from mastaba_usage.process import Counters, counters

if TYPE_CHECKING:
    from mastaba.api.services import Site
    from mastaba.api.web import Response

ANONYMOUS: Final = "anonymous"
TILES: Final = "tiles"
DOCUMENTS: Final = "documents"

_STATUSES: Final = {
    304: "unchanged",
    401: "refused",
    403: "refused",
    404: "missing",
    429: "limited",
}
LIMITED: Final = 429
_MOST_KNOWN: Final = 16_384
"""Cells that are found without making their names."""


class UsageMeter:
    """Counts in the file of the process that answers; see `mastaba.api.access.Meter`.

    Args:
        site: the configuration.
        directory: of the files.
        has_heat: whether blocks of tiles are counted too.
    """

    def __init__(self, site: Site, directory: Path, *, has_heat: bool = False) -> None:
        self._site = site
        self._counters: Counters = counters(directory)
        self._known: dict[tuple[Any, ...], int] = {}
        self._heat = counters(directory, HEAT_SUFFIX) if has_heat else None
        self._blocks: dict[tuple[Any, ...], int] = {}

    def tile(
        self,
        grant: Grant | None,
        group: Any,
        response: Response,
        service: str,
        virtual: str,
        place: tuple[int, int] | None = None,
    ) -> None:
        """Count a tile or a document that was answered without a WSGI call."""
        file = self._counters.file()
        if file is None:
            return
        key = ANONYMOUS if grant is None else grant.principal.account
        known = file, service, virtual, key, group, response.status
        number = self._known.get(known)
        if number is None:
            layer, level, ability = "", "", DOCUMENTS
            if group is not None:
                layer, level, ability = group.layer, group.level, TILES
            label = "" if grant is None else grant.principal.owner.label
            status = outcome(response.status)
            cell = Cell(service, virtual, layer, level, ability, key, status, label)
            number = self._number(file, cell)
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            # On a full disk, it is asked for again.
            if file.has_room:
                self._known[known] = number
        file.add(number, len(response.body))
        if self._heat is not None and place is not None and response.status < 400:
            self._count_block(self._heat, group, *place)

    def _count_block(self, heat: Counters, group: Any, row: int, col: int) -> None:
        file = heat.file()
        if file is None:
            return
        block = file, group, row >> SHIFT, col >> SHIFT
        number = self._blocks.get(block)
        if number is None:
            name = name_of(*block[2:])
            number = file.number(Cell("", "", group.layer, group.level, name, ""))
            if len(self._blocks) >= _MOST_KNOWN:
                self._blocks.clear()
            if file.is_full:
                # Not until a minute after the last attempt: then it is asked for again.
                heat.renew()
            else:
                self._blocks[block] = number
        file.add(number, 0)

    def request(self, environ: Mapping[str, Any], status: int, size: int | None) -> None:
        """Count any other request."""
        file = self._counters.file()
        if file is None:
            return
        service, below = environ.get("mastaba.service", ("", ""))
        virtual = environ.get("mastaba.virtual") or ""
        grant = environ.get(GRANT)
        key, label = ANONYMOUS, ""
        if isinstance(grant, Grant):
            key, label = grant.principal.account, grant.principal.owner.label
        path, query = environ.get("PATH_INFO", ""), environ.get("QUERY_STRING", "")
        seen = layers_seen(self._site, getattr(grant, "tag", ""), virtual)
        if isinstance(grant, Exception):
            # Wrong credentials, of which there may be many, are not worth the time.
            seen = seen._replace(tables={})
        layers, level = named(path, query, seen)
        ability, cost = "", 0
        if service:
            method = environ.get("REQUEST_METHOD", "GET")
            # A body that the service has not read, as of refused requests, is not worth the time.
            copy = {**environ, "wsgi.input": BytesIO()}
            request = Request("GET" if method == "HEAD" else method, below, query, copy)
            tag = getattr(grant, "tag", "")
            ability, cost = use_of(self._site, tag, virtual, service, request)
            if isinstance(grant, Exception) or status == LIMITED:
                cost = 0
        layer = layers[0] if layers else ""
        first = Cell(service, virtual, layer, level, ability, key, outcome(status), label)
        file.add(self._number(file, first), size or 0, cost)
        for layer in layers:
            file.use(self._number(file, first._replace(layer=layer)))

    def _number(self, file: CellFile, cell: Cell) -> int:
        number = file.number(cell)
        if not file.has_room:
            self._counters.renew()
        return number


def layers_seen(site: Site, tag: str, virtual: str) -> Known:
    """Return the layers that a class of clients sees.

    Others count as unknown: clients read their own usage, which must not tell them that a layer
    exists.

    Args:
        tag: of the class.
        virtual: name of the virtual service; empty for the main services.
    """
    try:
        catalogue = site.view(tag, virtual).catalogue
    except (MastabaError, KeyError):
        # The rules or the virtual services have changed since it was answered.
        return Known((), {})
    return Known(catalogue.layers, catalogue.variants)


def use_of(site: Site, tag: str, virtual: str, service: str, request: Request) -> tuple[str, int]:
    """Return which ability of a service a class of clients uses by a request, and what it costs.

    The ability is ``documents`` if the request uses none, and empty for other methods.

    Args:
        tag: of the class.
        virtual: name of the virtual service; empty for the main services.
        service: name.
        request: below the root path of the service; it may be invalid.
    """
    try:
        found = site.view(tag, virtual).services.get(service)
    except MastabaError:
        # The rules have changed since it was answered.
        found = site.services.get(service)
    if found is None or request.method not in found.allowed_methods:
        return "", 0
    return found.ability_of(request) or DOCUMENTS, found.cost(request)


def outcome(status: int) -> str:
    """Return what became of a request, for its HTTP status."""
    return _STATUSES.get(status) or ("ok" if status < 400 else "error")
