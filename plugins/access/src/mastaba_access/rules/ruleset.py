"""Rules, ready to be evaluated."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any

from mastaba.api.access import Principal
from mastaba_access.rules.limits import NO_LIMIT, Limit
from mastaba_access.rules.periods import ALWAYS, Period
from mastaba_access.rules.rates import Rate
from mastaba_access.rules.what import EVERYTHING, What
from mastaba_access.rules.who import Alternatives, Groups, Visit, match

if TYPE_CHECKING:
    from mastaba_render.api.areas import Area


class Effect(StrEnum):
    """What a rule does.

    Attributes:
        ALLOW: decides: allowed, within the limits so far and its own.
        HIDE: decides: as if it did not exist.
        LOCK: decides: described, but without data.
        LIMIT: decides nothing, but limits what a rule below allows.
    """

    ALLOW = "allow"
    HIDE = "hide"
    LOCK = "lock"
    LIMIT = "limit"


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule.

    Attributes:
        name: for people.
        effect: what it does.
        who: to whom it applies; None for everybody.
        what: to what it applies.
        period: when it applies.
        limit: limits, of the effects ``ALLOW`` and ``LIMIT``.
        is_shared: whether shared caches may keep what it allows.
    """

    name: str
    effect: Effect
    who: Alternatives | None = None
    what: What = EVERYTHING
    period: Period = ALWAYS
    limit: Limit = NO_LIMIT
    is_shared: bool = False

    def matches(self, visit: Visit, groups: Groups, at: float) -> bool:
        """Return whether it applies to a visit at a moment."""
        return self.period.holds(at) and (self.who is None or match(self.who, visit, groups))

    def to_json(self, areas: Mapping[str, Area]) -> list[Any]:
        """Return all that has an effect, for digests of classes."""
        what = self.what
        abilities = None if what.abilities is None else sorted(what.abilities)
        lists = [what.services, what.layers, what.styles, abilities, what.is_complement]
        digests = sorted(areas[name].digest for name in self.limit.areas if name in areas)
        return [self.effect, lists, self.limit.to_json(), digests, self.is_shared]


@dataclass(frozen=True)
class RuleSet:
    """All rules of a file.

    Attributes:
        is_open: whether what no rule matches is allowed.
        rules: in order.
        groups: by name.
        areas: by name.
        digest: hexadecimal digits that change with the files.
        files: from which they were read.
        rates: rates and quotas.
    """

    is_open: bool
    rules: tuple[Rule, ...] = ()
    groups: Groups = field(default_factory=Groups)
    areas: Mapping[str, Area] = field(default_factory=dict)
    digest: str = ""
    files: tuple[str, ...] = ()
    rates: tuple[Rate, ...] = ()

    def rates_of(self, visit: Visit) -> tuple[Rate, ...]:
        """Return the rates for a visit, and that of its key."""
        own = Rate.of_key(visit.identity)
        found = tuple(rate for rate in self.rates if rate.matches(visit, self.groups))
        return found if own is None else (*found, own)

    def applying(self, visit: Visit, at: float) -> tuple[Rule, ...]:
        """Return the rules for a visit at a moment, in order.

        The limits of a signed address come first, then what a key allows by itself.
        """
        further = (*scope_rules(visit.principal), *own_rules(visit.identity, self.areas))
        return (*further, *(rule for rule in self.rules if rule.matches(visit, self.groups, at)))

    @cached_property
    def depends_on_place(self) -> bool:
        """Whether a rule asks for the address of the client or the referer."""
        selectors = (*(one.who for one in self.rules), *(one.who for one in self.rates))
        return any(who and self.groups.depend_on_place(who) for who in selectors)

    @cached_property
    def takes_by_claims(self) -> bool:
        """Whether a claim may take something from a user, who would have it without the claim."""
        everything: tuple[Rule | Rate, ...] = (*self.rules, *self.rates)
        return any(
            one.kind == "claim"
            for rule in everything
            if not _only_gives(rule, self.groups)
            for one in self.groups.all_selectors(rule.who or ())
        )

    def next_change(self, at: float) -> float:
        """Return a moment after ``at`` until which the same rules apply; may be infinite."""
        return min((rule.period.next_change(at) for rule in self.rules), default=math.inf)


def _only_gives(rule: Rule | Rate, groups: Groups) -> bool:
    """Return whether nobody loses anything by matching one of its selectors.

    A rule that allows within limits takes what a later rule allows without them.
    """
    if not isinstance(rule, Rule) or rule.effect is not Effect.ALLOW or rule.limit != NO_LIMIT:
        return False
    return not any(one.is_negated for one in groups.all_selectors(rule.who or ()))


def own_rules(principal: Principal, areas: Mapping[str, Area]) -> tuple[Rule, ...]:
    """Return the rule that a key has of its own; none if it names an unknown area."""
    own = principal.own
    services, layers, area = own.get("services"), own.get("layers"), own.get("area")
    if not (services or layers) or (area is not None and area not in areas):
        return ()
    what = What(_words(services), _words(layers))
    limit = Limit(areas=frozenset([area] if area is not None else ()))
    return (Rule(f"grants of {principal.id}", Effect.ALLOW, what=what, limit=limit),)


def scope_rules(principal: Principal) -> tuple[Rule, ...]:
    """Return the rules for the limits in the payload of a signed address."""
    scope, found = principal.scope, []
    if "l" in scope:
        what = What(layers=tuple(scope["l"]), is_complement=True)
        found.append(Rule("layers of the address", Effect.HIDE, what=what))
    if "s" in scope:
        what = What(services=tuple(scope["s"]), is_complement=True)
        found.append(Rule("services of the address", Effect.HIDE, what=what))
    limit = Limit(
        boxes=frozenset([tuple(map(float, scope["b"]))] if "b" in scope else ()),
        resolution=tuple(map(float, scope["r"])) if "r" in scope else NO_LIMIT.resolution,  # type: ignore[arg-type]
    )
    if limit != NO_LIMIT:
        found.append(Rule("limits of the address", Effect.LIMIT, limit=limit))
    return tuple(found)


def _words(found: Any) -> tuple[str, ...] | None:
    return tuple(found) if found else None
