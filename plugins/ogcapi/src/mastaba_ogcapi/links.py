"""Links and addresses in documents (RFC 8288; OGC API Common, 19-072 clause 5.2)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from mastaba_ows.links import Link, link

if TYPE_CHECKING:
    from mastaba.api.catalogue import Metadata

RELS: Final = "https://www.opengis.net/def/rel/ogc/1.0"
"""Both spellings of relations are in use."""


def address(uri: str, *segments: str) -> str:
    """Return the address of a resource below the API; segments are percent-encoded."""
    return "/".join((uri, *(quote(segment, safe="") for segment in segments)))


def collection_address(uri: str, identifier: str, *segments: str) -> str:
    """Return the address of a resource below a collection."""
    return address(uri, "collections", identifier, *segments)


def template(href: str, rel: str, media_type: str, title: str) -> Link:
    """Return a link whose address is a template."""
    return link(href, rel, media_type, title, templated=True)


def metadata_links(records: Iterable[Metadata]) -> list[Link]:
    """Return links to metadata records."""
    return [
        link(record.url, "describedby", record.media_type, record.type or "Metadata")
        for record in records
    ]
