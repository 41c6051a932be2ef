"""Mastaba publishes pre-tiled maps from slab pyramids over WMS, WMTS, TMS and OGC API.

This package is the core. A request passes through its packages in this order:

==============  ====================================================================
``server``      processes, FastCGI and HTTP; the application that calls a service
``services``    what a service is, and what several services share
``tiles``       responses that are tiles: stored ones, and tiles drawn on request
``render``      maps: reading, resampling, styles, strips, image formats
``slab``        slabs: their index, tiles and pixels
``storage``     objects and ranges of them, wherever they are stored
==============  ====================================================================

``web`` contains requests and responses, ``model`` the values that everything else refers to,
``config`` the files of an operator, ``plugins`` the hooks, and ``commands`` the command line.
Protocols and object storages are plugins.
"""

import pluggy

__all__ = ["__version__", "hookimpl"]

__version__ = "0.1.0"

hookimpl = pluggy.HookimplMarker("mastaba")
"""Marks a function of a plugin as the implementation of a hook."""
