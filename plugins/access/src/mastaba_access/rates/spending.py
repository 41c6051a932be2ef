"""Takes the cost of requests from the rates and quotas that apply to them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, cast

from mastaba.api.access import Grant, Principal, Spending
from mastaba.errors import AccessError
from mastaba_access.identifiers.shared import SharedClaims
from mastaba_access.naming import named_layers
from mastaba_access.rates.buckets import Buckets, Lease
from mastaba_access.rates.quotas import QuotaLease, Quotas
from mastaba_access.rules.rates import Per, Rate
from mastaba_access.rules.what import Layers
from mastaba_server.log import audit

_MOST_KEPT: Final = 512
"""Tile groups for which a grant keeps what must be taken from."""
_DAYS: Final = {"day": 1, "month": 30}


class Limited(Protocol):
    """A grant with the rates that apply to it.

    Attributes:
        principal: whose it is.
        rates: that apply to it, for any request.
        kept: what a tile of a group is taken from.
    """

    principal: Principal
    rates: tuple[Rate, ...]
    kept: dict[Any, tuple[Source, ...]]


class Source(NamedTuple):
    """What a cost is taken from.

    Attributes:
        rate: that it belongs to.
        period: of its quota; empty for the rate itself.
        lease: None if it depends on the address of the client.
    """

    rate: Rate
    period: str
    lease: Lease | QuotaLease | None


class SpentRates:
    """What is still left for clients. Made before the fork, and used by many threads.

    Args:
        quotas: the database; None without quotas.
        address_of: returns the address of the client for the headers of a request.
        seen_by: returns the bits of the layers that a grant shows in a service: its name, and that
            of its virtual service.
        buckets: of the node, or of several.
        has_headers: whether refusals say which rate they are about.
    """

    def __init__(
        self,
        quotas: Quotas | None,
        address_of: Callable[[Mapping[str, Any]], str],
        seen_by: Callable[[Any, str, str], int],
        buckets: Buckets,
        *,
        has_headers: bool,
    ) -> None:
        self.layers = Layers({})
        self.quotas = quotas
        self._buckets = buckets
        self._address_of = address_of
        self._seen_by = seen_by
        self._has_headers = has_headers
        self._claims = SharedClaims()

    def note(self, layers: Layers) -> None:
        """Take over the layers of the catalogue, whose rates by layer are for them."""
        self.layers = layers

    def spend(
        self, grant: Grant, headers: Mapping[str, Any], spending: Spending, cost: int
    ) -> None:
        """Take the cost of a request; see `mastaba.api.access.Rates`.

        Raises:
            AccessError: 429; a rate or quota is used up.
        """
        limited = cast("Limited", grant)
        if not limited.rates:
            return
        bits = 0
        if any(rate.what.layers is not None for rate in limited.rates):
            # Nobody escapes a rate by sending names in a body that only the service can read.
            bits = self.layers.all
            if spending.query is not None:
                bits = named_layers(spending.path, spending.query, self.layers)
            # A hidden layer is refused as often as one that does not exist.
            bits &= self._seen_by(grant, spending.service, spending.virtual) if bits else 0
        sources = self._sources(limited, spending.service, spending.virtual, spending.ability, bits)
        refused = self._take(sources, limited, headers, cost)
        if refused is not None:
            raise self._refusal(*refused, limited)

    def take(
        self, grant: Grant, headers: Mapping[str, Any], group: Any, service: str, virtual: str
    ) -> bool:
        """Take the cost of a tile or document; see `mastaba.api.access.Rates`."""
        limited = cast("Limited", grant)
        if not limited.rates:
            return True
        key = group, service, virtual
        sources = limited.kept.get(key)
        if sources is None:
            ability, bits = "", 0
            if group is not None:
                ability, bits = "tiles", self.layers.bit(group.layer)
            sources = self._sources(limited, service, virtual, ability, bits)
            if len(limited.kept) >= _MOST_KEPT:
                limited.kept.clear()
            limited.kept[key] = sources
        if len(sources) == 1 and (lease := sources[0].lease) is not None:
            return not lease.take(1)
        return not sources or self._take(sources, limited, headers, 1) is None

    def give_back(self, *, is_last: bool = False) -> None:
        """Give back what this process has leased and does not need. Called about once a second."""
        self._buckets.give_back()
        if self.quotas is not None:
            self.quotas.give_back(is_last=is_last)

    def _sources(
        self, grant: Limited, service: str, virtual: str, ability: str, bits: int
    ) -> tuple[Source, ...]:
        found: list[Source] = []
        for rate in grant.rates:
            if not applies(rate, self.layers, service, virtual, ability, bits):
                continue
            periods = [*([""] if rate.rate else []), *rate.quotas]
            for period in periods:
                if rate.per is Per.ADDRESS:
                    found.append(Source(rate, period, None))
                elif (lease := self._lease(rate, period, grant, "")) is not None:
                    found.append(Source(rate, period, lease))
        return tuple(found)

    def _lease(
        self, rate: Rate, period: str, grant: Limited, address: str
    ) -> Lease | QuotaLease | None:
        name = f"{rate.name}\0{rate.subject(grant.principal, address)}"
        if not period:
            return self._buckets.lease(name, rate.rate, rate.burst)
        if self.quotas is None:
            return None
        return self.quotas.lease(name, rate.quotas[period], period)

    def _take(
        self, sources: Sequence[Source], grant: Limited, headers: Mapping[str, Any], cost: int
    ) -> tuple[Source, float] | None:
        """Take a cost from all sources; return the one with too little, and how long to wait."""
        taken: list[Lease | QuotaLease] = []
        address = None
        for source in sources:
            lease = source.lease
            if lease is None:
                if address is None:
                    address = self._address_of(headers)
                lease = self._lease(source.rate, source.period, grant, address)
                if lease is None:
                    continue
            wait = lease.take(cost)
            if wait:
                for one in taken:
                    one.give(cost)
                return source, wait
            taken.append(lease)
        return None

    def _refusal(self, source: Source, wait: float, grant: Limited) -> AccessError:
        rate, seconds = source.rate, max(1, math.ceil(wait))
        identity = grant.principal.owner
        # One line a minute for each rate, in one process.
        if self._claims.take(f"{rate.name} {time.time() // 60}"):
            audit.record("rate used up", rate=rate.name, principal=identity.id)
        headers = _fields(source, seconds) if self._has_headers else ()
        what = f"the quota of the {source.period}" if source.period else "the rate"
        return AccessError(
            f"{what} is used up; try again in {seconds} seconds", 429, (), seconds, headers
        )


def applies(
    rate: Rate, layers: Layers, service: str, virtual: str, ability: str, bits: int
) -> bool:
    """Return whether a rate applies to a request.

    Args:
        rate: one that applies to the client.
        layers: of the catalogue.
        service: name.
        virtual: name of its virtual service.
        ability: word, or empty.
        bits: of the layers that the request names.
    """
    what = rate.what
    return (
        what.has_service(service, virtual)
        and (what.abilities is None or ability in what.abilities)
        and (what.layers is None or bool(what.layers_of(layers) & bits))
    )


def _fields(source: Source, seconds: int) -> tuple[tuple[str, str], ...]:
    """Return the fields of draft-ietf-httpapi-ratelimit-headers-10."""
    rate = source.rate
    # A string of structured fields: RFC 9651 section 3.3.3.
    name = "".join(sign if " " <= sign <= "~" and sign not in '"\\' else "?" for sign in rate.name)
    if source.period:
        quantity, window = rate.quotas[source.period], _DAYS[source.period] * 86400
    else:
        quantity, window = int(rate.burst), max(1, round(rate.burst / rate.rate))
    return (
        ("RateLimit-Policy", f'"{name}";q={quantity};w={window}'),
        ("RateLimit", f'"{name}";r=0;t={seconds}'),
    )
