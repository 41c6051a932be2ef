"""Styles: what becomes of the pixels of a layer (style.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Legend:
    """A legend picture that lies elsewhere. Zero sizes and scales mean "not given"."""

    media_type: str
    url: str
    width: int
    height: int
    min_scale_denominator: float
    max_scale_denominator: float


@dataclass(frozen=True, slots=True)
class PaletteEntry:
    """Colour from ``value`` upward; components 0 to 255.

    An alpha of -1 stands, in indexed PNG only, for 255 less the index.
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
        entries: at least one, ascending by value, each value once.
        rgb_continuous, alpha_continuous: interpolate between entries.
        no_alpha: the output has three channels.
    """

    entries: tuple[PaletteEntry, ...]
    rgb_continuous: bool = False
    alpha_continuous: bool = False
    no_alpha: bool = False

    def colour(self, value: float) -> tuple[int, int, int, int]:
        """Return red, green, blue and alpha for one value."""
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
    # The tiny addition keeps a value that is whole but for rounding noise from being cut by one.
    # Without interpolation the mark -1 of an alpha must stay what it is.
    return int(low + (high - low) * part + 1e-9) if part else low


@dataclass(frozen=True, slots=True)
class Style:
    """One way to draw a layer.

    Attributes:
        id: file stem of the descriptor, as layer descriptors name it.
        identifier: public name, in requests and capabilities.
        palette: None when the style has none, or an empty one.
        processing: the descriptor's other instructions by name (``estompage``, ``pente``,
            ``exposition``, ``terrainrgb``, ``colorize``), as validated.
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
        return self.palette is None and not self.processing
