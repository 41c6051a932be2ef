"""The gate: who a request is from, and what it sees."""

from __future__ import annotations

import logging
import os
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any, Final
from weakref import WeakValueDictionary

from mastaba.api.access import PEER, Form, Gate, Grant, Identifier, Operation, Principal, Shown
from mastaba.api.catalogue import Catalogue
from mastaba.api.documents import Fault
from mastaba.api.services import Site
from mastaba.errors import (
    ConfigurationError,
    MastabaError,
    OverloadedError,
    RestrictedCredentialError,
    UnknownCredentialError,
)
from mastaba_access.announcing import announce
from mastaba_access.auth.signing import signed
from mastaba_access.conditions import host_of, matches_address, matches_host
from mastaba_access.decisions import AccessClass
from mastaba_access.identifiers.faults import refuse
from mastaba_access.identifiers.fronts import Fronts
from mastaba_access.identifiers.refusals import FormerCredentialError
from mastaba_access.identifiers.shared import Failures, SharedClaims
from mastaba_access.identifiers.signed import secrets_of
from mastaba_access.rates.nodes import SharedBuckets, SharedQuotas
from mastaba_access.rates.quotas import Quotas
from mastaba_access.rates.spending import Source, SpentRates
from mastaba_access.rates.store import Store
from mastaba_access.rules.kept import KeptRules
from mastaba_access.rules.rates import Rate
from mastaba_access.rules.ruleset import RuleSet
from mastaba_access.rules.what import PLAIN_ABILITIES, Layers
from mastaba_access.rules.who import ANONYMOUS, Visit
from mastaba_access.views import Parts, ViewMaker, layers_of
from mastaba_server.access.refusals import shown_challenges
from mastaba_server.log import audit
from mastaba_server.processes.scoreboard import Obstacle
from mastaba_server.threads.shared_memory import SharedMemory

logger = logging.getLogger("mastaba.access")

_COOKIE: Final = "__Host-mastaba"
_POLL_PERIOD: Final = 0.75
"""Seconds between two looks at files and stores."""
_LONGEST_GRANT: Final = 3600.0
_MOST_CATALOGUES: Final = 256
_MOST_VIEWS: Final = 256
_MOST_CLASSES: Final = 4096
_MOST_PLACES: Final = 4096

# Nodes without a file of secrets need not agree about tags; the workers of one must.
_KEY: Final = secrets.token_bytes(32)


@dataclass(slots=True, eq=False)
class ClassGrant(Grant):
    """A grant that keeps its class.

    Attributes:
        abilities: abilities that do not belong to layers.
        found: the class.
        rates: that apply to the principal, for any request.
        kept: what the cost of a tile of a group is taken from.
    """

    abilities: frozenset[str] = frozenset()
    found: AccessClass | None = None
    rates: tuple[Rate, ...] = ()
    kept: dict[Any, tuple[Source, ...]] = field(default_factory=dict)


class _InUse:
    """Rules in use, and what depends on them.

    Args:
        rules: never changed.
        key: secret of tags.
        by_tag: all classes that are in use, by tag.
    """

    def __init__(
        self, rules: RuleSet, key: bytes, by_tag: WeakValueDictionary[str, AccessClass]
    ) -> None:
        self.rules = rules
        self.places: dict[Any, Grant] = {}
        self._key = key
        self._by_tag = by_tag
        self._positions = {id(rule): n for n, rule in enumerate(rules.rules)}
        self._by_rules: dict[Any, AccessClass] = {}
        self._public, self.public_ends = self.class_at(Visit(ANONYMOUS), time.time())

    def class_at(self, visit: Visit, at: float) -> tuple[AccessClass, float]:
        """Return the class of a visit at a moment, and until when it remains."""
        applying = self.rules.applying(visit, at)
        # Hashing rules would take longer than finding the class.
        key = tuple(self._positions.get(id(rule), rule) for rule in applying)
        found = self._by_rules.get(key)
        if found is None:
            rules = self.rules
            found = AccessClass(applying, rules.is_open, rules.areas, self._key)
            # Rules with other names may have the same effect.
            found = self._by_tag.setdefault(found.tag, found)
            if len(self._by_rules) >= _MOST_CLASSES:
                self._by_rules.clear()
            self._by_rules[key] = found
        return found, self.rules.next_change(at)

    def public(self) -> AccessClass:
        """Return the class of those who show nothing, wherever they are."""
        if time.time() >= self.public_ends:
            self._public, self.public_ends = self.class_at(Visit(ANONYMOUS), time.time())
        return self._public


