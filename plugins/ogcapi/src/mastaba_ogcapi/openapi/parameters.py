"""Parameters of the operations, with the values that this installation accepts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mastaba_ogcapi.dataset import Collection, Dataset

Parameter = dict[str, Any]

SIZE: Final = ("width", "height", "scale-denominator", "mm-per-pixel")
GROUND: Final = ("bgcolor", "transparent", "void-color", "void-transparent")
EXTENT: Final = (
    "crs",
    "bbox-map",
    "bbox-crs",
    "subset",
    "subset-crs",
    "center",
    "center-crs",
)
_COLOUR_PATTERN: Final = "^((0[xX]|#)?[0-9A-Fa-f]{6}|[A-Za-z]+)$"


def parameters(dataset: Dataset) -> dict[str, Parameter]:
    """Return ``components/parameters``."""
    limits = dataset.site.catalogue.settings.map
    formats = [item.name for item in dataset.formats.all]
    collections = dataset.collections.values()
    found = {
        "collectionId": _path("collectionId", "A collection.", _ids(collections)),
        "rasterCollectionId": _path("collectionId", "A collection of maps.", _ids(dataset.raster)),
        "vectorCollectionId": _path(
            "collectionId", "A collection of vector tiles.", _ids(dataset.vector)
        ),
        "styleId": _path("styleId", "A style of the collection.", _styles(dataset.raster)),
        "tileMatrixSetId": _path("tileMatrixSetId", "A tile matrix set.", _set_names(dataset)),
        "tileMatrix": _path("tileMatrix", "A tile matrix of the set.", ()),
        "tileRow": _path("tileRow", "Row of the tile, from the top.", (), kind="integer"),
        "tileCol": _path("tileCol", "Column of the tile, from the left.", (), kind="integer"),
        "f": _query("f", "Format of the document.", _enumeration(["json", "html"])),
        "f-api": _query("f", "Format of the document.", _enumeration(["json", "yaml", "html"])),
        "f-tileset": _query(
            "f", "Format of the document.", _enumeration(["json", "html", "tilejson"])
        ),
        "f-map": _query("f", "Format of the map.", _enumeration(formats)),
        "f-mapTile": _query(
            "f",
            "Format of the tile; the stored one when absent.",
            _enumeration(sorted({*formats, *_stored(dataset.raster)})),
        ),
        "f-vectorTile": _query("f", "Format of the tile.", _enumeration(["mvt", "pbf"])),
        "filename": _query("filename", "Name under which a browser saves the answer.", {}),
        "bbox": _box("Longitudes and latitudes that collections must meet."),
        "bbox-map": _box("Part of the ground: lower and upper corner in `bbox-crs`."),
        "crs": _query("crs", "CRS of the map: a URI, a safe CURIE or AUTHORITY:CODE.", {}),
        "bbox-crs": _query("bbox-crs", "CRS of `bbox`; CRS84 when absent.", {}),
        "subset": {
            **_query("subset", "Intervals of axes, such as `Lat(40:50),Lon(5:6)`.", {}),
            "schema": {"type": "array", "items": {"type": "string"}},
            "style": "form",
            "explode": False,
        },
        "subset-crs": _query("subset-crs", "CRS of the axes of `subset`; CRS84 when absent.", {}),
        "center": {
            **_query("center", "Centre of the map, in `center-crs`.", {}),
            "schema": {
                "type": "array",
                "items": {"type": "number"},
                "minItems": 2,
                "maxItems": 2,
            },
            "style": "form",
            "explode": False,
        },
        "center-crs": _query("center-crs", "CRS of `center`; CRS84 when absent.", {}),
        "width": _query("width", "Columns of pixels.", _size(limits.max_width), "integer"),
        "height": _query("height", "Rows of pixels.", _size(limits.max_height), "integer"),
        "scale-denominator": _query(
            "scale-denominator", "Denominator of the scale of the map.", _POSITIVE, "number"
        ),
        "mm-per-pixel": _query(
            "mm-per-pixel",
            "Millimetres of a pixel on the display.",
            {**_POSITIVE, "default": 0.28},
            "number",
        ),
        "bgcolor": _colour("bgcolor", "Background: 0xRRGGBB or a CSS colour name."),
        "transparent": _query(
            "transparent",
            "Whether the background is transparent; true unless `bgcolor` is given.",
            {},
            "boolean",
        ),
        "void-color": _colour("void-color", "Colour outside the valid area of the CRS."),
        "void-transparent": _query(
            "void-transparent",
            "Whether what lies outside the valid area of the CRS is transparent.",
            {},
            "boolean",
        ),
        "collections": {
            **_query("collections", "Collections to draw, the first one at the bottom.", {}),
            "schema": {"type": "array", "items": {"type": "string"}},
            "style": "form",
            "explode": False,
        },
    }
    return {name: item for name, item in found.items() if _is_useful(item)}


_POSITIVE: Final[Mapping[str, Any]] = {"minimum": 0, "exclusiveMinimum": True}


def _is_useful(parameter: Parameter) -> bool:
    return bool(parameter["schema"].get("enum", True))


def _path(name: str, description: str, values: Iterable[str], kind: str = "string") -> Parameter:
    schema: dict[str, Any] = {"type": kind}
    if kind == "integer":
        schema["minimum"] = 0
    elif values != ():
        schema["enum"] = list(dict.fromkeys(values))
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": description,
        "schema": schema,
    }


def _query(
    name: str, description: str, schema: Mapping[str, Any], kind: str = "string"
) -> Parameter:
    return {
        "name": name,
        "in": "query",
        "required": False,
        "description": description,
        "schema": {"type": kind, **schema},
    }


def _box(description: str) -> Parameter:
    return {
        **_query("bbox", description, {}),
        "schema": {
            "type": "array",
            "items": {"type": "number"},
            "oneOf": [{"minItems": 4, "maxItems": 4}, {"minItems": 6, "maxItems": 6}],
        },
        "style": "form",
        "explode": False,
    }


def _colour(name: str, description: str) -> Parameter:
    return _query(name, description, {"pattern": _COLOUR_PATTERN})


def _enumeration(values: Iterable[str]) -> dict[str, Any]:
    return {"enum": list(values)}


def _size(limit: int) -> dict[str, Any]:
    return {"minimum": 1, "maximum": limit}


def _ids(collections: Iterable[Collection]) -> list[str]:
    return [item.id for item in collections]


def _styles(collections: Iterable[Collection]) -> list[str]:
    return sorted({style.identifier for item in collections for style in item.layer.styles})


def _set_names(dataset: Dataset) -> list[str]:
    return [*dataset.tile_matrix_sets, *sorted(set(dataset.registered_names.values()))]


def _stored(collections: Iterable[Collection]) -> set[str]:
    from mastaba_ogcapi.tilesets import stored_name

    return {stored_name(item.layer.pyramid.format.media_type) for item in collections}
