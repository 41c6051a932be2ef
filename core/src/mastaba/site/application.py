"""The WSGI application: what is around the application of a site, which can be swapped."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from mastaba.services.base import Site
from mastaba.site.debug_headers import with_debug_headers
from mastaba.site.guarded import GuardedApplication, GuardedTileTable
from mastaba.site.site_application import Entrance, SiteApplication
from mastaba_server.access.door import Door
from mastaba_server.log.access_lines import AccessLines, WSGICallable
from mastaba_server.log.entries import EntryLines
from mastaba_server.web.response import Response


class Application(Entrance):
    """The application of a site, which can be swapped while requests are served."""

    def __init__(self, site: Site) -> None:
        self.swap(site)

    def swap(self, site: Site) -> None:
        """Serve another configuration from the next request on."""
        gate, meters = site.gate, site.plugins.meters(site)
        inner: SiteApplication | GuardedApplication = SiteApplication(site)
        if gate or meters or site.catalogue.virtual:
            inner = GuardedApplication(site, meters)
        entry: WSGICallable = inner
        around: list[Any] = []
        around_documents: list[Any] = []
        for wrap in reversed(site.plugins.middleware(site)):
            entry = wrap(entry)
            around.append(getattr(entry, "around_tiles", None))
            around_documents.append(getattr(entry, "around_document", None))
        if site.debug:
            entry = with_debug_headers(entry, site)
            around.append(None)
        # What is around the application must see every request.
        documents = around_documents if all(around_documents) else None
        table = inner.tile_table(around, documents) if all(around) else None
        find: Callable[..., Response | None] | None = None
        if table is not None:
            find = table.visit if isinstance(table, GuardedTileTable) else table.answer
        if site.access != "off" or meters:
            virtual_of = None
            if isinstance(inner, GuardedApplication) and (gate or site.catalogue.virtual):
                virtual_of = inner.virtual_of
            lines = None
            if site.access != "off":
                style, shown = site.access, site.addresses
                lines = EntryLines(style, steps=site.debug, virtual_of=virtual_of, addresses=shown)
            address = None if gate is None else gate.client_address
            log = AccessLines(lines, meters=meters, address=address)
            entry = log.around(entry)
            if find is not None and lines is not None:
                find = log.around_tiles(find)
        if gate is not None:
            assert isinstance(inner, GuardedApplication)
            door = Door(gate, site.mark, inner.roots)
            entry = door.around(entry)
            find = None if find is None else door.around_tiles(find)
        elif find is not None and isinstance(inner, GuardedApplication):
            find = partial(_public, find)
        self._find_tile = find
        self.site = site
        self._entry = entry


def _public(
    find: Callable[..., Response | None], path: str, query: str, headers: Mapping[str, Any]
) -> Response | None:
    """Find what everybody gets."""
    return find(path, query, headers, None)
