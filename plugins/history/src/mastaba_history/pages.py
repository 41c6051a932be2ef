"""The pages of layers and versions for browsers, made from their JSON documents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from mastaba_server.web.pages import STYLE, page_headers, rendered_page

_STYLE: Final = (
    STYLE
    + """
body { max-width: 60rem; }
a { margin-right: 0.5rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th, td { padding: 0.2rem 0.5rem; text-align: left; vertical-align: top; }
thead th { border-bottom: 1px solid; }
nav { margin-top: 1rem; }
"""
)
HEADERS: Final = page_headers(_STYLE)
_FORMS: Final = {
    "timemap": "TimeMap",
    "tilejson": "TileJSON",
    "original": "All versions",
}
_FEEDS: Final = {"application/atom+xml": "Atom", "application/feed+json": "JSON Feed"}

Link = Mapping[str, str]
Cell = tuple[object, Sequence[Link]]


def index_page(document: Mapping[str, Any]) -> str:
    """Return the page of all layers that have a history."""
    rows = [
        [
            ("", [_link(one["href"], one["title"] or one["layer"])]),
            (_when(one["since"]), []),
            (f"{one['publications']:,}", []),
            (one["generation"], []),
        ]
        for one in document["layers"]
    ]
    columns = ("Layer", "Last published", "Publications", "Version")
    notes = () if rows else ("No layer has a history.",)
    return _page(document["title"], columns, rows, notes, document["links"])


def layer_page(document: Mapping[str, Any], back: str, viewer: str) -> str:
    """Return the page of the publications of a layer or value, newest first.

    Args:
        document: as at ``/history/LAYER``.
        back: address of the page of all layers.
        viewer: address of the service of maps; empty without one.
    """
    name, published = _name(document), document["published"]
    rows: list[list[Cell]] = []
    for position, row in enumerate(published):
        links = []
        if row["state"] == "kept":
            links.append(_link(row["href"], "Version"))
            if viewer:
                links.append(_link(_map(viewer, name, row["generation"]), "Map"))
        if "changes" in row:
            links.append(_link(row["changes"], "Changes"))
            before = published[position + 1] if position + 1 < len(published) else None
            if viewer and before and before["state"] == row["state"] == "kept":
                sides = (_named(name, one["generation"]) for one in (before, row))
                links.append(_link(f"{viewer}/compare/{'/'.join(sides)}", "Compare"))
        state = "" if row["state"] == "kept" else row["state"]
        rows.append(
            [
                (_when(row["from"]), []),
                (row["generation"], []),
                (row["by"], []),
                (row["message"], []),
                (state, links),
            ]
        )
    columns = ("Published", "Version", "By", "Message", "")
    notes = () if rows else ("This layer has no history.",)
    title = document["title"] or name
    return _page(title, columns, rows, notes, document["links"], back)


def version_page(document: Mapping[str, Any], back: str, viewer: str) -> str:
    """Return the page of one version: when it was published, and where.

    Args:
        document, back, viewer: as of `layer_page`; the document is that of the version.
    """
    name, token = _name(document), document["generation"]
    rows: list[list[Cell]] = [
        [(_when(one["from"]), []), (_when(one["until"] or ""), []), (one["message"], [])]
        for one in reversed(document["published"])
    ]
    links = list(document["links"])
    if viewer:
        links.append({"rel": "", "href": _map(viewer, name, token), "text": "Map"})
    title = f"{document['title'] or name}, version {token}"
    return _page(title, ("From", "Until", "Message"), rows, (), links, back)


def _page(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    notes: Iterable[str],
    links: Iterable[Link],
    back: str = "",
) -> str:
    shown, feeds = [], []
    for link in links:
        text = link.get("text") or _FORMS.get(link["rel"]) or _FEEDS.get(link.get("type", ""))
        if link["rel"] == "self":
            text, link = "JSON", {**link, "href": f"{link['href']}?f=json"}
        if link.get("type") in _FEEDS:
            feeds.append(link)
        if text and "{" not in link["href"]:
            shown.append(_link(link["href"], text))
    return rendered_page(
        "mastaba_history",
        _STYLE,
        title=title,
        columns=columns,
        rows=rows,
        notes=notes,
        links=shown,
        feeds=feeds,
        back=back,
    )


def _link(href: str, text: str) -> dict[str, str]:
    return {"href": href, "text": text}


def _name(document: Mapping[str, Any]) -> str:
    """Return the name of a layer or value, as in addresses of tiles."""
    values = document.get("value", {}).items()
    named = "".join(f";{name}={quote(text, ':.+')}" for name, text in values)
    return f"{document['layer']}{named}"


def _named(name: str, token: str) -> str:
    return quote(f"{name}~{token}", safe="~;=:.+%")


def _map(viewer: str, name: str, token: str) -> str:
    return f"{viewer}/{_named(name, token)}"


def _when(instant: str) -> str:
    """Return an instant without fractions of a second."""
    return instant[:19].replace("T", " ")
