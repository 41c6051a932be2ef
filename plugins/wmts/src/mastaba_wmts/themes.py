"""The Themes section of capabilities: groups of layers (OGC 07-057r7, clause 7.1.1.2.5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mastaba_ows.xml import Element

_DEEPEST: Final = 2


def themes_schema(depth: int = _DEEPEST) -> dict[str, Any]:
    """Return the schema of a list of themes, which may contain themes."""
    texts: dict[str, Any] = {"type": "array", "items": {"type": "string"}}
    properties: dict[str, Any] = {
        "identifier": {"type": "string", "minLength": 1},
        "title": {"type": "string"},
        "abstract": {"type": "string"},
        "keywords": texts,
        "layers": {**texts, "description": "Identifiers of published layers."},
    }
    if depth > 1:
        properties["themes"] = themes_schema(depth - 1)
    item = {
        "type": "object",
        "additionalProperties": False,
        "required": ["identifier", "title"],
        "properties": properties,
    }
    return {"type": "array", "items": item}


def add_themes(root: Element, themes: Sequence[Mapping[str, Any]], layers: Set[str]) -> None:
    """Append the ``Themes`` element, unless it would be empty.

    Args:
        themes: valid with `themes_schema`.
        layers: identifiers of the layers in the document; others are left out, with the themes
            that have no other layers.
    """
    from mastaba_ows.xml import add
    from mastaba_wmts.contents import WMTS

    shown = [theme for theme in themes if _has_layers(theme, layers)]
    if shown:
        element = add(root, f"{WMTS}Themes")
        for theme in shown:
            _add_theme(element, theme, layers)


def _add_theme(parent: Element, theme: Mapping[str, Any], layers: Set[str]) -> None:
    from mastaba_ows.xml import add
    from mastaba_wmts.contents import OWS, WMTS, add_description

    element = add(parent, f"{WMTS}Theme")
    add_description(element, theme["title"], theme.get("abstract", ""), theme.get("keywords", ()))
    add(element, f"{OWS}Identifier", theme["identifier"])
    for inner in theme.get("themes", ()):
        if _has_layers(inner, layers):
            _add_theme(element, inner, layers)
    for name in theme.get("layers", ()):
        if name in layers:
            add(element, f"{WMTS}LayerRef", name)


def _has_layers(theme: Mapping[str, Any], layers: Set[str]) -> bool:
    return not layers.isdisjoint(theme.get("layers", ())) or any(
        _has_layers(inner, layers) for inner in theme.get("themes", ())
    )
