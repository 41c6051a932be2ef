"""S3 storage for Mastaba: the storage driver ``s3``."""

from __future__ import annotations

from collections.abc import Iterable

from mastaba import LazyClass, hookimpl


@hookimpl
def register_storages() -> Iterable[LazyClass]:
    return [
        LazyClass("mastaba_storage_s3.storage:S3Storage", name="s3", container_field="bucket_name")
    ]
