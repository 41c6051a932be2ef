"""How services show layers to a class of clients."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any, Final

from mastaba.api.catalogue import Catalogue
from mastaba_access.decisions import AccessClass, Outcome
from mastaba_access.rules.limits import NO_LIMIT, Limit, combined
from mastaba_access.rules.what import PLAIN_ABILITIES, Layers

ASIDE: Final = frozenset(("info", "legend"))
"""Abilities for which alone a layer is not listed."""

OF_HEIGHTS: Final = frozenset(("heights", "terrain"))
"""Abilities whose services have limits of queries of heights."""

STYLE: Final = "style"
"""Key of the descriptors of layers with style sheets."""


@dataclass(frozen=True, slots=True)
class Shown:
    """How a service shows a layer.

    Attributes:
        withheld: abilities of the service that it does not have for the layer.
        is_locked: whether its data are withheld.
        limit: all limits.
        hidden_styles: public names of styles that do not exist.
    """

    withheld: frozenset[str] = frozenset()
    is_locked: bool = False
    limit: Limit = NO_LIMIT
    hidden_styles: frozenset[str] = frozenset()

    @property
    def part(self) -> tuple[Any, ...]:
        """What layers and readers depend on."""
        limit = self.limit
        of_levels = limit.areas, limit.boxes, limit.cut, limit.resolution, limit.scale, limit.time
        return self.is_locked, "info" in self.withheld, self.hidden_styles, of_levels

    @property
    def is_whole(self) -> bool:
        """Whether nothing is taken from any layer but abilities."""
        return self.part[2:] == _ALL.part[2:] and self.limit.formats is None


_ALL: Final = Shown()


def layers_of(catalogue: Catalogue) -> Layers:
    """Return the layers of a catalogue with their values and the stacks of its services."""
    datasets: dict[str, list[str]] = {}
    for settings in catalogue.services.values():
        for stack in settings.own.get("datasets", ()):
            datasets.setdefault(stack["id"], []).extend(stack["layers"])
    return Layers(catalogue.layers, datasets, catalogue.variants)


def shown_layers(
    found: AccessClass, layers: Layers, service: str, virtual: str, abilities: Sequence[str]
) -> dict[str, Shown]:
    """Return how a service shows each layer that exists for a class.

    A layer exists if an ability other than feature info and legends is allowed. If none is, but one
    is locked, the layer is described without its data.

    Args:
        abilities: of the service.
    """
    words = [word for word in abilities if word not in PLAIN_ABILITIES]
    outcomes = {word: found.decide(layers, service, virtual, word) for word in words}
    data = [outcome for word, outcome in outcomes.items() if word not in ASIDE]
    allowed = _union(outcome.allowed for outcome in data)
    locked = _union(outcome.locked for outcome in data) & ~allowed
    hidden_styles = {
        style: _union(
            outcome.allowed & ~found.decide(layers, service, virtual, word, style).allowed
            for word, outcome in outcomes.items()
        )
        for style in {style for rule in found.rules for style in rule.what.styles or ()}
    }
    shown: dict[str, Shown] = {}
    splits = [*hidden_styles.values()]
    for outcome in outcomes.values():
        splits += [outcome.allowed, outcome.locked, *(bits for bits, _ in outcome.limits)]
    # Most layers are shown alike.
    for part in _parts_of(allowed | locked, splits):
        bit = part & -part
        styles = frozenset(style for style, bits in hidden_styles.items() if bits & bit)
        how = _shown(outcomes, bit, bool(locked & bit), styles)
        if not how.limit.is_empty:
            shown.update(dict.fromkeys(layers.of(part), how))
    return shown


def _parts_of(bits: int, splits: Iterable[int]) -> list[int]:
    """Return the bits in parts, each of which is inside or outside each of the splits."""
    parts = [bits] if bits else []
    for split in dict.fromkeys(splits):
        parts = [one for part in parts for one in (part & split, part & ~split) if one]
    return parts


def kinds_of(shown: Mapping[str, Shown]) -> list[Shown]:
    """Return how layers are shown. Most are the same object, and found so without comparing."""
    hows = shown.values()
    return list(dict(zip(map(id, hows), hows, strict=True)).values())


def limit_of_all(shown: Iterable[Shown]) -> Limit:
    """Return the limits of all layers together."""
    return combined({how.limit for how in shown})


def _union(bits: Iterable[int]) -> int:
    return reduce(or_, bits, 0)


def _shown(
    outcomes: Mapping[str, Outcome], bit: int, is_locked: bool, styles: frozenset[str]
) -> Shown:
    withheld, limits = set(), []
    for word, outcome in outcomes.items():
        if outcome.allowed & bit:
            if word != "legend":
                limits.append(outcome.limit(bit))
        elif not (is_locked and outcome.locked & bit):
            withheld.add(word)
    return Shown(frozenset(withheld), is_locked, combined(limits), styles)
