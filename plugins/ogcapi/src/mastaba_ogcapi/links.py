"""Links and addresses in documents (RFC 8288; OGC API Common, 19-072 clause 5.2)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from mastaba_ogcapi.negotiation import HTML, JSON

if TYPE_CHECKING:
    from mastaba.api.catalogue import Metadata

Link = dict[str, Any]

REL: Final = "http://www.opengis.net/def/rel/ogc/1.0"
RELS: Final = "https://www.opengis.net/def/rel/ogc/1.0"
"""Both spellings of relations are in use."""


def address(uri: str, *segments: str) -> str:
    """Return the address of a resource below the API; segments are percent-encoded."""
    return "/".join((uri, *(quote(segment, safe="") for segment in segments)))


def collection_address(uri: str, identifier: str, *segments: str) -> str:
    """Return the address of a resource below a collection."""
    return address(uri, "collections", identifier, *segments)


def link(href: str, rel: str, media_type: str, title: str) -> Link:
    """Return a link."""
    return {"href": href, "rel": rel, "type": media_type, "title": title}


def template(href: str, rel: str, media_type: str, title: str) -> Link:
    """Return a link whose address is a template."""
    return {**link(href, rel, media_type, title), "templated": True}


def self_links(href: str, title: str) -> list[Link]:
    """Return the links of a resource to itself and to its HTML page."""
    return [
        link(f"{href}?f=json", "self", JSON, title),
        link(f"{href}?f=html", "alternate", HTML, f"{title} as a page"),
    ]


def metadata_links(records: Iterable[Metadata]) -> list[Link]:
    """Return links to metadata records."""
    return [
        link(record.url, "describedby", record.media_type, record.type or "Metadata")
        for record in records
    ]
