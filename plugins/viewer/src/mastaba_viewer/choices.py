"""What the selects of the pages offer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

from mastaba_viewer.texts import LANGUAGES, text


def options(choices: Iterable[tuple[str, str]], selected: str | None = None) -> str:
    """Return the options of a select from pairs of a value and a text."""
    return "".join(
        f'<option value="{escape(value)}"{" selected" if value == selected else ""}>'
        f"{escape(shown)}</option>"
        for value, shown in choices
    )


def places(found: Iterable[Mapping[str, Any]]) -> str:
    """Return the names of the places that can be searched, as options."""
    return "".join(f'<option value="{escape(place["name"])}"></option>' for place in found)


def sources(layer: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the sources that browsers can show.

    Args:
        layer: description of a layer.
    """
    return [
        (source["id"], source["title"])
        for source in layer["sources"]
        if any(look["draws"] for look in source["styles"])
        and any(is_offered(source, grid) for grid in layer["sets"])
    ]


def sets(layer: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the tile matrix sets in which a source shows the layer."""
    return [
        (grid["id"], f"{grid['id']} ({grid['crs']})")
        for grid in layer["sets"]
        if any(is_offered(source, grid) for source in layer["sources"])
    ]


def styles(layer: Mapping[str, Any], lang: str) -> list[tuple[str, str]]:
    """Return the styles that a source shows; the value for stored data is empty."""
    shown = {
        look["style"] for source in layer["sources"] for look in source["styles"] if look["draws"]
    }
    stored = [("", text("stored-data", lang))] if None in shown else []
    return stored + [
        (style["id"], _style(style, lang)) for style in layer["styles"] if style["id"] in shown
    ]


def _style(style: Mapping[str, str], lang: str) -> str:
    """Return the title of a style, with its identifier; the usual title is translated."""
    name, title = style["id"], style["title"]
    if title == text("stored-data", LANGUAGES[0]):
        title = text("stored-data", lang)
    return name if title == name else f"{title} ({name})"


def formats(layer: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the media types of maps that browsers can show."""
    names = (
        name
        for source in layer["sources"]
        for look in source["styles"]
        if look["draws"]
        for name in look.get("formats", [])
    )
    return [(name, name.removeprefix("image/").upper()) for name in dict.fromkeys(names)]


def projections(layer: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the CRSs of the map."""
    return [(code, f"{found['name']} ({code})") for code, found in layer["projections"].items()]


def is_offered(source: Mapping[str, Any], grid: Mapping[str, Any]) -> bool:
    """Return whether a source offers tiles in a grid, or maps in its CRS."""
    if source["type"] == "maps":
        return grid["crs"] in source["crs"]
    return grid["id"] in source["sets"]
