"""Which store a path is."""

from __future__ import annotations

import os
from typing import Final

from mastaba_access.keystore.base import KeyStore
from mastaba_access.keystore.database import DatabaseKeys
from mastaba_access.keystore.documents import DirectoryKeys, FileKeys
from mastaba_access.keystore.errors import KeyStoreError

_DATABASES: Final = (".sqlite", ".sqlite3", ".db")
_DOCUMENTS: Final = (".json", ".yaml", ".yml")


def open_keys(path: str, *, create: bool = False) -> KeyStore:
    """Return the store at a path: by its extension, or a directory.

    Args:
        path: of a file or directory.
        create: whether it may be absent, because a key will be written.

    Raises:
        KeyStoreError: it does not exist, is not a store, or contains an invalid key.
    """
    if not create and not os.path.exists(path):
        raise KeyStoreError(f"{path} does not exist; `mastaba key create` makes it")
    lowered = path.lower()
    if os.path.isdir(path) or path.endswith("/"):
        return DirectoryKeys(path.rstrip("/") or "/", create=create)
    if lowered.endswith(_DATABASES):
        store = DatabaseKeys(path, create=create)
        store.find("")
        return store
    if lowered.endswith(_DOCUMENTS):
        return FileKeys(path, create=create)
    names = ", ".join((*_DATABASES, *_DOCUMENTS))
    raise KeyStoreError(f"{path} is neither a directory nor a file with an extension of {names}")
