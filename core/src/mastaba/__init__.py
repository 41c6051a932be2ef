"""Mastaba publishes pre-tiled maps from slab pyramids over WMS, WMTS, TMS and OGC API.

This package is the core: hook specifications, configuration, slab access, the transports and
the command line. Protocols and storages are plugins (see `mastaba.hookspecs`).
"""

from mastaba.hookspecs import hookimpl

__all__ = ["__version__", "hookimpl"]

__version__ = "0.1.0"
