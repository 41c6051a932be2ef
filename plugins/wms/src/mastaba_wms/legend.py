"""Legends drawn from the palette of a style."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from PIL import Image, ImageDraw

from mastaba.api.catalogue import Layer, Palette, Style
from mastaba.api.maps import legend_palette
from mastaba_wms.drawing import LINE_HEIGHT, Colour, canvas, font, text_width

_MARGIN = 4
_GAP = 6
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


def style_of_legend(layer: Layer, style: Style) -> Style:
    """Return the style with the palette that its legend shows."""
    return replace(style, palette=legend_palette(layer, style))


def legend_size(style: Style, symbol: Symbol = Symbol()) -> tuple[int, int]:
    """Return the width and height of a style's legend in pixels."""
    plan = _plan(style, symbol)
    return plan.width, plan.height


def draw_legend(style: Style, symbol: Symbol, *, transparent: bool) -> Image.Image:
    """Return a style's legend as RGBA: colour steps, a ramp, or a swatch without a palette.

    Args:
        transparent: whether the background is transparent instead of white.
    """
    plan = _plan(style, symbol)
    image, draw = canvas(plan.width, plan.height, _CLEAR if transparent else _PAPER)
    left, right = _MARGIN, _MARGIN + symbol.width
    if plan.ramp:
        assert style.palette is not None
        _draw_ramp(image, style.palette, plan, left, right)
        _frame(draw, left, _MARGIN, right, _MARGIN + plan.ramp)
    for number, colour in enumerate(plan.steps):
        top = _MARGIN + number * (symbol.height + 2)
        _fill(image, colour, left, top, right, top + symbol.height)
        _frame(draw, left, top, right, top + symbol.height)
    if style.palette is None:
        bottom = _MARGIN + symbol.height
        draw.rectangle((left, _MARGIN, right - 1, bottom - 1), _SWATCH[0])
        draw.polygon(
            [(left, bottom - 1), (right - 1, bottom - 1), (right - 1, _MARGIN)], _SWATCH[1]
        )
        _frame(draw, left, _MARGIN, right, bottom)
    for text, middle in plan.labels:
        draw.text((right + _GAP, middle), text, _INK, font(), anchor="lm")
    return image


def _plan(style: Style, symbol: Symbol) -> _Plan:
    palette = style.palette
    if palette is None:
        return _Plan(symbol.width + 2 * _MARGIN, symbol.height + 2 * _MARGIN)
    entries = palette.entries
    if len(entries) > _MAX_STEPS or (palette.rgb_continuous and len(entries) > 1):
        count = min(_LABELS, len(entries))
        ramp = max(symbol.height, (count - 1) * _LABEL_DISTANCE)
        low, high = entries[0].value, entries[-1].value
        chosen = [entries[round(i * (len(entries) - 1) / max(1, count - 1))] for i in range(count)]
        # Halved, because the difference of two large numbers may be infinite.
        span = high / 2 - low / 2 or 1.0
        spread = [_MARGIN + ramp * ((high / 2 - entry.value / 2) / span) for entry in chosen]
        labels = tuple(_apart([(_number(e.value), y) for e, y in zip(chosen, spread, strict=True)]))
        return _Plan(_wide(symbol, labels), ramp + 2 * _MARGIN, labels, ramp=ramp)
    height = symbol.height + 2
    # Highest values first, as in a ramp.
    ordered = list(reversed(entries))
    labels = tuple(
        (f"≥ {_number(entry.value)}", _MARGIN + number * height + symbol.height / 2)
        for number, entry in enumerate(ordered)
    )
    steps = tuple((e.red, e.green, e.blue, max(e.alpha, 0)) for e in ordered)
    return _Plan(
        _wide(symbol, labels), len(entries) * height - 2 + 2 * _MARGIN, labels, steps=steps
    )


def _apart(labels: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
    """Return the labels without those that would overlap others; labels are in upward order."""
    kept = [labels[0]]
    for label in labels[1:-1]:
        if kept[-1][1] - label[1] >= LINE_HEIGHT and label[1] - labels[-1][1] >= LINE_HEIGHT:
            kept.append(label)
    return kept if len(labels) == 1 else [*kept, labels[-1]]


def _wide(symbol: Symbol, labels: Sequence[tuple[str, float]]) -> int:
    return 2 * _MARGIN + symbol.width + _GAP + max(text_width(text) for text, _ in labels)


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


def _number(value: float) -> str:
    return f"{value:.6g}"
