"""The documents of the API, by path."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote

from mastaba.errors import UnknownPathError
from mastaba_ogcapi.collection import collection_document
from mastaba_ogcapi.collections import collections_document
from mastaba_ogcapi.conformance import conformance
from mastaba_ogcapi.coverages.documents import (
    SCHEMA,
    coverage_summary,
    domain_set,
    range_type,
    schema_document,
)
from mastaba_ogcapi.coverages.parts import (
    GEOJSON,
    TEXT,
    has_parts,
    parts_document,
    parts_text,
)
from mastaba_ogcapi.landing import OPENAPI_YAML, landing_page
from mastaba_ogcapi.styles import all_styles_document, style_metadata, styles_document
from mastaba_ogcapi.tilejson import tilejson
from mastaba_ogcapi.tilematrixsets import tile_matrix_set_document, tile_matrix_sets_document
from mastaba_ogcapi.tilesets import (
    TILEJSON,
    Tiles,
    has_tilejson,
    tileset_document,
    tilesets_document,
)
from mastaba_ows.links import HTML, JSON, OPENAPI
from mastaba_ows.offers import STYLESHEET

if TYPE_CHECKING:
    from mastaba_ogcapi.dataset import Collection, Dataset

Content = dict[str, Any]

DESCRIPTIONS: Final = (["schema"], ["coverage", "domainset"], ["coverage", "rangetype"])
"""Paths of descriptions of a coverage, below its collection."""
OF_COVERAGES: Final = (*DESCRIPTIONS, ["coverage"], ["coverage", "parts"])
"""Paths of documents about a coverage, below its collection."""


class Representation(NamedTuple):
    """One representation of a document.

    Attributes:
        text: returns the document.
    """

    media_type: str
    text: Callable[[], str]


Resource = dict[str, Representation]
"""All representations of a document by name in ``f``, the default first."""


def find_resource(dataset: Dataset, path: list[str]) -> Resource:
    """Return the document at a path below the API.

    Args:
        path: its segments; empty for the landing page.

    Raises:
        UnknownPathError: the path is unknown.
        RequestError: a segment is unknown or does not fit the others.
    """
    resource = partial(_resource, dataset)
    match path:
        case []:
            others = [
                ("JSON", "?f=json"),
                ("OpenAPI", "/api?f=json"),
                ("OpenAPI in YAML", "/api?f=yaml"),
            ]
            return resource(landing_page(dataset), "landing", crumbs=None, others=others)
        case ["conformance"]:
            title, names = "Conformance classes", {"key": "conformsTo", "name": "Class"}
            return resource(conformance(dataset), "list", title=title, **names)
        case ["api"]:
            return api_resource(dataset)
        case ["api", name] if name in _ENUMERATIONS:
            # Existing clients expect this type, which is not in JSON Schema.
            content = {"type": "enum", "enum": _ENUMERATIONS[name](dataset)}
            others = [("JSON", f"/api/{name}?f=json")]
            more = {"crumbs": [("API", "/api")], "others": others}
            return resource(content, "list", title=name, key="enum", name="Identifier", **more)
        case ["tileMatrixSets"]:
            content = tile_matrix_sets_document(dataset)
            return resource(content, "tile_matrix_sets", title=_SETS[0])
        case ["tileMatrixSets", name]:
            content = tile_matrix_set_document(dataset, name)
            return resource(content, "tile_matrix_set", crumbs=[_SETS])
        case ["collections"]:
            return collections_resource(dataset, dataset.collections.values())
        case ["collections", identifier]:
            return collection_resource(dataset, identifier)
        case ["collections", identifier, *rest] if rest in OF_COVERAGES:
            return _of_coverage(dataset, dataset.collection(identifier), rest)
        case ["collections", identifier, "styles"]:
            found = dataset.collection(identifier)
            if not found.stylesheets:
                found = dataset.raster_collection(identifier)
            content, crumbs = styles_document(dataset, found), _above(dataset, identifier)
            return resource(content, "styles", title="Styles", crumbs=crumbs)
        case ["styles", *rest] if dataset.stylesheets:
            return _stylesheet(dataset, rest)
        case ["collections", identifier, "tiles", *rest] if dataset.tiles:
            return _tiles(Tiles(dataset, dataset.vector_collection(identifier)), rest)
        case ["collections", identifier, "map", "tiles", *rest] if dataset.tiles:
            return _tiles(Tiles(dataset, dataset.raster_collection(identifier, "tiles")), rest)
        case ["collections", identifier, "styles", style, "map", "tiles", *rest] if dataset.tiles:
            raster = dataset.raster_collection(identifier, "tiles")
            return _tiles(Tiles(dataset, raster, raster.style(style)), rest)
        case _:
            raise UnknownPathError


def collection_resource(dataset: Dataset, identifier: str, offset: int = 0) -> Resource:
    """Return the description of a collection; see `collection_document`.

    Raises:
        UnknownNameError: there is no such collection.
    """
    content = collection_document(dataset, dataset.collection(identifier), offset)
    return _resource(dataset, content, "collection", crumbs=[_COLLECTIONS])


def collections_resource(dataset: Dataset, collections: Iterable[Collection]) -> Resource:
    """Return a list of collections of the dataset."""
    content = collections_document(dataset, collections)
    return _resource(dataset, content, "collections", title=_COLLECTIONS[0])


def _of_coverage(dataset: Dataset, collection: Collection, rest: list[str]) -> Resource:
    if not collection.has_coverage:
        raise UnknownPathError
    if rest == ["coverage", "parts"]:
        if not has_parts(dataset, collection):
            raise UnknownPathError
        return {
            "json": Representation(
                GEOJSON, lambda: _json_text(parts_document(dataset, collection))
            ),
            "txt": Representation(TEXT, lambda: parts_text(dataset, collection)),
        }
    if rest == ["coverage"]:
        return _coverage_page(dataset, collection)
    if rest == ["schema"]:
        schema = schema_document(dataset, collection)
        return {"json": Representation(SCHEMA, lambda: _json_text(schema))}
    content = domain_set(collection) if rest[1] == "domainset" else range_type(collection)
    return {"json": Representation(JSON, lambda: _json_text(content))}


def _coverage_page(dataset: Dataset, collection: Collection) -> Resource:
    """Return the page of a coverage, which is a file otherwise."""
    content = coverage_summary(dataset, collection)
    crumbs = _above(dataset, collection.id)
    page = _resource(dataset, content, "coverage", title="Download", crumbs=crumbs)
    return {"html": page["html"]}


def _stylesheet(dataset: Dataset, rest: list[str]) -> Resource:
    """Return the list of styles by which clients draw, one of them, or what is known about it."""
    if not rest:
        return _resource(dataset, all_styles_document(dataset), "styles", title=_STYLES[0])
    sheet = dataset.stylesheet(rest[0])
    if len(rest) == 1:
        text = lambda: sheet.document().body.decode()  # noqa: E731
        return {"mapbox": Representation(STYLESHEET, text)}
    if rest[1:] != ["metadata"]:
        raise UnknownPathError
    content = style_metadata(dataset, sheet)
    return {"json": _resource(dataset, content, "styles")["json"]}


def _tiles(tiles: Tiles, rest: list[str]) -> Resource:
    dataset, crumbs = tiles.dataset, _above(tiles.dataset, tiles.collection.id)
    if not rest:
        content = tilesets_document(tiles)
        return _resource(dataset, content, "tilesets", title="Tilesets", crumbs=crumbs)
    if len(rest) > 1:
        raise UnknownPathError
    offered = tiles.collection.offered_set(rest[0])
    content = tileset_document(tiles, offered)
    title = f"{content['title']} in {content['tileMatrixSetId']}"
    resource = _resource(dataset, content, "tileset", title=title, crumbs=crumbs)
    if has_tilejson(offered):
        resource["tilejson"] = Representation(
            TILEJSON, lambda: _json_text(tilejson(tiles, offered))
        )
    return resource


def api_resource(
    dataset: Dataset, collection: Collection | None = None, lang: str = "en"
) -> Resource:
    """Return the API definition.

    Args:
        dataset: the published collections.
        collection: collection of the values in its examples.
        lang: language of the page.
    """

    # Loaded on first use: few clients request it.
    def content() -> Content:
        from mastaba_ogcapi.openapi import api_document

        return api_document(dataset, collection)

    def yaml() -> str:
        from mastaba_ogcapi.openapi import yaml_text

        return yaml_text(content())

    def page() -> str:
        from mastaba_ogcapi.apipage import api_page

        return api_page(dataset, content(), collection, lang)

    return {
        "json": Representation(OPENAPI, lambda: _json_text(content())),
        "yaml": Representation(OPENAPI_YAML, yaml),
        "html": Representation(HTML, page),
    }


def _resource(dataset: Dataset, content: Content, template: str, **more: Any) -> Resource:
    def page() -> str:
        # Loaded on first use: programs do not request pages.
        from mastaba_ogcapi import pages

        return pages.page(dataset, template, content, **more)

    return {
        "json": Representation(JSON, lambda: _json_text(content)),
        "html": Representation(HTML, page),
    }


def _above(dataset: Dataset, identifier: str) -> list[tuple[str, str]]:
    """Return the parent pages of a page below a collection."""
    title = dataset.collection(identifier).layer.title
    return [_COLLECTIONS, (title, f"/collections/{quote(identifier, safe='')}")]


def _json_text(content: Content) -> str:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


_COLLECTIONS: Final = ("Collections", "/collections")
_STYLES: Final = ("Styles", "/styles")
_SETS: Final = ("Tile matrix sets", "/tileMatrixSets")

_ENUMERATIONS: Final[Mapping[str, Callable[[Dataset], list[str]]]] = {
    "all-collections": lambda dataset: list(dataset.collections),
    "vectorTiles-collections": lambda dataset: [item.id for item in dataset.vector],
    "tileMatrixSets": lambda dataset: list(dataset.tile_matrix_sets),
    "styles": lambda dataset: dataset.style_names,
}
