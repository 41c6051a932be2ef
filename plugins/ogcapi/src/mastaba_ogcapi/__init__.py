"""OGC API Common, Tiles and Maps as a plugin of Mastaba."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from mastaba import hookimpl

if TYPE_CHECKING:
    from mastaba.services.base import Service


@hookimpl
def register_services() -> Iterable[type[Service]]:
    from mastaba_ogcapi.service import OGCAPIService

    return [OGCAPIService]
