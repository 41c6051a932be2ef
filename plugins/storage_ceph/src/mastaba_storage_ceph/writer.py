"""Writing of objects in Ceph, for tools that build pyramids; see storage.md section 7."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from mastaba.api.writable_storages import WritableStorage
from mastaba.errors import ObjectNotFoundError, StorageError
from mastaba_storage_ceph.storage import CephStorage


class CephWriter(CephStorage, WritableStorage):
    """Objects of one pool, read and written, each in one operation."""

    @property
    def largest_object(self) -> int | None:
        # A cluster refuses larger operations, and several ones would not be atomic.
        return int(self._cluster.get().conf_get("osd_max_write_size")) << 20

    def write(self, key: str, data: bytes, *, only_if_absent: bool = False) -> str | None:
        if not only_if_absent:
            return self._call("write_full", key, data)[1]
        rados = self._rados
        with rados.WriteOpCtx() as operation:
            operation.new(rados.LIBRADOS_CREATE_EXCLUSIVE)
            operation.write_full(data)
            try:
                return self._call("operate_write_op", operation, key, named=key)[1]
            except StorageError as error:
                if isinstance(error.__cause__, rados.ObjectExists):
                    raise FileExistsError(f"{self.full_name}/{key} exists") from error
                raise

    def delete(self, key: str) -> None:
        with suppress(ObjectNotFoundError):
            self._call("remove_object", key)

    def list(self, prefix: str) -> Iterator[str]:
        # Pools have no listing by prefix.
        for found in self._context().list_objects():
            if found.key.startswith(prefix):
                yield found.key
