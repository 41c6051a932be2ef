"""Explanations: who may do what, by the rules that decide it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from mastaba.api.access import Form, Principal, Shown
from mastaba.api.services import Site
from mastaba.errors import MastabaError
from mastaba_access.decider import Decider
from mastaba_access.decisions import AccessClass, Outcome
from mastaba_access.identifiers.keys import KeyIdentifier
from mastaba_access.naming import named_layers
from mastaba_access.rates.spending import applies
from mastaba_access.rules.limits import Limit
from mastaba_access.rules.ruleset import Rule, RuleSet
from mastaba_access.rules.what import PLAIN_ABILITIES, Layers
from mastaba_access.rules.who import ANONYMOUS, Visit
from mastaba_access.shown import OF_HEIGHTS, layers_of
from mastaba_access.shown import Shown as ShownLayer
from mastaba_access.views import ViewMaker
from mastaba_server.web.credentials import is_ambiguous, without_segment

_MAP_SIZES: Final = frozenset(("pixels", "width", "height", "layers"))


@dataclass(frozen=True, slots=True)
class Address:
    """What an address is about.

    Attributes:
        service: name of the service that answers; empty if none does.
        virtual: name of its virtual service; empty for the main services.
        layers: published layers that it names.
    """

    service: str
    virtual: str
    layers: tuple[str, ...]


def parse_address(url: str, site: Site) -> Address:
    """Return what the address of a request is about.

    Raises:
        MastabaError: every client is refused there, whatever the rules say.
    """
    split = urlsplit(url)
    path = unquote(split.path)
    if is_ambiguous(path, split.path):
        raise MastabaError("the address can be read in more than one way: the answer is 400")
    roots = {one.root_path: (name, "") for name, one in site.catalogue.services.items()}
    for virtual, settings in site.catalogue.virtual.items():
        for name, one in settings.services.items():
            roots[one.root_path] = name, virtual
    # Public addresses may have further segments in front.
    public = {
        name: urlsplit(one.endpoint_uri).path.rstrip("/")
        for name, one in site.catalogue.services.items()
    }
    prefixes = {
        prefix: (name, "")
        for name, prefix in public.items()
        if not site.plugins.services[name].is_fallback
    }
    owners = {**prefixes, **roots}
    _, plain = without_segment(path, {*site.roots, *public.values()})
    root, (service, virtual) = max(
        ((root, owner) for root, owner in owners.items() if f"{plain}/".startswith(f"{root}/")),
        key=lambda found: len(found[0]),
        default=("", ("", "")),
    )
    if plain is not path and service:
        answering = site.services.get(service)
        if answering is not None and not answering.takes_credential_at(plain[len(root) :]):
            raise MastabaError(
                f"{service} takes no credential in this path: the answer is 404, for everybody"
            )
    layers = layers_of(site.catalogue)
    return Address(service, virtual, tuple(layers.of(named_layers(plain, split.query, layers))))


@dataclass(frozen=True, slots=True)
class Tried:
    """A rule that was tried for one layer and ability.

    Attributes:
        rule: name of the rule.
        effect: what it does.
        applies: whether it decided or limited.
        reason: why it does not apply; empty if it does.
    """

    rule: str
    effect: str
    applies: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Explanation:
    """A decision and how it came about.

    Attributes:
        ability: word; empty for a service without abilities.
        layer: identifier; empty for abilities without layers.
        decision: ``allow``, ``hide`` or ``lock``.
        decided_by: name of the rule; ``default`` if none decided.
        limits: that hold, as in the file.
        tried: all rules, in order.
    """

    ability: str
    layer: str
    decision: str
    decided_by: str
    limits: Mapping[str, Any] = field(default_factory=dict)
    tried: tuple[Tried, ...] = ()


def explain(
    rules: RuleSet,
    found: AccessClass,
    visit: Visit,
    at: float,
    layers: Layers,
    question: tuple[str, str, str, str],
) -> Explanation:
    """Explain a decision, which is made as for a request.

    Args:
        found: class of the visit at that moment.
        at: Unix seconds.
        question: service, virtual service, ability and layer.
    """
    service, virtual, ability, layer = question
    bit = 1 if ability in PLAIN_ABILITIES else layers.bit(layer)
    hits: dict[int, int] = {}
    order: list[Rule] = []

    def note(rule: Rule, bits: int) -> None:
        order.append(rule)
        hits[id(rule)] = bits & bit

    outcome = found.decide(layers, service, virtual, ability, among=bit, note=note)
    decided_by, is_open = "default", True
    tried = []
    # Those of the file that do not apply to the visit were not even tried.
    further = [rule for rule in rules.rules if id(rule) not in hits]
    for rule in [*order, *further]:
        hit = hits.get(id(rule), 0)
        reason = "" if hit else _why_not(rule, rules, visit, at, question, layers, bit, is_open)
        tried.append(Tried(rule.name, rule.effect, bool(hit), reason))
        if hit and rule.effect != "limit":
            decided_by, is_open = rule.name, False
    positions = {rule.name: number for number, rule in enumerate(rules.rules)}
    tried.sort(key=lambda one: positions.get(one.rule, -1))
    decision = _decision(outcome, bit)
    limits = outcome.limit(bit).to_json() if decision == "allow" else {}
    return Explanation(ability, layer, decision, decided_by, limits, tuple(tried))


def _decision(outcome: Outcome, bit: int) -> str:
    if outcome.allowed & bit:
        return "allow"
    return "lock" if outcome.locked & bit else "hide"


def _why_not(
    rule: Rule,
    rules: RuleSet,
    visit: Visit,
    at: float,
    question: tuple[str, str, str, str],
    layers: Layers,
    bit: int,
    is_open: bool,
) -> str:
    service, virtual, ability, _ = question
    what = rule.what
    if not rule.period.holds(at):
        return "it does not hold at this time"
    if rule.who is not None and not rule.matches(visit, rules.groups, at):
        failed = [
            one.text for every in rule.who for one in every if not one.matches(visit, rules.groups)
        ]
        return f"who: {', '.join(failed)}"
    if what.styles is not None:
        return "it is about styles"
    if not what.has_service(service, virtual):
        return f"services: {', '.join(what.services or ())}"
    if not what.has_ability(ability):
        return f"abilities: {', '.join(sorted(what.abilities or ())) or 'not named'}"
    if ability not in PLAIN_ABILITIES and not what.layers_of(layers) & bit:
        return f"layers: {', '.join(what.layers or ())}"
    return "a rule above has decided" if not is_open else ""


def explain_rates(
    rules: RuleSet, visit: Visit, layers: Layers, question: tuple[str, str, str, str]
) -> list[dict[str, Any]]:
    """Return the rates that hold for a request, as in the file.

    Args:
        question: service, virtual service, ability and layer.
    """
    service, virtual, ability, layer = question
    return [
        rate.to_json()
        for rate in rules.rates_of(visit)
        if applies(rate, layers, service, virtual, ability, layers.bit(layer))
    ]


def principal_named(gate: Decider, text: str, groups: Collection[str], address: str) -> Principal:
    """Return the principal that an operator asks about.

    Args:
        gate: knows the credentials.
        text: ``anonymous``, a credential, the id of a key, or ``user:NAME``.
        groups: of a user.
        address: of the client; may be empty.

    Raises:
        MastabaError: there is no such principal.
    """
    if text == "anonymous":
        return ANONYMOUS
    if text.startswith("user:"):
        return Principal(text[5:], "user", groups=frozenset(groups), is_strong=True)
    for form in (Form.PATH, Form.BEARER):
        shown = Shown(form, text)
        for one in gate.identifiers.values():
            if form in one.forms and one.recognises(shown):
                return one.verify(shown, address)
    keys = gate.identifiers.get("keys")
    principal = keys.principal(text) if isinstance(keys, KeyIdentifier) else None
    if principal is None:
        raise MastabaError(f"{text!r} is not a key, the id of one, user:NAME or anonymous")
    return principal


def explained(
    gate: Decider, site: Site, url: str, visit: Visit, at: float
) -> dict[str, Any] | None:
    """Return who may do what at an address, and why, as JSON; None if no service answers there.

    Args:
        gate: decides.
        site: as loaded.
        url: of a request, or its path and query.
        visit: who asks, and from where.
        at: Unix seconds.

    Raises:
        MastabaError: every client is refused there, whatever the rules say.
    """
    address = parse_address(url, site)
    if not address.service:
        return None
    # What the virtual service does not have does not exist in it, whatever the rules say.
    whole = site.views.whole(address.virtual)
    address = replace(
        address, layers=tuple(one for one in address.layers if one in whole.catalogue.layers)
    )
    found = gate.class_of(visit, at)
    asked = _about(whole, address.layers, found)
    layers = layers_of(asked.catalogue)
    maker = ViewMaker(found, layers, asked, address.virtual, {})
    shown, of_all = maker.shown(address.service), limit_of(maker, asked, address.service)
    explanations: list[Explanation] = []
    rates: dict[str, dict[str, Any]] = {}
    for ability in abilities_of(site, address.service):
        for layer in ("",) if ability in PLAIN_ABILITIES else address.layers:
            question = (address.service, address.virtual, ability, layer)
            one = explain(gate.rules.now, found, visit, at, layers, question)
            explanations.append(_as_shown(one, shown.get(layer), of_all) if layer else one)
            for rate in explain_rates(gate.rules.now, visit, layers, question):
                rates.setdefault(rate["name"], {**rate, "abilities": []})["abilities"].append(
                    ability
                )
    kind = site.plugins.services[address.service]
    if kind.is_viewed and not kind.abilities:
        explanations = _explained_as_any(gate.rules.now, found, visit, at, layers, shown, address)
    public = gate.class_of(Visit(ANONYMOUS), at)
    return {
        "principal": {"id": visit.principal.id, "kind": visit.principal.kind},
        "class": "open" if found.tag == public.tag else found.tag,
        "service": address.service,
        "virtual": address.virtual,
        "layers": list(address.layers),
        "decisions": [asdict(one) for one in explanations],
        "rates": list(rates.values()),
        "cache": _caching(found.tag == public.tag, found.is_shared),
    }


def _about(site: Site, names: Collection[str], found: AccessClass) -> Site:
    """Return a site with some layers alone, if a class sees these as among all of them."""
    if any(rule.limit.formats is not None or rule.limit.sizes for rule in found.rules):
        # Limits of maps are those that all layers of a service leave.
        return site
    layers = {name: site.catalogue.layers[name] for name in names}
    return replace(site, catalogue=replace(site.catalogue, layers=layers))


def _as_shown(one: Explanation, how: ShownLayer | None, of_all: Limit) -> Explanation:
    """Return an explanation of what is left of a layer in a service, within all limits."""
    decision = shown_decision(one.decision, one.ability, how)
    if decision != one.decision:
        one = replace(one, decision=decision, decided_by="what is left of the layer")
    return replace(one, limits=shown_limits(decision, one.ability, how, of_all))


def shown_limits(
    decision: str, ability: str, how: ShownLayer | None, of_all: Limit
) -> dict[str, Any]:
    """Return the limits that hold for an ability, as JSON.

    A layer is the same for all abilities of a service, so those of each hold for the others. Sizes
    and formats of maps are the same for all layers. Tiles and legends have no limits of sizes.

    Args:
        decision: what becomes of the ability; without limits unless it is ``allow``.
        how: the service shows the layer.
        of_all: limits of all layers of the service together; see `limit_of`.
    """
    if how is None or decision != "allow":
        return {}
    formats = how.limit.formats if ability == "tiles" else of_all.formats
    sizes: dict[str, Any] = dict.fromkeys(how.limit.sizes)
    if ability not in ("tiles", "legend"):
        sizes |= of_all.sizes
    if ability == "coverages":
        sizes["layers"] = None
    return replace(how.limit, **sizes, formats=formats).to_json()


def limit_of(maker: ViewMaker, site: Site, service: str) -> Limit:
    """Return the limits of all layers of a service together, with the sizes that it limits.

    Those of maps need maps or coverages, those of queries an own limit that they lower.
    """
    found, settings = maker.limit_of(service), site.catalogue.services.get(service)
    abilities = abilities_of(site, service)
    has_maps = {"maps", "coverages"}.intersection(abilities)
    of_queries: set[str] = set()
    if settings is not None and OF_HEIGHTS.intersection(abilities):
        of_queries.update(settings.own.get("limits", ()))
    names = {"points", "tiles"} & of_queries | (_MAP_SIZES if has_maps else set())
    others: dict[str, Any] = dict.fromkeys(found.sizes.keys() - names)
    return replace(found, **others)


def shown_decision(decision: str, ability: str, how: ShownLayer | None) -> str:
    """Return what becomes of an ability that rules allow or lock.

    Args:
        how: the service shows the layer; None if it does not.
    """
    if decision == "hide" or how is None or ability in how.withheld:
        return "hide"
    if ability == "legend":
        return "allow"
    return "lock" if how.is_locked else decision


def _explained_as_any(
    rules: RuleSet,
    found: AccessClass,
    visit: Visit,
    at: float,
    layers: Layers,
    shown: Mapping[str, ShownLayer],
    address: Address,
) -> list[Explanation]:
    """Explain what a service without abilities shows: what any service does, within rules on it."""
    named = {rule.name for rule in found.rules if rule.what.services is not None}
    explanations = []
    for layer in address.layers:
        question = (address.service, address.virtual, "", layer)
        own, how = explain(rules, found, visit, at, layers, question), shown.get(layer)
        decision = "hide" if how is None else "lock" if how.is_locked else "allow"
        is_own = own.decided_by in named and own.decision == decision
        limits = how.limit.to_json() if how is not None and decision == "allow" else {}
        by = own.decided_by if is_own else "what other services show"
        explanations.append(replace(own, decision=decision, decided_by=by, limits=limits))
    return explanations


def _caching(is_open: bool, is_shared: bool) -> str:
    if is_open:
        return "as for everybody"
    return "as for everybody, by the rules" if is_shared else "private"


def abilities_of(site: Site, service: str) -> tuple[str, ...]:
    """Return the abilities of an installed service."""
    found = site.plugins.services.get(service)
    return () if found is None else found.abilities


def matrix(gate: Decider, visit: Visit, at: float, site: Site) -> list[dict[str, str]]:
    """Return a row for each layer, service and ability: the decision and the limits."""
    whole = site.views.whole("")
    layers, found = layers_of(whole.catalogue), gate.class_of(visit, at)
    maker, rows = ViewMaker(found, layers, whole, "", {}), []
    for service in whole.catalogue.services:
        shown, of_all = maker.shown(service), limit_of(maker, whole, service)
        for ability in abilities_of(site, service):
            if ability in PLAIN_ABILITIES:
                continue
            outcome = found.decide(layers, service, "", ability)
            for layer in layers.names:
                how = shown.get(layer)
                decision = shown_decision(_decision(outcome, layers.bit(layer)), ability, how)
                limits = shown_limits(decision, ability, how, of_all)
                rows.append(
                    {
                        "layer": layer,
                        "service": service,
                        "ability": ability,
                        "decision": decision,
                        "limits": "; ".join(f"{key}={value}" for key, value in limits.items()),
                    }
                )
    return sorted(rows, key=lambda row: row["layer"])
