"""Objects in stores of obstore, which server.json defines."""

import json
from typing import Any, Self

from mastaba.api.storages import (
    ByteRange,
    Environment,
    ObjectRead,
    ObjectStat,
    PerProcess,
    Storage,
    network_timeout,
)
from mastaba.errors import StorageError, StorageUnavailableError
from mastaba_storage_obstore import reads
from mastaba_storage_obstore.helper import Helper

# One for all stores. It is released before a fork.
_helper = PerProcess(Helper)


class ObstoreStorage(Storage):
    name = "obstore"
    container_field = "store_name"

    def __init__(self, container: str, store: str) -> None:
        super().__init__(container)
        self._store = store

    @classmethod
    def open(cls, container: str, environment: Environment) -> Self:
        known = environment.settings.get("stores", {})
        if container not in known:
            raise StorageError(
                f"no store {container} in the settings of the plugin storage_obstore"
            )
        timeout = network_timeout(environment)
        storage = cls(container, json.dumps({**known[container], "timeout": timeout}))
        storage._ask("check", "")
        return storage

    def read(
        self, key: str, byte_range: ByteRange | None = None, version: str | None = None
    ) -> ObjectRead:
        # Whole objects are descriptors, which the server reads before it forks.
        if byte_range is not None and reads.can_run_here():
            try:
                return reads.read(self._store, key, byte_range, version)
            except StorageError as error:
                raise self._named(error, key) from error
        found: ObjectRead = self._ask("read", key, byte_range, version)
        return found

    def stat(self, key: str) -> ObjectStat:
        facts: ObjectStat = self._ask("stat", key)
        return facts

    def _ask(self, name: str, key: str, *arguments: object) -> Any:
        try:
            return _helper.get().call(name, self._store, key, *arguments)
        except StorageError as error:
            raise self._named(error, key) from error
        except (OSError, EOFError) as error:
            _helper.drop()
            reason = f"the helper process of obstore has failed: {error!r}"
            raise StorageUnavailableError(reason, storage=self.full_name, key=key) from error

    def _named(self, error: StorageError, key: str) -> StorageError:
        error.storage, error.key = self.full_name, key
        return error
