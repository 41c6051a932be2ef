"""Signed addresses: ``s1.{payload}.{signature}``, who signed them, and what they allow."""

from __future__ import annotations

import hmac
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeGuard

from mastaba_access.identifiers.refusals import expired, unknown
from mastaba_access.identifiers.secret_file import Secrets
from mastaba_server.access import compact

if TYPE_CHECKING:
    from mastaba.api.services import Service

PREFIX: Final = "s1."
LARGEST: Final = 512
"""Characters of a payload."""

_TOKEN: Final = re.compile(r"s1\.([A-Za-z0-9_-]{1,512})\.([A-Za-z0-9_-]{22})")
_DOMAIN: Final = b"mastaba s1\0"
_SIGNATURE: Final = 16
_MEMBERS: Final = frozenset("kxlsbri")
_ISSUER: Final = frozenset("ugfc")
_MOST: Final = 100


class InvalidScopeError(ValueError):
    """What is to be signed is invalid, or does not fit into an address."""


@dataclass(frozen=True, slots=True)
class Token:
    """What a signed address says.

    Attributes:
        signer: id of the secret.
        ends: Unix seconds.
        scope: further limits: ``l`` (layers), ``s`` (services), ``b`` (bbox: west, south, east,
            north), ``r`` (metres per pixel, from and to).
        issuer: for whom it was signed: the id of a key or the name of a user. For users that only
            a front server or a provider knows: an object with ``u`` (name), ``g`` (groups), ``f``
            (how they were identified) and, in a session, ``c``.
    """

    signer: str
    ends: float
    scope: Mapping[str, Any]
    issuer: str | Mapping[str, Any] | None = None


def sign(token: Token, secrets: Secrets) -> str:
    """Return the text of a token. Equal tokens give equal texts.

    Raises:
        InvalidScopeError: it is invalid, or longer than an address may be.
    """
    members: dict[str, Any] = {"k": token.signer, "x": token.ends}
    members |= {name: list(value) for name, value in token.scope.items()}
    if token.issuer is not None:
        members["i"] = token.issuer
    try:
        scope = _token_of(members).scope
    except (ValueError, TypeError) as error:
        raise InvalidScopeError(str(error)) from error
    members["x"] = _shortest(token.ends)
    for name, value in scope.items():
        # The order of names means nothing.
        is_names = name in ("l", "s")
        members[name] = sorted(set(value)) if is_names else [_shortest(number) for number in value]
    text = json.dumps(members, separators=(",", ":"), ensure_ascii=False, sort_keys=True)
    payload = compact.coded(text.encode())
    if len(payload) > LARGEST:
        reason = f"the scope takes {len(payload)} characters; {LARGEST} fit into an address"
        raise InvalidScopeError(f"{reason}: name fewer layers, or use a pattern")
    return f"{PREFIX}{payload}.{_signature(payload, secrets.by_id[token.signer])}"


def require_opening(scope: Mapping[str, Any], installed: Mapping[str, type[Service]]) -> None:
    """Check that the services in a valid scope show something, whatever the rules.

    Args:
        installed: services by name.

    Raises:
        InvalidScopeError: all of them show what other services show, and the scope has no other.
    """
    names = scope.get("s", ())
    kinds = [installed.get(name.partition("@")[0]) for name in names]
    if kinds and all(one and one.is_viewed and not one.abilities for one in kinds):
        raise InvalidScopeError(
            f"the scope opens nothing: {min(names)} shows what other services in it show; "
            "name another service too"
        )


def verified(text: str, secrets: Secrets, now: float) -> Token:
    """Return what a token says, if it was signed with one of the secrets and has not ended.

    Raises:
        UnknownCredentialError: it was not, is damaged, or has ended.
    """
    found = _TOKEN.fullmatch(text)
    if found is None:
        raise unknown()
    payload, signature = found.groups()
    # Nothing is parsed before it is known that we wrote it.
    signers = [
        signer
        for signer, secret in secrets.by_id.items()
        if hmac.compare_digest(_signature(payload, secret), signature)
    ]
    if not signers:
        raise unknown()
    try:
        token = _token_of(compact.parsed(compact.decoded(payload)))
    except (ValueError, TypeError) as error:
        raise unknown() from error
    if token.signer not in signers:
        raise unknown()
    if now >= token.ends:
        raise expired()
    return token


def rounded_end(ends: float, bucket: int) -> int:
    """Return the end of a token: rounded up, so that equal scopes give equal addresses."""
    return math.ceil(ends / bucket) * bucket


def _shortest(number: float) -> float:
    return int(number) if float(number).is_integer() else number


def _signature(payload: str, secret: bytes) -> str:
    return compact.coded(hmac.digest(secret, _DOMAIN + payload.encode(), "sha256")[:_SIGNATURE])


def _token_of(document: Any) -> Token:
    """Check the members of a payload.

    Raises:
        ValueError: one is unknown, missing or invalid.
    """
    if not isinstance(document, dict) or document.keys() - _MEMBERS:
        raise ValueError("a signed address has unknown members")
    signer, ends = document.get("k"), document.get("x", "")
    if not isinstance(signer, str) or not signer:
        raise ValueError("the id of the secret is missing")
    if not _is_number(ends):
        raise ValueError("the end is missing")
    scope: dict[str, Any] = {}
    for name, what in (("l", "layers"), ("s", "services")):
        if name in document:
            scope[name] = _names(document[name], what)
    if "b" in document:
        west, south, east, north = _numbers(document["b"], 4, "the bbox")
        if not (-180 <= west <= 180 and -180 <= east <= 180 and -90 <= south < north <= 90):
            raise ValueError("the bbox is not west, south, east, north in degrees")
        if west == east:
            raise ValueError("the bbox is empty")
        scope["b"] = (west, south, east, north)
    if "r" in document:
        least, greatest = _numbers(document["r"], 2, "the resolution")
        if not 0 <= least <= greatest:
            raise ValueError("the resolution is not a range from small to large")
        scope["r"] = (least, greatest)
    return Token(signer, float(ends), scope, _issuer(document.get("i")))


def _issuer(value: Any) -> str | Mapping[str, Any] | None:
    if value is None or (_is_name(value) and len(value) <= 200):
        return value
    if isinstance(value, dict) and not value.keys() - _ISSUER:
        groups = value.get("g", [])
        texts = [value.get("u"), value.get("f"), *(groups if isinstance(groups, list) else [None])]
        if all(map(_is_name, texts)) and value.get("c", 1) == 1:
            return value
    raise ValueError("the issuer is neither a key nor a user")


def _names(value: Any, what: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not 0 < len(value) <= _MOST or not all(map(_is_name, value)):
        raise ValueError(f"{what} are not a list of names")
    return tuple(value)


def _is_name(value: Any) -> TypeGuard[str]:
    # Not every text of JSON can be encoded.
    return isinstance(value, str) and bool(value) and value.isprintable()


def _numbers(value: Any, count: int, what: str) -> tuple[float, ...]:
    if not isinstance(value, list) or len(value) != count or not all(map(_is_number, value)):
        raise ValueError(f"{what} is not a list of {count} numbers")
    return tuple(map(float, value))


def _is_number(value: Any) -> bool:
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and -1e15 <= value <= 1e15
        and math.isfinite(value)
    )
