"""Mistakes in rules that can be loaded: what ``mastaba check`` reports about access."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from mastaba.api.access import Principal
from mastaba.api.catalogue import Layer
from mastaba.api.documents import Fault, Severity
from mastaba.api.services import Site
from mastaba_access.decider import Decider
from mastaba_access.identifiers.keys import KeyIdentifier
from mastaba_access.identifiers.signed import secrets_of
from mastaba_access.rules.limits import combined, media_type
from mastaba_access.rules.periods import ALWAYS
from mastaba_access.rules.rates import Per, Rate
from mastaba_access.rules.ruleset import Effect, Rule, RuleSet, own_rules
from mastaba_access.rules.what import PLAIN_ABILITIES, Layers, What
from mastaba_access.rules.who import ANONYMOUS, Alternatives, Visit
from mastaba_access.shown import OF_HEIGHTS, STYLE, layers_of

if TYPE_CHECKING:
    from mastaba_access.keystore.record import KeyRecord

_UNUSED: Final = 180 * 86400.0
_NOUNS: Final = {"group": "group", "key": "key", "label": "key with the label", "signed": "secret"}
"""Of the kinds of selectors whose names are known."""
_PLACES: Final = {"group": ", in the file or of a key", "signed": " in the file of secrets"}
_MAP_NUMBERS: Final = ("pixels", "width", "height", "layers")
_QUERY_NUMBERS: Final = ("points", "tiles")

ServiceAbility = tuple[str, str, str]
"""Service, virtual service and ability; an empty one of services without abilities."""


def findings(gate: Decider, site: Site) -> list[Fault]:
    """Return the mistakes in the rules, the keys and the settings of access."""
    return list(_Check(gate, site).all())


class _Check:
    def __init__(self, gate: Decider, site: Site) -> None:
        self._gate = gate
        self._site = site
        self._rules: RuleSet = gate.rules.now
        self._file = gate.rules.file
        self._access = site.plugin_settings.get("access", {})
        self._layers: Layers = layers_of(site.catalogue)
        self._keys = list(_keys(gate))
        catalogue, installed = site.catalogue, site.plugins.services
        self._services = {
            *((name, "") for name in catalogue.services),
            *((name, key) for key, one in catalogue.virtual.items() for name in one.services),
        }
        # Rules may also name services without abilities, which show what any service shows.
        self._places: list[ServiceAbility] = [
            (name, virtual, ability)
            for name, virtual in sorted(self._services)
            for ability in installed[name].abilities or ("",) * installed[name].is_viewed
        ]

    def all(self) -> Iterator[Fault]:
        yield from self._gate.rules.faults
        for position, rule in enumerate(self._rules.rules):
            yield from self._of_names(rule.what, f"$.rules[{position}]")
            yield from self._of_referer(rule, f"$.rules[{position}]")
            yield from self._of_limits(rule, f"$.rules[{position}]")
        for position, rate in enumerate(self._rules.rates):
            yield from self._of_names(rate.what, f"$.rates[{position}]")
            yield from self._of_rate(rate, f"$.rates[{position}]")
        for path, who in self._everyone():
            yield from self._of_place(who, path)
            yield from self._of_names_of_clients(who, path)
        yield from self._of_order()
        yield from self._of_layers()
        yield from self._of_default()
        yield from self._of_keys()
        yield from self._of_settings()
        yield from self._of_links()

    def _warn(self, path: str, reason: str, remedy: str, file: str = "") -> Fault:
        return Fault(Severity.WARNING, file or self._file, path, reason, remedy)

    def _bits(self, what: What, place: ServiceAbility) -> int:
        service, virtual, ability = place
        if not (what.has_service(service, virtual) and what.has_ability(ability)):
            return 0
        return 1 if ability in PLAIN_ABILITIES else what.layers_of(self._layers)

    # ------------------------------------------------------------ names

    def _of_names(self, what: What, path: str) -> Iterator[Fault]:
        for number, service in enumerate(what.services or ()):
            if service not in self._names_of_services:
                reason, at = f"no service {service!r} is enabled", f"{path}.what.services[{number}]"
                yield self._warn(at, reason, "correct the name, or enable the service")
        for number, selector in enumerate(what.layers or ()):
            if not self._layers.bits((selector,)):
                reason, at = f"no layer matches {selector!r}", f"{path}.what.layers[{number}]"
                yield self._warn(at, reason, "correct the name, or publish the layer")
        for number, style in enumerate(what.styles or ()):
            if style not in self._styles:
                at = f"{path}.what.styles[{number}]"
                yield self._warn(at, f"no layer has the style {style!r}", "correct the name")

    @cached_property
    def _names_of_services(self) -> frozenset[str]:
        names = {f"{name}@{key}" if key else name for name, key in self._services}
        return frozenset(names | {f"@{key}" for _, key in self._services if key})

    @cached_property
    def _styles(self) -> frozenset[str]:
        styles = {one.identifier for layer in self._published for one in layer.styles}
        for layer in self._published:
            sheets = layer.own.get(STYLE, ())
            paths = [sheets] if isinstance(sheets, str) else sheets
            styles.update(PurePath(one).stem for one in paths)
        return frozenset(styles)

    @property
    def _published(self) -> Iterable[Layer]:
        return self._site.catalogue.layers.values()

    def _everyone(self) -> Iterator[tuple[str, Alternatives]]:
        for position, rule in enumerate(self._rules.rules):
            yield f"$.rules[{position}].who", rule.who or ()
        for position, rate in enumerate(self._rules.rates):
            yield f"$.rates[{position}].who", rate.who or ()

    def _of_names_of_clients(self, who: Alternatives, path: str) -> Iterator[Fault]:
        for one in self._rules.groups.all_selectors(who):
            known = self._clients.get(one.kind)
            is_pattern = one.kind == "key" and any(sign in one.value for sign in "*?[")
            if known is not None and one.value not in known and not is_pattern:
                place = _PLACES.get(one.kind, "")
                reason = f"there is no {_NOUNS[one.kind]} {one.value!r}{place}"
                yield self._warn(path, reason, "correct its name")

    @cached_property
    def _clients(self) -> Mapping[str, frozenset[str]]:
        """Names that selectors can match, by kind; kinds with names from elsewhere are absent."""
        found = {
            "key": frozenset(record.id for record in self._keys),
            "label": frozenset(record.label for record in self._keys),
        }
        # Others may come from tokens and front servers.
        if not (self._access.get("groups_header") or self._access.get("identifiers")):
            groups = (record.groups for record in self._keys)
            found["group"] = self._rules.groups.names.union(*groups)
        secrets = secrets_of(self._access)
        found["signed"] = frozenset(() if secrets is None else secrets.by_id)
        return found

    # ------------------------------------------------------------ where a request comes from

    def _of_referer(self, rule: Rule, path: str) -> Iterator[Fault]:
        if rule.effect is Effect.ALLOW and _is_by_referer_alone(rule.who):
            reason = "only the referer decides, and anybody can send it"
            yield self._warn(f"{path}.who", reason, "combine it: [known, referer:…]")

    def _of_place(self, who: Alternatives, path: str) -> Iterator[Fault]:
        kinds = {one.kind for one in self._rules.groups.all_selectors(who)}
        if "address" in kinds and not self._access.get("trusted_fronts"):
            reason = (
                "without trusted_fronts, behind a front server, the address is that of the front"
            )
            yield self._warn(path, reason, "set plugins.access.trusted_fronts")

    def _of_rate(self, rate: Rate, path: str) -> Iterator[Fault]:
        if rate.what.abilities and not any(self._bits(rate.what, one) for one in self._places):
            reason = f"the rate {rate.name!r} never applies: nothing is what it names"
            yield self._warn(f"{path}.what", reason, "correct it, or remove the rate")
        if rate.per is Per.ADDRESS and not self._access.get("trusted_fronts"):
            reason = "without trusted_fronts, all clients of a front server share the rate"
            yield self._warn(f"{path}.per", reason, "set plugins.access.trusted_fronts")

    # ------------------------------------------------------------ order

    def _of_order(self) -> Iterator[Fault]:
        for position, rule in enumerate(self._rules.rules):
            if rule.what.styles is not None:
                continue
            bits = {place: self._bits(rule.what, place) for place in self._places}
            path = f"$.rules[{position}]"
            if not any(bits.values()):
                reason = f"the rule {rule.name!r} never matches: nothing is what it names"
                yield self._warn(f"{path}.what", reason, "correct it, or remove the rule")
                continue
            for other in self._rules.rules[:position]:
                if _decides_for_all(other, rule):
                    bits = {
                        place: found & ~self._bits(other.what, place)
                        for place, found in bits.items()
                    }
                if not any(bits.values()):
                    word = "limit" if rule.effect is Effect.LIMIT else "rule"
                    reason = f"the {word} {rule.name!r} never applies: {other.name!r} is above"
                    yield self._warn(path, reason, "move it up, or remove it")
                    break

    def _of_layers(self) -> Iterator[Fault]:
        possible = 0
        for place in self._places:
            if place[2] in PLAIN_ABILITIES or not place[2]:
                continue
            undecided = self._layers.all
            own = (rule for record in self._keys for rule in _own(record, self._rules))
            for rule in own:
                possible |= self._bits(rule.what, place)
            for rule in self._rules.rules:
                hit = 0 if rule.what.styles else undecided & self._bits(rule.what, place)
                if rule.effect is Effect.ALLOW:
                    possible |= hit
                if rule.effect is not Effect.LIMIT and rule.who is None and rule.period == ALWAYS:
                    undecided &= ~hit
            possible |= undecided if self._rules.is_open else 0
        for name in self._layers.of(self._layers.all & ~possible):
            reason = f"nobody may see the layer {name!r}"
            yield self._warn("$.rules", reason, "allow it to somebody, or do not publish it")

    def _of_default(self) -> Iterator[Fault]:
        for position, rule in enumerate(self._rules.rules):
            layers = rule.what.layers
            by_name = layers and not any(
                ":" in one or any(sign in one for sign in "*?[") for one in layers
            )
            if self._rules.is_open and rule.effect in (Effect.HIDE, Effect.LOCK) and by_name:
                reason = "the default allows, so a layer that is renamed becomes public"
                remedy = "deny by keyword or pattern, or set default: deny"
                yield self._warn(f"$.rules[{position}].what.layers", reason, remedy)

    # ------------------------------------------------------------ limits

    def _of_limits(self, rule: Rule, path: str) -> Iterator[Fault]:
        limit = rule.limit
        at = f"{path}.{'limit' if rule.effect is Effect.LIMIT else 'allow'}"
        layers = [
            layer
            for layer in self._published
            if rule.what.layers_of(self._layers) & self._layers.bit(layer.id)
        ]
        if limit.areas:
            yield from self._of_area(rule, at, layers)
        abilities = {
            ability for name, key, ability in self._places if rule.what.has_service(name, key)
        }
        if rule.what.abilities is not None:
            abilities &= rule.what.abilities
        if not abilities & {"maps", "coverages"}:
            for name in _MAP_NUMBERS:
                if getattr(limit, name) is not None:
                    reason = "it limits maps and coverages, which the rule is not about"
                    yield self._warn(f"{at}.{name}", reason, "remove it, or name such services")
        if not abilities & OF_HEIGHTS:
            for name in _QUERY_NUMBERS:
                if getattr(limit, name) is not None:
                    reason = "it limits queries of heights, which the rule is not about"
                    yield self._warn(f"{at}.{name}", reason, "remove it, or name such services")
        if limit.formats is not None:
            offered = {media_type(one) for one in self._site.catalogue.settings.map.formats}
            offered |= {media_type(layer.pyramid.format.media_type) for layer in layers}
            for name in sorted(limit.formats - offered):
                yield self._warn(f"{at}.formats", f"nothing is in the format {name}", "remove it")

    def _of_area(self, rule: Rule, at: str, layers: list[Layer]) -> Iterator[Fault]:
        from mastaba_render.api.areas import narrowed

        if any(layer.is_vector for layer in layers) and rule.limit.cut in ("", "mask"):
            reason = "vector tiles that the edge of the area cuts are dropped, not masked"
            yield self._warn(f"{at}.cut", reason, "set cut to drop or keep for vector layers")
        others = [one.limit for one in self._rules.rules if _is_limit_with(one, rule)]
        names = sorted(combined([rule.limit, *others]).areas)
        for layer in layers:
            for name in rule.limit.areas:
                if narrowed(layer, self._rules.areas[name]) is None:
                    reason = f"the area {name!r} is outside the layer {layer.id!r}"
                    yield self._warn(f"{at}.area", reason, "correct the area, or the layers")
                    break
            else:
                whole = self._rules.areas[names[0]]
                for name in names[1:]:
                    whole &= self._rules.areas[name]
                if len(names) > 1 and narrowed(layer, whole) is None:
                    reason = f"the areas {', '.join(names)} have nothing of {layer.id!r} in common"
                    yield self._warn(f"{at}.area", reason, "correct one of the areas")

    # ------------------------------------------------------------ keys and settings

    def _of_keys(self) -> Iterator[Fault]:
        now = time.time()
        uses, oldest = self._last_uses(), time.strftime("%Y-%m-%d", time.gmtime(now - _UNUSED))
        file = str(self._access.get("keys", ""))
        for record in self._keys:
            state, path = record.state(now), f"key {record.id}"
            if state == "expired":
                yield self._warn(path, "it has expired", "remove it, or extend it", file)
            elif state == "revoked":
                continue
            for own in _own(record, self._rules):
                for fault in self._of_names(own.what, path):
                    yield replace(fault, file=file, remedy="correct its own grants")
            if state != "expired" and uses is not None and uses.get(record.id, oldest) < oldest:
                yield self._warn(path, "it was not used for 180 days", "revoke it", file)
            if state != "expired" and not self._has_grant(record):
                reason = "it opens nothing that is not public"
                yield self._warn(path, reason, "write a rule for it, or revoke it", file)

    def _last_uses(self) -> Mapping[str, str] | None:
        found = self._gate.identifiers.get("keys")
        return found.last_uses() if isinstance(found, KeyIdentifier) else None

    def _has_grant(self, record: KeyRecord) -> bool:
        now = time.time()
        groups = frozenset(record.groups)
        key = Principal(record.id, "key", record.label, groups, own=record.own or {})
        places = [("", ""), *((one, "") for one in record.addresses[:1])]
        public = self._gate.class_of(Visit(ANONYMOUS), now)
        return any(
            self._gate.class_of(Visit(key, address.partition("/")[0], referer), now).tag
            != public.tag
            for address, referer in places
        )

    def _of_settings(self) -> Iterator[Fault]:
        if self._access.get("users"):
            for name, settings in self._site.catalogue.services.items():
                if urlsplit(settings.endpoint_uri).scheme == "http":
                    reason = f"passwords of HTTP Basic travel unencrypted to {name}"
                    remedy = "offer the service over https, and set its endpoint_uri"
                    yield self._warn("$.plugins.access.users", reason, remedy, "server.json")
                    break

    def _of_links(self) -> Iterator[Fault]:
        own = tuple(f"{one.endpoint_uri}/" for one in self._site.catalogue.services.values())
        for layer in self._published:
            links: list[Any] = [one.url for one in layer.metadata]
            if layer.attribution is not None:
                links.append(layer.attribution.url)
            for link in links:
                if link.startswith(own):
                    reason = f"{link} is an address of this server, to which no credential is added"
                    remedy = "link to a public page"
                    yield self._warn("$", reason, remedy, f"layer {layer.id}")


def _keys(gate: Decider) -> Iterable[KeyRecord]:
    found = gate.identifiers.get("keys")
    return found.records() if isinstance(found, KeyIdentifier) else ()


def _own(record: KeyRecord, rules: RuleSet) -> tuple[Rule, ...]:
    return own_rules(Principal(record.id, "key", own=record.own or {}), rules.areas)


def _is_by_referer_alone(who: Alternatives | None) -> bool:
    return bool(who) and any(all(one.kind == "referer" for one in every) for every in who or ())


def _decides_for_all(first: Rule, second: Rule) -> bool:
    """Return whether a rule decides for everybody whom a later one is about, at all times."""
    return (
        first.effect is not Effect.LIMIT
        and first.what.styles is None
        and first.period == ALWAYS
        and (first.who is None or first.who == second.who)
    )


def _is_limit_with(one: Rule, other: Rule) -> bool:
    return one.effect is Effect.LIMIT and bool(one.limit.areas) and one.who in (None, other.who)
