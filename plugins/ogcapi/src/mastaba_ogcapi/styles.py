"""The styles of collections (OGC API Maps, 20-058 clause 11; OGC API Styles, 20-009 clause 7).

Styles of maps are those of the layer. Styles of vector tiles are documents that clients draw by;
services such as mastaba-styles offer them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mastaba_ogcapi.links import address, collection_address
from mastaba_ows.links import JSON, REL, Link, link, self_links
from mastaba_ows.offers import STYLESHEET, Stylesheet

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mastaba.api.catalogue import Style
    from mastaba_ogcapi.dataset import Collection, Dataset


def styles_document(dataset: Dataset, collection: Collection) -> dict[str, Any]:
    """Return the styles of a collection; the first one is the default."""
    href = collection_address(dataset.uri, collection.id, "styles")
    links = self_links(href, f"Styles of {collection.layer.title}")
    styles = collection.layer.styles
    if collection.layer.is_vector:
        sheets = collection.stylesheets
        return {"links": links, "default": sheets[0].id, **_listed(dataset, sheets)}
    return {
        "links": links,
        "default": styles[0].identifier,
        "styles": [_style(dataset, collection, style) for style in styles],
    }


def all_styles_document(dataset: Dataset) -> dict[str, Any]:
    """Return all styles by which clients draw collections."""
    links = self_links(address(dataset.uri, "styles"), "Styles")
    return {"links": links, **_listed(dataset, dataset.stylesheets.values())}


def style_metadata(dataset: Dataset, sheet: Stylesheet) -> dict[str, Any]:
    """Return what is known about a style by which clients draw."""
    about = _metadata_address(dataset, sheet)
    form = {"title": "MapLibre", "version": "8", "native": True, "link": _sheet_link(sheet)}
    return {
        "id": sheet.id,
        "title": sheet.title,
        "stylesheets": [form],
        "links": [link(about, "self", JSON, sheet.title)],
    }


def _listed(dataset: Dataset, sheets: Iterable[Stylesheet]) -> dict[str, Any]:
    def entry(sheet: Stylesheet) -> dict[str, Any]:
        about = _metadata_address(dataset, sheet)
        links = [_sheet_link(sheet), link(about, "describedby", JSON, "Metadata of the style")]
        return {"id": sheet.id, "title": sheet.title, "links": links}

    return {"styles": [entry(sheet) for sheet in sheets]}


def _metadata_address(dataset: Dataset, sheet: Stylesheet) -> str:
    return f"{address(dataset.uri, 'styles', sheet.id, 'metadata')}?f=json"


def _sheet_link(sheet: Stylesheet) -> Link:
    return link(sheet.href, "stylesheet", STYLESHEET, "MapLibre style")


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
