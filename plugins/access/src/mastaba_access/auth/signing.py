"""What a client may have signed: never more than it has itself."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from mastaba.api.access import Grant, Principal
from mastaba.errors import AccessError, InvalidParameterError
from mastaba_access.classes import ClassGrant
from mastaba_access.identifiers.issuers import FrontUser, issuer_of
from mastaba_access.identifiers.secret_file import Secrets
from mastaba_access.identifiers.tokens import (
    InvalidScopeError,
    Token,
    require_opening,
    rounded_end,
    sign,
)

if TYPE_CHECKING:
    from mastaba.api.services import Service

_MEMBERS: Final = {"layers": "l", "services": "s", "bbox": "b", "resolution": "r"}
_USUAL: Final = 3600.0


class NotAllowedError(AccessError):
    """The client asks for more than it has.

    Args:
        message: why, for the client.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message, 403)


def require_signable(grant: Grant) -> None:
    """Check that what is signed for a client gets no more than the client.

    Raises:
        NotAllowedError: it might: claims are not signed, and rules take something by claims.
    """
    if isinstance(grant, ClassGrant) and not grant.may_sign:
        raise NotAllowedError("rules about claims of the token do not hold for what is signed")


def signed(
    body: bytes,
    principal: Principal | None,
    secrets: Secrets,
    now: float,
    *,
    longest: float,
    bucket: int,
    installed: Mapping[str, type[Service]],
) -> tuple[str, float]:
    """Return a token and its end.

    Args:
        body: JSON with ``layers``, ``services``, ``bbox``, ``resolution``, ``seconds``; all of
            them may be missing.
        principal: who asks; None for the administrator, whose tokens have no issuer.
        secrets: the first one signs.
        now: Unix seconds.
        longest: seconds that a token may last.
        bucket: seconds to a multiple of which the end is rounded up.
        installed: services by name.

    Raises:
        InvalidParameterError: the body is invalid.
        NotAllowedError: it asks for more than the client has.
    """
    wanted = _wanted(body)
    seconds = wanted.pop("seconds", min(_USUAL, longest))
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise InvalidParameterError("seconds is not a number", "seconds")
    if not 0 < seconds <= longest:
        raise InvalidParameterError(f"seconds is not between 0 and {longest:g}", "seconds")
    scope = {_MEMBERS[name]: value for name, value in wanted.items()}
    ends: float = rounded_end(now + seconds, bucket)
    signer, issuer = secrets.first, None
    if principal is not None:
        if math.isfinite(principal.ends):
            ends = min(ends, math.floor(principal.ends))
        owner: Principal | None = principal
        if principal.kind == "signed":
            scope = _within(scope, principal.scope)
            signer, owner = principal.id, principal.issuer
        if owner is not None:
            is_named = owner.is_strong or isinstance(owner, FrontUser)
            how = "front" if is_named else "basic"
            issuer = issuer_of(owner, how)
    if ends <= now:
        raise NotAllowedError("the credential is about to expire")
    try:
        text = sign(Token(signer, ends, scope, issuer), secrets)
        require_opening(scope, installed)
    except (InvalidScopeError, TypeError) as error:
        raise InvalidParameterError(str(error)) from error
    return text, ends


def _wanted(body: bytes) -> dict[str, Any]:
    try:
        document = json.loads(body) if body.strip() else {}
    except (ValueError, RecursionError) as error:
        raise InvalidParameterError("the body is not JSON") from error
    if not isinstance(document, dict):
        raise InvalidParameterError("the body is not an object")
    unknown = document.keys() - {*_MEMBERS, "seconds"}
    if unknown:
        raise InvalidParameterError("the body has unknown members", min(unknown)[:40])
    for name in _MEMBERS:
        if name in document and not isinstance(document[name], list):
            raise InvalidParameterError(f"{name} is not a list", name)
    return {name: value for name, value in document.items() if value is not None}


def _within(scope: dict[str, Any], limits: Mapping[str, Any]) -> dict[str, Any]:
    """Return a scope with what it does not limit itself limited as before.

    Raises:
        NotAllowedError: it is wider than before.
    """
    for name, before in limits.items():
        after = scope.setdefault(name, list(before))
        try:
            if name in ("l", "s"):
                is_within = set(after) <= set(before)
            elif name == "b":
                is_within = _is_box_within(after, before)
            else:
                is_within = before[0] <= after[0] and after[1] <= before[1]
        except (TypeError, ValueError, IndexError):
            is_within = False
        if not is_within:
            raise NotAllowedError("the address may not allow more than the credential")
    return scope


def _is_box_within(inner: Any, outer: Any) -> bool:
    west, south, east, north = outer
    left, bottom, right, top = inner
    if not (south <= bottom and top <= north):
        return False
    if west < east:
        return bool(west <= left < right <= east)
    # The outer one crosses the antimeridian.
    if left < right:
        return bool(left >= west or right <= east)
    return bool(left >= west and right <= east)