class RulesGate(Gate):
    """Identifies by the installed identifiers, and decides by the file of rules.

    Args:
        site: the loaded configuration.
        access: the section ``plugins.access``.

    Attributes:
        rules: those in use.
        identifiers: by name.

    Raises:
        ConfigurationError: there is no file of rules, or a setting or the file cannot be used.
    """

    def __init__(self, site: Site, access: Mapping[str, Any]) -> None:
        if not access.get("rules"):
            remedy = "name a file of rules, or remove the section plugins.access"
            refuse("rules", "is missing: nothing says who may see what", remedy)
        _require_places_for_credentials(site.catalogue)
        _require_secret(site.catalogue)
        _require_free_names(site, access)
        installed = site.plugins.services
        self._services = {name: installed[name].abilities for name in site.catalogue.services}
        self._plain_words = PLAIN_ABILITIES.intersection(chain(*self._services.values()))
        self.rules = KeptRules(access["rules"], self._services)
        self._scoreboard = site.scoreboard
        self._fronts = Fronts(access)
        self.identifiers = self._made_identifiers(site, access)
        self._log_new_faults = SharedClaims()
        self._failures = Failures()
        # The epoch.
        self._shared = SharedMemory(8)
        self._secrets = found = secrets_of(access)
        self._bucket: int = access.get("bucket", 900)
        self.origins = tuple(access.get("sessions", {}).get("origins", ()))
        self._key = _KEY if found is None else found.by_id[found.first]
        forms = {form for one in self._enabled for form in one.forms}
        names = access.get("names", ())
        headers = access.get("headers", ())
        self.query_names = frozenset(name.lower() for name in names)
        self.header_keys = tuple(f"HTTP_{name.upper().replace('-', '_')}" for name in headers)
        self.removed_keys = self._fronts.removed_keys
        self.cookie = _COOKIE if Form.COOKIE in forms else None
        self.vary = (*headers, "Authorization", *(["Cookie"] if self.cookie else ()))
        self._lock = threading.Lock()
        self._by_tag: WeakValueDictionary[str, AccessClass] = WeakValueDictionary()
        self._in_use = _InUse(self.rules.now, self._key, self._by_tag)
        # A tag never changes its meaning, so the empty one is for what the public sees at first.
        self._first = self._public = self._in_use.public()
        self._site = site
        self._catalogues: OrderedDict[int, tuple[Catalogue, Layers, Parts]] = OrderedDict()
        self._views: OrderedDict[Any, ViewMaker] = OrderedDict()
        self._store = _opened_store(access)
        self._spent = SpentRates(
            _opened_quotas(site.plugin_settings, self.rules.now, self._store),
            self.client_address,
            has_headers=access.get("rate_headers", False),
            buckets=None if self._store is None else SharedBuckets(self._store),
        )
        self._spent.layers = layers_of(site.catalogue)
        self._settings = site.plugin_settings
        self._limit_rates()
        self._period_ends = self.rules.now.next_change(time.time())
        self._stop = threading.Event()
        # Administrators do not wait for the next look.
        self._polling = threading.Lock()
        self._thread: tuple[int, threading.Thread] | None = None
        self._report()

    def _made_identifiers(self, site: Site, access: Mapping[str, Any]) -> dict[str, Identifier]:
        settings = access.get("identifiers", {})
        classes = site.plugins.identifiers
        for name in settings:
            if name not in classes:
                remedy = "install the plugin that provides it, or remove its settings"
                refuse(f"identifiers.{name}", "no plugin provides this identifier", remedy)
        return {name: made(settings.get(name, {}), access) for name, made in classes.items()}

    @property
    def _enabled(self) -> list[Identifier]:
        return [one for one in self.identifiers.values() if getattr(one, "is_enabled", True)]

    # ------------------------------------------------------------ who

    @property
    def epoch(self) -> int:
        """A number that a change of rules or credentials raises in all processes."""
        return int.from_bytes(self._shared.memory[:8], "little")

    def client_address(self, headers: Mapping[str, Any]) -> str:
        """Return the address of the client; empty if it is unknown."""
        return self._fronts.client_address(headers)

    def challenges(self, headers: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the values of WWW-Authenticate; Basic only where a browser may ask the user."""
        found = [text for one in self._enabled if (text := one.challenge()) is not None]
        return shown_challenges(found, headers)

    def grant(self, shown: Sequence[Shown], headers: Mapping[str, Any], address: str) -> Grant:
        """Return the grant of a request; see `Gate.grant`."""
        epoch = self.epoch
        for one in shown:
            identifiers = [item for item in self._enabled if one.form in item.forms]
            if identifiers and one.text:
                return self._granted(one, identifiers, headers, address, epoch)
        if not self._fronts.identify:
            return self._placed(ANONYMOUS, headers, address, in_addresses=False, epoch=epoch)
        front = self._fronts.shown(_with_peer(headers))
        grant = (
            self._placed(ANONYMOUS, headers, address, in_addresses=False, epoch=epoch)
            if front is None
            else self._granted(front, [self.identifiers["front"]], headers, address, epoch)
        )
        # The next request without a credential may come through a front server that names another.
        grant.narrow = partial(self._of_front, epoch)
        return grant

    def _of_front(self, epoch: int, headers: Mapping[str, Any]) -> Grant:
        front = self._fronts.shown(_with_peer(headers))
        address = str(headers.get("REMOTE_ADDR") or "")
        key = front, address, host_of(headers.get("HTTP_REFERER") or ""), epoch

        def make() -> Grant:
            if front is None:
                return self._placed(ANONYMOUS, headers, address, in_addresses=False, epoch=epoch)
            return self._granted(front, [self.identifiers["front"]], headers, address, epoch)

        return self._kept(key, make)

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
        if self._in_use.rules.depends_on_place or any(
            one.addresses or one.referers for one in restricted
        ):
            grant.narrow = partial(self._narrowed, principal, in_addresses, epoch)
        return grant

    def _narrowed(
        self, principal: Principal, in_addresses: bool, epoch: int, headers: Mapping[str, Any]
    ) -> Grant:
        address = str(headers.get("REMOTE_ADDR") or "")
        host = host_of(headers.get("HTTP_REFERER") or "")
        key = principal.kind, principal.id, id(principal), address, host, epoch
        return self._kept(
            key, lambda: self._of_place(principal, address, host, in_addresses, epoch)
        )

    def _kept(self, key: Any, make: Callable[[], Grant]) -> Grant:
        places = self._in_use.places
        found = places.get(key)
        if found is None or found.ends <= time.time():
            found = make()
            found.narrow = None
            if len(places) >= _MOST_PLACES:
                places.clear()
            places[key] = found
        return found

    def _of_place(
        self, principal: Principal, address: str, referer: str, in_addresses: bool, epoch: int
    ) -> ClassGrant:
        for one in (principal, principal.issuer):
            if one is not None:
                _require_place(one, address, referer)
        now, in_use = time.time(), self._in_use
        found, ends = in_use.class_at(Visit(principal, address, referer), now)
        public = in_use.public()
        return ClassGrant(
            principal=principal,
            tag="" if found.tag == self._first.tag else found.tag,
            ends=min(principal.ends, now + _LONGEST_GRANT, ends),
            epoch=epoch,
            in_addresses=in_addresses,
            is_restricted=found.tag != public.tag and not found.is_shared,
            found=found,
            rates=in_use.rules.rates_of(Visit(principal, address, referer)),
            abilities=self._plain_abilities(found),
        )

    def _plain_abilities(self, found: AccessClass) -> frozenset[str]:
        """Return the abilities without layers that all services with them grant."""
        return frozenset(
            word
            for word in self._plain_words
            if all(
                found.decide(_NO_LAYERS, name, "", word).allowed
                for name, words in self._services.items()
                if word in words
            )
        )

    def signed(self, grant: Grant) -> str:
        """Return a token with the rights of a grant; see `Gate.signed`."""
        if self._secrets is None:
            return ""
        now, longest, bucket = time.time(), _LONGEST_GRANT, self._bucket
        text, _ = signed(b"", grant.principal, self._secrets, now, longest=longest, bucket=bucket)
        return text

    # ------------------------------------------------------------ what

    def class_of(self, visit: Visit, at: float) -> AccessClass:
        """Return the class of a principal at a place and a moment, Unix seconds."""
        return self._in_use.class_at(visit, at)[0]

    def catalogue(self, tag: str, site: Site, virtual: str, service: str = "") -> Catalogue:
        """Return what a class sees; see `Gate.catalogue`.

        Args:
            service: that sees it; by default one without abilities, which sees what any sees.

        Raises:
            OverloadedError: the class is no longer known: its rules have changed.
        """
        found = self._by_tag.get(tag) if tag else self._first
        if found is None:
            raise OverloadedError("the rules have changed; try again")
        with self._lock:
            return self._maker(found, site, virtual).view(service)

    def maker(self, found: AccessClass, site: Site, virtual: str) -> ViewMaker:
        """Return what makes the views of a class."""
        with self._lock:
            return self._maker(found, site, virtual)

    def _maker(self, found: AccessClass, site: Site, virtual: str) -> ViewMaker:
        base = site.catalogue
        known = self._catalogues.get(id(base))
        if known is None:
            known = base, layers_of(base), {}
            if not virtual:
                self._spent.layers = known[1]
            self._catalogues[id(base)] = known
            if len(self._catalogues) > _MOST_CATALOGUES:
                self._catalogues.popitem(last=False)
        _, layers, parts = known
        key = id(base), found, virtual
        made = self._views.get(key)
        if made is None:
            made = ViewMaker(found, layers, site, virtual, parts)
            self._views[key] = made
            if len(self._views) > _MOST_VIEWS:
                self._views.popitem(last=False)
        self._views.move_to_end(key)
        return made

    def findings(self, site: Site) -> Sequence[Fault]:
        """Return mistakes in the rules, the keys and the settings."""
        from mastaba_access.checks import findings

        return findings(self, site)

    def operations(self) -> Sequence[Operation]:
        """Return what administrators do with keys and rules."""
        from mastaba_access.administration import Administration

        return Administration(self).operations()

    # ------------------------------------------------------------ changes

    def after_fork(self) -> None:
        """Look for changes from now on."""
        if self._thread is not None and self._thread[0] == os.getpid():
            return
        for one in self.identifiers.values():
            one.after_fork()
        self._stop = threading.Event()
        thread = threading.Thread(target=self._watch, args=(self._stop,), daemon=True)
        self._thread = os.getpid(), thread
        thread.start()

    def close(self) -> None:
        """Look for changes no longer."""
        self._stop.set()
        self._thread = None
        self._spent.give_back(is_last=True)
        for one in self.identifiers.values():
            one.close()

    def _watch(self, stop: threading.Event) -> None:
        while not stop.wait(_POLL_PERIOD):
            self.poll()
            self._spent.give_back()

    def poll(self) -> bool:
        """Apply changes of files and stores in this process; return whether there were any.

        The epoch is raised afterwards: whatever was granted before is granted again.
        """
        with self._polling:
            return self._poll()

    def _poll(self) -> bool:
        before = self.rules.now
        has_changed = self.rules.poll()
        if has_changed:
            self._in_use = _InUse(self.rules.now, self._key, self._by_tag)
            self._note_change(before, self.rules.now)
            self._limit_rates()
        self._report()
        if time.time() >= self._period_ends:
            # Rules with periods: the public may see something else.
            self._period_ends = self._in_use.rules.next_change(time.time())
            has_changed = True
        for name, one in self.identifiers.items():
            try:
                has_changed = one.poll() or has_changed
            except MastabaError as error:
                logger.error("the identifier %s cannot look for changes: %s", name, error)
        if has_changed:
            self.raise_epoch()
            self._announce_public()
        return has_changed

    def _announce_public(self) -> None:
        """Let plugins purge what the public has seen of layers that it sees otherwise now."""
        before, self._public = self._public, self._in_use.public()
        ends = self._in_use.public_ends
        state = f"public {before.tag} {self._public.tag} {self.rules.state} {ends}"
        if before.tag != self._public.tag and self._log_new_faults.take(state):
            announce(self._site, before, self._public, self._spent.layers)

    def _limit_rates(self) -> None:
        """Take the cost of requests if there are rates, or keys that may have one."""
        if self._spent.quotas is None:
            try:
                quotas = _opened_quotas(self._settings, self.rules.now, self._store)
                self._spent.quotas = quotas
            except ConfigurationError as error:
                logger.error("quotas are not counted: %s", error)
        is_limited = bool(self.rules.now.rates) or "keys" in self._settings["access"]
        self.rates = self._spent if is_limited else None

    def _note_change(self, before: RuleSet, now: RuleSet) -> None:
        if not self._log_new_faults.take(f"changed {now.digest} {self.rules.state}"):
            return
        old, new = ({rule.name: rule for rule in one.rules} for one in (before, now))
        both = new.keys() & old.keys()
        audit.record(
            "rules changed",
            digest=now.digest,
            added=sorted(new.keys() - old.keys()),
            removed=sorted(old.keys() - new.keys()),
            changed=sorted(name for name in both if new[name] != old[name]),
        )

    def raise_epoch(self) -> None:
        """Make all processes grant again what they have granted."""
        with self._shared.locked() as memory:
            number = int.from_bytes(memory[:8], "little") + 1
            memory[:8] = number.to_bytes(8, "little")

    def _report(self) -> None:
        rules = self.rules
        if rules.is_outdated:
            for fault in rules.faults:
                if self._log_new_faults.take(f"{rules.now.digest} {fault}"):
                    logger.error("%s", fault)
        self._scoreboard.report(Obstacle.RULES, rules.is_outdated)


_NO_LAYERS: Final = Layers({})


def _require_places_for_credentials(catalogue: Catalogue) -> None:
    """Check that a credential can be a segment of the addresses of all services.

    Raises:
        ConfigurationError: it cannot.
    """
    for name in catalogue.layers:
        if name.startswith("~"):
            reason = f"the layer {name} begins like a credential in an address"
            refuse("rules", reason, "rename the layer, or remove the section plugins.access")
    for name, one in catalogue.services.items():
        if "?" in one.endpoint_uri:
            reason = f"endpoint_uri of {name} has a query, behind which no credential can stand"
            refuse("rules", reason, f"remove the query from {name}.endpoint_uri in services.json")


def _require_free_names(site: Site, access: Mapping[str, Any]) -> None:
    """Check that no service has a parameter with the name of a credential.

    Raises:
        ConfigurationError: one has.
    """
    names = {name.lower() for name in access.get("names", ())}
    for service in site.catalogue.services:
        for name in sorted(names & site.plugins.services[service].parameters):
            reason = f"{name} is a parameter of {service}, and would be taken out of its requests"
            refuse("names", reason, "leave it out of the list")


def _require_secret(catalogue: Catalogue) -> None:
    """Check that not anyone may administrate what is restricted.

    Raises:
        ConfigurationError: the administration has no secret.
    """
    admin = catalogue.services.get("admin")
    if admin is not None and not admin.own.get("secret"):
        reason = "restricts access, but anyone may use the administration: it has no secret"
        refuse("rules", reason, "set admin.secret in services.json")


def _opened_store(access: Mapping[str, Any]) -> Store | None:
    """Return the store that several nodes share, if there is one.

    Raises:
        ConfigurationError: it cannot be used.
    """
    settings = access.get("store", {})
    if settings and "url" not in settings:
        refuse("store.url", "is missing", "name the server, or remove the section")
    try:
        return Store.of(settings)
    except ValueError as error:
        refuse("store", f"cannot be used: {error}", "correct the address, or remove the section")


def _opened_quotas(
    settings: Mapping[str, Mapping[str, Any]], rules: RuleSet, store: Store | None
) -> Quotas | None:
    """Return the database of quotas, if one is named or needed.

    Raises:
        ConfigurationError: it is needed and not named, or cannot be used.
    """
    path = settings["access"].get("quotas")
    needed = any(rate.quotas for rate in rules.rates)
    usage = settings.get("usage", {}).get("directory")
    if path is None and needed and usage:
        path = os.path.join(usage, "quotas.sqlite")
    if path is None and needed and store is None:
        refuse("quotas", "is missing, but rates have quotas", "name a file on a local disk")
    try:
        if path is not None:
            os.makedirs(os.path.dirname(path) or ".", mode=0o750, exist_ok=True)
        if store is not None and needed:
            return SharedQuotas(store, path)
        return None if path is None else Quotas(path)
    except OSError as error:
        refuse("quotas", f"cannot be used: {error.strerror or error}", "correct the path")


def _with_peer(headers: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return headers with the address of the connection, if it was replaced."""
    peer = headers.get(PEER)
    return headers if peer is None else {**headers, "REMOTE_ADDR": peer}


def _require_place(principal: Principal, address: str, referer: str) -> None:
    if principal.addresses and not matches_address(principal.addresses, address):
        raise RestrictedCredentialError("the credential may not be used from this address")
    if principal.referers and not matches_host(principal.referers, referer):
        raise RestrictedCredentialError("the credential may not be used on this page")
