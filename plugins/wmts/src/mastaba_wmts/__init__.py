"""WMTS 1.0.0 (OGC 07-057r7) as a plugin of Mastaba: KVP, RESTful and POST bindings."""

from __future__ import annotations

from collections.abc import Iterable

from mastaba import LazyClass, hookimpl


@hookimpl
def register_services() -> Iterable[LazyClass]:
    return [LazyClass("mastaba_wmts.service:WMTSService", name="wmts")]
