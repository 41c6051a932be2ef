"""Views: sites with a filtered catalogue, for classes of clients and virtual services."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

from mastaba.catalogue import Catalogue

Site = Any
"""`mastaba.services.base.Site`, which imports this module."""

_MOST_LAYERS: Final = 15_000


class Views:
    """The views of a site that are open: the last ones used, up to 12 of 1,000 layers or 62 small.

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
        self._making: dict[tuple[str, str], threading.Lock] = {}

    def get(self, tag: str, virtual: str) -> Site:
        """Return a view; see `Site.view`."""
        key = tag, virtual
        with self._lock:
            view = self._open.pop(key, None)
            if view is not None:
                self._open[key] = view
                return view
            making = self._making.setdefault(key, threading.Lock())
        # Requests for other views do not wait until this one is made.
        with making:
            view = self._open.get(key)
            if view is None:
                try:
                    view = self._made(tag, virtual)
                    self._add(key, view)
                finally:
                    self._making.pop(key, None)
        return view

    def _add(self, key: tuple[str, str], view: Site) -> None:
        with self._lock:
            self._open[key] = view
            most = max(1, _MOST_LAYERS // (len(view.catalogue.layers) + 230))
            excess = len(self._open) - most
            # An eighth at a time, for one collection: it takes 5 ms and more.
            count = excess + most // 8 if excess > 0 else 0
            closed = [self._open.pop(next(iter(self._open))) for _ in range(count)]
        for oldest in closed:
            if oldest is not self._site:
                oldest.close_services_later()
        if closed:
            self.closed()
            del closed, oldest
            # Views are cycles of objects, of several MiB.
            gc.collect()

    def close(self) -> None:
        """Close the services of all views."""
        with self._lock:
            views, self._open = self._open, {}
        for view in views.values():
            if view is not self._site:
                view.close_services()

    def whole(self, virtual: str) -> Site:
        """Return a virtual service, or the main ones for an empty name, as the gate gets it."""
        catalogue = _published(self._site.catalogue, virtual)
        return replace(self._site, catalogue=catalogue, virtual=virtual, main=self._site)

    def _made(self, tag: str, virtual: str) -> Site:
        site, whole = self._site, self.whole(virtual)
        catalogue = whole.catalogue
        if site.gate is None and catalogue is site.catalogue:
            return site
        shown: Callable[[str], Catalogue] = lambda service: catalogue  # noqa: E731
        if site.gate is not None:
            # Equal catalogues are the same object, also with the mark.
            shown = _Marked(partial(site.gate.catalogue, tag, whole, virtual), site.mark)
        view = replace(site, catalogue=shown(""), virtual=virtual, main=site, application=None)
        view.services = _Services(view, shown)
        return view


class _Marked:
    """The catalogues of the services of a view, with the mark in their addresses."""

    def __init__(self, catalogue_of: Callable[[str], Catalogue], mark: str) -> None:
        self._catalogue_of = catalogue_of
        self._mark = f"/~{mark}"
        self._made: dict[int, tuple[Catalogue, Catalogue]] = {}

    def __call__(self, service: str) -> Catalogue:
        """Return the catalogue that a service sees; an empty name is that of the view."""
        plain = self._catalogue_of(service)
        known = self._made.get(id(plain))
        if known is None:
            services = {
                name: replace(one, endpoint_uri=one.endpoint_uri + self._mark)
                for name, one in plain.services.items()
            }
            known = plain, replace(plain, services=services, mark=self._mark)
            self._made[id(plain)] = known
        return known[1]


def _published(catalogue: Catalogue, virtual: str) -> Catalogue:
    """Return what a virtual service publishes, or the main services for an empty name."""
    found = catalogue.layers.items()
    if virtual:
        chosen = catalogue.virtual[virtual]
        layers = {name: layer for name, layer in found if chosen.includes(layer)}
        return catalogue.filtered(layers, catalogue.readers, chosen.settings, chosen.services)
    exclusive = [one for one in catalogue.virtual.values() if one.exclusive]
    if not exclusive:
        return catalogue
    layers = {name: one for name, one in found if not any(each.includes(one) for each in exclusive)}
    return catalogue.filtered(layers, catalogue.readers, catalogue.settings, catalogue.services)


class _Services(dict[str, Any]):
    """The services of a view, each opened on first use.

    Args:
        view: to which they belong.
        shown: returns the catalogue that a service sees.
    """

    def __init__(self, view: Site, shown: Callable[[str], Catalogue]) -> None:
        assert view.main is not None
        super().__init__(dict.fromkeys(view.catalogue.services))
        self._view = view
        self._shown = shown
        self._sites = {id(view.catalogue): view}
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
                    found = self._site_of(name).open_service(name)
                    if self._view.is_serving:
                        found.after_fork()
                    self[name] = found
        return found

    def _site_of(self, name: str) -> Site:
        """Return the view with the catalogue of a service; rules may differ by service."""
        catalogue = self._shown(name)
        site = self._sites.get(id(catalogue))
        if site is None:
            site = replace(self._view, catalogue=catalogue)
            site.services = self
            self._sites[id(catalogue)] = site
        return site

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self else default  # noqa: SIM401 - opens it

    def values(self) -> Any:
        return [self[name] for name in self]

    def items(self) -> Any:
        return [(name, self[name]) for name in self]
