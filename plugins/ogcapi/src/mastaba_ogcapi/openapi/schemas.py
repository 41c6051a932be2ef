"""Schemas of the API's JSON documents."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]


def schemas() -> dict[str, Schema]:
    """Return ``components/schemas``."""
    text: Schema = {"type": "string"}
    number: Schema = {"type": "number"}
    index: Schema = {"type": "integer", "minimum": 0}
    texts = _list(text)
    links = _list(_reference("link"))
    return {
        "link": _object(
            {
                "href": text,
                "rel": text,
                "type": text,
                "title": text,
                "templated": {"type": "boolean"},
            },
            "href",
            "rel",
        ),
        "exception": _object(
            {"type": text, "title": text, "status": {"type": "integer"}, "detail": text}, "type"
        ),
        "landingPage": _object(
            {
                "title": text,
                "description": text,
                "keywords": texts,
                "extent": _reference("extent"),
                "crs": texts,
                "links": links,
            },
            "links",
        ),
        "confClasses": _object({"conformsTo": texts, "links": links}, "conformsTo"),
        "enumeration": _object(
            {"type": {"type": "string", "enum": ["enum"]}, "enum": texts}, "type", "enum"
        ),
        "extent": _object(
            {
                "spatial": _object(
                    {
                        "bbox": _list(_list(number)),
                        "crs": text,
                        "storageCrsBbox": _list(_list(number)),
                    }
                )
            }
        ),
        "collection": _object(
            {
                "id": text,
                "title": text,
                "description": text,
                "keywords": texts,
                "attribution": text,
                "extent": _reference("extent"),
                "dataType": {"type": "string", "enum": ["map", "vector"]},
                "mapTiles": {"type": "boolean"},
                "dataTiles": {"type": "boolean"},
                "crs": texts,
                "storageCrs": text,
                "minCellSize": number,
                "maxCellSize": number,
                "minScaleDenominator": number,
                "maxScaleDenominator": number,
                "links": links,
            },
            "id",
            "links",
            "extent",
        ),
        "collections": _object(
            {
                "links": links,
                "numberMatched": index,
                "numberReturned": index,
                "collections": _list(_reference("collection")),
            },
            "links",
            "collections",
        ),
        "styles": _object(
            {
                "default": text,
                "styles": _list(
                    _object(
                        {
                            "id": text,
                            "title": text,
                            "description": text,
                            "keywords": texts,
                            "links": links,
                        },
                        "id",
                    )
                ),
                "links": links,
            },
            "styles",
        ),
        "tileMatrixSets": _object(
            {
                "links": links,
                "tileMatrixSets": _list(
                    _object(
                        {"id": text, "title": text, "uri": text, "crs": text, "links": links},
                        "id",
                        "links",
                    )
                ),
            },
            "tileMatrixSets",
        ),
        "tileMatrixSet": _object(
            {
                "id": text,
                "title": text,
                "description": text,
                "keywords": texts,
                "uri": text,
                "type": text,
                "identifier": text,
                "supportedCRS": text,
                "crs": text,
                "orderedAxes": texts,
                "links": links,
                "tileMatrices": _list(_reference("tileMatrix")),
            },
            "crs",
            "tileMatrices",
        ),
        "tileMatrix": _object(
            {
                "id": text,
                "scaleDenominator": number,
                "cellSize": number,
                "cornerOfOrigin": {"type": "string", "enum": ["topLeft"]},
                "pointOfOrigin": _pair(),
                "identifier": text,
                "topLeftCorner": _pair(),
                **dict.fromkeys(("tileWidth", "tileHeight", "matrixWidth", "matrixHeight"), index),
            },
            "id",
            "scaleDenominator",
            "cellSize",
            "pointOfOrigin",
            "tileWidth",
            "tileHeight",
            "matrixWidth",
            "matrixHeight",
        ),
        "tileMatrixLimits": _object(
            {
                "tileMatrix": text,
                **dict.fromkeys(("minTileRow", "maxTileRow", "minTileCol", "maxTileCol"), index),
            },
            "tileMatrix",
            "minTileRow",
            "maxTileRow",
            "minTileCol",
            "maxTileCol",
        ),
        "tileSets": _object({"links": links, "tilesets": _list(_reference("tileSet"))}, "tilesets"),
        "tileSet": _object(
            {
                "title": text,
                "description": text,
                "attribution": text,
                "dataType": {"type": "string", "enum": ["map", "vector"]},
                "crs": text,
                "tileMatrixSetURI": text,
                "tileMatrixSetId": text,
                "tileMatrixSetLimits": _list(_reference("tileMatrixLimits")),
                "boundingBox": _object({"lowerLeft": _pair(), "upperRight": _pair(), "crs": text}),
                "layers": _list({"type": "object"}),
                "style": {"type": "object"},
                "links": links,
            },
            "dataType",
            "crs",
            "links",
        ),
        "tileJson": _object(
            {
                "tilejson": text,
                "tiles": texts,
                "minzoom": index,
                "maxzoom": index,
                "bounds": _list(number),
                "vector_layers": _list({"type": "object"}),
            },
            "tilejson",
            "tiles",
        ),
    }


def _object(properties: dict[str, Schema], *required: str) -> Schema:
    schema: Schema = {"type": "object", "properties": properties}
    return schema | {"required": list(required)} if required else schema


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _pair() -> Schema:
    return {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}


def _reference(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}
