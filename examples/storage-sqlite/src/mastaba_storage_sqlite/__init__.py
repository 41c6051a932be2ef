"""SQLite storage for Mastaba: the storage driver ``sqlite``."""

from mastaba import LazyClass, hookimpl


@hookimpl
def register_storages() -> list[LazyClass]:
    storage = "mastaba_storage_sqlite.storage:SqliteStorage"
    return [LazyClass(storage, name="sqlite", container_field="database_name")]
