"""The OpenAPI document (OGC API Common, 19-072 clause 9; ogcapi.md section 5)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from mastaba import __version__
from mastaba_ogcapi.landing import OPENAPI_JSON, OPENAPI_YAML
from mastaba_ogcapi.negotiation import HTML, JSON
from mastaba_ogcapi.openapi.parameters import EXTENT, GROUND, SIZE, parameters
from mastaba_ogcapi.openapi.schemas import schemas
from mastaba_ogcapi.tilesets import TILEJSON, VECTOR_TILES

if TYPE_CHECKING:
    from mastaba_ogcapi.dataset import Dataset

Operation = dict[str, Any]

_PREFIX: Final = "ogcapi"
_ERRORS: Final = ("400", "404", "500", "503")
_TEXTS: Final = {
    "400": "A parameter is missing or has an invalid value.",
    "404": "There is no such resource.",
    "406": "None of the media types that the client accepts is offered.",
    "500": "The request cannot be answered.",
    "503": "The data cannot be read at the moment.",
}


def api_document(dataset: Dataset) -> dict[str, Any]:
    """Return the API definition."""
    limits = dataset.site.catalogue.settings.map
    settings = dataset.settings
    described = f"{settings.abstract}\n\n" if settings.abstract else ""
    information: dict[str, Any] = {
        "title": settings.title,
        "version": __version__,
        "description": f"{described}Parameters that are not described here are ignored; names of "
        "parameters are taken in any letter case.",
    }
    if dataset.maps:
        information["x-OGC-limits"] = {
            "maps": {
                "maxWidth": limits.max_width,
                "maxHeight": limits.max_height,
                "maxPixels": limits.max_pixels,
            }
        }
    contact = dataset.site.catalogue.settings.contact
    if contact.name or contact.email:
        texts = {"name": contact.name, "email": contact.email}
        information["contact"] = {name: text for name, text in texts.items() if text}
    return {
        "openapi": "3.0.3",
        "info": information,
        "servers": [{"url": dataset.uri}],
        "tags": [{"name": name, "description": text} for name, text in _TAGS.items()],
        "paths": _paths(dataset),
        "components": {
            "parameters": parameters(dataset),
            "responses": _responses(),
            "schemas": schemas(),
        },
    }


_TAGS: Final = {
    "API": "What the API is and where its parts are",
    "Collections": "The published collections",
    "Tile matrix sets": "Grids of tiles",
    "Map tiles": "Tiles of pictures and of measured values",
    "Vector tiles": "Tiles of vector data",
    "Maps": "Maps of any extent, size and CRS",
}


def _paths(dataset: Dataset) -> dict[str, Any]:
    paths = {
        "/": _document("API", "getLandingPage", "The landing page", "landingPage"),
        "/conformance": _document(
            "API", "getConformance", "What the API conforms to", "confClasses"
        ),
        "/api": _api(),
        "/api/all-collections": _enumeration("collections"),
        "/api/vectorTiles-collections": _enumeration("vectorTiles"),
        "/api/tileMatrixSets": _enumeration("tileMatrixSets"),
        "/api/styles": _enumeration("styles"),
        "/tileMatrixSets": _document(
            "Tile matrix sets", "getTileMatrixSetsList", "All tile matrix sets", "tileMatrixSets"
        ),
        "/tileMatrixSets/{tileMatrixSetId}": _document(
            "Tile matrix sets",
            "getTileMatrixSet",
            "A tile matrix set",
            "tileMatrixSet",
            ["tileMatrixSetId"],
        ),
        "/collections": _document(
            "Collections", "getCollectionsList", "All collections", "collections", ["bbox"]
        ),
    }
    if not dataset.tile_matrix_sets:
        del paths["/tileMatrixSets/{tileMatrixSetId}"]
    if dataset.collections:
        paths["/collections/{collectionId}"] = _document(
            "Collections", "getCollection", "A collection", "collection", ["collectionId"]
        )
    if dataset.raster:
        paths["/collections/{collectionId}/styles"] = _document(
            "Collections",
            "collection.getStyles",
            "The styles of a collection",
            "styles",
            ["rasterCollectionId"],
        )
    if dataset.tiles and dataset.vector:
        paths |= _vector_tiles()
    if dataset.tiles and dataset.raster:
        paths |= _map_tiles(dataset, "", "collection.map", [])
        paths |= _map_tiles(dataset, "/styles/{styleId}", "collection.style.map", ["styleId"])
    if dataset.maps and dataset.raster and dataset.formats.all:
        paths |= _maps(dataset)
    return {path: {"get": operation} for path, operation in paths.items()}


def _vector_tiles() -> dict[str, Operation]:
    base, tag = "/collections/{collectionId}/tiles", "Vector tiles"
    names = ["vectorCollectionId", "tileMatrixSetId"]
    content = {VECTOR_TILES: _BINARY, "application/x-protobuf": _BINARY}
    return {
        base: _document(
            tag, "collection.vector.getTileSetsList", "Vector tilesets", "tileSets", names[:1]
        ),
        f"{base}/{{tileMatrixSetId}}": _tileset(tag, "collection.vector.getTileSet", names),
        f"{base}/{{tileMatrixSetId}}/{{tileMatrix}}/{{tileRow}}/{{tileCol}}": _operation(
            tag,
            "collection.vector.getTile",
            "A vector tile",
            [*names, "tileMatrix", "tileRow", "tileCol", "f-vectorTile", "filename"],
            content,
            empty="Nothing is stored there.",
            negotiated=True,
        ),
    }


def _map_tiles(
    dataset: Dataset, styled: str, operation: str, further: list[str]
) -> dict[str, Operation]:
    base, tag = f"/collections/{{collectionId}}{styled}/map/tiles", "Map tiles"
    names = ["rasterCollectionId", *further, "tileMatrixSetId"]
    stored = (item.layer.pyramid.format.media_type for item in dataset.raster)
    media_types = sorted({*stored, *(item.media_type for item in dataset.formats.all)})
    tile = [*names, "tileMatrix", "tileRow", "tileCol", "f-mapTile", *SIZE, *GROUND, "filename"]
    return {
        base: _document(
            tag, f"{operation}.getTileSetsList", "Tilesets of maps", "tileSets", names[:-1]
        ),
        f"{base}/{{tileMatrixSetId}}": _tileset(tag, f"{operation}.getTileSet", names),
        f"{base}/{{tileMatrixSetId}}/{{tileMatrix}}/{{tileRow}}/{{tileCol}}": _operation(
            tag,
            f"{operation}.getTile",
            "A tile of a map",
            tile,
            dict.fromkeys(media_types, _BINARY),
            empty="Nothing is stored there.",
            negotiated=True,
        ),
    }


def _maps(dataset: Dataset) -> dict[str, Operation]:
    common = ["f-map", *EXTENT, *SIZE, *GROUND, "filename"]
    content = dict.fromkeys(sorted(item.media_type for item in dataset.formats.all), _BINARY)
    routes = [
        ("/collections/{collectionId}/map", "collection.getMap", ["rasterCollectionId"]),
        (
            "/collections/{collectionId}/styles/{styleId}/map",
            "collection.style.getMap",
            ["rasterCollectionId", "styleId"],
        ),
    ]
    if dataset.has_dataset_map:
        routes.insert(0, ("/map", "dataset.getMap", ["collections"]))
    return {
        path: _operation(
            "Maps",
            operation,
            "A map",
            [*names, *common],
            content,
            empty="What is asked for lies outside the data.",
            negotiated=True,
            headers=_MAP_HEADERS,
        )
        for path, operation, names in routes
    }


_BINARY: Final = {"schema": {"type": "string", "format": "binary"}}
_PAGE: Final = {"schema": {"type": "string"}}
_MAP_HEADERS: Final = {
    "Content-Crs": {
        "description": "CRS of the map; absent for CRS84.",
        "schema": {"type": "string"},
    },
    "Content-Bbox": {
        "description": "Extent of the map, in the axis order of its CRS.",
        "schema": {"type": "string"},
    },
}


def _api() -> Operation:
    content: dict[str, Any] = {
        OPENAPI_JSON: {"schema": {"type": "object"}},
        OPENAPI_YAML: _PAGE,
        HTML: _PAGE,
    }
    return _operation("API", "getAPI", "This definition", ["f-api"], content)


def _enumeration(name: str) -> Operation:
    return _document("API", f"get.{name}.identifiers", f"Identifiers: {name}", "enumeration")


def _tileset(tag: str, operation: str, names: Iterable[str]) -> Operation:
    found = _document(tag, operation, "Metadata of a tileset", "tileSet", names)
    found["parameters"][-1] = _parameter("f-tileset")
    found["responses"]["200"]["content"][TILEJSON] = {
        "schema": {"$ref": "#/components/schemas/tileJson"}
    }
    return found


def _document(
    tag: str, operation: str, summary: str, schema: str, names: Iterable[str] = ()
) -> Operation:
    content = {JSON: {"schema": {"$ref": f"#/components/schemas/{schema}"}}, HTML: _PAGE}
    return _operation(tag, operation, summary, [*names, "f"], content)


def _operation(
    tag: str,
    operation: str,
    summary: str,
    names: Iterable[str],
    content: Mapping[str, Any],
    *,
    empty: str = "",
    negotiated: bool = False,
    headers: Mapping[str, Any] | None = None,
) -> Operation:
    success: dict[str, Any] = {"description": summary, "content": dict(content)}
    if headers:
        success["headers"] = dict(headers)
    responses: dict[str, Any] = {"200": success}
    if empty:
        responses["204"] = {"description": empty}
    responses["304"] = {"description": "The client has it already."}
    errors = sorted((*_ERRORS, "406")) if negotiated else _ERRORS
    responses |= {status: {"$ref": f"#/components/responses/{status}"} for status in errors}
    return {
        "tags": [tag],
        "operationId": f"{_PREFIX}.{operation}",
        "summary": summary,
        "parameters": [_parameter(name) for name in names],
        "responses": responses,
    }


def _parameter(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/parameters/{name}"}


def _responses() -> dict[str, Any]:
    content = {
        media_type: {"schema": {"$ref": "#/components/schemas/exception"}}
        for media_type in (JSON, "application/problem+json")
    }
    return {status: {"description": text, "content": content} for status, text in _TEXTS.items()}
