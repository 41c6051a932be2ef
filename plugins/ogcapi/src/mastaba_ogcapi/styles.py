"""The styles of a collection (OGC API Maps, 20-058 clause 11)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mastaba_ogcapi.links import REL, Link, collection_address, link, self_links
from mastaba_ogcapi.negotiation import JSON

if TYPE_CHECKING:
    from mastaba.api.catalogue import Style
    from mastaba_ogcapi.dataset import Collection, Dataset


def styles_document(dataset: Dataset, collection: Collection) -> dict[str, Any]:
    """Return the styles of a collection of maps; the first one is the default."""
    href = collection_address(dataset.uri, collection.id, "styles")
    styles = collection.layer.styles
    return {
        "links": self_links(href, f"Styles of {collection.layer.title}"),
        "default": styles[0].identifier,
        "styles": [_style(dataset, collection, style) for style in styles],
    }


def _style(dataset: Dataset, collection: Collection, style: Style) -> dict[str, Any]:
    href = collection_address(dataset.uri, collection.id, "styles", style.identifier, "map")
    links: list[Link] = []
    natural = collection.natural_format(style) if collection.has_map else None
    if natural is not None:
        links.append(link(href, f"{REL}/map", natural.media_type, "Map in this style"))
    if collection.has_map_tiles:
        links.append(
            link(f"{href}/tiles?f=json", f"{REL}/tilesets-map", JSON, "Map tiles in this style")
        )
    if style.legend is not None:
        links.append(link(style.legend.url, f"{REL}/legend", style.legend.media_type, "Legend"))
    content: dict[str, Any] = {"id": style.identifier, "title": style.title}
    if style.abstract:
        content["description"] = style.abstract
    if style.keywords:
        content["keywords"] = list(style.keywords)
    return content | {"links": links}
