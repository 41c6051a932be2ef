"""Settings of a provider."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from mastaba.api.documents import Fault, Severity
from mastaba.errors import ConfigurationError

ALGORITHMS: Final = ("RS256", "PS256", "ES256", "EdDSA")
"""Signatures with a public key. The secret of the others would also sign."""

_HTTPS: Final = {"type": "string", "pattern": r"^https://[^\s@?#]+$"}
_CLAIM: Final = {"type": "string", "minLength": 1, "maxLength": 200}

SETTINGS_SCHEMA: Final[Mapping[str, Any]] = {
    "issuer": {**_HTTPS, "description": "Address of the provider, as tokens name it. Required."},
    "audience": {
        "type": ["string", "array"],
        "items": {"type": "string", "minLength": 1},
        "minItems": 1,
        "minLength": 1,
        "description": "Name of this server for the provider, or several. Required.",
    },
    "jwks_uri": {
        **_HTTPS,
        "description": "Address of the keys; by default the provider is asked for it.",
    },
    "algorithms": {
        "type": "array",
        "items": {"enum": list(ALGORITHMS)},
        "minItems": 1,
        "default": list(ALGORITHMS),
        "description": "Accepted signatures.",
    },
    "user_claim": {**_CLAIM, "default": "sub", "description": "Claim with the name of the user."},
    "groups_claim": {
        **_CLAIM,
        "default": "groups",
        "description": "Claim with the groups, a list or words; a dot leads into an object.",
    },
    "leeway": {
        "type": "number",
        "minimum": 0,
        "maximum": 300,
        "default": 60,
        "description": "Seconds by which clocks may differ.",
    },
    "keys_file": {
        "type": "string",
        "minLength": 1,
        "description": "File that keeps the keys for starts while the provider does not answer "
        "(default: oidc-keys.json in the state directory of systemd, if there is one).",
    },
}


@dataclass(frozen=True, slots=True)
class Provider:
    """What is known about a provider.

    Attributes:
        issuer: its address, without anything added or removed.
        audience: of which a token names one.
        jwks_uri: address of the keys, or None.
        algorithms: accepted signatures.
        user_claim: claim with the name of the user.
        groups_claim: names of the claims that lead to the groups.
        leeway: seconds.
        keys_file: path, or None.
    """

    issuer: str
    audience: frozenset[str]
    jwks_uri: str | None
    algorithms: frozenset[str]
    user_claim: str
    groups_claim: tuple[str, ...]
    leeway: float
    keys_file: str | None

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Provider:
        """Check the settings.

        Raises:
            ConfigurationError: one is missing or invalid.
        """
        issuer: str = settings.get("issuer", "")
        if not _is_https(issuer):
            _refuse("issuer", "is not an https address", "name the issuer of the provider")
        audience = settings.get("audience")
        names: list[Any] = audience if isinstance(audience, list) else [audience]
        if not names or not all(isinstance(name, str) and name for name in names):
            _refuse("audience", "is missing", "name this server as the provider does")
        jwks_uri = settings.get("jwks_uri")
        if jwks_uri is not None and not _is_https(jwks_uri):
            _refuse("jwks_uri", "is not an https address", "correct it")
        algorithms = settings.get("algorithms", ALGORITHMS)
        if not algorithms or not set(algorithms) <= set(ALGORITHMS):
            allowed = ", ".join(ALGORITHMS)
            _refuse("algorithms", f"contains another one than {allowed}", "remove it")
        state = os.environ.get("STATE_DIRECTORY", "").partition(":")[0]
        usual = os.path.join(state, "oidc-keys.json") if state else None
        return cls(
            issuer=issuer,
            audience=frozenset(names),
            jwks_uri=jwks_uri,
            algorithms=frozenset(algorithms),
            user_claim=settings.get("user_claim", "sub"),
            groups_claim=tuple(settings.get("groups_claim", "groups").split(".")),
            leeway=settings.get("leeway", 60),
            keys_file=settings.get("keys_file", usual),
        )


def _is_https(value: Any) -> bool:
    if not isinstance(value, str) or not value.isascii() or not value.isprintable():
        return False
    try:
        parts = urlsplit(value)
    except ValueError:
        return False
    return parts.scheme == "https" and bool(parts.hostname) and "@" not in parts.netloc


def _refuse(name: str, reason: str, remedy: str) -> None:
    place = f"$.plugins.access.identifiers.oidc.{name}"
    raise ConfigurationError([Fault(Severity.ERROR, "server.json", place, reason, remedy)])
