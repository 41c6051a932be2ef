"""Mastaba publishes pre-tiled maps from slab pyramids over WMS, WMTS, TMS and OGC API.

This package is the core. A request passes through its packages in this order:

==============  ====================================================================
``site``        the application, which calls a service; loading, reloads and logs
``services``    what a service is, and what several services share
``tiles``       responses that are stored tiles
``slab``        slabs: their index and tiles
==============  ====================================================================

``web`` contains requests and responses, ``model`` the values that everything else refers to,
``config`` the files of an operator, ``plugins`` the hooks, and ``commands`` the command line.
Protocols and object storages are plugins; ``mastaba_render`` draws maps, ``mastaba_storage`` reads
objects and files, ``mastaba_documents`` reads what people write, and ``mastaba_server`` has the
processes and transports.
"""

import sys

if sys.platform == "win32":
    raise ImportError(
        "Mastaba runs on Linux, and for development on macOS; "
        "on Windows, use it in WSL or in a container"
    )

import pluggy

__all__ = ["LazyClass", "__version__", "hookimpl"]

__version__ = "1.0.0"
"""Version of all distributions of Mastaba."""

hookimpl = pluggy.HookimplMarker("mastaba")
"""Marks a function of a plugin as the implementation of a hook."""


class LazyClass:
    """A class that is imported on first use. Hooks return it in place of the class.

    Listing the plugins then imports no code of the class, and none of its libraries.

    Args:
        reference: place of the class, as ``package.module:Class``.
        attributes: values of those class attributes that identify it: ``name`` for services (and
            ``default_root_path`` if it has one); ``name`` for storage drivers (and
            ``container_field``); ``name`` and ``suffixes`` for containers; ``media_type``, ``name``
            and ``extension`` for encoders.
    """

    def __init__(self, reference: str, **attributes: str | tuple[str, ...]) -> None:
        self.reference = reference
        self.attributes = attributes

    def __repr__(self) -> str:
        return f"LazyClass({self.reference!r})"
