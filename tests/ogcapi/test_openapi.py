"""The API definition (19-072 clause 9; T-8, P-4, P-10; common and tiles /req/oas30)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
import yaml
from openapi_spec_validator import validate
from werkzeug.test import Client

REL = "http://www.opengis.net/def/rel/ogc/1.0"
TILE = "/{tileMatrixSetId}/{tileMatrix}/{tileRow}/{tileCol}"
COLLECTION = "/collections/{collectionId}"
OPERATIONS = {
    "/map": ".dataset.getMap",
    f"{COLLECTION}/map": ".collection.getMap",
    f"{COLLECTION}/styles/{{styleId}}/map": ".collection.style.getMap",
    f"{COLLECTION}/map/tiles": ".collection.map.getTileSetsList",
    f"{COLLECTION}/map/tiles/{{tileMatrixSetId}}": ".collection.map.getTileSet",
    f"{COLLECTION}/map/tiles{TILE}": ".collection.map.getTile",
    f"{COLLECTION}/styles/{{styleId}}/map/tiles": ".collection.style.map.getTileSetsList",
    f"{COLLECTION}/styles/{{styleId}}/map/tiles/{{tileMatrixSetId}}": (
        ".collection.style.map.getTileSet"
    ),
    f"{COLLECTION}/styles/{{styleId}}/map/tiles{TILE}": ".collection.style.map.getTile",
    f"{COLLECTION}/tiles": ".collection.vector.getTileSetsList",
    f"{COLLECTION}/tiles/{{tileMatrixSetId}}": ".collection.vector.getTileSet",
    f"{COLLECTION}/tiles{TILE}": ".collection.vector.getTile",
}
SIZE = {"width", "height", "scale-denominator", "mm-per-pixel"}
GROUND = {"bgcolor", "transparent", "void-color", "void-transparent"}
EXTENT = {"bbox", "bbox-crs", "subset", "subset-crs", "center", "center-crs", "crs"}


@pytest.fixture(scope="module")
def definition(rich: Client) -> dict[str, Any]:
    content: dict[str, Any] = rich.get("/ogcapi/api?f=json").get_json()
    return content


def parameters(definition: dict[str, Any], path: str) -> dict[str, dict[str, Any]]:
    """Return the parameters of a path by name."""
    found = {}
    for reference in definition["paths"][path]["get"].get("parameters", ()):
        item = definition["components"]["parameters"][reference["$ref"].rpartition("/")[2]]
        found[item["name"]] = item
    return found


def test_definition_is_valid(definition: dict[str, Any]) -> None:
    """T-8."""
    validate(definition)
    assert definition["openapi"].startswith("3.0.")


@pytest.mark.shared_data
def test_definition_validates_with_the_schema_of_openapi(
    definition: dict[str, Any], shared_data: Path
) -> None:
    from jsonschema import Draft4Validator

    schema = json.loads((shared_data / "schemas/openapi/openapi-3.0.x.json").read_text())
    Draft4Validator(schema).validate(definition)


def test_yaml_says_the_same_without_anchors(rich: Client, definition: dict[str, Any]) -> None:
    response = rich.get("/ogcapi/api?f=yaml")
    assert yaml.safe_load(response.data) == definition
    assert "&id001" not in response.text


def test_server_and_limits_are_those_of_the_installation(definition: dict[str, Any]) -> None:
    assert definition["servers"] == [{"url": "http://maps.example/ogcapi"}]
    assert definition["info"]["title"] == "Maps & <tiles>"
    assert definition["info"]["contact"] == {"name": "N", "email": "e@p.example"}
    assert definition["info"]["x-OGC-limits"]["maps"] == {
        "maxWidth": 3000,
        "maxHeight": 2000,
        "maxPixels": 3000000,
    }


@pytest.mark.parametrize(("path", "ending"), OPERATIONS.items())
def test_operations_have_the_names_of_the_standards(
    definition: dict[str, Any], path: str, ending: str
) -> None:
    """T-8, P-10; tiles /req/oas30/operation-id, maps /req/api-operations/operation-id."""
    assert definition["paths"][path]["get"]["operationId"].endswith(ending)


def test_operation_identifiers_are_unique(definition: dict[str, Any]) -> None:
    names = [item["get"]["operationId"] for item in definition["paths"].values()]
    assert len(names) == len(set(names))


def test_only_the_dataset_has_a_concrete_map_path(definition: dict[str, Any]) -> None:
    """P-10."""
    concrete = [path for path in definition["paths"] if "/map" in path and "{" not in path]
    assert concrete == ["/map"]


def test_maps_and_tiles_have_their_parameters(definition: dict[str, Any]) -> None:
    """P-4, P-10; maps /req/api-operations/completeness."""
    for path in definition["paths"]:
        names = set(parameters(definition, path))
        if path.endswith("/map"):
            assert names >= SIZE | GROUND | EXTENT | {"f", "filename"}, path
            assert ("collections" in names) == (path == "/map")
        elif "/map/tiles/" in path and path.endswith("{tileCol}"):
            assert names >= SIZE | GROUND | {"f", "filename"}, path
            assert not names & EXTENT
    collections = parameters(definition, "/map")["collections"]
    assert (collections["in"], collections["required"]) == ("query", False)


def test_every_map_and_tileset_link_is_described(rich: Client, definition: dict[str, Any]) -> None:
    """P-10."""
    templates = [path.split("/") for path in definition["paths"]]
    checked = 0
    for item in rich.get("/ogcapi/collections").get_json()["collections"]:
        for link in item["links"]:
            if link["rel"] in (f"{REL}/map", f"{REL}/tilesets-map", f"{REL}/tilesets-vector"):
                parts = urlsplit(link["href"]).path.removeprefix("/ogcapi").split("/")
                assert any(
                    len(parts) == len(template)
                    and all(
                        have == want or want.startswith("{")
                        for have, want in zip(parts, template, strict=True)
                    )
                    for template in templates
                ), link
                checked += 1
    assert checked > 20


def test_values_are_those_of_the_installation(definition: dict[str, Any]) -> None:
    raster = parameters(definition, f"{COLLECTION}/map")
    assert "a_world" in raster["collectionId"]["schema"]["enum"]
    assert "h_vector" not in raster["collectionId"]["schema"]["enum"]
    vector = parameters(definition, f"{COLLECTION}/tiles")
    assert vector["collectionId"]["schema"]["enum"] == ["h_vector"]
    assert raster["f"]["schema"]["enum"] == ["jpg", "png", "tiff", "bil", "asc"]
    assert raster["width"]["schema"]["maximum"] == 3000
    tile = parameters(definition, f"{COLLECTION}/map/tiles{TILE}")
    assert tile["tileMatrixSetId"]["schema"]["enum"] == ["4326", "LAEA", "PM", "WebMercatorQuad"]


def test_all_status_codes_are_described(definition: dict[str, Any]) -> None:
    """common /req/oas30/completeness, exceptions-codes."""
    for path, item in definition["paths"].items():
        codes = set(item["get"]["responses"])
        assert {"200", "304", "400", "404", "500", "503"} <= codes, path
        drawn = path.endswith(("/map", "{tileCol}"))
        assert ({"204", "406"} <= codes) == drawn, path


def test_every_path_answers(rich: Client, definition: dict[str, Any]) -> None:
    values = {
        "styleId": "normal",
        "tileMatrixSetId": "PM",
        "tileMatrix": "3",
        "tileRow": "2",
        "tileCol": "4",
    }
    for path, item in definition["paths"].items():
        identifier = "h_vector" if f"{COLLECTION}/tiles" in path else "b_europe"
        filled = path.replace("{collectionId}", identifier)
        for name, value in values.items():
            filled = filled.replace(f"{{{name}}}", quote(value))
        response = rich.get(f"/ogcapi{filled}")
        assert response.status_code == 200, path
        described = item["get"]["responses"]["200"]["content"]
        assert response.content_type in described, path
