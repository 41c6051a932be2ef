"""What operators do with keys, by the command line or the administration."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from mastaba_access.keystore.base import KeyStore
from mastaba_access.keystore.errors import KeyStoreError, RevokedKeyError, UnknownKeyError
from mastaba_access.keystore.form import digest_of_key, new_id, new_key
from mastaba_access.keystore.record import KeyRecord, KeySecret, duration_of, record_from

_TRIES: Final = 10


def create_key(store: KeyStore, members: Mapping[str, Any]) -> tuple[str, KeyRecord]:
    """Add a key; return it, which nobody can do again, and what is known about it.

    Args:
        store: gets the key.
        members: of its record, without ``id`` and secrets.

    Raises:
        InvalidKeyRecordError: a member is invalid.
        KeyStoreError: it cannot be saved.
    """
    with store.changing():
        ids = (new_id() for _ in range(_TRIES))
        key_id = next((one for one in ids if store.find(one) is None), None)
        if key_id is None:
            raise KeyStoreError("no free id was found")
        key = new_key(key_id)
        record = record_from({**members, "key": key}, time.time())
        store.save([record], "created")
    return key, record


def found_key(store: KeyStore, key_id: str) -> KeyRecord:
    """Return the record of a key.

    Raises:
        UnknownKeyError: there is none with this id.
        KeyStoreError: the store cannot be read.
    """
    record = store.find(key_id)
    if record is None:
        raise UnknownKeyError(key_id)
    return record


def rotate_key(store: KeyStore, key_id: str, overlap: str) -> tuple[str, KeyRecord]:
    """Give a key another secret; return the key, and what is known about it.

    Args:
        store: contains the key.
        key_id: of the key.
        overlap: how long older secrets are still accepted, such as ``30d``.

    Raises:
        InvalidKeyRecordError: the overlap is not a duration.
        UnknownKeyError: there is no key with this id.
        RevokedKeyError: the key is revoked.
        KeyStoreError: it cannot be saved.
    """
    seconds = duration_of(overlap)
    with store.changing():
        record = found_key(store, key_id)
        if record.revoked is not None:
            raise RevokedKeyError(key_id)
        key, now = new_key(record.id), time.time()
        record = record.rotated(KeySecret(digest_of_key(key), now), now, seconds)
        store.save([record], "rotated")
    return key, record


def revoke_key(store: KeyStore, key_id: str) -> KeyRecord:
    """Refuse a key from now on; return what is known about it.

    Raises:
        UnknownKeyError: there is no key with this id.
        KeyStoreError: it cannot be saved.
    """
    with store.changing():
        record = found_key(store, key_id)
        if record.revoked is None:
            record = replace(record, revoked=time.time())
            store.save([record], "revoked")
    return record


def described(record: KeyRecord, uses: Mapping[str, str] | None) -> dict[str, Any]:
    """Return what is known about a key as JSON.

    Args:
        record: of the key.
        uses: day of the last use by id, or None.
    """
    shown = record.document()
    shown["state"] = record.state(time.time())
    shown["secrets"] = len(record.secrets)
    if uses and record.id in uses:
        shown["last_use"] = uses[record.id]
    return shown
