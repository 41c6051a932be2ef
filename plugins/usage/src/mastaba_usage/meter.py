"""Counts each answer in one cell."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

from mastaba.api.access import GRANT, Grant
from mastaba.api.web import OPERATION
from mastaba_usage.cells import Cell
from mastaba_usage.process import Counters, counters

if TYPE_CHECKING:
    from mastaba.api.services import Site
    from mastaba.api.web import Response

ANONYMOUS: Final = "anonymous"
UNKNOWN: Final = "unknown"
TILES: Final = "tiles"
DOCUMENTS: Final = "documents"

_STATUSES: Final = {
    304: "unchanged",
    401: "refused",
    403: "refused",
    404: "missing",
    429: "limited",
}
_LAYERS: Final = (
    *("layers", "layer", "query_layers", "coverageid", "coverage", "dataset", "collections"),
)
"""Parameters that name layers, in lower case."""
_LEVELS: Final = ("tilematrix",)
_MOST_KNOWN: Final = 16_384
"""Cells that are found without making their names."""
_LONGEST_QUERY: Final = 8192


class UsageMeter:
    """Counts in the file of the process that answers; see `mastaba.api.access.Meter`.

    Args:
        site: the configuration.
        directory: of the files.
    """

    def __init__(self, site: Site, directory: Path) -> None:
        self._layers = site.catalogue.layers
        self._counters: Counters = counters(directory)
        self._known: dict[tuple[Any, ...], int] = {}

    def tile(
        self,
        grant: Grant | None,
        group: Any,
        response: Response,
        service: str,
        virtual: str,
    ) -> None:
        """Count a tile or a document that was answered without a WSGI call."""
        file = self._counters.file()
        if file is None:
            return
        key = ANONYMOUS if grant is None else grant.principal.id
        known = file, service, virtual, key, group, response.status
        number = self._known.get(known)
        if number is None:
            layer, level, ability = "", "", DOCUMENTS
            if group is not None:
                layer, level, ability = group.layer, group.level, TILES
            status = outcome(response.status)
            cell = Cell(service, virtual, layer, level, ability, key, status)
            number = file.number(cell)
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[known] = number
        file.add(number, len(response.body))

    def request(self, environ: Mapping[str, Any], status: int, size: int | None) -> None:
        """Count any other request."""
        file = self._counters.file()
        if file is None:
            return
        service = environ.get("mastaba.service", ("",))[0]
        grant = environ.get(GRANT)
        key = grant.principal.id if isinstance(grant, Grant) else ANONYMOUS
        layers, level = self._named(environ)
        first = Cell(
            service,
            environ.get("mastaba.virtual") or "",
            layers[0] if layers else "",
            level,
            environ.get(OPERATION, ""),
            key,
            outcome(status),
        )
        file.add(file.number(first), size or 0)
        for layer in layers:
            file.use(file.number(first._replace(layer=layer)))

    def _named(self, environ: Mapping[str, Any]) -> tuple[list[str], str]:
        """Return the layers that an address names, and the level.

        Without knowledge of protocols: parameters with the usual names, or the first part of the
        path that is a layer.
        """
        query = environ.get("QUERY_STRING", "")[:_LONGEST_QUERY]
        names = {name.lower(): value for name, value in parse_qsl(query)} if query else {}
        level = next((names[name] for name in _LEVELS if name in names), "")
        for name in _LAYERS:
            if names.get(name):
                listed = dict.fromkeys(names[name].split(","))
                known = dict.fromkeys(one if one in self._layers else UNKNOWN for one in listed)
                return list(known)[:64], level if UNKNOWN not in known else ""
        parts = environ.get("PATH_INFO", "").encode("latin-1", "replace").decode(errors="replace")
        for part in parts.split("/"):
            if part in self._layers:
                return [part], ""
        return [], ""


def outcome(status: int) -> str:
    """Return what became of a request, for its HTTP status."""
    return _STATUSES.get(status) or ("ok" if status < 400 else "error")
