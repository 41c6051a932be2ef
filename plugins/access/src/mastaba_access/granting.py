"""Who a request is from, and the grant that it gets."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, Final

from mastaba.api.access import PEER, Form, Grant, Identifier, Principal, Shown
from mastaba.errors import AccessError, RestrictedCredentialError, UnknownCredentialError
from mastaba_access.classes import ClassGrant, RulesInUse
from mastaba_access.conditions import host_of, matches_address, matches_host
from mastaba_access.decisions import AccessClass
from mastaba_access.identifiers.fronts import Fronts
from mastaba_access.identifiers.pace import Pace
from mastaba_access.identifiers.refusals import FormerCredentialError
from mastaba_access.identifiers.shared import Failures
from mastaba_access.identifiers.signed import COOKIE
from mastaba_access.rules.what import PLAIN_ABILITIES, Layers
from mastaba_access.rules.who import ANONYMOUS, Visit

LONGEST: Final = 3600.0
"""Seconds after which a grant is made again."""
_NO_LAYERS: Final = Layers({})
_DELAYED: Final = (401, 429)
"""Statuses of answers to those who may be guessing, which wait if there are many."""


class Grants:
    """Makes grants.

    Args:
        identifiers: by name.
        fronts: that are trusted.
        failures: of addresses that show wrong credentials.
        services: their abilities, by name.
        in_use: the rules at first.

    Attributes:
        identifiers: as given.
        enabled: those of them that are on.
        cookie: name of the one with a credential, or None.
        in_use: the rules; to be replaced when they change.
        first: class of the public at first. A tag never changes its meaning, so the empty one is
            for what this class sees.
    """

    def __init__(
        self,
        identifiers: Mapping[str, Identifier],
        fronts: Fronts,
        failures: Failures,
        services: Mapping[str, Sequence[str]],
        in_use: RulesInUse,
    ) -> None:
        self.identifiers = identifiers
        self.enabled = [one for one in identifiers.values() if getattr(one, "is_enabled", True)]
        self._fronts = fronts
        self._failures = failures
        self._pace = Pace()
        self._services = services
        self._plain_words = PLAIN_ABILITIES.intersection(chain(*services.values()))
        self._forms = {form for one in self.enabled for form in one.forms}
        self.cookie = COOKIE if Form.COOKIE in self._forms else None
        self.in_use = in_use
        self.first = in_use.public()

    def address_of(self, headers: Mapping[str, Any]) -> str:
        """Return the address of the client, whether or not the door has already replaced it."""
        if PEER in headers:
            return str(headers.get("REMOTE_ADDR") or "")
        return self._fronts.client_address(headers)

    def deciding(self, shown: Sequence[Shown]) -> Shown | None:
        """Return the first credential that is of a form in use; all others have no effect."""
        return next((one for one in shown if one.form in self._forms and one.text), None)

    def grant(
        self, shown: Sequence[Shown], headers: Mapping[str, Any], address: str, epoch: int
    ) -> Grant:
        """Return the grant of a request; see `mastaba.api.access.Gate.grant`."""
        one = self.deciding(shown)
        if one is not None:
            identifiers = [item for item in self.enabled if one.form in item.forms]
            try:
                return self._granted(one, identifiers, headers, address, epoch)
            except AccessError as error:
                if error.status in _DELAYED:
                    error.delay = self._pace.wait()
                if one.form is Form.COOKIE and isinstance(error, UnknownCredentialError):
                    # The browser would show it with each request, also for a new session.
                    ended = f"{self.cookie}=; Path=/; Max-Age=0; Secure; HttpOnly; SameSite=Lax"
                    error.headers = (*error.headers, ("Set-Cookie", ended))
                raise
        if not self._fronts.identify:
            return self._anonymous(headers, address, epoch)
        front = self._fronts.shown(_with_peer(headers))
        grant = (
            self._anonymous(headers, address, epoch)
            if front is None
            else self._granted(front, [self.identifiers["front"]], headers, address, epoch)
        )
        # The next request without a credential may come through a front server that names another.
        grant.narrow = partial(self._of_front, epoch)
        return grant

    def _anonymous(self, headers: Mapping[str, Any], address: str, epoch: int) -> Grant:
        return self._placed(ANONYMOUS, headers, address, in_addresses=False, epoch=epoch)

    def _of_front(self, epoch: int, headers: Mapping[str, Any]) -> Grant:
        front = self._fronts.shown(_with_peer(headers))
        address = self.address_of(headers)
        key = front, address, host_of(headers.get("HTTP_REFERER") or ""), epoch

        def make() -> Grant:
            if front is None:
                return self._anonymous(headers, address, epoch)
            return self._granted(front, [self.identifiers["front"]], headers, address, epoch)

        return self.in_use.kept(key, make)

    def _granted(
        self,
        shown: Shown,
        identifiers: Sequence[Identifier],
        headers: Mapping[str, Any],
        address: str,
        epoch: int,
    ) -> Grant:
        self._failures.check(address)
        try:
            for one in identifiers:
                if one.recognises(shown):
                    principal = one.verify(shown, address)
                    break
            else:
                raise UnknownCredentialError("the credential is unknown")
        except FormerCredentialError:
            # A whole office may go on showing its old key: that counts once a minute.
            if self._failures.count(address, shown.text) == 1:
                self._failures.count(address)
            raise
        except UnknownCredentialError:
            self._failures.count(address)
            raise
        in_addresses = one.in_addresses and shown.form in (Form.PATH, Form.QUERY)
        return self._placed(principal, headers, address, in_addresses=in_addresses, epoch=epoch)

    def _placed(
        self,
        principal: Principal,
        headers: Mapping[str, Any],
        address: str,
        *,
        in_addresses: bool,
        epoch: int,
    ) -> ClassGrant:
        """Return the grant of a principal at a place.

        Raises:
            RestrictedCredentialError: the credential may not be used there.
        """
        referer = headers.get("HTTP_REFERER") or ""
        grant = self._of_place(principal, address, referer, in_addresses, epoch)
        restricted = [one for one in (principal, principal.issuer) if one is not None]
        if self.in_use.rules.depends_on_place or any(
            one.addresses or one.referers for one in restricted
        ):
            grant.narrow = partial(self._narrowed, principal, in_addresses, epoch)
        return grant

    def _narrowed(
        self, principal: Principal, in_addresses: bool, epoch: int, headers: Mapping[str, Any]
    ) -> Grant:
        address = self.address_of(headers)
        host = host_of(headers.get("HTTP_REFERER") or "")
        key = principal.kind, principal.id, id(principal), address, host, epoch
        return self.in_use.kept(
            key, lambda: self._of_place(principal, address, host, in_addresses, epoch)
        )

    def _of_place(
        self, principal: Principal, address: str, referer: str, in_addresses: bool, epoch: int
    ) -> ClassGrant:
        for one in (principal, principal.issuer):
            if one is not None:
                _require_place(one, address, referer)
        now, in_use = time.time(), self.in_use
        found, ends = in_use.class_at(Visit(principal, address, referer), now)
        public = in_use.public()
        return ClassGrant(
            principal=principal,
            tag="" if found.tag == self.first.tag else found.tag,
            ends=min(principal.ends, now + LONGEST, ends),
            epoch=epoch,
            in_addresses=in_addresses,
            is_restricted=found.tag != public.tag and not found.is_shared,
            found=found,
            rates=in_use.rules.rates_of(Visit(principal, address, referer)),
            abilities=self._plain_abilities(found, principal),
            may_sign=not (principal.claims and in_use.rules.takes_by_claims),
        )

    def _plain_abilities(self, found: AccessClass, principal: Principal) -> frozenset[str]:
        """Return the abilities without layers that all services with them grant.

        Whoever signs an address gives layers away, and none of these.
        """
        if principal.kind == "signed" and principal.issuer is not None:
            return frozenset()
        return frozenset(
            word
            for word in self._plain_words
            if all(
                found.decide(_NO_LAYERS, name, "", word).allowed
                for name, words in self._services.items()
                if word in words
            )
        )


def _with_peer(headers: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return headers with the address of the connection, if it was replaced."""
    peer = headers.get(PEER)
    return headers if peer is None else {**headers, "REMOTE_ADDR": peer}


def _require_place(principal: Principal, address: str, referer: str) -> None:
    if principal.addresses and not matches_address(principal.addresses, address):
        raise RestrictedCredentialError("the credential may not be used from this address")
    if principal.referers and not matches_host(principal.referers, referer):
        raise RestrictedCredentialError("the credential may not be used on this page")
