"""The legends of the styles of a layer, as HTML."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, Final

_PLAIN: Final = 1000
"""Numbers from here on have no decimals."""
_COLOURS: Final = (
    *("#2f6f8f", "#b0582f", "#5f7f3a", "#7d5a9b"),
    *("#a8842c", "#3d7f73", "#a2466b", "#56657a"),
)
_USUAL: Final = (
    (
        "#2b7cb3",
        "water|river|stream|lake|sea|ocean|hydro|coast|canal|eau|rivi|lac|mer|fleuve|cours",
    ),
    ("#9a6b3f", "contour|isoline|elevation|hypso|courbe|niveau|altitude"),
    (
        "#4f8a3c",
        "forest|wood|tree|veget|park|garden|grass|green|landuse|landcover|foret|forêt|bois|parc",
    ),
    ("#d1731f", "road|street|highway|transport|path|route|rue|chemin|voie"),
    ("#555b66", "rail|train|tram|metro|ferr"),
    ("#8a7260", "build|house|bati|bâti|maison"),
    ("#8e4ea3", "bound|border|admin|limit|commune|parcel|cadastr|fronti"),
    ("#7a3b1e", "peak|summit|mountain|sommet|montagne"),
    ("#c23b3b", "town|city|cities|village|place|settle|poi|ville|lieu"),
)
"""Colours that maps usually have for what the name of a table means, and how its words start."""


def table_colour(name: str, place: int) -> str:
    """Return the colour of a vector table, by its name, or else by its place in the list."""
    words = "".join(one if one.isalnum() else " " for one in name.lower()).split()
    usual = (
        colour
        for colour, starts in _USUAL
        if any(word.startswith(tuple(starts.split("|"))) for word in words)
    )
    return next(usual, _COLOURS[place % len(_COLOURS)])


def legends(layer: Mapping[str, Any]) -> str:
    """Return an element for each legend; the scripts show the one of the chosen style.

    Args:
        layer: description of a layer.
    """
    # The colours of a stylesheet are its own.
    found = [_tables(layer)] if layer["tables"] and not layer["stylesheet"] else []
    if layer["kind"] == "elevation":
        found.append('<div data-draws="elevation" id="range" hidden></div>')
    for place, style in enumerate(layer["styles"]):
        if style["palette"]:
            shown = _scale(style["palette"], f"palette-{place}")
            found.append(
                f'<div data-draws="image" data-style="{escape(style["id"])}" hidden>{shown}</div>'
            )
    return "\n".join(found)


def _tables(layer: Mapping[str, Any]) -> str:
    rows = "".join(
        f'<p class="table"><svg viewBox="0 0 22 14" aria-hidden="true">'
        f'<rect width="22" height="14" fill="{table["colour"]}"/></svg>{escape(table["name"])}</p>'
        for table in layer["tables"]
    )
    return f'<div data-draws="vector" hidden>{rows}</div>'


def _scale(palette: Mapping[str, Any], name: str) -> str:
    low, high = palette["colours"][0][0], palette["colours"][-1][0]
    stops = "".join(
        f'<stop offset="{part:.6g}" stop-color="rgb({red} {green} {blue})"'
        f' stop-opacity="{alpha / 255:.6g}"/>'
        for part, red, green, blue, alpha in _stops(palette)
    )
    ends = "".join(
        f"<span>{escape(_with_unit(value, palette['unit']))}</span>" for value in (low, high)
    )
    return (
        '<svg class="scale" viewBox="0 0 256 12" preserveAspectRatio="none" aria-hidden="true">'
        f'<linearGradient id="{name}">{stops}</linearGradient>'
        f'<rect width="256" height="12" fill="url(#{name})"/></svg><div class="ends">{ends}</div>'
    )


def _with_unit(value: float, unit: str) -> str:
    return f"{_rounded(value)} {unit}".strip()


def _rounded(value: float) -> str:
    """Return a number as it is read: with four significant digits, or all before the point."""
    if abs(value) >= _PLAIN:
        return f"{value:.0f}"
    return f"{value:.4g}"


def _stops(palette: Mapping[str, Any]) -> Iterator[tuple[float, int, int, int, int]]:
    """Yield the place between 0 and 1 and the colour of each stop."""
    colours = palette["colours"]
    low, high = colours[0][0], colours[-1][0]
    before = None
    for value, *colour in colours:
        place = (value - low) / ((high - low) or 1)
        # Without a gradient, each colour reaches to the next value.
        if before is not None and not palette["continuous"]:
            yield (place, *before)
        yield (place, *colour)
        before = colour
