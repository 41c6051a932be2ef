"""The gate: who a request is from, and what it sees."""

from __future__ import annotations

import hmac
import logging
import os
import secrets
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final
from weakref import WeakValueDictionary

from mastaba.api.access import Gate, Grant, Identifier, Operation, Shown
from mastaba.api.catalogue import Catalogue
from mastaba.api.documents import Fault
from mastaba.api.services import Site
from mastaba.errors import ConfigurationError, OverloadedError
from mastaba_access.announcing import announce
from mastaba_access.auth.signing import require_signable, signed
from mastaba_access.classes import ClassGrant, RulesInUse
from mastaba_access.decisions import AccessClass
from mastaba_access.granting import LONGEST, Grants
from mastaba_access.identifiers.faults import refuse
from mastaba_access.identifiers.fronts import Fronts
from mastaba_access.identifiers.shared import Failures, SharedClaims
from mastaba_access.identifiers.signed import secrets_of
from mastaba_access.rates.buckets import Buckets
from mastaba_access.rates.nodes import SharedBuckets
from mastaba_access.rates.opening import opened_quotas, opened_store
from mastaba_access.rates.spending import SpentRates
from mastaba_access.requirements import (
    require_free_names,
    require_places_for_credentials,
    require_secret,
)
from mastaba_access.rules.kept import KeptRules
from mastaba_access.rules.ruleset import RuleSet
from mastaba_access.rules.what import PLAIN_ABILITIES
from mastaba_access.rules.who import Visit
from mastaba_access.shown import layers_of
from mastaba_access.view_makers import ViewMakers
from mastaba_server.access.refusals import shown_challenges
from mastaba_server.log import audit
from mastaba_server.processes.scoreboard import Obstacle
from mastaba_server.threads.lasting import lasting
from mastaba_server.threads.shared_memory import SharedMemory

logger = logging.getLogger("mastaba.access")

_POLL_PERIOD: Final = 0.75
"""Seconds between two looks at files and stores."""

