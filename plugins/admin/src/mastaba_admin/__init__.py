"""Administration API plugin for Mastaba: changes layers and services while the server runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from mastaba import hookimpl

if TYPE_CHECKING:
    from mastaba.services.base import Service


@hookimpl
def register_services() -> Iterable[type[Service]]:
    from mastaba_admin.service import AdminService

    return [AdminService]
