"""For whom an address was signed."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any, Final

from mastaba.api.access import Principal
from mastaba_access.identifiers.basic import user
from mastaba_access.identifiers.faults import refuse
from mastaba_access.identifiers.keys import find_key, principal_of
from mastaba_access.identifiers.passwords import Users, UsersError
from mastaba_access.identifiers.refusals import revoked, unknown
from mastaba_access.identifiers.tokens import Token
from mastaba_access.keystore.errors import KeyStoreError
from mastaba_access.keystore.form import is_id
from mastaba_access.keystore.opening import open_keys

_SESSION: Final = "c"
"""Member of the issuer that says that a token is a session, and never an address."""


class FrontUser(Principal):
    """The issuer of an address whom a front server or a provider has named, not the file of users.

    A user of the file may have the same name.
    """


def is_session(token: Token) -> bool:
    """Return whether a token is a session, and never an address."""
    return isinstance(token.issuer, Mapping) and _SESSION in token.issuer


class Issuers:
    """Keys and users, which may be revoked after they have signed an address.

    Args:
        access: the section ``plugins.access``.

    Raises:
        ConfigurationError: a store cannot be opened.
    """

    def __init__(self, access: Mapping[str, Any]) -> None:
        self._keys = self._users = None
        try:
            if path := access.get("keys"):
                self._keys = open_keys(path)
        except KeyStoreError as error:
            refuse("keys", str(error), "correct the path, or create a key")
        try:
            if path := access.get("users"):
                self._users = Users(path)
        except UsersError as error:
            refuse("users", str(error), "correct the file")

    def find(self, token: Token) -> Principal | None:
        """Return for whom a token was signed; None if for nobody in particular.

        Raises:
            UnknownCredentialError: that key or user does not exist any more.
            OverloadedError: the store cannot be read.
        """
        issuer = token.issuer
        if issuer is None:
            return None
        if not isinstance(issuer, str):
            name = issuer["u"]
            if issuer["f"] == "basic":
                return self._user(name)
            groups = frozenset(issuer.get("g", ()))
            if _SESSION in issuer:
                return Principal(id=name, kind="user", label=name, groups=groups, is_strong=True)
            return FrontUser(id=name, kind="user", label=name, groups=groups)
        if is_id(issuer):
            record = None if self._keys is None else find_key(self._keys, issuer)
            if record is None:
                raise unknown()
            now = time.time()
            return principal_of(record, now, max(one.ends for one in record.secrets))
        return self._user(issuer)

    def _user(self, name: str) -> Principal:
        if self._users is None or self._users.hash_of(name) is None:
            raise revoked()
        return user(name, math.inf)

    def has_changed(self) -> bool:
        """Return whether a key or a user has changed since the last call."""
        # Both are asked: each remembers what it was asked about.
        keys = self._keys is not None and self._keys.has_changed()
        users = self._users is not None and self._users.has_changed()
        return keys or users

    def close(self) -> None:
        """Release what this process has opened."""
        if self._keys is not None:
            self._keys.close()


def issuer_of(principal: Principal, how: str, *, session: bool = False) -> Any:
    """Return how a token names a principal.

    Args:
        principal: a key or a user.
        how: name of the identifier that knows it.
        session: whether the token is a session.
    """
    if principal.kind == "key":
        return principal.id
    if how == "basic" and not session and not is_id(principal.id):
        return principal.id
    named: dict[str, Any] = {"u": principal.id, "f": how}
    if principal.groups:
        named["g"] = sorted(principal.groups)
    if session:
        named[_SESSION] = 1
    return named
