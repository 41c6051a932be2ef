"""What is known about one key."""

from __future__ import annotations

import ipaddress
import math
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from mastaba_access.keystore.errors import InvalidKeyRecordError
from mastaba_access.keystore.form import digest_of_key, id_of, is_id
from mastaba_documents.times import SECOND, parse_day, parse_instant, parse_time

_MOST_NAMES: Final = 1_000
_LONGEST: Final = 1_000
_DIGEST: Final = re.compile("[0-9a-f]{64}")
_DURATION: Final = re.compile(r"([0-9]{1,6})([smhd])")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_LATEST: Final = 253_402_300_799.0
"""The last second of the year 9999."""


@dataclass(frozen=True, slots=True)
class KeySecret:
    """One secret of a key.

    Attributes:
        digest: SHA-256 of the whole key.
        starts: Unix seconds from which it is accepted.
        ends: Unix seconds until which it is.
    """

    digest: bytes
    starts: float = 0.0
    ends: float = math.inf


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """A key without its secrets' text, which nobody knows but its holder.

    Attributes:
        id: public id.
        label: name for people.
        owner: person or organisation that holds it.
        groups: that rules may name.
        starts: Unix seconds from which it is accepted.
        ends: Unix seconds until which it is.
        revoked: Unix seconds of its revocation; None if it is not revoked.
        addresses: networks from which it is accepted (CIDR); empty for all.
        referers: host globs of the pages from which it is accepted; empty for all.
        rate: cost per second that it may cause; None for no limit of its own.
        own: what it is allowed beside the rules: ``layers``, ``services``, ``area``.
        secrets: one, or several while a rotated one overlaps.
        created: Unix seconds.
    """

    id: str
    label: str = ""
    owner: str = ""
    groups: tuple[str, ...] = ()
    starts: float = 0.0
    ends: float = math.inf
    revoked: float | None = None
    addresses: tuple[str, ...] = ()
    referers: tuple[str, ...] = ()
    rate: float | None = None
    own: Mapping[str, Any] | None = None
    secrets: tuple[KeySecret, ...] = ()
    created: float = 0.0

    def state(self, now: float) -> str:
        """Return ``active``, ``revoked``, ``expired`` or ``early``."""
        if self.revoked is not None:
            return "revoked"
        if now >= self.ends or all(now >= secret.ends for secret in self.secrets):
            return "expired"
        return "early" if now < self.starts else "active"

    def rotated(self, secret: KeySecret, now: float, overlap: float) -> KeyRecord:
        """Return the record with another secret; older ones end after an overlap in seconds."""
        kept = tuple(
            replace(old, ends=min(old.ends, now + overlap))
            for old in self.secrets
            if old.ends > now and overlap > 0
        )
        return replace(self, secrets=(*kept, secret))

    def document(self, *, secrets: bool = False) -> dict[str, Any]:
        """Return it as JSON, without members that say nothing.

        Args:
            secrets: whether the digests are included, as in files of keys.
        """
        made: dict[str, Any] = {"id": self.id, "label": self.label, "owner": self.owner}
        made |= {"groups": list(self.groups), "from": instant(self.starts or None)}
        made |= {"until": instant(self.ends), "revoked": instant(self.revoked)}
        made |= {"addresses": list(self.addresses), "referers": list(self.referers)}
        made |= {"rate": self.rate, "created": instant(self.created or None), **(self.own or {})}
        if secrets:
            made["secrets"] = [
                _without_empty(
                    {
                        "sha256": secret.digest.hex(),
                        "from": instant(secret.starts or None),
                        "until": instant(secret.ends),
                    }
                )
                for secret in self.secrets
            ]
        return _without_empty(made)


def _without_empty(members: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value not in (None, "", [])}


def instant(seconds: float | None) -> str | None:
    """Return Unix seconds as RFC 3339 text in UTC; None for no limit."""
    if seconds is None or not math.isfinite(seconds):
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def seconds_of(text: Any, *, end: bool = False) -> float:
    """Return the Unix seconds of a date or time (RFC 3339).

    Args:
        end: whether a date without a time means the end of that day (UTC), not its start.

    Raises:
        InvalidKeyRecordError: it is neither.
    """
    try:
        if isinstance(text, bool):
            raise ValueError
        if isinstance(text, int | float):
            value = float(text)
        elif parse_day(text) is not None:
            day = parse_time(text)
            assert day is not None
            value = (day.end if end else day.start) / SECOND
        else:
            moment = parse_instant(text)
            if moment is None:
                raise ValueError
            value = moment / SECOND
        if 0 <= value <= _LATEST:
            return value
    except (ValueError, TypeError, AttributeError, OverflowError):
        pass
    reason = "is not a date or a time with its zone (RFC 3339), such as 2027-01-31T12:00:00Z"
    raise InvalidKeyRecordError(f"{str(text)[:40]!r} {reason}")


