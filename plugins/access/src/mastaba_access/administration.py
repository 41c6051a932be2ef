"""What administrators do with keys and rules while the server runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Final

from mastaba.api.access import Operation
from mastaba.api.services import Site
from mastaba.errors import ChangeRefusedError, MastabaError
from mastaba_access.decider import Decider
from mastaba_access.explanation import explained, principal_named
from mastaba_access.identifiers.keys import KeyIdentifier
from mastaba_access.keystore.base import KeyStore
from mastaba_access.keystore.errors import (
    InvalidKeyRecordError,
    KeyStoreError,
    RevokedKeyError,
    UnknownKeyError,
)
from mastaba_access.keystore.management import (
    create_key,
    described,
    found_key,
    revoke_key,
    rotate_key,
)
from mastaba_access.rules.periods import moment
from mastaba_access.rules.who import Visit

_MEMBERS: Final = frozenset(
    (
        *("label", "owner", "groups", "from", "until", "addresses", "referers", "rate"),
        *("layers", "services", "area"),
    )
)
_ASKED: Final[Mapping[str, Any]] = {
    "url": "",
    "as": "anonymous",
    "groups": (),
    "from": "",
    "referer": "",
    "at": "",
}


def _about_keys(
    run: Callable[[Administration, KeyStore, str, Any], Any],
) -> Callable[[Administration, Site, str, Any], Any]:
    """Return an operation on the store of keys, whose errors refuse it."""

    @wraps(run)
    def operation(self: Administration, _site: Site, key_id: str, body: Any) -> Any:
        try:
            return run(self, self.store(), key_id, body)
        except KeyStoreError as error:
            raise ChangeRefusedError(_reason(error), str(error)) from error

    return operation


def _reason(error: KeyStoreError) -> str:
    match error:
        case UnknownKeyError():
            return "unknown"
        case RevokedKeyError():
            return "exists"
        case InvalidKeyRecordError():
            return "faulty"
    return "failed"


class Administration:
    """The operations on keys and rules.

    Args:
        gate: decides by them.
    """

    def __init__(self, gate: Decider) -> None:
        self._gate = gate

    def operations(self) -> tuple[Operation, ...]:
        """Return all of them."""
        return (
            Operation("GET", "/keys", "List the keys", self._list),
            Operation("POST", "/keys", "Create a key", self._create),
            Operation("GET", "/keys/{id}", "Show what is known about a key", self._show),
            Operation("POST", "/keys/{id}", "Give a key another secret", self._rotate),
            Operation("DELETE", "/keys/{id}", "Revoke a key", self._revoke),
            Operation("PUT", "/access/reload", "Read the rules and keys again", self._reload),
            Operation("POST", "/access/explain", "Say which rules decide", self._explain),
        )

    def store(self) -> KeyStore:
        """Return the store of keys.

        Raises:
            ChangeRefusedError: there is none.
        """
        keys = self._gate.identifiers.get("keys")
        if not isinstance(keys, KeyIdentifier) or keys.store is None:
            raise ChangeRefusedError("unavailable", "plugins.access.keys names no store of keys")
        return keys.store

    @_about_keys
    def _list(self, store: KeyStore, _id: str, _body: Any) -> Any:
        uses = store.last_uses()
        return {"keys": [described(record, uses) for record in store.records()]}

    @_about_keys
    def _create(self, store: KeyStore, _id: str, body: Any) -> Any:
        key, record = create_key(store, _members(body, _MEMBERS))
        self._gate.poll()
        return {"key": key, **record.document()}

    @_about_keys
    def _show(self, store: KeyStore, key_id: str, _body: Any) -> Any:
        return described(found_key(store, key_id), store.last_uses())

    @_about_keys
    def _rotate(self, store: KeyStore, key_id: str, body: Any) -> Any:
        overlap = _members({} if body is None else body, ("overlap",)).get("overlap", "0s")
        key, record = rotate_key(store, key_id, _text("overlap", overlap))
        self._gate.poll()
        return {"key": key, **record.document()}

    @_about_keys
    def _revoke(self, store: KeyStore, key_id: str, _body: Any) -> Any:
        revoke_key(store, key_id)
        self._gate.poll()

    def _reload(self, _site: Site, _id: str, _body: Any) -> Any:
        gate = self._gate
        gate.poll()
        if gate.rules.is_outdated:
            raise ChangeRefusedError("faulty", "; ".join(map(str, gate.rules.faults)))
        return {"digest": gate.rules.now.digest, "rules": len(gate.rules.now.rules)}

    def _explain(self, site: Site, _id: str, body: Any) -> Any:
        asked = {**_ASKED, **_members(body, _ASKED)}
        groups = asked.pop("groups")
        if not isinstance(groups, list | tuple) or not all(isinstance(x, str) for x in groups):
            raise ChangeRefusedError("faulty", "groups must be a list of names")
        url, who, address, referer, at = (_text(name, asked[name]) for name in asked)
        if not url:
            raise ChangeRefusedError("faulty", "url is missing")
        try:
            principal = principal_named(self._gate, who, groups, address)
            when = moment(at) if at else time.time()
            found = explained(self._gate, site, url, Visit(principal, address, referer), when)
        except ValueError as error:
            raise ChangeRefusedError("faulty", f"at: {at[:40]!r} {error}") from error
        except MastabaError as error:
            raise ChangeRefusedError("faulty", str(error)) from error
        if found is None:
            raise ChangeRefusedError("faulty", "url: no service answers this address")
        return found


def _members(body: Any, known: Any) -> Mapping[str, Any]:
    if not isinstance(body, Mapping):
        raise ChangeRefusedError("faulty", "the body must be an object")
    unknown = [name for name in body if name not in known]
    if unknown:
        names = ", ".join(sorted(known))
        raise ChangeRefusedError("faulty", f"{unknown[0][:60]!r} is unknown; members are: {names}")
    return body


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str) or len(value) > 8192:
        raise ChangeRefusedError("faulty", f"{name} must be a text")
    return value
