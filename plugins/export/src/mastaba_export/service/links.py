"""Links in documents (RFC 8288)."""

from __future__ import annotations

from typing import Final

JSON: Final = "application/json"
HTML: Final = "text/html"
OPENAPI: Final = "application/vnd.oai.openapi+json;version=3.0"
REL: Final = "http://www.opengis.net/def/rel/ogc/1.0"

Link = dict[str, str]


def link(href: str, rel: str, media_type: str, title: str) -> Link:
    """Return a link."""
    return {"href": href, "rel": rel, "type": media_type, "title": title}


def self_links(href: str, title: str, query: str = "") -> list[Link]:
    """Return the links of a resource to itself and to its page.

    Args:
        query: of the resource, with a final ``&``.
    """
    return [
        link(f"{href}?{query}f=json", "self", JSON, title),
        link(f"{href}?{query}f=html", "alternate", HTML, f"{title} as a page"),
    ]
