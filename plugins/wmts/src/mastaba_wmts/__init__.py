"""WMTS 1.0.0 (OGC 07-057r7) as a plugin of Mastaba: KVP, RESTful and POST bindings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from mastaba import hookimpl

if TYPE_CHECKING:
    from mastaba.services.base import Service


@hookimpl
def register_services() -> Iterable[type[Service]]:
    from mastaba_wmts.service import WMTSService

    return [WMTSService]
