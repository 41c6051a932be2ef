"""What a class of principals may do with the layers of a catalogue: rules, evaluated.

A *class* is all principals for whom the same rules apply. Layers are the bits of an integer, so
that a service and an ability cost one operation for each rule.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mastaba_access.rules.limits import NO_LIMIT, Limit, combined
from mastaba_access.rules.ruleset import Effect, Rule, RuleSet
from mastaba_access.rules.what import PLAIN_ABILITIES, Layers

if TYPE_CHECKING:
    from mastaba_render.api.areas import Area

Note = Callable[[Rule, int], None]
"""Gets each rule that was tried, and the bits of the layers that it decided or limited."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is allowed of a service and an ability.

    Attributes:
        allowed: bits of the layers that are allowed.
        locked: bits of the layers whose data are withheld. All others are hidden.
        limits: bits of layers, with a limit for them.
    """

    allowed: int
    locked: int
    limits: tuple[tuple[int, Limit], ...]

    def limit(self, bit: int) -> Limit:
        """Return all limits of a layer together."""
        return combined(limit for bits, limit in self.limits if bits & bit)


class AccessClass:
    """The rules that apply to some principals.

    Args:
        rules: in order.
        is_open: whether what no rule matches is allowed.
        areas: by name.
        key: secret of the tag.

    Attributes:
        rules: as given.
        is_open: as given.
        areas: as given.
        tag: 12 hexadecimal digits that depend on the effects of the rules, and on nothing else.
    """

    __slots__ = ("__weakref__", "areas", "is_open", "rules", "tag")

    def __init__(
        self, rules: Iterable[Rule], is_open: bool, areas: Mapping[str, Area], key: bytes
    ) -> None:
        self.rules = tuple(rules)
        self.is_open = is_open
        self.areas = areas
        content = json.dumps([is_open, [rule.to_json(areas) for rule in self.rules]])
        self.tag = hmac.new(key, content.encode(), hashlib.sha256).hexdigest()[:12]

    @classmethod
    def of(cls, rules: RuleSet, applying: Iterable[Rule], key: bytes) -> AccessClass:
        """Return the class for which some rules of a file apply."""
        return cls(applying, rules.is_open, rules.areas, key)

    def decide(
        self,
        layers: Layers,
        service: str,
        virtual: str,
        ability: str,
        style: str | None = None,
        among: int = -1,
        note: Note | None = None,
    ) -> Outcome:
        """Evaluate the rules for layers, a service and an ability.

        For abilities that do not belong to layers, the only bit is 1.

        Args:
            virtual: name of the virtual service; empty for the main services.
            style: public name of a style that is asked for; None for the layers themselves.
            among: bits of the layers that matter.
            note: gets what each rule did.
        """
        is_plain = ability in PLAIN_ABILITIES
        undecided = (1 if is_plain else layers.all) & among
        allowed = locked = 0
        limits: list[tuple[int, Limit]] = []
        for rule in self.rules:
            what = rule.what
            hit = 0
            if (
                what.has_service(service, virtual)
                and what.has_ability(ability)
                and what.has_style(style)
            ):
                hit = undecided if is_plain else undecided & what.layers_of(layers)
            if note is not None:
                note(rule, hit)
            if not hit:
                continue
            if rule.limit != NO_LIMIT:
                limits.append((hit, rule.limit))
            if rule.effect is Effect.LIMIT:
                continue
            undecided ^= hit
            if rule.effect is Effect.ALLOW:
                allowed |= hit
            elif rule.effect is Effect.LOCK:
                locked |= hit
            if not undecided and note is None:
                break
        if self.is_open and not is_plain:
            allowed |= undecided
        # What is within no limits is denied.
        for bit in _bits(allowed) if _may_contradict(limits) else ():
            if combined(limit for bits, limit in limits if bits & bit).is_empty:
                allowed ^= bit
        return Outcome(allowed, locked, tuple(limits))

    @property
    def is_shared(self) -> bool:
        """Whether shared caches may keep all that its rules open."""
        opening = [rule for rule in self.rules if rule.effect is Effect.ALLOW]
        return bool(opening) and all(rule.is_shared for rule in opening)


def _bits(bits: int) -> Iterable[int]:
    while bits:
        lowest = bits & -bits
        yield lowest
        bits ^= lowest


def _may_contradict(limits: Iterable[tuple[int, Limit]]) -> bool:
    """Return whether the common part of limits may be empty."""
    without = (NO_LIMIT.resolution, NO_LIMIT.scale, NO_LIMIT.formats)
    found = [one for _, one in limits if (one.resolution, one.scale, one.formats) != without]
    return len(found) > 1 or any(one.is_empty for one in found)
