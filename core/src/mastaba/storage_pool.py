"""Open storages, one per driver and container, opened on first use (storage.md section 8)."""

from __future__ import annotations

import importlib
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, nullcontext
from typing import Any

from mastaba.errors import ObjectNotFoundError, StorageError, UnknownPluginError
from mastaba_server.threads.mounts import distant_mount
from mastaba_storage.base import Storage
from mastaba_storage.distant_files import DistantFiles
from mastaba_storage.environment import Environment
from mastaba_storage.file import FileStorage
from mastaba_storage.managed import DriverCounts, ManagedStorage, WaitingRoom
from mastaba_storage.path import ResourcePath
from mastaba_storage.retry import RetryPolicy, read_timeout


class StoragePool:
    """Open storages shared by all layers.

    Args:
        drivers: driver classes by name.
        environment: variables with the addresses and credentials for drivers.
        settings: settings of each driver in server.json, by the name of the driver.
        measure: whether to count and time reads, which slows them down slightly.

    Attributes:
        measured: counts of reads by the name of the driver; None if reads are not counted.
    """

    def __init__(
        self,
        drivers: Mapping[str, type[Storage]],
        environment: Environment,
        settings: Mapping[str, Mapping[str, Any]] | None = None,
        *,
        measure: bool = False,
    ) -> None:
        self._drivers = drivers
        self._environment = environment
        self._settings = settings or {}
        self._policy = RetryPolicy.from_environment(environment)
        self._room = WaitingRoom("storages that are opened", self._policy.places)
        self._open: dict[tuple[str, str], Storage] = {}
        self._by_full_name: dict[str, Storage] = {}
        # By mount point.
        self._distant: dict[str, Storage] = {}
        self._read_timeout = read_timeout(environment)
        self.measured: dict[str, DriverCounts] | None = {} if measure else None
        self._lock = threading.Lock()

    def open(self, name: str, container: str) -> Storage:
        """Return the open storage of a container, always the same one for the same container.

        Failed reads from remote storages are repeated as set in the environment. A storage that
        cannot be opened is not cached; the next call tries again.

        Raises:
            UnknownPluginError: no driver with this name is installed.
            StorageError: the container cannot be opened.
        """
        known = self._open.get((name, container))
        if known is not None:
            return known
        # Without the lock, so that a store that does not answer does not block others.
        environment = self._environment.with_settings(self._settings.get(name, {}))
        driver = self.driver(name)
        with self._room.read(container) if driver.is_remote else nullcontext():
            opened = self._managed(driver.open(container, environment))
        with self._lock:
            # A container may have several names, such as a bucket with and without cluster.
            known = self._by_full_name.setdefault(opened.full_name, opened)
            self._open[name, container] = known
        if known is not opened:
            opened.close()
        return known

    def _managed(self, storage: Storage) -> Storage:
        if self.measured is not None:
            counts = self.measured.setdefault(storage.name, DriverCounts())
            return ManagedStorage(storage, self._policy, counts)
        return ManagedStorage(storage, self._policy) if storage.is_remote else storage

    def open_beside(self, name: str, container: str, beside: str | None) -> Storage:
        """Return the open storage of a container named in a descriptor or symbolic object.

        Arguments and errors are those of `Storage.resolve_container` and `open`.
        """
        return self.open(name, self.driver(name).resolve_container(container, beside))

    def open_path(self, path: ResourcePath) -> Storage:
        """Return the open storage of an object. Errors are those of `open`.

        Files whose file system may stop answering have a storage for each mount point.
        """
        return self.at(path.key, self.open(path.storage, path.container))

    def at(self, path: str, storage: Storage) -> Storage:
        """Return the storage for a file or directory; another storage than of files is unchanged.

        Args:
            storage: open storage.
        """
        mount = distant_mount(path) if storage.name == FileStorage.name else None
        if mount is None:
            return storage
        with self._lock:
            known = self._distant.get(mount)
            if known is None:
                files = DistantFiles(mount, self._read_timeout)
                known = self._distant[mount] = self._managed(files)
            return known

    def driver(self, name: str) -> type[Storage]:
        """Return a driver class.

        Raises:
            UnknownPluginError: no driver with this name is installed; the message lists those
                that are.
        """
        driver = self._drivers.get(name)
        if driver is None:
            known = ", ".join(sorted(self._drivers))
            # A registry knows the broken plugins, one of which may provide the driver.
            left_out = getattr(self._drivers, "left_out", "")
            raise UnknownPluginError(
                f"no storage driver {name!r} is installed (installed: {known}); "
                f"try pip install mastaba-storage-{name}{left_out}"
            )
        return driver

    def keys(self, path: ResourcePath) -> Iterator[str]:
        """Yield the keys of a container that begin like that of a path, in any order.

        The class of a driver that writes lists them, with the credentials of reading.

        Raises:
            UnknownPluginError, StorageError: as for `open`, or the driver cannot list.
        """
        module, _, name = (self.driver(path.storage).writer or "").partition(":")
        try:
            writer = getattr(importlib.import_module(module), name) if module else None
        except (ImportError, AttributeError) as error:
            raise StorageError(f"the objects of {path.storage} cannot be listed: {error}") from None
        if writer is None:
            raise StorageError(f"the storage driver {path.storage!r} lists no objects")
        settings = self._settings.get(path.storage, {})
        storage = writer.open(path.container, self._environment.with_settings(settings))
        with closing(storage):
            yield from storage.list(path.key)

    def read_full(self, path: ResourcePath) -> bytes:
        """Return a whole object, such as a descriptor.

        Raises:
            ObjectNotFoundError: the object is absent or empty.
            UnknownPluginError, StorageError: as for `open` and `Storage.read`.
        """
        data = self.open_path(path).read(path.key).data
        if not data:
            raise ObjectNotFoundError(f"{path} is empty", storage=path.storage, key=path.key)
        return data

    def counts(self) -> Counter[str]:
        """Return the number of open containers by driver name."""
        with self._lock:
            return Counter(storage.name for storage in self._by_full_name.values())

    def close(self) -> None:
        """Close all open storages."""
        with self._lock:
            storages = [*self._by_full_name.values(), *self._distant.values()]
            self._open, self._by_full_name, self._distant = {}, {}, {}
        for storage in storages:
            storage.close()
