"""The API definition in OpenAPI 3.0, limited to what this installation serves.

``openapi.yaml`` contains the parts that are the same everywhere (OGC API Common, 19-072 clause 9;
ogcapi.md section 5).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import yaml

from mastaba import __version__
from mastaba.api.web import PROBLEM
from mastaba_ogcapi.coverages.documents import SCHEMA
from mastaba_ogcapi.coverages.formats import CHUNK, CoverageFormat
from mastaba_ogcapi.examples import examples
from mastaba_ogcapi.landing import OPENAPI_YAML
from mastaba_ogcapi.tilesets import TILEJSON, VECTOR_TILES
from mastaba_ows.links import HTML, JSON, OPENAPI
from mastaba_ows.offers import STYLESHEET

if TYPE_CHECKING:
    from mastaba_ogcapi.dataset import Collection, Dataset

Json = dict[str, Any]


class _Dumper(yaml.SafeDumper):
    """Writes shared parts in full at each occurrence: few clients support anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def yaml_text(content: Json) -> str:
    """Return the API definition as YAML."""
    text: str = yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=True)
    return text


def api_document(dataset: Dataset, collection: Collection | None = None) -> Json:
    """Return the API definition.

    Args:
        dataset: the published collections.
        collection: collection of the values in the examples.
    """
    source = _source()
    values = _values(dataset)
    shown = examples(dataset, collection)
    offered = _offered(dataset)
    problem = {
        media_type: {"schema": _reference("schemas", "exception")} for media_type in (JSON, PROBLEM)
    }
    parameters = {
        name: _parameter(name, item, values, shown.get(name))
        for name, item in source["parameters"].items()
        if name not in values["hidden"]
    }
    return {
        "openapi": "3.0.3",
        "info": _information(dataset),
        "servers": [{"url": dataset.uri}],
        "tags": [{"name": name, "description": text} for name, text in source["tags"].items()],
        "paths": {
            path: {"get": _operation(item, values)}
            for path, item in source["operations"].items()
            if offered.get(item.get("if"), True)
        },
        "components": {
            "parameters": {
                name: item for name, item in parameters.items() if item["schema"].get("enum", True)
            },
            "responses": {
                status: {"description": text, "content": problem}
                for status, text in source["errors"].items()
            },
            "schemas": source["schemas"],
        },
    }


@cache
def _source() -> Json:
    text = files("mastaba_ogcapi").joinpath("openapi.yaml").read_text("utf-8")
    found: Json = yaml.safe_load(text)
    return found


def _information(dataset: Dataset) -> Json:
    settings, limits = dataset.settings, dataset.site.catalogue.settings.map
    described = f"{settings.abstract}\n\n" if settings.abstract else ""
    information: Json = {
        "title": settings.title,
        "version": __version__,
        "description": f"{described}Parameters that are not described here are ignored. Parameter "
        "names are not case-sensitive.",
    }
    offered: Json = {}
    if dataset.maps:
        offered["maps"] = {
            "maxWidth": limits.max_width,
            "maxHeight": limits.max_height,
            "maxPixels": limits.max_pixels,
        }
    if dataset.coverages is not None and dataset.downloadable:
        # Fields differ by layer; as many cells as this can be had of each.
        cell = max(
            len(item.coverage.fields) * item.coverage.dtype.itemsize
            for item in dataset.downloadable
        )
        offered["coverage"] = {
            "maxCells": dataset.coverages.stream_bytes // cell,
            "maxResampledCells": dataset.coverages.pixels,
        }
    if offered:
        information["x-OGC-limits"] = offered
    contact = dataset.site.catalogue.settings.contact
    texts = {"name": contact.name, "email": contact.email}
    if any(texts.values()):
        information["contact"] = {name: text for name, text in texts.items() if text}
    return information


def _offered(dataset: Dataset) -> Mapping[str | None, bool]:
    """Return which parts of the definition this installation has, by their name in ``if``."""
    return {
        "sets": bool(dataset.tile_matrix_sets),
        "collections": bool(dataset.collections),
        "raster": bool(dataset.raster),
        "styled": bool(dataset.raster or dataset.stylesheets),
        "stylesheets": bool(dataset.stylesheets),
        "vectorTiles": dataset.tiles and bool(dataset.vector),
        "mapTiles": dataset.tiles and bool(dataset.raster),
        "maps": dataset.maps and bool(dataset.raster and dataset.formats.all),
        "datasetMap": dataset.has_dataset_map,
        "coverages": bool(dataset.downloadable),
        "zarr": bool(dataset.with_zarr),
    }


