"""JSON Web Tokens (RFC 7519): what is checked before and after the signature."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jws import JWSRegistry

from mastaba_access_oidc.keys import PublicKey
from mastaba_access_oidc.settings import Provider
from mastaba_server.access import compact

LARGEST: Final = 8192
"""Characters of a token."""

_TOKEN: Final = re.compile(r"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)")
_TYPES: Final = frozenset(("jwt", "at+jwt", "application/jwt", "application/at+jwt"))
_LONGEST: Final = 256


class InvalidTokenError(ValueError):
    """The token is not accepted."""


class Header(NamedTuple):
    """What the header of a token says.

    Attributes:
        algorithm: of the signature.
        key_id: of the key that signed; None if there is none.
    """

    algorithm: str
    key_id: str | None


class _Registry(JWSRegistry):
    """Algorithms that are allowed by the caller, without warnings for each token."""

    max_header_length = LARGEST

    def get_alg(self, name: str) -> Any:
        if self.allowed is None or name not in self.allowed:
            raise InvalidTokenError("the algorithm is not allowed")
        return self.algorithms[name]


def header_of(text: str, algorithms: frozenset[str]) -> Header:
    """Return the header of a token. Nothing else in it is used, such as addresses of keys.

    Raises:
        InvalidTokenError: it is damaged, or names an algorithm that is not allowed, or an
            extension that must be understood.
    """
    found = _TOKEN.fullmatch(text) if len(text) <= LARGEST else None
    if found is None:
        raise InvalidTokenError("not a token")
    try:
        # Also those that are not read here.
        for part in found.groups():
            compact.decoded(part)
    except ValueError as error:
        raise InvalidTokenError("not in its shortest form") from error
    header = _document(found[1])
    algorithm, key_id = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str) or algorithm not in algorithms:
        raise InvalidTokenError("the algorithm is not allowed")
    if "crit" in header or "b64" in header:
        raise InvalidTokenError("an extension is not supported")
    if not isinstance(key_id, str | None) or len(key_id or "") > _LONGEST:
        raise InvalidTokenError("the id of the key is invalid")
    kind = header.get("typ", "JWT")
    if not isinstance(kind, str) or kind.lower() not in _TYPES:
        raise InvalidTokenError("a token of another kind")
    return Header(algorithm, key_id)


def claims_of(text: str, header: Header, key: PublicKey) -> Mapping[str, Any]:
    """Return the claims of a token that was signed with a key.

    Raises:
        InvalidTokenError: the signature is wrong, or the claims are damaged.
    """
    registry = _Registry(algorithms=[header.algorithm], strict_check_header=False)
    try:
        jws.deserialize_compact(text, key, registry=registry)
    except (JoseError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise InvalidTokenError("the signature is wrong") from error
    return _document(text.split(".")[1])


def checked(claims: Mapping[str, Any], provider: Provider, now: float) -> float:
    """Check who a token is from and for, and when.

    Args:
        claims: whose signature is right.
        provider: that is trusted.
        now: Unix seconds.

    Returns:
        Its end in Unix seconds.

    Raises:
        InvalidTokenError: it is not for us, or not valid now.
    """
    if claims.get("iss") != provider.issuer:
        raise InvalidTokenError("another issuer")
    audience = claims.get("aud")
    names = audience if isinstance(audience, list) else [audience]
    if not any(isinstance(name, str) and name in provider.audience for name in names):
        raise InvalidTokenError("another audience")
    ends = _number(claims, "exp")
    if ends is None:
        raise InvalidTokenError("without an end")
    ends += provider.leeway
    if now >= ends:
        raise InvalidTokenError("expired")
    for name in ("nbf", "iat"):
        begins = _number(claims, name)
        if begins is not None and now < begins - provider.leeway:
            raise InvalidTokenError("not valid yet")
    return ends


def user_of(claims: Mapping[str, Any], provider: Provider) -> str:
    """Return the name of the user.

    Raises:
        InvalidTokenError: the claim is missing or not a name.
    """
    name = claims.get(provider.user_claim)
    if not isinstance(name, str) or not 0 < len(name) <= _LONGEST or not name.isprintable():
        raise InvalidTokenError("without a user")
    return name


def groups_of(claims: Mapping[str, Any], provider: Provider) -> frozenset[str]:
    """Return the groups of the user; none if the claim is missing or something else."""
    value: Any = claims
    for name in provider.groups_claim:
        value = value.get(name) if isinstance(value, Mapping) else None
    items = value.split() if isinstance(value, str) else value
    if not isinstance(items, list):
        return frozenset()
    return frozenset(item for item in items if isinstance(item, str) and item)


def _number(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None and name not in claims:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 1e15:
        raise InvalidTokenError(f"{name} is not a time")
    return float(value)


def _document(part: str) -> dict[str, Any]:
    try:
        found = compact.parsed(compact.decoded(part))
    except ValueError as error:
        raise InvalidTokenError("damaged") from error
    if not isinstance(found, dict):
        raise InvalidTokenError("damaged")
    return found
