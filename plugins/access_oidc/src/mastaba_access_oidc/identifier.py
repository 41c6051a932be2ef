"""Bearer tokens of an OpenID Connect provider."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from mastaba.api.access import Form, Identifier, Principal, Shown
from mastaba.errors import OverloadedError, UnknownCredentialError
from mastaba_access_oidc.keys import ProviderKeys
from mastaba_access_oidc.settings import SETTINGS_SCHEMA, Provider
from mastaba_access_oidc.tokens import (
    LARGEST,
    InvalidTokenError,
    checked,
    claims_of,
    groups_of,
    header_of,
    user_of,
)

_START: Final = "ey"
"""Base64 of ``{"``: the header of each token is an object."""
_DOTS: Final = 2


class OIDCIdentifier(Identifier):
    """Verifies Bearer tokens (JWT) with the keys of one provider.

    Raises:
        ConfigurationError: a setting is missing or invalid.
    """

    name: ClassVar[str] = "oidc"
    forms: ClassVar[frozenset[Form]] = frozenset((Form.BEARER,))
    in_addresses: ClassVar[bool] = False
    settings_schema: ClassVar[Mapping[str, Any]] = SETTINGS_SCHEMA

    def __init__(self, settings: Mapping[str, Any], access: Mapping[str, Any]) -> None:
        super().__init__(settings, access)
        self.is_enabled = bool(settings)
        if self.is_enabled:
            self._provider = Provider.from_settings(settings)
            self._keys = ProviderKeys(self._provider)

    def recognises(self, shown: Shown) -> bool:
        text = shown.text
        return (
            self.is_enabled
            and shown.form is Form.BEARER
            and text.startswith(_START)
            and text.count(".", 0, LARGEST + 1) == _DOTS
        )

    def verify(self, shown: Shown, address: str) -> Principal:
        """Return the user that a token names.

        Raises:
            UnknownCredentialError: the token is not accepted; the error does not say why.
            OverloadedError: the provider has never answered.
        """
        provider = self._provider
        try:
            header = header_of(shown.text, provider.algorithms)
            key = self._keys.find(header.key_id, header.algorithm)
            if key is None:
                if self._keys.is_empty:
                    raise OverloadedError("tokens cannot be checked at the moment")
                raise InvalidTokenError("an unknown key")
            claims = claims_of(shown.text, header, key)
            ends = checked(claims, provider, time.time())
            name = user_of(claims, provider)
        except InvalidTokenError as error:
            raise UnknownCredentialError("the token is invalid or has expired") from error
        return Principal(
            id=name,
            kind="user",
            label=_label(claims, name),
            groups=groups_of(claims, provider),
            claims=claims,
            is_strong=True,
            ends=ends,
        )

    def challenge(self) -> str | None:
        return 'Bearer realm="Mastaba"' if self.is_enabled else None

    def poll(self) -> bool:
        return self.is_enabled and self._keys.has_changed()


def _label(claims: Mapping[str, Any], name: str) -> str:
    found = claims.get("preferred_username", name)
    return found if isinstance(found, str) and found.isprintable() else name
