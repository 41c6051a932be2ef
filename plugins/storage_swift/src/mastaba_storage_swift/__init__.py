"""OpenStack Swift storage for Mastaba: the storage driver ``swift``."""

from __future__ import annotations

from collections.abc import Iterable

from mastaba import LazyClass, hookimpl


@hookimpl
def register_storages() -> Iterable[LazyClass]:
    return [
        LazyClass(
            "mastaba_storage_swift.storage:SwiftStorage",
            name="swift",
            container_field="container_name",
        )
    ]
