"""Plugin for Mastaba that keeps indices of slabs in object stores on a local disk."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from mastaba import LazyClass, hookimpl

settings_schema: Final[Mapping[str, Any]] = {
    "directory": {
        "type": "string",
        "description": "Directory of the store, in which only the user of the server can write; "
        "it is created if necessary.",
        "minLength": 1,
    },
    "mebibytes": {
        "type": "integer",
        "description": "Mebibytes that the store may take on the disk. A million slabs of 16 x 16 "
        "tiles take up to 510.",
        "minimum": 16,
        "default": 1024,
        "x-on-fault": "default",
    },
}


@hookimpl
def register_index_stores() -> Iterable[LazyClass]:
    return [LazyClass("mastaba_index_store.store:DiskStore", name="disk")]
