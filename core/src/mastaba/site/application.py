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
            address = None if gate is None else gate.client_address
            virtual_of = inner.virtual_of if isinstance(inner, GuardedApplication) else None
            lines = AccessLines(
                site.access,
                steps=site.debug,
                meters=meters,
                address=address,
                virtual_of=virtual_of if gate or site.catalogue.virtual else None,
                addresses=site.addresses,
            )
            entry = lines.around(entry)
            if find is not None and site.access != "off":
                find = lines.around_tiles(find)
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
