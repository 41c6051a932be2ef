"""The layers for the suites of WMTS and OGC API: what the suites look for, and the schemas."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lxml import etree
from tests.dimensions.suite_layers import write
from werkzeug.test import Client

OpenClient = Callable[[Path], Client]
LAYERS = ("DAYS", "HEIGHTS", "YEARS")
TILES = "map/tiles/WebMercatorQuad"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory, open_client: OpenClient) -> Client:
    return open_client(write(tmp_path_factory.mktemp("suite"), "http://maps.example"))


def test_the_layer_in_the_middle_has_two_dimensions(client: Client) -> None:
    """The suite of WMTS takes this one."""
    document = etree.fromstring(client.get("/wmts?SERVICE=WMTS&REQUEST=GetCapabilities").data)
    layers = list(document.iterfind("{*}Contents/{*}Layer"))
    assert tuple(layer.findtext("{*}Identifier") for layer in layers) == LAYERS
    assert [len(layer.findall("{*}Dimension")) for layer in layers] == [1, 2, 1]
    # A layer without feature info is needed, which refuses the operation.
    assert [layer.find("{*}InfoFormat") is None for layer in layers] == [True, False, False]


def test_only_dimensions_with_a_value_current_announce_it(client: Client) -> None:
    """The suite of WMTS asks for the current value of each dimension with the element."""
    document = etree.fromstring(client.get("/wmts?SERVICE=WMTS&REQUEST=GetCapabilities").data)
    query = (
        "/wmts?SERVICE=WMTS&VERSION=1.0.0&REQUEST=GetTile&STYLE=normal&FORMAT=image/jpeg"
        "&TILEMATRIXSET=PM&TILEMATRIX=1&TILEROW=0&TILECOL=0&LAYER={}&{}=current"
    )
    found = {}
    for layer in document.iterfind("{*}Contents/{*}Layer"):
        for one in layer.iterfind("{*}Dimension"):
            name = one.findtext("{*}Identifier")
            found[name] = one.find("{*}Current") is not None
            address = query.format(layer.findtext("{*}Identifier"), name)
            assert (client.get(address).status_code == 200) is found[name]
    assert found == {"Time": True, "Elevation": False}


@pytest.mark.shared_data
@pytest.mark.parametrize("name", [*LAYERS, "YEARS;time=1950"])
def test_documents_with_dimensions_are_valid(client: Client, validate: Any, name: str) -> None:
    base = f"/ogcapi/collections/{name.replace(';', '%3B')}"
    collection = client.get(f"{base}?f=json").get_json()
    assert "temporal" in collection["extent"]
    validate("collectionDesc", collection)
    (item,) = client.get(f"{base}/map/tiles?f=json").get_json()["tilesets"]
    validate("tileSet-item", item)
    validate("tileSet", client.get(f"{base}/{TILES}?f=json").get_json())


@pytest.mark.shared_data
def test_lists_with_dimensions_are_valid(client: Client, validate: Any) -> None:
    collections = client.get("/ogcapi/collections?f=json").get_json()
    assert len(collections["collections"]) == len(LAYERS)
    validate("collections", collections)
    conformance = client.get("/ogcapi/conformance?f=json").get_json()
    assert any(name.endswith("/conf/datetime") for name in conformance["conformsTo"])
    validate("confClasses", conformance)
    for name in LAYERS:
        refused = client.get(f"/ogcapi/collections/{name}/{TILES}/0/0/0?datetime=no-time")
        assert refused.status_code == 400
        validate("exception", refused.get_json())
