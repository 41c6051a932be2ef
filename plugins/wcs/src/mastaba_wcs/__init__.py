"""WCS 2.0.1 (OGC 09-110r4) and 1.0.0 (OGC 03-065r6), as a plugin of Mastaba."""

from __future__ import annotations

from collections.abc import Iterable

from mastaba import LazyClass, hookimpl


@hookimpl
def register_services() -> Iterable[LazyClass]:
    return [LazyClass("mastaba_wcs.service:WCSService", name="wcs")]
