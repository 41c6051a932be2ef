"""Links in documents of OGC APIs (RFC 8288; OGC API Common, 19-072 clause 5.2)."""

from __future__ import annotations

from typing import Any, Final

JSON: Final = "application/json"
"""Media type of documents."""
HTML: Final = "text/html"
"""Media type of pages."""
OPENAPI: Final = "application/vnd.oai.openapi+json;version=3.0"
"""Media type of the definition of an API."""
REL: Final = "http://www.opengis.net/def/rel/ogc/1.0"
"""What the names of relations of the OGC begin with."""

Link = dict[str, Any]
"""A link, as documents contain it."""


def link(href: str, rel: str, media_type: str, title: str, **more: Any) -> Link:
    """Return a link with these members."""
    return {"href": href, "rel": rel, "type": media_type, "title": title, **more}


def self_links(href: str, title: str, query: str = "") -> list[Link]:
    """Return the links of a resource to itself and to its HTML page.

    Args:
        href: its address without a query.
        query: of the resource, with a final ``&``.
    """
    return [
        link(f"{href}?{query}f=json", "self", JSON, title),
        link(f"{href}?{query}f=html", "alternate", HTML, f"{title} as a page"),
    ]
