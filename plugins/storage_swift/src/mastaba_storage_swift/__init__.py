"""OpenStack Swift storage for Mastaba: the storage driver ``swift``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from mastaba import hookimpl

if TYPE_CHECKING:
    from mastaba.storage.base import Storage


@hookimpl
def register_storages() -> Iterable[type[Storage]]:
    from mastaba_storage_swift.storage import SwiftStorage

    return [SwiftStorage]
