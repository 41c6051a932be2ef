"""Styles: how the pixels of a layer are drawn (style.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Legend(NamedTuple):
    """An external legend image. Sizes and scale denominators of 0 mean "not given".

    Attributes:
        media_type: of the image.
        url: address of the image.
        width: pixels.
        height: pixels.
        min_scale_denominator: smallest scale denominator at which the legend applies.
        max_scale_denominator: largest one.
    """

    media_type: str
    url: str
    width: int
    height: int
    min_scale_denominator: float
    max_scale_denominator: float


class PaletteEntry(NamedTuple):
    """Colour from a value upward.

    Attributes:
        value: least value that has this colour.
        red: 0 to 255.
        green: 0 to 255.
        blue: 0 to 255.
        alpha: 0 to 255. In indexed PNG only, -1 means 255 minus the index.
    """

    value: float
    red: int
    green: int
    blue: int
    alpha: int


@dataclass(frozen=True, slots=True)
class Palette:
    """Colours for the values of one channel (style.md section 3).

    Attributes:
        entries: at least one entry, ascending by value, without duplicate values.
        rgb_continuous: whether colours are interpolated between entries.
        alpha_continuous: whether alpha is interpolated between entries.
        no_alpha: whether the output has three channels.
    """

    entries: tuple[PaletteEntry, ...]
    rgb_continuous: bool = False
    alpha_continuous: bool = False
    no_alpha: bool = False

    def colour(self, value: float) -> tuple[int, int, int, int]:
        """Return red, green, blue and alpha of a value."""
        entries = self.entries
        below = next((i for i in range(len(entries) - 1, -1, -1) if entries[i].value <= value), 0)
        low = entries[below]
        if below == len(entries) - 1 or value < low.value:
            return low.red, low.green, low.blue, low.alpha
        high = entries[below + 1]
        part = (value - low.value) / (high.value - low.value)
        rgb, alpha = (part if on else 0.0 for on in (self.rgb_continuous, self.alpha_continuous))
        return (
            _between(low.red, high.red, rgb),
            _between(low.green, high.green, rgb),
            _between(low.blue, high.blue, rgb),
            _between(low.alpha, high.alpha, alpha),
        )


def _between(low: int, high: int, part: float) -> int:
    # The small addend keeps rounding errors from lowering an integral value by one. Without
    # interpolation, the special alpha -1 must not change.
    return int(low + (high - low) * part + 1e-9) if part else low


@dataclass(frozen=True, slots=True)
class Style:
    """One way to draw a layer.

    Attributes:
        id: file stem of the descriptor, used in layer descriptors.
        identifier: public name, used in requests and capabilities.
        title: name for people.
        abstract: description; may be empty.
        keywords: may be empty.
        legend: None if the style has no legend image.
        palette: None if the style has no palette or an empty one.
        processing: other validated instructions of the descriptor by name (``estompage``,
            ``pente``, ``exposition``, ``terrainrgb``, ``colorize``).
    """

    id: str
    identifier: str
    title: str
    abstract: str = ""
    keywords: tuple[str, ...] = ()
    legend: Legend | None = None
    palette: Palette | None = None
    processing: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, hash=False)

    @property
    def is_identity(self) -> bool:
        """Whether the style shows the stored values unchanged."""
        return self.palette is None and not self.processing
