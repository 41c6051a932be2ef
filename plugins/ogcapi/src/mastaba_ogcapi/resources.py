"""The documents of the API, by path."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from mastaba.errors import UnknownPathError
from mastaba_ogcapi import pages
from mastaba_ogcapi.collection import collection_document
from mastaba_ogcapi.collections import collections_document
from mastaba_ogcapi.conformance import conformance
from mastaba_ogcapi.landing import OPENAPI_JSON, OPENAPI_YAML, landing_page
from mastaba_ogcapi.negotiation import HTML, JSON
from mastaba_ogcapi.styles import styles_document
from mastaba_ogcapi.tilejson import tilejson
from mastaba_ogcapi.tilematrixsets import tile_matrix_set_document, tile_matrix_sets_document
from mastaba_ogcapi.tilesets import (
    TILEJSON,
    Tiles,
    has_tilejson,
    tileset_document,
    tilesets_document,
)

if TYPE_CHECKING:
    from mastaba_ogcapi.dataset import Dataset

Content = Mapping[str, Any]


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
    match path:
        case []:
            return _resource(dataset, partial(landing_page, dataset), pages.landing)
        case ["conformance"]:
            return _resource(dataset, partial(conformance, dataset), pages.conformance)
        case ["api"]:
            return _api(dataset)
        case ["api", name]:
            return _enumeration(dataset, name)
        case ["tileMatrixSets"]:
            build = partial(tile_matrix_sets_document, dataset)
            return _resource(dataset, build, pages.tile_matrix_sets)
        case ["tileMatrixSets", name]:
            found = dataset.tile_matrix_set(name)
            build = partial(tile_matrix_set_document, dataset, found)
            return _resource(dataset, build, pages.tile_matrix_set)
        case ["collections"]:
            everything = dataset.collections.values()
            build = partial(collections_document, dataset, everything)
            return _resource(dataset, build, pages.collections)
        case ["collections", identifier]:
            build = partial(collection_document, dataset, dataset.collection(identifier))
            return _resource(dataset, build, pages.collection)
        case ["collections", identifier, "styles"]:
            raster = dataset.raster_collection(identifier)
            build = partial(styles_document, dataset, raster)
            return _resource(dataset, build, partial(pages.styles, identifier=identifier))
        case ["collections", identifier, "tiles", *rest] if dataset.tiles:
            return _tiles(Tiles(dataset, dataset.vector_collection(identifier)), rest)
        case ["collections", identifier, "map", "tiles", *rest] if dataset.tiles:
            return _tiles(Tiles(dataset, dataset.raster_collection(identifier)), rest)
        case ["collections", identifier, "styles", style, "map", "tiles", *rest] if dataset.tiles:
            raster = dataset.raster_collection(identifier)
            return _tiles(Tiles(dataset, raster, raster.style(style)), rest)
        case _:
            raise unknown_path()


def unknown_path() -> UnknownPathError:
    """Return the error for an unknown path."""
    return UnknownPathError("there is nothing at this path")


def json_text(content: Content) -> str:
    """Return a document as compact JSON."""
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


def _resource(
    dataset: Dataset,
    build: Callable[[], Content],
    page: Callable[[Dataset, Content], str],
) -> Resource:
    return {
        "json": Representation(JSON, lambda: json_text(build())),
        "html": Representation(HTML, lambda: page(dataset, build())),
    }


def _tiles(tiles: Tiles, rest: list[str]) -> Resource:
    identifier = tiles.collection.id
    match rest:
        case []:
            build = partial(tilesets_document, tiles)
            return _resource(tiles.dataset, build, partial(pages.tilesets, identifier=identifier))
        case [name]:
            offered = tiles.collection.offered_set(name)
            resource = _resource(
                tiles.dataset,
                partial(tileset_document, tiles, offered),
                partial(pages.tileset, identifier=identifier),
            )
            if has_tilejson(offered):
                resource["tilejson"] = Representation(
                    TILEJSON, lambda: json_text(tilejson(tiles, offered))
                )
            return resource
        case _:
            raise unknown_path()


def _api(dataset: Dataset) -> Resource:
    # Loaded on first use: few clients request it.
    from mastaba_ogcapi.openapi import api_document

    def yaml_text() -> str:
        import yaml

        class Dumper(yaml.SafeDumper):
            """Writes shared parts in full at each occurrence: few clients support anchors."""

            def ignore_aliases(self, data: Any) -> bool:
                return True

        text: str = yaml.dump(
            api_document(dataset), Dumper=Dumper, sort_keys=False, allow_unicode=True
        )
        return text

    return {
        "json": Representation(OPENAPI_JSON, lambda: json_text(api_document(dataset))),
        "yaml": Representation(OPENAPI_YAML, yaml_text),
        "html": Representation(HTML, lambda: pages.api(dataset, api_document(dataset))),
    }


def _enumeration(dataset: Dataset, name: str) -> Resource:
    identifiers = _ENUMERATIONS.get(name)
    if identifiers is None:
        raise unknown_path()

    def build() -> Content:
        # Existing clients expect this type, which is not in JSON Schema.
        return {"type": "enum", "enum": identifiers(dataset)}

    return _resource(dataset, build, partial(pages.enumeration, name=name))


def _styles(dataset: Dataset) -> list[str]:
    return sorted({style.identifier for item in dataset.raster for style in item.layer.styles})


_ENUMERATIONS: Final[Mapping[str, Callable[[Dataset], list[str]]]] = {
    "all-collections": lambda dataset: list(dataset.collections),
    "vectorTiles-collections": lambda dataset: [item.id for item in dataset.vector],
    "tileMatrixSets": lambda dataset: list(dataset.tile_matrix_sets),
    "styles": _styles,
}
