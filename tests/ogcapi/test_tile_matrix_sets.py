"""Tile matrix sets and tilesets (17-083r4; 20-057 clauses 8 to 10; ogcapi.md section 7)."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator
from werkzeug.test import Client

from mastaba.model.crs import CRS
from mastaba.model.tile_matrix_set import TileMatrix, TileMatrixSet
from mastaba_ogcapi.registered import registered_name

ROOT = "http://maps.example/ogcapi"
REL = "http://www.opengis.net/def/rel/ogc/1.0"
REGISTER = "http://www.opengis.net/def/tilematrixset/OGC/1.0"
HALF = math.pi * 6378137


def quadtree(
    crs: str, x: float, y: float, cell: float, width: int, height: int, **changes: Any
) -> TileMatrixSet:
    """Return three matrices of a registered set, from the second on."""
    matrices = []
    for number in (1, 2, 3):
        values: dict[str, Any] = {
            "id": str(number),
            "cell_size": cell / 2**number,
            "origin_x": x,
            "origin_y": y,
            "tile_width": 256,
            "tile_height": 256,
            "matrix_width": width * 2**number,
            "matrix_height": height * 2**number,
        }
        matrices.append(TileMatrix(**(values | changes)))
    if "id" in changes:
        matrices = matrices[:1]
    return TileMatrixSet.of("X", CRS.from_code(crs), matrices)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("WebMercatorQuad", ("EPSG:3857", -HALF, HALF, HALF / 128, 1, 1)),
        ("WorldMercatorWGS84Quad", ("EPSG:3395", -HALF, HALF, HALF / 128, 1, 1)),
        ("WorldCRS84Quad", ("CRS:84", -180, 90, 180 / 256, 2, 1)),
        ("EuropeanETRS89_LAEAQuad", ("EPSG:3035", 2e6, 5.5e6, 17578.125, 1, 1)),
        (None, ("EPSG:4326", -180, 90, 180 / 256, 2, 1)),  # another axis order
        (None, ("EPSG:3857", -HALF, HALF, HALF / 100, 1, 1)),
    ],
)
def test_sets_of_the_register_are_recognised(name: str | None, arguments: Any) -> None:
    assert registered_name(quadtree(*arguments)) == name


@pytest.mark.parametrize(
    "changes",
    [
        {"id": "01"},
        {"id": "a"},
        {"id": "25"},
        {"id": "٣"},
        {"id": "1" * 5000},
        {"tile_width": 512},
        {"matrix_width": 3},
        {"origin_x": -HALF + 1},
        {"origin_y": HALF - 1},
        {"cell_size": HALF / 256 * (1 + 1e-7)},
    ],
)
def test_sets_that_differ_are_not(changes: dict[str, Any]) -> None:
    found = quadtree("EPSG:3857", -HALF, HALF, HALF / 128, 1, 1, **changes)
    assert registered_name(found) is None


def test_all_sets_in_use_are_listed(rich: Client) -> None:
    items = rich.get("/ogcapi/tileMatrixSets").get_json()["tileMatrixSets"]
    uri = f"{REGISTER}/WebMercatorQuad"
    # A set of the register is there under both names: ogc-client looks for the registered one.
    assert [item["id"] for item in items] == ["4326", "LAEA", "PM", "WebMercatorQuad"]
    assert [item.get("uri") for item in items] == [None, None, uri, uri]
    for item in items:
        rels = {link["rel"] for link in item["links"]}
        assert rels == {"self", f"{REL}/tiling-scheme", "describedby"}


def test_matrix_sizes_are_not_exchanged_and_scales_are_there(rich: Client) -> None:
    content = rich.get("/ogcapi/tileMatrixSets/4326").get_json()
    first = content["tileMatrices"][0]
    assert (first["matrixWidth"], first["matrixHeight"]) == (2, 1)
    assert first["scaleDenominator"] == pytest.approx(279541132.0143589)
    assert first["cellSize"] == 0.703125
    assert first["cornerOfOrigin"] == "topLeft"


@pytest.mark.parametrize(
    ("name", "origin", "axes"),
    [
        ("PM", [-20037508.3427892, 20037508.3427892], ["E", "N"]),
        ("4326", [90, -180], ["Lat", "Lon"]),
        ("LAEA", [5500000, 2000000], ["N", "E"]),
    ],
)
def test_origin_and_axes_are_in_the_order_of_the_crs(
    rich: Client, name: str, origin: list[float], axes: list[str]
) -> None:
    content = rich.get(f"/ogcapi/tileMatrixSets/{name}").get_json()
    assert content["orderedAxes"] == axes
    for matrix in content["tileMatrices"]:
        assert matrix["pointOfOrigin"] == pytest.approx(origin)


def test_members_of_the_first_edition_say_the_same(rich: Client) -> None:
    content = rich.get("/ogcapi/tileMatrixSets/LAEA").get_json()
    assert content["type"] == "TileMatrixSetType"
    assert content["identifier"] == content["id"]
    assert content["supportedCRS"] == "http://www.opengis.net/def/crs/EPSG/0/3035"
    for matrix in content["tileMatrices"]:
        assert matrix["identifier"] == matrix["id"]
        assert matrix["topLeftCorner"] == matrix["pointOfOrigin"]


def test_registered_name_is_an_alias_in_paths(rich: Client) -> None:
    path = "/ogcapi/collections/a_world/map/tiles"
    assert rich.get(f"{path}/WebMercatorQuad").data == rich.get(f"{path}/PM").data
    own = rich.get("/ogcapi/tileMatrixSets/PM").get_json()
    alias = rich.get("/ogcapi/tileMatrixSets/WebMercatorQuad").get_json()
    assert alias["id"] == alias["identifier"] == "WebMercatorQuad"
    for name in ("uri", "crs", "tileMatrices"):
        assert alias[name] == own[name]
    tile = "/ogcapi/collections/a_world/map/tiles/{}/2/1/3"
    assert rich.get(tile.format("WebMercatorQuad")).data == rich.get(tile.format("PM")).data
    assert rich.get(tile.format("PM_0_2")).data == rich.get(tile.format("PM")).data


def test_tilesets_begin_with_the_stored_one(rich: Client) -> None:
    content = rich.get("/ogcapi/collections/g_extra/map/tiles").get_json()
    native, extra = content["tilesets"]
    assert (native["tileMatrixSetId"], extra["tileMatrixSetId"]) == ("PM", "4326")
    assert native["tileMatrixSetURI"] == f"{REGISTER}/WebMercatorQuad"
    assert extra["tileMatrixSetURI"] == f"{ROOT}/tileMatrixSets/4326?f=json"
    assert native["crs"] == "http://www.opengis.net/def/crs/EPSG/0/3857"
    assert native["dataType"] == "map"
    assert native["tileMatrixSetLimits"][2] == {
        "tileMatrix": "2",
        "minTileRow": 0,
        "maxTileRow": 3,
        "minTileCol": 0,
        "maxTileCol": 3,
    }
    for item in (native, extra):
        links = {link["rel"]: link for link in item["links"]}
        assert {"self", "describedby", "item", f"{REL}/tiling-scheme"} <= links.keys()
        assert links["self"]["type"] == "application/json"


def test_lists_that_collections_lead_to_name_their_sets(rich: Client) -> None:
    """T-6, T-7: the addresses end with /tiles, every tileset has a tileMatrixSetURI."""
    followed = 0
    for item in rich.get("/ogcapi/collections").get_json()["collections"]:
        for link in item["links"]:
            if link["rel"] in (f"{REL}/tilesets-map", f"{REL}/tilesets-vector"):
                path, _, query = link["href"].removeprefix("http://maps.example").partition("?")
                assert path.endswith("/tiles")
                tilesets = rich.get(f"{path}?{query}").get_json()["tilesets"]
                assert tilesets
                assert all(tileset["tileMatrixSetURI"] for tileset in tilesets)
                followed += 1
    assert followed == 8


@pytest.mark.parametrize(
    ("path", "template"),
    [
        ("a_world/map/tiles", "a_world/map/tiles/PM/{tileMatrix}/{tileRow}/{tileCol}?f=png"),
        (
            "a_world/styles/normal/map/tiles",
            "a_world/styles/normal/map/tiles/PM/{tileMatrix}/{tileRow}/{tileCol}?f=png",
        ),
        ("h_vector/tiles", "h_vector/tiles/PM/{tileMatrix}/{tileRow}/{tileCol}?f=mvt"),
    ],
)
def test_tileset_has_templates_of_tiles(rich: Client, path: str, template: str) -> None:
    content = rich.get(f"/ogcapi/collections/{path}/PM").get_json()
    (tiling_scheme,) = (i for i in content["links"] if i["rel"] == f"{REL}/tiling-scheme")
    assert tiling_scheme["href"] == f"{ROOT}/tileMatrixSets/PM?f=json"
    items = [item for item in content["links"] if item["rel"] == "item"]
    assert items[0]["href"] == f"{ROOT}/collections/{template}"
    for item in items:
        assert item["templated"] is True
        limits = content["tileMatrixSetLimits"][-1]
        href = item["href"].removeprefix("http://maps.example")
        for variable, value in (
            ("tileMatrix", limits["tileMatrix"]),
            ("tileRow", limits["minTileRow"]),
            ("tileCol", limits["minTileCol"]),
        ):
            href = href.replace(f"{{{variable}}}", str(value))
        response = rich.get(href)
        # A grid of numbers has one channel; the template says of all what some can do.
        if "f=asc" not in href:
            assert response.status_code == 200, href
            assert response.content_type == item["type"]


def test_tileset_has_extent_in_axis_order_and_attribution(rich: Client) -> None:
    content = rich.get("/ogcapi/collections/d_lambert/map/tiles/LAEA").get_json()
    assert content["boundingBox"] == {
        "lowerLeft": [2125000, 3125000],
        "upperRight": [4375000, 5375000],
        "crs": "http://www.opengis.net/def/crs/EPSG/0/3035",
    }
    content = rich.get("/ogcapi/collections/b_europe/map/tiles/PM").get_json()
    assert content["attribution"] == "A & B"
    assert [i["title"] for i in content["links"] if i["rel"] == "tiles"] == ["Stored data"]


def test_extent_in_an_extra_set_is_that_of_its_crs(rich: Client) -> None:
    content = rich.get("/ogcapi/collections/g_extra/map/tiles/4326").get_json()
    box = content["boundingBox"]
    assert box["lowerLeft"] == pytest.approx([-85.051128, -180])
    assert box["upperRight"] == pytest.approx([85.051128, 180])


def test_vector_tileset_lists_its_tables(tiny: Client) -> None:
    content = tiny.get("/ogcapi/collections/VECTOR/tiles/PM").get_json()
    assert content["dataType"] == "vector"
    tiles, centres = content["layers"]
    assert (tiles["id"], tiles["dataType"], tiles["geometryDimension"]) == ("tiles", "vector", 2)
    assert (tiles["minTileMatrix"], tiles["maxTileMatrix"]) == ("2", "4")
    assert tiles["propertiesSchema"]["properties"]["row"] == {"type": "integer"}
    assert centres["geometryDimension"] == 0
    assert centres["propertiesSchema"]["properties"]["name"] == {"type": "string"}


@pytest.mark.parametrize("path", ["RGB_PNG/map", "VECTOR", "GREY_PNG/styles/ember/map"])
def test_tilejson_validates_and_leads_to_tiles(tiny: Client, shared_data: Path, path: str) -> None:
    import json

    schema = json.loads((shared_data / "schemas/tilejson/3.0.0/schema.json").read_text())
    response = tiny.get(f"/ogcapi/collections/{path}/tiles/PM?f=tilejson")
    assert response.content_type == "application/vnd.mapbox.tilejson+json"
    content = json.loads(response.data)
    Draft7Validator(schema).validate(content)
    assert (content["minzoom"], content["maxzoom"], content["scheme"]) == (2, 4, "xyz")
    (template,) = content["tiles"]
    href = template.removeprefix("http://maps.example").format(z=4, y=5, x=9)
    assert tiny.get(href).status_code == 200
