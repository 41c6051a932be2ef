"""Hook specifications: everything that a plugin can add to Mastaba.

A plugin is a distribution with an entry point in the group ``mastaba`` that names a module or
package. Functions in it that are decorated with `mastaba.hookimpl` implement the hooks below. The
core registers its own features through the same hooks.

Hooks run at start, and `generation_changed` after a change; never during a request. Most return
*classes*, or `mastaba.LazyClass` references to them; the core creates the instances.
`mastaba.plugins.checks` contains the rules for what they return. A plugin that breaks one is
left out, and reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    from argparse import ArgumentParser, _SubParsersAction
    from wsgiref.types import WSGIApplication

    from mastaba import LazyClass
    from mastaba.containers.base import Container
    from mastaba.services.base import Service, Site
    from mastaba.services.change import LayerChange
    from mastaba.slab.stored_indices import IndexStore
    from mastaba.variants import VariantTable
    from mastaba_render.encoder import Encoder
    from mastaba_server.access.gate import Gate, Identifier, Meter
    from mastaba_storage.base import Storage

hookspec = pluggy.HookspecMarker("mastaba")

# ---------------------------------------------------------------- requests and responses


@hookspec
def register_services() -> Iterable[type[Service] | LazyClass]:  # type: ignore[empty-body]
    """Provide protocol services.

    ``Service.name`` is the service's key in services.json and its default root path. The
    service is active only if its section there contains ``"enabled": true``.

    Returns:
        Subclasses of `mastaba.api.services.Service`.
    """


@hookspec
def register_encoders() -> Iterable[type[Encoder] | LazyClass]:  # type: ignore[empty-body]
    """Provide encoders, which encode pixels in one media type.

    Returns:
        Subclasses of `mastaba_render.api.encoders.Encoder`. No two encoders have the same
        ``media_type`` or ``name``, and encoders with the same ``extension`` come from the same
        plugin.
    """


@hookspec
def wsgi_middleware(site: Site) -> Callable[[WSGIApplication], WSGIApplication] | None:
    """Wrap the WSGI application, for example to count requests or to control access.

    Called once for each loaded configuration.

    Args:
        site: the loaded configuration.

    Returns:
        A function that takes the application and returns a wrapped one, or None for no wrapper.
        Wrappers are nested in the order of plugin names, the first one outermost.

        The wrapped application sees every request. If it has a method
        ``around_tiles(service, find)``, stored tiles do not pass through the application; the
        method gets the name of their service and `TileFinder.find`, and returns a function with
        the same contract. If it also has a method ``around_document(environ, answer)``, documents
        that depend on path and query alone do not pass through it either from the second request
        on; the method gets the environment of the first one, and returns a function like
        ``answer``, which takes the headers of a request and returns its response.
    """


@hookspec
def access_gate(site: Site) -> Gate | None:
    """Provide what decides who a client is, and what it may see.

    Called once for each loaded configuration. If two plugins provide a gate, the start fails.

    Args:
        site: the loaded configuration.

    Returns:
        A `mastaba.api.access.Gate`, or None if access is not limited.
    """


@hookspec
def register_identifiers() -> Iterable[type[Identifier] | LazyClass]:  # type: ignore[empty-body]
    """Provide kinds of credentials, for the plugin that provides the gate.

    Returns:
        Subclasses of `mastaba.api.access.Identifier`.
    """


@hookspec
def request_meters(site: Site) -> Meter | None:
    """Provide what counts answered requests, by the principals of a gate.

    Called once for each loaded configuration.

    Args:
        site: the loaded configuration.

    Returns:
        A `mastaba.api.access.Meter`, or None if nothing is counted.
    """


# ---------------------------------------------------------------- data sources


@hookspec
def register_storages() -> Iterable[type[Storage] | LazyClass]:  # type: ignore[empty-body]
    """Provide storage drivers.

    ``Storage.name`` is the prefix of paths (``x`` for ``x://…``) and, in upper case, the
    ``storage.type`` of pyramid levels.

    Returns:
        Subclasses of `mastaba.api.storages.Storage`.
    """


@hookspec
def register_containers() -> Iterable[type[Container] | LazyClass]:  # type: ignore[empty-body]
    """Provide kinds of containers: archives whose tiles are published like those of slabs.

    ``Container.name`` is the value of ``container`` in layer descriptors. Paths with one of
    ``Container.suffixes`` need none. No two containers have the same name or suffix.

    Returns:
        Subclasses of `mastaba.api.containers.Container`.
    """


@hookspec
def register_dimensions() -> Iterable[type[VariantTable] | LazyClass]:  # type: ignore[empty-body]
    """Provide tables of variants: what the values of dimensions, such as times, mean for a layer.

    Each class gets each layer whose descriptor has one of the keys in
    ``VariantTable.layer_schema``, and may return a table for it; the first table is used.

    Returns:
        Subclasses of `mastaba.api.dimensions.VariantTable`.
    """


@hookspec
def register_index_stores() -> Iterable[type[IndexStore] | LazyClass]:  # type: ignore[empty-body]
    """Provide stores of slab indices from remote storages, for all processes of a node.

    A store is opened if its plugin has a section in server.json; only the first such store is used.

    Returns:
        Subclasses of `mastaba.api.slabs.IndexStore`.
    """


# ---------------------------------------------------------------- changes


@hookspec
def generation_changed(site: Site, changes: Sequence[LayerChange]) -> None:
    """React to changed layers, for example by purging them from caches.

    Called after a reload or an administrative change, when all workers of this machine serve the
    new configuration. It runs in a process of its own, which may take its time: requests, reloads
    and changes do not wait for it. If it raises, the error is reported and it is called again
    later, a few times. Not called if the front server starts the processes.

    Args:
        site: as served now.
        changes: the layers that were added, removed or changed; never empty.
    """


# ---------------------------------------------------------------- the command line


@hookspec
def register_commands(subparsers: _SubParsersAction[ArgumentParser]) -> None:
    """Add commands: ``mastaba NAME …``.

    Each parser calls ``set_defaults(run=function)``; the function takes the parsed arguments
    (an ``argparse.Namespace``) and returns the exit status. Their attribute ``plugins`` contains
    the loaded plugins. The hook may be called again, with another parser.

    Args:
        subparsers: subparsers of the ``mastaba`` command; call its ``add_parser``.
    """


def hook_names() -> list[str]:
    """Return the names of all hooks, sorted."""
    return sorted(
        name
        for name, value in globals().items()
        if callable(value) and hasattr(value, "mastaba_spec")
    )
