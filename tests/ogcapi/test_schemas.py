"""Documents validate with the schemas that OGC publishes."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import pytest
from werkzeug.test import Client

pytestmark = pytest.mark.shared_data

ROOT = "http://maps.example/ogcapi"


def addresses(client: Client, path: str, *rels: str) -> list[str]:
    """Return the paths that a document links to with some relations."""
    found = []
    for item in client.get(path).get_json()["links"]:
        if item["rel"].rpartition("/")[2] in rels and item["type"] == "application/json":
            found.append(urlsplit(item["href"]).path)
    return found


@pytest.mark.parametrize(
    ("path", "schema"),
    [
        ("", "landingPage"),
        ("/conformance", "confClasses"),
        ("/api/all-collections", "enumeration"),
        ("/api/vectorTiles-collections", "enumeration"),
        ("/api/tileMatrixSets", "enumeration"),
        ("/api/styles", "enumeration"),
        ("/collections", "collections"),
        ("/collections?bbox=0,0,1,1", "collections"),
        ("/nothing", "exception"),
        ("/collections/a_world/map?width=0", "exception"),
    ],
)
def test_documents_validate(rich: Client, validate: Any, path: str, schema: str) -> None:
    validate(schema, rich.get(f"/ogcapi{path}").get_json())


def test_collections_and_tilesets_validate(rich: Client, validate: Any) -> None:
    counted = 0
    for item in rich.get("/ogcapi/collections").get_json()["collections"]:
        path = urlsplit(next(i["href"] for i in item["links"] if i["rel"] == "self")).path
        content = rich.get(path).get_json()
        assert content == item
        validate("collectionDesc", content)
        lists = addresses(rich, path, "tilesets-map", "tilesets-vector")
        assert lists
        for style in rich.get(f"{path}/styles").get_json().get("styles", ()):
            for link in style["links"]:
                if link["rel"].endswith("tilesets-map"):
                    lists.append(urlsplit(link["href"]).path)
        for address in lists:
            for tileset in rich.get(address).get_json()["tilesets"]:
                validate("tileSet-item", tileset)
                own = next(i["href"] for i in tileset["links"] if i["rel"] == "self")
                validate("tileSet", rich.get(urlsplit(own).path).get_json())
                counted += 1
    assert counted > 15


def test_tile_matrix_sets_validate(rich: Client, validate: Any) -> None:
    items = rich.get("/ogcapi/tileMatrixSets").get_json()["tileMatrixSets"]
    assert items
    for item in items:
        validate("tileMatrixSet-item", item)
        validate("tileMatrixSet", rich.get(f"/ogcapi/tileMatrixSets/{item['id']}").get_json())


def test_schemas_refuse_what_is_wrong(rich: Client, validate: Any) -> None:
    """The checks above can fail."""
    content = rich.get("/ogcapi/tileMatrixSets/PM").get_json()
    del content["tileMatrices"][0]["scaleDenominator"]
    with pytest.raises(Exception, match="scaleDenominator"):
        validate("tileMatrixSet", content)
