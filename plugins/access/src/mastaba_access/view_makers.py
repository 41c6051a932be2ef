"""The makers of views, kept by catalogue and class."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

from mastaba.api.catalogue import Catalogue
from mastaba.api.services import Site
from mastaba_access.decisions import AccessClass
from mastaba_access.rules.what import Layers
from mastaba_access.shown import layers_of
from mastaba_access.views import OpenedLayers, ViewMaker

_MOST_CATALOGUES: Final = 256
_MOST_MAKERS: Final = 256


class ViewMakers:
    """Makes the views of all classes, of the main services and of virtual ones.

    Args:
        note: gets the layers of each catalogue of the main services.
    """

    def __init__(self, note: Callable[[Layers], None]) -> None:
        self._note = note
        self._lock = threading.Lock()
        self._catalogues: OrderedDict[int, tuple[Catalogue, Layers, OpenedLayers]] = OrderedDict()
        self._makers: OrderedDict[Any, ViewMaker] = OrderedDict()

    def view(self, found: AccessClass, site: Site, virtual: str, service: str) -> Catalogue:
        """Return what a class sees of a site; see `mastaba.api.access.Gate.catalogue`."""
        with self._lock:
            return self._maker(found, site, virtual).view(service)

    def _maker(self, found: AccessClass, site: Site, virtual: str) -> ViewMaker:
        base = site.catalogue
        known = self._catalogues.get(id(base))
        if known is None:
            known = base, layers_of(base), {}
            if not virtual:
                self._note(known[1])
            self._catalogues[id(base)] = known
            if len(self._catalogues) > _MOST_CATALOGUES:
                self._catalogues.popitem(last=False)
        _, layers, parts = known
        key = id(base), found, virtual
        made = self._makers.get(key)
        if made is None:
            made = ViewMaker(found, layers, site, virtual, parts)
            self._makers[key] = made
            if len(self._makers) > _MOST_MAKERS:
                self._makers.popitem(last=False)
        self._makers.move_to_end(key)
        return made