def _values(dataset: Dataset) -> Mapping[str, Any]:
    """Return the values of this installation, by their name in ``openapi.yaml``."""
    limits, formats = dataset.site.catalogue.settings.map, dataset.formats.all
    of_tiles = dataset.tile_formats.all
    stored = {item.layer.pyramid.format for item in dataset.raster}
    of_vectors = {item.layer.pyramid.format.media_type for item in dataset.vector}
    names = [item.name for item in formats]
    media_types = {item.media_type for item in formats}
    sets = [*dataset.tile_matrix_sets, *sorted(set(dataset.registered_names.values()))]
    return {
        "hidden": () if dataset.dimensions else ("datetime", "subset-value"),
        "$collections": list(dataset.collections),
        "$rasterCollections": [item.id for item in dataset.raster],
        "$coverageCollections": [item.id for item in dataset.downloadable],
        "$zarrCollections": [item.id for item in dataset.with_zarr],
        "$vectorCollections": [item.id for item in dataset.vector],
        "$styledCollections": [
            item.id
            for item in dataset.collections.values()
            if not item.layer.is_vector or item.stylesheets
        ],
        "$styles": dataset.style_names,
        "$stylesheets": list(dataset.stylesheets),
        "$tileMatrixSets": list(dict.fromkeys(sets)),
        "$formats": names,
        "$tileFormats": sorted(
            {item.name for item in of_tiles} | {item.short_name for item in stored}
        ),
        "$maxWidth": limits.max_width,
        "$maxHeight": limits.max_height,
        "definition": [OPENAPI, OPENAPI_YAML, HTML],
        "maps": sorted(media_types),
        "tiles": sorted(
            {item.media_type for item in stored} | {item.media_type for item in of_tiles}
        ),
        "coverages": [item.value for item in _coverage_formats(dataset)],
        "$coverageFormats": [item.short for item in _coverage_formats(dataset)],
        "$compressions": ["stored", *_compressions()] if dataset.downloadable else [],
        "schema": [SCHEMA],
        "stylesheets": [STYLESHEET],
        "json": [JSON],
        "chunk": [CHUNK],
        "vectorTiles": [VECTOR_TILES, *sorted(of_vectors | {"application/x-protobuf"})],
    }


def _coverage_formats(dataset: Dataset) -> list[CoverageFormat]:
    pictures = (CoverageFormat.PNG, CoverageFormat.JPEG, CoverageFormat.WEBP)
    has_pictures = dataset.has_picture_coverage
    return [item for item in CoverageFormat if has_pictures or item not in pictures]


def _compressions() -> tuple[str, ...]:
    # Few clients request the definition, and nothing else here needs the codecs.
    from mastaba_coverage import offered_compressions

    return offered_compressions()


def _operation(item: Json, values: Mapping[str, Any]) -> Json:
    names = [name for name in item.get("parameters", ["f"]) if name not in values["hidden"]]
    success: Json = {"description": item["summary"], "content": _content(item, values)}
    if "headers" in item:
        success["headers"] = _source()["headers"][item["headers"]]
    responses: Json = {"200": success}
    is_data = "empty" in item
    if is_data:
        responses["204"] = {"description": item["empty"]}
    responses["304"] = {"description": "The client already has it."}
    for status in _source()["errors"]:
        if is_data or status != "406":
            responses[status] = _reference("responses", status)
    return {
        "tags": [item["tag"]],
        "operationId": f"ogcapi.{item['operation']}",
        "summary": item["summary"],
        "parameters": [_reference("parameters", name) for name in names],
        "responses": responses,
    }


def _content(item: Json, values: Mapping[str, Any]) -> Json:
    page = {"schema": {"type": "string"}}
    if "document" not in item:
        kinds: Json = {OPENAPI: {"schema": {"type": "object"}}, OPENAPI_YAML: page, HTML: page}
        binary = {"schema": {"type": "string", "format": "binary"}}
        kinds[JSON] = {"schema": {}}
        return {name: kinds.get(name, binary) for name in values[item["content"]]}
    content: Json = {JSON: {"schema": _reference("schemas", item["document"])}, HTML: page}
    if item["document"] == "tileSet":
        content[TILEJSON] = {"schema": _reference("schemas", "tileJson")}
    return content


def _parameter(key: str, item: Json, values: Mapping[str, Any], example: object) -> Json:
    place = item.get("in", "query")
    schema = {
        name: values.get(value, value) if isinstance(value, str) else value
        for name, value in item["schema"].items()
    }
    found = {
        "name": item.get("name", key),
        "in": place,
        "required": place == "path",
        "description": item["description"],
        "schema": schema,
    }
    if example is not None:
        found["example"] = example
    return found | {"style": "form", "explode": False} if schema["type"] == "array" else found


def _reference(kind: str, name: str) -> dict[str, str]:
    return {"$ref": f"#/components/{kind}/{name}"}
