"""Selectors of ``what``: to what a rule applies."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import translate
from itertools import compress
from typing import TYPE_CHECKING, Final

from mastaba.api.catalogue import Layer

if TYPE_CHECKING:
    from mastaba.api.dimensions import VariantTable

PLAIN_ABILITIES: Final = frozenset(("status", "usage"))
"""Abilities that do not belong to layers. Only rules that name them apply to them."""
_OF_VARIANT: Final = re.compile("[;~]")
"""What begins the value or the version in ``ORTHO;time=1950`` and ``ORTHO~7``."""


class Layers:
    """The layers of a catalogue, in order: the bits of an integer.

    Args:
        layers: by identifier.
        datasets: layers of named stacks.
        tables: of the values of layers, which may have names of their own.

    Attributes:
        names: identifiers of the layers.
        all: the bits of all layers.
    """

    def __init__(
        self,
        layers: Mapping[str, Layer],
        datasets: Mapping[str, Iterable[str]] | None = None,
        tables: Mapping[str, VariantTable] | None = None,
    ) -> None:
        self.names = tuple(layers)
        self.all = (1 << len(self.names)) - 1
        self._exact = {name: 1 << position for position, name in enumerate(self.names)}
        self._groups: dict[str, int] = {}
        for name, layer in layers.items():
            for word in layer.keywords:
                self._add(f"keyword:{word}", name)
        for dataset, members in (datasets or {}).items():
            for name in members:
                self._add(f"dataset:{dataset}", name)
        self._tables = tables or {}
        self._found: dict[tuple[str, ...], int] = {}

    def _add(self, selector: str, name: str) -> None:
        self._groups[selector] = self._groups.get(selector, 0) | self._exact.get(name, 0)

    def bit(self, name: str) -> int:
        """Return the bit of a layer; 0 if there is no such layer."""
        return self._exact.get(name, 0)

    def named(self, name: str) -> int:
        """Return the bits of the layers that a name in a request means; 0 for none.

        It may be the name of a layer, of a stack, or of a value or a version of them.
        """
        for identifier in (name, _OF_VARIANT.split(name, maxsplit=1)[0]):
            found = self.bit(identifier) | self._groups.get(f"dataset:{identifier}", 0)
            if found:
                return found
        name = name.partition("~")[0]
        tables = self._tables.items() if name else ()
        return next((self.bit(key) for key, one in tables if one.named(name) is not None), 0)

    def bits(self, selectors: tuple[str, ...]) -> int:
        """Return the bits of the layers that one of some selectors matches."""
        found = self._found.get(selectors)
        if found is None:
            found = 0
            for selector in selectors:
                found |= self._matched(selector)
            self._found[selectors] = found
        return found

    def of(self, bits: int) -> Iterator[str]:
        """Return the identifiers for some bits, in order."""
        if bits == self.all:
            return iter(self.names)
        # Faster than to take one bit after the other from a long integer.
        return compress(self.names, map("1".__eq__, reversed(f"{bits:b}")))

    def _matched(self, selector: str) -> int:
        if selector.startswith(("keyword:", "dataset:")):
            return self._groups.get(selector, 0)
        found = self._exact.get(selector, 0)
        if any(sign in selector for sign in "*?["):
            matches = re.compile(translate(selector)).match
            for name, bit in self._exact.items():
                if matches(name):
                    found |= bit
        return found


@dataclass(frozen=True, slots=True)
class What:
    """To what a rule applies; None for everything.

    Attributes:
        services: ``NAME``, ``NAME@VIRTUAL`` or ``@VIRTUAL``.
        layers: selectors of layers.
        styles: public names.
        abilities: words of `mastaba.api.services.Service.abilities`.
        is_complement: whether it is about all other services and layers instead.
    """

    services: tuple[str, ...] | None = None
    layers: tuple[str, ...] | None = None
    styles: tuple[str, ...] | None = None
    abilities: frozenset[str] | None = None
    is_complement: bool = False

    def has_service(self, name: str, virtual: str) -> bool:
        """Return whether it is about a service; ``virtual`` is empty for the main services."""
        if self.services is None:
            return True
        full = f"{name}@{virtual}" if virtual else name
        listed = full in self.services or (bool(virtual) and f"@{virtual}" in self.services)
        return listed is not self.is_complement

    def has_ability(self, ability: str) -> bool:
        """Return whether it is about an ability."""
        if ability in PLAIN_ABILITIES:
            return self.abilities is not None and ability in self.abilities and not self.layers
        return self.abilities is None or ability in self.abilities

    def has_style(self, style: str | None) -> bool:
        """Return whether it is about a style, or about layers for None."""
        return self.styles is None or (style is not None and style in self.styles)

    def layers_of(self, layers: Layers) -> int:
        """Return the bits of the layers that it is about."""
        if self.layers is None:
            return layers.all
        found = layers.bits(self.layers)
        return layers.all & ~found if self.is_complement else found


EVERYTHING: Final = What()
