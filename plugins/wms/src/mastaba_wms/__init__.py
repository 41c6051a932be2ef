"""WMS 1.3.0 (OGC 06-042), and 1.1.1 (OGC 01-068r3) for old clients, as a plugin of Mastaba."""

from __future__ import annotations

from collections.abc import Iterable

from mastaba import LazyClass, hookimpl


@hookimpl
def register_services() -> Iterable[LazyClass]:
    return [LazyClass("mastaba_wms.service:WMSService", name="wms")]
