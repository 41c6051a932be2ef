"""Selectors of ``who``: to whom a rule applies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final

from mastaba.api.access import Principal
from mastaba_access.conditions import matches_address, matches_host, network

ANONYMOUS: Final = Principal("anonymous", "anonymous")


@dataclass(frozen=True, slots=True)
class Visit:
    """A principal and where its request comes from.

    Attributes:
        principal: as identified.
        address: of the client; empty if unknown.
        referer: host of the page, or the whole Referer header; empty if there is none.
    """

    principal: Principal
    address: str = ""
    referer: str = ""

    @property
    def identity(self) -> Principal:
        """The principal whom the rules see: the issuer of a signed address, if it has one."""
        return self.principal.owner


@dataclass(frozen=True, slots=True)
class Selector:
    """One selector.

    Attributes:
        text: as written, also in explanations.
        kind: the word before the colon.
        value: what follows it.
        is_negated: whether it begins with ``not:``.
    """

    text: str
    kind: str
    value: str
    is_negated: bool = False

    @classmethod
    def parse(cls, text: str) -> Selector:
        """Parse a selector.

        Raises:
            ValueError: it is invalid.
        """
        rest, is_negated = text, False
        while rest.startswith("not:"):
            rest, is_negated = rest[4:], not is_negated
        kind, colon, value = rest.partition(":")
        if kind in _PLAIN:
            if colon:
                raise ValueError(f"the selector {kind!r} takes no value")
        elif kind not in _WITH_VALUE:
            listed = ", ".join((*_PLAIN, *(f"{name}:…" for name in _WITH_VALUE), "not:…"))
            raise ValueError(f"{text!r} is not a selector; selectors are {listed}")
        elif not value.strip():
            raise ValueError(f"{text!r} has no value")
        if kind == "address":
            try:
                network(value)
            except ValueError as error:
                raise ValueError(f"{value!r} is not an address or network") from error
        if kind == "claim" and "=" not in value:
            raise ValueError(f"{text!r} is not in the form claim:PATH=PATTERN")
        return cls(text, kind, value, is_negated)

    def matches(self, visit: Visit, groups: Groups) -> bool:
        """Return whether the selector matches a visit.

        Args:
            groups: those of the file.
        """
        if self.kind == "group":
            found = self.value in visit.identity.groups or groups.contain(self.value, visit)
        else:
            found = _TESTS[self.kind](visit, self.value)
        return found is not self.is_negated


def _is_user(visit: Visit, value: str) -> bool:
    return visit.identity.kind == "user" and visit.identity.id == value


def _is_key(visit: Visit, value: str) -> bool:
    return visit.identity.kind == "key" and fnmatchcase(visit.identity.id, value)


def _has_label(visit: Visit, value: str) -> bool:
    return visit.identity.kind == "key" and visit.identity.label == value


def _is_signed(visit: Visit, value: str) -> bool:
    return visit.principal.kind == "signed" and visit.principal.id == value


def _has_claim(visit: Visit, value: str) -> bool:
    path, _, pattern = value.partition("=")
    found: Any = visit.identity.claims
    for key in path.split("."):
        if not isinstance(found, Mapping) or key not in found:
            return False
        found = found[key]
    values = found if isinstance(found, list | tuple) else [found]
    return any(fnmatchcase(_claim_text(one), pattern) for one in values)


def _claim_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


_TESTS: Final[Mapping[str, Callable[[Visit, str], bool]]] = {
    "anonymous": lambda visit, _: visit.principal.is_anonymous,
    "known": lambda visit, _: not visit.principal.is_anonymous,
    "strong": lambda visit, _: visit.principal.is_strong,
    "key": _is_key,
    "label": _has_label,
    "user": _is_user,
    "claim": _has_claim,
    "signed": _is_signed,
    "address": lambda visit, value: matches_address((value,), visit.address),
    "referer": lambda visit, value: matches_host((value,), visit.referer),
}
_PLAIN: Final = ("anonymous", "known", "strong")
_WITH_VALUE: Final = ("key", "label", "user", "group", "claim", "signed", "address", "referer")
_OF_PLACE: Final = frozenset(("address", "referer"))

Alternatives = tuple[tuple[Selector, ...], ...]
"""Lists of selectors: one list must match, with all its selectors."""


def parse_selectors(found: Sequence[str | Sequence[str]]) -> Alternatives:
    """Parse the value of ``who``, or of a group.

    Raises:
        ValueError: a selector is invalid.
    """
    lists = ((item,) if isinstance(item, str) else item for item in found)
    return tuple(tuple(Selector.parse(text) for text in one) for one in lists)


def match(alternatives: Alternatives, visit: Visit, groups: Groups) -> bool:
    """Return whether one of the alternatives matches a visit."""
    # Without generators: a new visit is compared with all rules.
    for every in alternatives:
        for one in every:
            if not one.matches(visit, groups):
                break
        else:
            return True
    return False


class Groups:
    """The groups of a file.

    Args:
        groups: selectors by name.

    Raises:
        ValueError: a group contains itself.
    """

    def __init__(self, groups: Mapping[str, Alternatives] | None = None) -> None:
        self._groups = dict(groups or {})
        for name in self._groups:
            self._require_no_cycle(name, ())

    @property
    def names(self) -> frozenset[str]:
        """The names of the groups."""
        return frozenset(self._groups)

    def contain(self, name: str, visit: Visit) -> bool:
        """Return whether a group of this name matches a visit; False if there is none."""
        found = self._groups.get(name)
        return found is not None and match(found, visit, self)

    def members(self, name: str) -> Alternatives:
        """Return the selectors of a group; none if there is no such group."""
        return self._groups.get(name, ())

    def depend_on_place(self, alternatives: Alternatives) -> bool:
        """Return whether selectors, or the groups that they name, ask for address or referer."""
        return any(one.kind in _OF_PLACE for one in self.all_selectors(alternatives))

    def all_selectors(self, alternatives: Alternatives) -> Iterable[Selector]:
        """Return selectors, and those of the groups that they name."""
        for one in (selector for every in alternatives for selector in every):
            yield one
            if one.kind == "group":
                yield from self.all_selectors(self.members(one.value))

    def _require_no_cycle(self, name: str, above: tuple[str, ...]) -> None:
        if name in above:
            raise ValueError(f"the groups {' → '.join((*above, name))} contain each other")
        for every in self._groups.get(name, ()):
            for one in every:
                if one.kind == "group" and one.value in self._groups:
                    self._require_no_cycle(one.value, (*above, name))
