"""API keys."""

from __future__ import annotations

import hmac
import logging
import time
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from mastaba.api.access import Form, Identifier, Principal, Shown
from mastaba.errors import OverloadedError
from mastaba_access.identifiers.faults import refuse
from mastaba_access.identifiers.refusals import expired, revoked, too_early, unknown
from mastaba_access.identifiers.shared import SharedClaims
from mastaba_access.keystore.base import KeyStore
from mastaba_access.keystore.errors import KeyStoreError
from mastaba_access.keystore.form import PREFIX, digest_of_key, id_of
from mastaba_access.keystore.opening import open_keys
from mastaba_access.keystore.record import KeyRecord
from mastaba_server.log import audit

logger = logging.getLogger("mastaba.access")


class KeyIdentifier(Identifier):
    """Finds the holder of an API key: one read of the store for each key that is not known yet.

    Attributes:
        store: of the keys; None without one.

    Raises:
        ConfigurationError: the store cannot be opened.
    """

    name: ClassVar[str] = "keys"
    forms: ClassVar[frozenset[Form]] = frozenset((Form.PATH, Form.QUERY, Form.BEARER, Form.HEADER))
    in_addresses: ClassVar[bool] = True
    settings_schema: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, settings: Mapping[str, Any], access: Mapping[str, Any]) -> None:
        super().__init__(settings, access)
        self.store: KeyStore | None = None
        if path := access.get("keys"):
            try:
                self.store = open_keys(path)
            except KeyStoreError as error:
                refuse("keys", str(error), "correct the path, or create a key")
        self.is_enabled = self.store is not None
        # Before the fork: one worker writes the line of each change.
        self._lines = SharedClaims()

    def recognises(self, shown: Shown) -> bool:
        return self.is_enabled and shown.form in self.forms and shown.text.startswith(PREFIX)

    def verify(self, shown: Shown, address: str) -> Principal:
        """Return the holder of a key.

        Raises:
            UnknownCredentialError: there is no such key, or its time is over.
            OverloadedError: the store cannot be read.
        """
        key_id = id_of(shown.text)
        if key_id is None or self.store is None:
            # The check characters keep noise away from the store.
            raise unknown()
        now = time.time()
        record = find_key(self.store, key_id)
        if record is None:
            raise unknown()
        digest = digest_of_key(shown.text)
        ends = 0.0
        found = False
        for secret in record.secrets:
            if hmac.compare_digest(secret.digest, digest):
                found = True
                if now < secret.starts:
                    raise too_early()
                ends = secret.ends
        if not found:
            raise unknown()
        if now >= ends:
            raise expired()
        principal = principal_of(record, now, ends)
        self.store.note_use(key_id, now)
        return principal

    def principal(self, key_id: str) -> Principal | None:
        """Return the holder of the key with an id, for explanations; None if there is no such key.

        Raises:
            UnknownCredentialError: the key is revoked, or its time is over or has not begun.
            OverloadedError: the store cannot be read.
        """
        record = None if self.store is None else find_key(self.store, key_id)
        return None if record is None else principal_of(record, time.time(), record.ends)

    def records(self) -> Iterator[KeyRecord]:
        """Return all keys, for checks."""
        return iter(()) if self.store is None else self.store.records()

    def last_uses(self) -> Mapping[str, str] | None:
        """Return the day of the last use by id, as 2026-11-24; None if the store does not know."""
        return None if self.store is None else self.store.last_uses()

    def challenge(self) -> str | None:
        return None if self.store is None else 'ApiKey realm="Mastaba", in="query path header"'

    def poll(self) -> bool:
        if self.store is None or not self.store.has_changed():
            return False
        for event in self.store.new_events():
            if self._lines.take(repr(event)):
                audit.record(f"key {event.what}", at=event.at, **event.details)
        return True

    def close(self) -> None:
        if self.store is not None:
            self.store.close()


def find_key(store: KeyStore, key_id: str) -> KeyRecord | None:
    """Return the record of a key.

    Raises:
        OverloadedError: the store cannot be read.
    """
    try:
        return store.find(key_id)
    except KeyStoreError as error:
        logger.error("%s", error)
        raise OverloadedError("credentials cannot be checked at the moment") from error


def principal_of(record: KeyRecord, now: float, ends: float) -> Principal:
    """Return the holder of a key that is valid now.

    Args:
        record: of the key.
        now: Unix seconds.
        ends: end of the secret that was shown, in Unix seconds.

    Raises:
        UnknownCredentialError: the key is revoked, or its time is over or has not begun.
    """
    state = record.state(now)
    if state == "revoked":
        raise revoked()
    if state == "early":
        raise too_early()
    if state == "expired":
        raise expired()
    return Principal(
        id=record.id,
        kind="key",
        label=record.label,
        groups=frozenset(record.groups),
        ends=min(record.ends, ends),
        addresses=record.addresses,
        referers=record.referers,
        own={**(record.own or {}), **({"rate": record.rate} if record.rate else {})},
    )
