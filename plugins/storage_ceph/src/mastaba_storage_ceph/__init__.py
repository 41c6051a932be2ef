"""Ceph storage for Mastaba: the storage driver ``ceph``."""

from __future__ import annotations

from collections.abc import Iterable

from mastaba import LazyClass, hookimpl


@hookimpl
def register_storages() -> Iterable[LazyClass]:
    return [
        LazyClass(
            "mastaba_storage_ceph.storage:CephStorage", name="ceph", container_field="pool_name"
        )
    ]