def duration_of(text: str) -> float:
    """Return the seconds of a duration such as ``30d``, ``12h``, ``15m``, ``0s``.

    Raises:
        InvalidKeyRecordError: it is not one.
    """
    found = _DURATION.fullmatch(text)
    if found is None:
        reason = "is not a duration, such as 30d, 12h, 15m or 0s"
        raise InvalidKeyRecordError(f"{text[:40]!r} {reason}")
    return float(int(found[1]) * _SECONDS[found[2]])


def network_of(text: Any) -> str:
    """Return a network in its usual form (CIDR).

    Raises:
        InvalidKeyRecordError: it is not an address or a network.
    """
    try:
        return str(ipaddress.ip_network(text, strict=False))
    except (ValueError, TypeError) as error:
        reason = "is not an address or a network (CIDR)"
        raise InvalidKeyRecordError(f"{str(text)[:60]!r} {reason}") from error


def record_from(document: Any, now: float | None = None) -> KeyRecord:
    """Return the record that a document says; a ``key`` in it is kept as a digest only.

    Raises:
        InvalidKeyRecordError: something in it is invalid or unknown.
    """
    if not isinstance(document, Mapping):
        raise InvalidKeyRecordError("a key is described by an object")
    unknown = document.keys() - _MEMBERS
    if unknown:
        raise InvalidKeyRecordError(f"unknown member {min(map(str, unknown))[:60]!r}")
    secrets = [_secret_from(item) for item in _list(document, "secrets")]
    key_id = document.get("id")
    if (key := document.get("key")) is not None:
        found = id_of(key) if isinstance(key, str) else None
        if found is None or key_id not in (None, found):
            raise InvalidKeyRecordError("'key' is damaged, or has another id")
        key_id = found
        secrets.append(KeySecret(digest_of_key(key)))
    if not isinstance(key_id, str) or not is_id(key_id):
        raise InvalidKeyRecordError(f"{str(key_id)[:40]!r} is not the id of a key")
    if not secrets:
        raise InvalidKeyRecordError(f"the key {key_id} has no secret")
    revoked = document.get("revoked")
    if revoked is True:
        revoked = 0.0 if now is None else now
    own = {name: document[name] for name in ("layers", "services", "area") if name in document}
    for name in ("layers", "services"):
        if name in own:
            own[name] = list(_texts(document, name))
    if own.get("area") is not None:
        own["area"] = _text(document, "area")
    return KeyRecord(
        id=key_id,
        label=_text(document, "label"),
        owner=_text(document, "owner"),
        groups=_texts(document, "groups"),
        starts=_instant(document, "from", 0.0),
        ends=_instant(document, "until", math.inf, end=True),
        revoked=None if revoked is None or revoked is False else seconds_of(revoked),
        addresses=_texts(document, "addresses", network_of),
        referers=_texts(document, "referers"),
        rate=_rate(document.get("rate")),
        own=own or None,
        secrets=tuple(secrets),
        created=_instant(document, "created", time.time() if now is None else now),
    )


_MEMBERS: Final = frozenset(
    (
        *("id", "key", "label", "owner", "groups", "from", "until", "revoked", "addresses"),
        *("referers", "rate", "layers", "services", "area", "secrets", "created"),
    )
)


def _secret_from(item: Any) -> KeySecret:
    if not isinstance(item, Mapping) or item.keys() - {"sha256", "from", "until"}:
        raise InvalidKeyRecordError("a secret has the members sha256, from and until")
    digest = item.get("sha256")
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise InvalidKeyRecordError("'sha256' is not a digest of 64 hexadecimal digits")
    starts = _instant(item, "from", 0.0)
    return KeySecret(bytes.fromhex(digest), starts, _instant(item, "until", math.inf, end=True))


def _instant(members: Mapping[str, Any], name: str, default: float, *, end: bool = False) -> float:
    value = members.get(name)
    return default if value is None else seconds_of(value, end=end)


def _text(members: Mapping[str, Any], name: str) -> str:
    value = members.get(name, "")
    if not isinstance(value, str) or len(value) > _LONGEST or not value.isprintable():
        raise InvalidKeyRecordError(f"{name!r} is not a short text without control characters")
    return value


def _list(members: Mapping[str, Any], name: str) -> list[Any]:
    value = members.get(name, [])
    if not isinstance(value, list | tuple) or len(value) > _MOST_NAMES:
        raise InvalidKeyRecordError(f"{name!r} is not a list of at most {_MOST_NAMES} elements")
    return list(value)


def _texts(
    members: Mapping[str, Any], name: str, form: Callable[[str], str] = str
) -> tuple[str, ...]:
    items = _list(members, name)
    if not all(isinstance(x, str) and 0 < len(x) <= _LONGEST and x.isprintable() for x in items):
        raise InvalidKeyRecordError(f"{name!r} contains something other than a short text")
    return tuple(dict.fromkeys(form(item) for item in items))


def _rate(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e12:
        raise InvalidKeyRecordError("'rate' is not a number above 0")
    return float(value)
