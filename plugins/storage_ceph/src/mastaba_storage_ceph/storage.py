"""The storage driver ``ceph`` (storage.md section 7).

librados keeps the version of the last object that an I/O context has read. The driver uses this as
the object version: it needs no extra request, and it changes with each write, even of identical
bytes. Each thread therefore has its own I/O context. The time of the last write would need an extra
request, so only `stat` returns it.
"""

from __future__ import annotations

import atexit
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from mastaba.api.storages import (
    ByteRange,
    ObjectRead,
    ObjectStat,
    PerProcess,
    Storage,
    read_timeout,
)
from mastaba.errors import (
    AccessDeniedError,
    ObjectChangedError,
    ObjectNotFoundError,
    StorageError,
    StorageUnavailableError,
)
from mastaba_storage_ceph.cluster import load_rados, shared_cluster

if TYPE_CHECKING:
    from mastaba.api.storages import Environment

_PIECE: Final = 32 * 1024 * 1024
"""Bytes per read: librados allocates the requested size, even if the object is smaller."""


_storages: weakref.WeakSet[CephStorage] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    # librados crashes if a context outlives its cluster, as at the end of the interpreter.
    for storage in list(_storages):
        storage.close()


class CephStorage(Storage):
    """Objects of one pool.

    Args:
        pool: name of the pool.
        cluster: connection to the cluster of the pool.
        seconds: limit for a read of several operations; None for no limit.
    """

    name = "ceph"
    container_field: ClassVar[str | None] = "pool_name"
    writer: ClassVar[str | None] = "mastaba_storage_ceph.writer:CephWriter"

    def __init__(self, pool: str, cluster: PerProcess[Any], seconds: float | None = None) -> None:
        super().__init__(pool)
        self._seconds = seconds
        self._rados = load_rados()
        self._cluster = cluster
        self._contexts = PerProcess(threading.local)
        _storages.add(self)

    @classmethod
    def open(cls, container: str, environment: Environment) -> Self:
        load_rados()
        storage = cls(container, shared_cluster(environment), read_timeout(environment))
        storage._context()  # so that a pool that does not exist is reported at once
        return storage

    def read(
        self, key: str, byte_range: ByteRange | None = None, version: str | None = None
    ) -> ObjectRead:
        if byte_range is not None and byte_range.length <= 0:
            # librados would read the whole object.
            found = self.stat(key).version
            self._check(key, found, version)
            return ObjectRead(b"", found)
        offset, end = (
            (0, None)
            if byte_range is None
            else (byte_range.offset, byte_range.offset + byte_range.length)
        )
        pieces: list[bytes] = []
        begun = time.monotonic()
        while end is None or offset < end:
            if self._seconds is not None and time.monotonic() - begun > self._seconds:
                raise self._error(StorageUnavailableError, key, "the whole read takes too long")
            length = _PIECE if end is None else min(_PIECE, end - offset)
            piece, found = self._call("read", key, length, offset)
            self._check(key, found, version)
            version = found
            pieces.append(piece)
            offset += length
            if len(piece) < length:
                break
        return ObjectRead(pieces[0] if len(pieces) == 1 else b"".join(pieces), version)

    def stat(self, key: str) -> ObjectStat:
        (size, modified), version = self._call("stat", key)
        return ObjectStat(size, version, time.mktime(modified))

    def close(self) -> None:
        self._contexts.drop()

    def _call(self, operation: str, *arguments: Any, named: str = "") -> tuple[Any, str]:
        """Return the result of an operation and the version of the object.

        Args:
            arguments: those of librados, by default with the key first.
            named: key, if it is not the first argument.
        """
        rados = self._rados
        context = self._context()
        key = named or arguments[0]
        try:
            result = getattr(context, operation)(*arguments)
            return result, str(context.get_last_version())
        except rados.ObjectNotFound as error:
            raise self._error(ObjectNotFoundError, key, "the object does not exist") from error
        except rados.TimedOut as error:
            raise self._error(StorageUnavailableError, key, "no answer in time") from error
        except (rados.PermissionDeniedError, rados.PermissionError) as error:
            raise self._error(AccessDeniedError, key, str(error)) from error
        except rados.Error as error:
            raise self._error(StorageError, key, str(error)) from error

    def _context(self) -> Any:
        """Return the I/O context of this thread."""
        contexts = self._contexts.get()
        context = getattr(contexts, "context", None)
        if context is None:
            rados = self._rados
            try:
                context = self._cluster.get().open_ioctx(self.container)
            except rados.ObjectNotFound as error:
                raise StorageError(
                    f"the pool {self.container!r} does not exist", storage=self.full_name
                ) from error
            except rados.TimedOut as error:
                raise StorageUnavailableError(
                    f"the pool {self.container!r} does not answer", storage=self.full_name
                ) from error
            except rados.Error as error:
                raise AccessDeniedError(
                    f"the pool {self.container!r} cannot be opened: {error}",
                    storage=self.full_name,
                ) from error
            contexts.context = context
        return context

    def _check(self, key: str, found: str | None, wanted: str | None) -> None:
        if wanted is not None and found != wanted:
            raise self._error(ObjectChangedError, key, "the object was replaced")

    def _error(self, kind: type[StorageError], key: str, reason: str) -> StorageError:
        return kind(f"{self.full_name}/{key}: {reason}", storage=self.full_name, key=key)
