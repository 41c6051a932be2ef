"""What a view shows of a layer that workers export: they know no views."""

from __future__ import annotations

from collections.abc import Mapping

from mastaba.api.access import LockedReader
from mastaba.api.catalogue import Catalogue
from mastaba.api.containers import TileReader
from mastaba.api.services import Site
from mastaba.errors import AccessError, OverloadedError, RequestError
from mastaba_export.jobs.settings import SWITCH


def is_whole(name: str, layer: str, site: Site) -> bool:
    """Return whether all levels of a layer are shown, uncut or locked.

    Args:
        name: of the layer, or of one of its values or versions.
        layer: its identifier.
        site: the view, or what workers export from.
    """
    if _is_unchanged(layer, site):
        # So are its values and versions, also those that have gone.
        return True
    assert site.main is not None
    try:
        shown, whole = _readers(name, site.catalogue), _readers(name, site.main.catalogue)
    except (RequestError, OverloadedError):
        return False
    return shown.keys() == whole.keys() and all(
        reader is whole[level] or isinstance(reader, LockedReader)
        for level, reader in shown.items()
    )


def check_open(name: str, layer: str, site: Site) -> None:
    """Check that the data of a layer may be read.

    Args:
        name, layer, site: as for `is_whole`, which is true.

    Raises:
        AccessError: they need another credential.
    """
    if _is_unchanged(layer, site):
        return
    for reader in _readers(name, site.catalogue).values():
        if isinstance(reader, LockedReader):
            reader.locate(0, 0)


def shows_sources(name: str, layer: str, site: Site) -> bool:
    """Return whether the services that know sources show a layer uncut and unlocked.

    Args:
        name, layer, site: as for `is_whole`.
    """
    main = site.main
    return main is None or all(
        _shows(name, layer, site, service)
        for service, kind in main.plugins.services.items()
        if service in main.services and hasattr(kind, "sources_in")
    )


def public_view(name: str, layer: str, site: Site) -> Site | None:
    """Return the view of clients that nobody knows, if they may export a layer.

    Args:
        name, layer: as for `is_whole`.
        site: any view.
    """
    if site.gate is None:
        return site
    # The empty tag is that of the public when the server started.
    public = site.gate.grant((), {}, "").tag
    found = (site.main or site).view(public, site.virtual)
    return found if _shows(name, layer, found, SWITCH) else None


def _shows(name: str, layer: str, site: Site, service: str) -> bool:
    """Return whether a service of a view shows a layer uncut and unlocked."""
    if service not in site.services:
        return False
    found = site.services[service]
    shown = found.site.catalogue.layers.get(layer)
    if shown is None or not found.publishes(shown) or not is_whole(name, layer, found.site):
        return False
    try:
        check_open(name, layer, found.site)
    except AccessError:
        return False
    return True


def _is_unchanged(layer: str, site: Site) -> bool:
    """Return whether a view shows a layer, its values and its versions as they are."""
    if site.main is None:
        return True
    shown, whole = site.catalogue, site.main.catalogue
    return (
        layer in shown.layers
        and shown.layers[layer] is whole.layers[layer]
        and shown.readers[layer] is whole.readers[layer]
    )


def _readers(name: str, catalogue: Catalogue) -> Mapping[str, TileReader]:
    layer = catalogue.layers.get(name)
    return catalogue.readers_of(catalogue.resolve(name).layer if layer is None else layer)
