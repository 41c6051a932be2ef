"""WMS 1.3.0 (OGC 06-042), and 1.1.1 (OGC 01-068r3) for old clients, as a plugin of Mastaba."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from mastaba import hookimpl

if TYPE_CHECKING:
    from mastaba.services.base import Service


@hookimpl
def register_services() -> Iterable[type[Service]]:
    from mastaba_wms.service import WMSService

    return [WMSService]
