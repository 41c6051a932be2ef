"""Signed addresses, and sessions, which are signed cookies."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final

from mastaba.api.access import Form, Identifier, Principal, Shown
from mastaba_access.identifiers.faults import refuse
from mastaba_access.identifiers.issuers import Issuers, is_session
from mastaba_access.identifiers.refusals import unknown
from mastaba_access.identifiers.secret_file import SecretFileError, Secrets, read_secrets
from mastaba_access.identifiers.tokens import PREFIX, Token, verified

COOKIE: Final = "__Host-mastaba"
"""Name of the cookie of a session: browsers accept it over https only, for all of a host."""


def secrets_of(access: Mapping[str, Any]) -> Secrets | None:
    """Return the secrets of the section ``plugins.access``; None if there is no file.

    Raises:
        ConfigurationError: the file cannot be used.
    """
    path = access.get("secret_file")
    if not path:
        return None
    try:
        return read_secrets(path)
    except SecretFileError as error:
        refuse("secret_file", str(error), "correct the file")


class _Tokens(Identifier):
    """What addresses and cookies have in common."""

    settings_schema: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, settings: Mapping[str, Any], access: Mapping[str, Any]) -> None:
        super().__init__(settings, access)
        self._secrets = secrets_of(access) if self._is_wanted(access) else None
        self._issuers = None if self._secrets is None else Issuers(access)
        self.is_enabled = self._secrets is not None

    def recognises(self, shown: Shown) -> bool:
        return self.is_enabled and shown.form in self.forms and shown.text.startswith(PREFIX)

    def verify(self, shown: Shown, address: str) -> Principal:
        """Return who signed, with the issuer and the scope.

        Raises:
            UnknownCredentialError: the token is damaged, has ended, or its issuer is revoked.
            OverloadedError: the store of keys cannot be read.
        """
        if self._secrets is None or self._issuers is None:
            raise unknown()
        token = verified(shown.text, self._secrets, time.time())
        if not self._accepts(token):
            raise unknown()
        issuer = self._issuers.find(token)
        return self._principal(token, issuer)

    def _principal(self, token: Token, issuer: Principal | None) -> Principal:
        return Principal(
            id=token.signer,
            kind="signed",
            is_strong=issuer is not None and issuer.is_strong,
            ends=min(token.ends, math.inf if issuer is None else issuer.ends),
            scope=token.scope,
            issuer=issuer,
        )

    def poll(self) -> bool:
        return self._issuers is not None and self._issuers.has_changed()

    def close(self) -> None:
        if self._issuers is not None:
            self._issuers.close()

    def _is_wanted(self, access: Mapping[str, Any]) -> bool:
        raise NotImplementedError

    def _accepts(self, token: Token) -> bool:
        raise NotImplementedError


class SignedIdentifier(_Tokens):
    """Verifies signed addresses.

    Raises:
        ConfigurationError: the file of secrets or a store cannot be used.
    """

    name: ClassVar[str] = "signed"
    forms: ClassVar[frozenset[Form]] = frozenset((Form.PATH, Form.QUERY, Form.BEARER, Form.HEADER))
    in_addresses: ClassVar[bool] = True

    def _is_wanted(self, access: Mapping[str, Any]) -> bool:
        return True

    def _accepts(self, token: Token) -> bool:
        return not is_session(token)


class SessionIdentifier(_Tokens):
    """Verifies session cookies.

    Raises:
        ConfigurationError: the file of secrets or a store cannot be used, or there is no file.
    """

    name: ClassVar[str] = "session"
    forms: ClassVar[frozenset[Form]] = frozenset((Form.COOKIE,))
    in_addresses: ClassVar[bool] = False

    def _is_wanted(self, access: Mapping[str, Any]) -> bool:
        is_on: bool = access.get("sessions", {}).get("enabled", False)
        if is_on and not access.get("secret_file"):
            refuse("sessions", "cookies are signed, and there is no secret_file", "set one")
        return is_on

    def _principal(self, token: Token, issuer: Principal | None) -> Principal:
        # It is the user, whom a signed address only represents.
        assert issuer is not None, "a session has a user"
        return replace(issuer, ends=min(token.ends, issuer.ends))

    def _accepts(self, token: Token) -> bool:
        # A signed address that somebody has got must not become a session.
        return is_session(token) and not token.scope
