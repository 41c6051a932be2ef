"""Map preview pages for Mastaba: the published layers through each of its services.

The pages need no internet connection: a Python package provides the map library, and all other
files are in this package.
"""

from __future__ import annotations

from collections.abc import Iterable

from mastaba import LazyClass, hookimpl


@hookimpl
def register_services() -> Iterable[LazyClass]:
    return [LazyClass("mastaba_viewer.service:Viewer", name="viewer")]
