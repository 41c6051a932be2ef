"""Object stores by obstore for Mastaba: the storage driver ``obstore``."""

from mastaba import LazyClass, hookimpl

settings_schema = {
    "stores": {
        "type": "object",
        "description": "Stores by the names that levels and paths use.",
        "default": {},
        "additionalProperties": {
            "type": "object",
            "required": ["url"],
            "additionalProperties": False,
            "properties": {
                "url": {
                    "type": "string",
                    "pattern": "^(gs|az|s3|https?|file)://",
                    "description": "Bucket, container or directory, with a prefix of all keys.",
                },
                "options": {
                    "type": "object",
                    "description": "Options of obstore for this kind of store.",
                    "default": {},
                },
            },
        },
    }
}


@hookimpl
def register_storages() -> list[LazyClass]:
    storage = "mastaba_storage_obstore.storage:ObstoreStorage"
    return [LazyClass(storage, name="obstore", container_field="store_name")]
