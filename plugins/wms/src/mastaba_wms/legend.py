"""Legends of styles: colours, and the values that they mean.

The size of a legend does not depend on data, because capabilities announce it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from PIL import Image, ImageDraw

from mastaba.api.catalogue import Layer, Palette, PaletteEntry, Style
from mastaba.errors import AccessError, SlabFormatError, StorageError
from mastaba_render.api.maps import MapLayer, is_bytes, legend_palette, legend_unit
from mastaba_wms.drawing import LINE_HEIGHT, Colour, canvas, font, text_width

_MARGIN = 4
_GAP = 6
_MOST_STOPS = 64
"""Stops of a palette that is drawn in part; the widest of all their labels is measured."""
_GREY_LABELS = 3
_WIDEST = "-99999.9"
_MAX_STEPS = 24
"""A palette with more colours is drawn as a ramp with a few labels."""
_LABELS = 9
_LABEL_DISTANCE = 2 * LINE_HEIGHT
_INK = (0, 0, 0, 255)
_PAPER = (255, 255, 255, 255)
_CLEAR = (255, 255, 255, 0)
_FRAME = (96, 96, 96, 255)
# A style without a palette does not change the stored pixels, so any swatch can represent it.
_SWATCH = ((176, 200, 160, 255), (150, 178, 206, 255))


if TYPE_CHECKING:
    from mastaba_render.api.maps import Renderer


@dataclass(frozen=True, slots=True)
class Symbol:
    """Size of a legend symbol in pixels."""

    width: int = 20
    height: int = 16


@dataclass(frozen=True, slots=True)
class _Plan:
    """Layout of a legend; width and height in pixels.

    Attributes:
        labels: text, and the position of its middle in pixels from the top.
        steps: one colour for each symbol; empty for a ramp.
        ramp: height of the ramp in pixels; 0 without one.
    """

    width: int
    height: int
    labels: tuple[tuple[str, float], ...] = ()
    steps: tuple[Colour, ...] = ()
    ramp: int = 0


@dataclass(frozen=True, slots=True)
class Legend:
    """What a legend shows.

    Attributes:
        palette: colours of the style, without the stops at nodata; None without a palette.
        shown: the part of it that is drawn if it is a ramp; of the default rendering of floats,
            its grey ramp.
        is_grey: whether the legend is that of the default rendering of floats.
        unit: of the values; may be empty.
    """

    palette: Palette | None
    shown: Palette | None = None
    is_grey: bool = False
    unit: str = ""


def legend_of(layer: Layer, style: Style) -> Legend:
    """Return the legend of a style without the values of the layer. Nothing is read."""
    palette = legend_palette(layer, style)
    is_grey = palette is None and not layer.is_vector and not is_bytes(layer, style)
    return Legend(palette, palette, is_grey, legend_unit(layer, style) or "")


def with_values(legend: Legend, layer: Layer, style: Style, renderer: Renderer) -> Legend:
    """Return a legend whose ramp shows the values of the layer, if they can be read."""
    if not legend.is_grey and (legend.palette is None or len(legend.palette.entries) > _MOST_STOPS):
        return legend
    try:
        if legend.is_grey:
            drawn = renderer.in_picture(MapLayer(layer, style)).style
            assert drawn is not None
            return replace(legend, shown=_with_middle(drawn.palette))
        values = renderer.value_range(layer)
    except (AccessError, SlabFormatError, StorageError):
        return legend
    return replace(legend, shown=legend_palette(layer, style, values))


def legend_size(legend: Legend, symbol: Symbol = Symbol()) -> tuple[int, int]:
    """Return the width and height of a legend in pixels."""
    plan = _plan(legend, symbol)
    return plan.width, plan.height


def draw_legend(legend: Legend, symbol: Symbol, *, transparent: bool) -> Image.Image:
    """Return a legend as RGBA: colour steps, a ramp, or a swatch without colours.

    Args:
        transparent: whether the background is transparent instead of white.
    """
    plan = _plan(legend, symbol)
    image, draw = canvas(plan.width, plan.height, _CLEAR if transparent else _PAPER)
    left, right = _MARGIN, _MARGIN + symbol.width
    if plan.ramp and legend.shown is not None:
        _draw_ramp(image, legend.shown, plan, left, right)
        _frame(draw, left, _MARGIN, right, _MARGIN + plan.ramp)
    for number, colour in enumerate(plan.steps):
        top = _MARGIN + number * (symbol.height + 2)
        _fill(image, colour, left, top, right, top + symbol.height)
        _frame(draw, left, top, right, top + symbol.height)
    if legend.palette is None and legend.shown is None:
        bottom = _MARGIN + symbol.height
        draw.rectangle((left, _MARGIN, right - 1, bottom - 1), _SWATCH[0])
        draw.polygon(
            [(left, bottom - 1), (right - 1, bottom - 1), (right - 1, _MARGIN)], _SWATCH[1]
        )
        _frame(draw, left, _MARGIN, right, bottom)
    for text, middle in plan.labels:
        draw.text((right + _GAP, middle), text, _INK, font(), anchor="lm")
    return image


def _plan(legend: Legend, symbol: Symbol) -> _Plan:
    if legend.is_grey:
        ramp = max(symbol.height, (_GREY_LABELS - 1) * _LABEL_DISTANCE)
        labels = () if legend.shown is None else _labels(legend.shown, ramp, legend.unit)
        width = _wide(symbol, [f"{_WIDEST} {legend.unit}"])
        return _Plan(width, ramp + 2 * _MARGIN, labels, ramp=ramp)
    palette = legend.palette
    if palette is None or legend.shown is None:
        return _Plan(symbol.width + 2 * _MARGIN, symbol.height + 2 * _MARGIN)
    entries, unit = palette.entries, legend.unit
    if len(entries) > _MAX_STEPS or (palette.rgb_continuous and len(entries) > 1):
        # The size is that of the whole palette, whose labels are at least as wide.
        ramp = max(symbol.height, (min(_LABELS, len(entries)) - 1) * _LABEL_DISTANCE)
        every = [_text(e.value, unit) for e in _chosen(entries, _MOST_STOPS)]
        labels = _labels(legend.shown, ramp, unit)
        return _Plan(_wide(symbol, every), ramp + 2 * _MARGIN, labels, ramp=ramp)
    height = symbol.height + 2
    # Highest values first, as in a ramp.
    ordered = list(reversed(entries))
    labels = tuple(
        (f"≥ {_text(entry.value, unit)}", _MARGIN + number * height + symbol.height / 2)
        for number, entry in enumerate(ordered)
    )
    steps = tuple((e.red, e.green, e.blue, max(e.alpha, 0)) for e in ordered)
    return _Plan(
        _wide(symbol, [text for text, _ in labels]),
        len(entries) * height - 2 + 2 * _MARGIN,
        labels,
        steps=steps,
    )


def _labels(palette: Palette, ramp: int, unit: str) -> tuple[tuple[str, float], ...]:
    """Return the labels of a ramp, and the positions of their middles in pixels from the top."""
    entries = palette.entries
    low, high = entries[0].value, entries[-1].value
    chosen = _chosen(entries, _LABELS)
    # Halved, because the difference of two large numbers may be infinite.
    span = high / 2 - low / 2 or 1.0
    spread = [_MARGIN + ramp * ((high / 2 - entry.value / 2) / span) for entry in chosen]
    texts = [_text(entry.value, unit) for entry in chosen]
    return tuple(_apart(list(zip(texts, spread, strict=True))))


def _chosen(entries: Sequence[PaletteEntry], most: int) -> list[PaletteEntry]:
    """Return entries at even distances, the first and the last among them."""
    count = min(most, len(entries))
    return [entries[round(i * (len(entries) - 1) / max(1, count - 1))] for i in range(count)]


def _apart(labels: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
    """Return the labels without those that would overlap others; labels are in upward order."""
    kept = [labels[0]]
    for label in labels[1:-1]:
        if kept[-1][1] - label[1] >= LINE_HEIGHT and label[1] - labels[-1][1] >= LINE_HEIGHT:
            kept.append(label)
    return kept if len(labels) == 1 else [*kept, labels[-1]]


def _wide(symbol: Symbol, texts: Sequence[str]) -> int:
    return 2 * _MARGIN + symbol.width + _GAP + max(map(text_width, texts))


def _draw_ramp(image: Image.Image, palette: Palette, plan: _Plan, left: int, right: int) -> None:
    low, high = palette.entries[0].value, palette.entries[-1].value
    for y in range(plan.ramp):
        share = (y + 0.5) / plan.ramp
        value = high * (1 - share) + low * share
        red, green, blue, alpha = palette.colour(value)
        top = _MARGIN + y
        _fill(image, (red, green, blue, max(alpha, 0)), left, top, right, top + 1)


def _fill(image: Image.Image, colour: Colour, left: int, top: int, right: int, bottom: int) -> None:
    image.alpha_composite(Image.new("RGBA", (right - left, bottom - top), colour), (left, top))


def _frame(draw: ImageDraw.ImageDraw, left: int, top: int, right: int, bottom: int) -> None:
    draw.rectangle((left, top, right - 1, bottom - 1), outline=_FRAME)


def _text(value: float, unit: str) -> str:
    number = f"{value:.6g}"
    if len(number) > len(_WIDEST):
        number = f"{value:.2g}"
    return f"{number} {unit}" if unit else number


def _with_middle(palette: Palette | None) -> Palette | None:
    """Return a palette of two entries with a third one between them."""
    if palette is None:
        return None
    low, high = palette.entries
    value = low.value / 2 + high.value / 2
    middle = PaletteEntry(value, *palette.colour(value))
    return replace(palette, entries=(low, middle, high))
