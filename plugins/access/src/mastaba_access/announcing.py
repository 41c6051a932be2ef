"""Changes of what the public sees, for caches that keep it."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from mastaba.api.services import LayerChange, Site
from mastaba_access.decisions import AccessClass
from mastaba_access.rules.what import Layers
from mastaba_access.shown import Shown, shown_layers
from mastaba_server.processes import announcement


def announce(site: Site, before: AccessClass, after: AccessClass, layers: Layers) -> None:
    """Call the hook ``generation_changed`` for layers that a class sees otherwise, in a thread.

    Args:
        site: as loaded.
        before: what the public was.
        after: what it is now.
        layers: those that are published.
    """
    changes = [
        LayerChange(name, layer.generation, layer.generation)
        for name in changed_layers(site, before, after, layers)
        if (layer := site.catalogue.layers.get(name)) is not None
    ]
    # Of the manager of plugins; sites of tests may have none.
    calls = getattr(site.plugins, "announcements", None)
    if changes and calls is not None:
        found = calls(site, changes)
        if found:
            threading.Thread(target=announcement.announce, args=(found,), daemon=True).start()


def changed_layers(
    site: Site, before: AccessClass, after: AccessClass, layers: Layers
) -> Sequence[str]:
    """Return the layers that a service shows otherwise to one class than to another, sorted."""
    names: set[str] = set()
    installed = site.plugins.services
    for virtual, services in [
        ("", site.catalogue.services),
        *((name, one.services) for name, one in site.catalogue.virtual.items()),
    ]:
        for service in services:
            abilities = installed[service].abilities
            old = shown_layers(before, layers, service, virtual, abilities)
            new = shown_layers(after, layers, service, virtual, abilities)
            names.update(
                name
                for name in old.keys() | new.keys()
                if _described(before, old.get(name)) != _described(after, new.get(name))
            )
    return sorted(names)


def _described(found: AccessClass, shown: Shown | None) -> tuple[object, ...]:
    """Return what a layer looks like; areas with equal names may differ."""
    areas = () if shown is None else shown.limit.areas
    return shown, *(found.areas[name].digest for name in sorted(areas))
