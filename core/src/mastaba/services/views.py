"""Views: sites with a filtered catalogue, for classes of clients and virtual services."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from mastaba.catalogue import Catalogue

Site = Any
"""`mastaba.services.base.Site`, which imports this module."""

_MOST_VIEWS: Final = 64


class Views:
    """The views of a site that are open, the last ones used.

    Args:
        site: with everything that is published.

    Attributes:
        closed: called after views were closed; nothing should refer to them any more.
    """

    def __init__(self, site: Site) -> None:
        self.closed: Callable[[], None] = lambda: None
        self._site = site
        self._lock = threading.Lock()
        self._open: dict[tuple[str, str], Site] = {}

    def get(self, tag: str, virtual: str) -> Site:
        """Return a view; see `Site.view`."""
        with self._lock:
            view = self._open.pop((tag, virtual), None)
            if view is None:
                view = self._made(tag, virtual)
            self._open[tag, virtual] = view
            if len(self._open) <= _MOST_VIEWS:
                return view
            oldest = self._open.pop(next(iter(self._open)))
        if oldest is not self._site:
            # Requests may still use it.
            timer = threading.Timer(oldest.request_timeout, oldest.close_services)
            timer.daemon = True
            timer.start()
        self.closed()
        return view

    def close(self) -> None:
        """Close the services of all views."""
        with self._lock:
            views, self._open = self._open, {}
        for view in views.values():
            if view is not self._site:
                view.close_services()

    def _made(self, tag: str, virtual: str) -> Site:
        site = self._site
        catalogue = _published(site.catalogue, virtual)
        if site.gate is not None:
            whole = replace(site, catalogue=catalogue, virtual=virtual, main=site)
            catalogue = site.gate.catalogue(tag, whole, virtual)
            services = {
                name: replace(one, endpoint_uri=f"{one.endpoint_uri}/~{site.mark}")
                for name, one in catalogue.services.items()
            }
            catalogue = replace(catalogue, services=services, mark=f"/~{site.mark}")
        elif catalogue is site.catalogue:
            return site
        view = replace(site, catalogue=catalogue, virtual=virtual, main=site, application=None)
        view.services = _Services(view)
        return view


def _published(catalogue: Catalogue, virtual: str) -> Catalogue:
    """Return what a virtual service publishes, or the main services for an empty name."""
    if virtual:
        chosen = catalogue.virtual[virtual]
        settings, services, includes = chosen.settings, chosen.services, chosen.includes
    else:
        exclusive = [one for one in catalogue.virtual.values() if one.exclusive]
        if not exclusive:
            return catalogue
        settings, services = catalogue.settings, catalogue.services

        def includes(layer: Any) -> bool:
            return not any(one.includes(layer) for one in exclusive)

    layers = {name: layer for name, layer in catalogue.layers.items() if includes(layer)}
    return catalogue.filtered(layers, catalogue.readers, settings, services)


class _Services(dict[str, Any]):
    """The services of a view, each opened on first use."""

    def __init__(self, view: Site) -> None:
        assert view.main is not None
        super().__init__(dict.fromkeys(view.catalogue.services))
        self._view = view
        self._lock = threading.RLock()
        for name, service in view.main.services.items():
            if not service.is_viewed and not view.virtual:
                self[name] = service

    def __getitem__(self, name: str) -> Any:
        found = super().__getitem__(name)
        if found is None:
            with self._lock:
                found = super().__getitem__(name)
                if found is None:
                    found = self._view.open_service(name)
                    if self._view.is_serving:
                        found.after_fork()
                    self[name] = found
        return found

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self else default  # noqa: SIM401 - opens it

    def values(self) -> Any:
        return [self[name] for name in self]

    def items(self) -> Any:
        return [(name, self[name]) for name in self]
