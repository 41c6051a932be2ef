"""The classes of the rules in use, and grants that keep theirs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final
from weakref import WeakValueDictionary

from mastaba.api.access import Grant
from mastaba_access.decisions import AccessClass
from mastaba_access.rates.spending import Source
from mastaba_access.rules.rates import Rate
from mastaba_access.rules.ruleset import RuleSet
from mastaba_access.rules.who import ANONYMOUS, Visit

_MOST_CLASSES: Final = 4096
_MOST_PLACES: Final = 4096


@dataclass(slots=True, eq=False)
class ClassGrant(Grant):
    """A grant that keeps its class.

    Attributes:
        abilities: abilities that do not belong to layers.
        found: the class.
        rates: that apply to the principal, for any request.
        may_sign: whether addresses and sessions, which have no claims, get no more than it does.
        kept: what the cost of a tile of a group is taken from.
    """

    abilities: frozenset[str] = frozenset()
    found: AccessClass | None = None
    rates: tuple[Rate, ...] = ()
    may_sign: bool = True
    kept: dict[Any, tuple[Source, ...]] = field(default_factory=dict)


class RulesInUse:
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
        self._places: dict[Any, Grant] = {}
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

    def kept(self, key: Any, make: Callable[[], Grant]) -> Grant:
        """Return the grant of a credential at a place, or a new one that is kept.

        Raises the errors of ``make``.
        """
        found = self._places.get(key)
        if found is None or found.ends <= time.time():
            found = make()
            found.narrow = None
            if len(self._places) >= _MOST_PLACES:
                self._places.clear()
            self._places[key] = found
        return found

    def public(self) -> AccessClass:
        """Return the class of those who show nothing, wherever they are."""
        if time.time() >= self.public_ends:
            self._public, self.public_ends = self.class_at(Visit(ANONYMOUS), time.time())
        return self._public
