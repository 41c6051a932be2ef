"""Rates and quotas: how much those that a rule matches may ask for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Self

from mastaba.api.access import Principal
from mastaba_access.rules.what import EVERYTHING, What
from mastaba_access.rules.who import Alternatives, Groups, Visit, match
from mastaba_server.access.clients import identity_of, shared_network

_SECONDS_OF_BURST: Final = 10


class Per(StrEnum):
    """Who shares a rate.

    Attributes:
        KEY: the requests with one key, or with addresses that one secret has signed.
        USER: those of one user of a password, a token or a front server.
        ADDRESS: those of one address; of one network of /64 in IPv6.
        RULE: all that the rule matches.
    """

    KEY = "key"
    USER = "user"
    ADDRESS = "address"
    RULE = "rule"


@dataclass(frozen=True, slots=True)
class Rate:
    """One of ``rates`` in the file of rules.

    Attributes:
        name: for people.
        per: who shares it.
        who: to whom it applies; None for everybody.
        what: to what it applies.
        rate: cost per second; 0 for no limit.
        burst: cost that may be spent at once; 1 or more.
        quotas: cost by period, ``day`` or ``month``.
    """

    name: str
    per: Per
    who: Alternatives | None = None
    what: What = EVERYTHING
    rate: float = 0.0
    burst: float = 1.0
    quotas: Mapping[str, int] = field(default_factory=dict, hash=False)

    @classmethod
    def of_key(cls, principal: Principal) -> Self | None:
        """Return the rate that a key has of its own, or None."""
        rate = principal.own.get("rate")
        if not rate:
            return None
        name = f"rate of {principal.id}"
        return cls(name, Per.KEY, rate=float(rate), burst=default_burst(float(rate)))

    def matches(self, visit: Visit, groups: Groups) -> bool:
        """Return whether it applies to a visit."""
        if not self._has_subjects(visit.identity.kind):
            return False
        return self.who is None or match(self.who, visit, groups)

    def subject(self, principal: Principal, address: str) -> str:
        """Return who shares the rate with a principal that it applies to."""
        if self.per is Per.RULE:
            return ""
        if self.per is Per.ADDRESS:
            return shared_network(address)
        return identity_of(principal)

    def to_json(self) -> dict[str, Any]:
        """Return it for explanations."""
        document: dict[str, Any] = {"name": self.name, "per": self.per.value}
        if self.rate:
            document |= {"rate": self.rate, "burst": self.burst}
        return document | ({"quota": dict(self.quotas)} if self.quotas else {})

    def _has_subjects(self, kind: str) -> bool:
        if self.per is Per.KEY:
            return kind in ("key", "signed")
        return self.per is not Per.USER or kind not in ("anonymous", "key", "signed")


def default_burst(rate: float) -> float:
    """Return what may be spent at once if a rule does not say it: the cost of ten seconds."""
    return max(1.0, rate * _SECONDS_OF_BURST)
