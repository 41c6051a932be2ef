"""Objects on web servers for Mastaba: the storage drivers ``http`` and ``https``."""

from __future__ import annotations

from collections.abc import Iterable

from mastaba import LazyClass, hookimpl


@hookimpl
def register_storages() -> Iterable[LazyClass]:
    module = "mastaba_storage_http.storage"
    return [
        LazyClass(f"{module}:WebStorage", name="http", container_field="host"),
        LazyClass(f"{module}:SecureWebStorage", name="https", container_field="host"),
    ]