# Nodes without a file of secrets need not agree about tags; the workers of one must.
_KEY: Final = secrets.token_bytes(32)


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
        require_places_for_credentials(site.catalogue)
        require_secret(site.catalogue)
        require_free_names(site, access)
        installed = site.plugins.services
        self._services = {name: installed[name].abilities for name in site.catalogue.services}
        self.rules = KeptRules(access["rules"], self._services)
        self._scoreboard = site.scoreboard
        self._fronts = Fronts(access)
        self.identifiers = self._made_identifiers(site, access)
        self._log_new_faults = SharedClaims()
        self._shared = SharedMemory(8)
        self._epoch = memoryview(self._shared.memory).cast("Q")
        self._secrets = found = secrets_of(access)
        self._bucket: int = access.get("bucket", 900)
        self.origins = tuple(access.get("sessions", {}).get("origins", ()))
        self._key = _KEY if found is None else found.by_id[found.first]
        self.secret = hmac.digest(self._key, b"mastaba etags", "sha256")
        names = access.get("names", ())
        headers = access.get("headers", ())
        self.query_names = frozenset(name.lower() for name in names)
        self.header_keys = tuple(f"HTTP_{name.upper().replace('-', '_')}" for name in headers)
        self.removed_keys = self._fronts.removed_keys
        self._by_tag: WeakValueDictionary[str, AccessClass] = WeakValueDictionary()
        # Neither wrong credentials nor spent costs are forgotten at a reload.
        failures = lasting(Failures, access["rules"])
        self._grants = Grants(
            self.identifiers, self._fronts, failures, self._services, self._in_use_now()
        )
        self._public = self._grants.first
        self.cookie = self._grants.cookie
        self.vary = (*headers, "Authorization", *(["Cookie"] if self.cookie else ()))
        self._site = site
        self._store = opened_store(access)
        self._spent = SpentRates(
            opened_quotas(site.plugin_settings, self.rules.now, self._store),
            self._grants.address_of,
            self._seen_by,
            lasting(Buckets, access["rules"])
            if self._store is None
            else SharedBuckets(self._store),
            has_headers=access.get("rate_headers", False),
        )
        self._spent.note(layers_of(site.catalogue))
        self._views = ViewMakers(self._spent.note)
        self._settings = site.plugin_settings
        self._limit_rates()
        self._looked = time.time()
        self._period_ends = self.rules.now.next_change(self._looked)
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

    def _in_use_now(self) -> RulesInUse:
        return RulesInUse(self.rules.now, self._key, self._by_tag)

    # ------------------------------------------------------------ who

    @property
    def epoch(self) -> int:
        """A number that a change of rules or credentials raises in all processes."""
        return self._epoch[0]

    @property
    def epochs(self) -> Sequence[int]:
        """The memory of the epoch; see `Gate.epochs`."""
        return self._epoch

    def client_address(self, headers: Mapping[str, Any]) -> str:
        """Return the address of the client; empty if it is unknown."""
        return self._fronts.client_address(headers)

    def _seen_by(self, grant: ClassGrant, service: str, virtual: str) -> int:
        """Return the bits of the layers that a grant shows in a service, also locked ones."""
        named = self._services.get(service)
        # A service without abilities shows what any shows.
        asked = {service: named} if named else self._services
        seen = 0
        for name, words in asked.items():
            for word in set(words) - PLAIN_ABILITIES:
                if grant.found is not None:
                    outcome = grant.found.decide(self._spent.layers, name, virtual, word)
                    seen |= outcome.allowed | outcome.locked
        return seen

    def challenges(self, headers: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the values of WWW-Authenticate; Basic only where a browser may ask the user."""
        found = [text for one in self._grants.enabled if (text := one.challenge()) is not None]
        return shown_challenges(found, headers)

    def grant(self, shown: Sequence[Shown], headers: Mapping[str, Any], address: str) -> Grant:
        """Return the grant of a request; see `Gate.grant`."""
        return self._grants.grant(shown, headers, address, self.epoch)

    def deciding(self, shown: Sequence[Shown]) -> tuple[Shown, ...]:
        """Return the first credential of a form in use; see `Gate.deciding`."""
        found = self._grants.deciding(shown)
        return () if found is None else (found,)

    def signed(self, grant: Grant) -> str:
        """Return a token with the rights of a grant; see `Gate.signed`."""
        if self._secrets is None:
            return ""
        require_signable(grant)
        now, longest, bucket = time.time(), LONGEST, self._bucket
        text, _ = signed(
            *(b"", grant.principal, self._secrets, now),
            longest=longest,
            bucket=bucket,
            installed={},
        )
        return text

    # ------------------------------------------------------------ what

    def class_of(self, visit: Visit, at: float) -> AccessClass:
        """Return the class of a principal at a place and a moment, Unix seconds."""
        return self._grants.in_use.class_at(visit, at)[0]

    def catalogue(self, tag: str, site: Site, virtual: str, service: str = "") -> Catalogue:
        """Return what a class sees; see `Gate.catalogue`.

        Args:
            service: that sees it; by default one without abilities, which sees what any sees.

        Raises:
            OverloadedError: the class is no longer known: its rules have changed.
        """
        found = self._by_tag.get(tag) if tag else self._grants.first
        if found is None:
            raise OverloadedError("the rules have changed; try again")
        return self._views.view(found, site, virtual, service)

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
        before, now = self.rules.now, time.time()
        # What was granted by a clock that is set back since would last too long.
        is_earlier, self._looked = now < self._looked, now
        has_changed = self.rules.poll()
        if has_changed or is_earlier:
            self._grants.in_use = self._in_use_now()
        if has_changed:
            self._note_change(before, self.rules.now)
            self._limit_rates()
        self._report()
        if is_earlier or now >= self._period_ends:
            # Rules with periods: the public may see something else.
            self._period_ends = self.rules.now.next_change(now)
            has_changed = True
        for name, one in self.identifiers.items():
            try:
                has_changed = one.poll() or has_changed
            except Exception as error:  # noqa: BLE001 - of any plugin; rules are looked at again
                logger.error("the identifier %s cannot look for changes: %s", name, error)
        if has_changed:
            self.raise_epoch()
            self._announce_public()
        return has_changed

    def _announce_public(self) -> None:
        """Let plugins purge what the public has seen of layers that it sees otherwise now."""
        in_use = self._grants.in_use
        before, self._public = self._public, in_use.public()
        ends = in_use.public_ends
        state = f"public {before.tag} {self._public.tag} {self.rules.state} {ends}"
        if before.tag != self._public.tag and self._log_new_faults.take(state):
            announce(self._site, before, self._public, self._spent.layers)

    def _limit_rates(self) -> None:
        """Take the cost of requests if there are rates, or keys that may have one."""
        if self._spent.quotas is None:
            try:
                quotas = opened_quotas(self._settings, self.rules.now, self._store)
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
        with self._shared.locked():
            self._epoch[0] += 1

    def _report(self) -> None:
        rules = self.rules
        if rules.is_outdated:
            for fault in rules.faults:
                if self._log_new_faults.take(f"{rules.now.digest} {fault}"):
                    logger.error("%s", fault)
        self._scoreboard.report(Obstacle.RULES, rules.is_outdated)
