"""What the core itself provides, registered through the hooks that plugins use."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from mastaba.hookspecs import hookimpl

if TYPE_CHECKING:
    from mastaba.service import Service
    from mastaba.storage.base import Storage


@hookimpl
def register_services() -> Iterable[type[Service]]:
    from mastaba.services.health import HealthService
    from mastaba.services.root import RootService

    return [RootService, HealthService]


@hookimpl
def register_storages() -> Iterable[type[Storage]]:
    from mastaba.storage.file import FileStorage

    return [FileStorage]
