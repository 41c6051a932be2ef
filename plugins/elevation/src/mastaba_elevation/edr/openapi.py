"""The definition of the API, and its page for people (elevation.md 2.3, 2.7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mastaba import __version__
from mastaba_elevation.edr.names import (
    AREA,
    CORRIDOR,
    CUBE,
    MEDIA_TYPES,
    OUTPUT,
    PARAMETERS,
    POSITION,
    RADIUS,
    SOURCES,
    TRAJECTORY,
    UNITS,
    crs_names,
)
from mastaba_elevation.edr.sources import have_sources
from mastaba_elevation.queries.datasets import middle
from mastaba_elevation.queries.taps import METHODS
from mastaba_elevation.web.pages import forms_page
from mastaba_ows.links import HTML, JSON, OPENAPI

if TYPE_CHECKING:
    from mastaba.api.web import Document
    from mastaba_elevation.queries.datasets import Dataset
    from mastaba_elevation.web.facade import Context

Json = dict[str, Any]

_WORDS: Final = {
    POSITION: "Heights of points (POINT, MULTIPOINT)",
    RADIUS: "Heights around a point",
    AREA: "Heights in a polygon (POLYGON, MULTIPOLYGON)",
    CUBE: "Heights in a box",
    CORRIDOR: "Heights around lines (LINESTRING, MULTILINESTRING)",
    TRAJECTORY: "Heights along lines (LINESTRING, MULTILINESTRING, with Z or M)",
}
# Of a box: west, south, east, north.
_COORDS: Final = {
    POSITION: "POINT({0} {1})",
    RADIUS: "POINT({0} {1})",
    AREA: "POLYGON(({0} {1},{2} {1},{2} {3},{0} {3},{0} {1}))",
    CORRIDOR: "LINESTRING({0} {1},{2} {3})",
    TRAJECTORY: "LINESTRING({0} {1},{2} {3})",
}
_NUMBER: Final[Json] = {"type": "number"}
_COUNT: Final[Json] = {"type": "integer", "minimum": 0}
_BOX: Final[Json] = {
    "oneOf": [
        {"type": "array", "items": _NUMBER, "minItems": 4, "maxItems": 4},
        {"type": "array", "items": _NUMBER, "minItems": 6, "maxItems": 6},
    ]
}


def definition(context: Context, uri: str) -> Json:
    """Return the definition in OpenAPI 3.0; every parameter is written where it is used."""
    service, contact = context.service, context.site.catalogue.settings.contact
    info: Json = {
        "title": service.title,
        "version": __version__,
        "description": f"{service.abstract} Unknown parameters are ignored.",
    }
    if contact.name or contact.email:
        known = {"name": contact.name, "email": contact.email}
        info["contact"] = {key: value for key, value in known.items() if value}
    paths: Json = {
        "/": _document("Landing page", "getLandingPage"),
        "/conformance": _document("Conformance classes", "getConformance"),
        "/api": {
            "get": _operation(
                "This document", "getApi", [_format(["json", "html"])], [OPENAPI, HTML]
            )
        },
        "/collections": {
            "get": _operation(
                "Collections",
                "getCollections",
                [
                    _parameter("bbox", "Box in degrees", _BOX),
                    _datetime(),
                    _format(["json", "html"]),
                ],
                [JSON, HTML],
            )
        },
    }
    for identifier in context.datasets:
        base = f"/collections/{identifier}"
        paths[base] = _document(f"Collection {identifier}", f"{_word(identifier)}.getCollection")
        for query in OUTPUT:
            paths[f"{base}/{query}"] = _query(context, identifier, query)
    return {
        "openapi": "3.0.3",
        "info": info,
        "servers": [{"url": uri}],
        "paths": paths,
        "components": {"schemas": {"exception": _exception()}},
    }


def api_page(context: Context, uri: str, content: Json) -> Document:
    """Return the page: each operation as a form, filled with values that find heights."""
    operations = [
        (path, operation["summary"], operation.get("parameters", ()))
        for path, item in content["paths"].items()
        for method, operation in item.items()
        if method == "get"
    ]
    return forms_page(context.service.title, uri, operations)


def _query(context: Context, identifier: str, query: str) -> Json:
    dataset = context.datasets[identifier]
    box, width = _place(dataset)
    metres: Json = {"schema": _NUMBER, "required": True, "example": width}
    unit: Json = {"schema": _words(list(UNITS)), "required": True, "example": "m"}
    own: list[Json] = []
    if query == CUBE:
        words = "Box in the CRS of the request"
        own.append(_parameter("bbox", words, _BOX, required=True, example=box))
        own += [
            _parameter(name, "Number of positions, 0 for the stored resolution", _COUNT)
            for name in ("resolution-x", "resolution-y")
        ]
    else:
        text = {"type": "string"}
        example = _COORDS[query].format(*box)
        own.append(_parameter("coords", "Well-known text", text, required=True, example=example))
    if query == RADIUS:
        own += [
            _parameter("within", "Radius", **metres),
            _parameter("within-units", "Unit", **unit),
        ]
    if query == CORRIDOR:
        own += [
            _parameter("corridor-width", "Width of the whole corridor", **metres),
            _parameter("width-units", "Unit", **unit),
            _parameter("corridor-height", "Ignored: heights are values", {"type": "string"}),
            _parameter("height-units", "Ignored", {"type": "string"}),
        ]
    if query == TRAJECTORY:
        own += [
            _parameter("points", "Number of points", _COUNT),
            _parameter("simplify", "minmax, or metres", {"type": "string"}),
            _parameter("path", "Way between vertices", _words(["straight", "geodesic"])),
        ]
    if query in (AREA, RADIUS):
        own.append(_parameter("stats", "Statistics instead of heights", {"type": "boolean"}))
    known = list(PARAMETERS)
    if query in (POSITION, TRAJECTORY) and have_sources(context.site, dataset):
        known += SOURCES
    names = {"type": "array", "items": _words(known)}
    own += [
        _parameter("crs", "CRS of coordinates and answer", _words(crs_names(dataset))),
        _parameter("parameter-name", "Values to return", names),
        _datetime(),
        _parameter("z", "Ignored: heights are values", {"type": "string"}),
        _parameter("interpolation", "Method", _words(list(METHODS))),
        _format(list(OUTPUT[query])),
    ]
    types = [MEDIA_TYPES[name] for name in OUTPUT[query]]
    word = _word(identifier)
    summary = f"{_WORDS[query]}: {identifier}"
    get = _operation(summary, f"{word}.{query}", own, types)
    get["responses"]["204"] = {"description": "There is no height at all"}
    post = _operation(f"{summary} (POST)", f"{word}.{query}.post", [], types)
    post["responses"]["204"] = {"description": "There is no height at all"}
    properties = {item["name"]: item["schema"] for item in own}
    required = [item["name"] for item in own if item["required"]]
    body = {"type": "object", "properties": properties, "required": required}
    post["requestBody"] = {"required": True, "content": {JSON: {"schema": body}}}
    return {"get": get, "post": post}


def _document(summary: str, name: str) -> Json:
    return {"get": _operation(summary, name, [_format(["json", "html"])], [JSON, HTML])}


def _operation(summary: str, name: str, parameters: list[Json], types: list[str]) -> Json:
    error = {JSON: {"schema": {"$ref": "#/components/schemas/exception"}}}
    content = {media_type: {"schema": _body(media_type)} for media_type in types}
    return {
        "summary": summary,
        "operationId": name,
        "parameters": parameters,
        "responses": {
            "200": {"description": "The document", "content": content},
            "default": {"description": "An error", "content": error},
        },
    }


def _body(media_type: str) -> Json:
    if "json" in media_type:
        return {"type": "object"}
    if media_type.startswith("text/"):
        return {"type": "string"}
    return {"type": "string", "format": "binary"}


def _place(dataset: Dataset) -> tuple[list[float], int]:
    """Return a box of about 20 cells in the middle of the finest level, and its width in metres."""
    x, y = middle(dataset)
    half = 5.0 * dataset.layers[0].margin
    box = [round(value, 7) for value in (x - half, y - half, x + half, y + half)]
    return box, max(1, round(half * 2.0 * 111_000.0))


def _parameter(
    name: str, description: str, schema: Json, *, required: bool = False, example: Any = None
) -> Json:
    return {
        "name": name,
        "in": "query",
        "description": description,
        "required": required,
        "schema": schema,
        "style": "form",
        "explode": False,
        **({} if example is None else {"example": example}),
    }


def _words(words: list[str]) -> Json:
    return {"type": "string", "enum": words}


def _format(names: list[str]) -> Json:
    return _parameter("f", "Format", _words(names))


def _datetime() -> Json:
    return _parameter("datetime", "Ignored: heights have no time", {"type": "string"})


def _word(identifier: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in identifier)


def _exception() -> Json:
    text = {"type": "string"}
    return {
        "type": "object",
        "required": ["code"],
        "properties": {"code": text, "description": text, "detail": text, "title": text},
    }
