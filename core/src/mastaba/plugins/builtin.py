"""Features of the core, registered through the same hooks that plugins use."""

from __future__ import annotations

from collections.abc import Iterable

from mastaba import LazyClass, hookimpl


@hookimpl
def register_services() -> Iterable[LazyClass]:
    return [
        LazyClass("mastaba.services.root:RootService", name="root", default_root_path="/"),
        LazyClass(
            "mastaba.services.health:HealthService",
            name="health",
            default_root_path="/healthcheck",
        ),
    ]


@hookimpl
def register_storages() -> Iterable[LazyClass]:
    return [LazyClass("mastaba_storage.file:FileStorage", name="file")]
