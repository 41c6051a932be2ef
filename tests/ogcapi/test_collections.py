"""Collections and styles (20-024 clause 8; ogcapi.md section 6; P-5, P-6, T-5, T-7)."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from werkzeug.test import Client

ROOT = "http://maps.example/ogcapi"
REL = "http://www.opengis.net/def/rel/ogc/1.0"
EPSG = "http://www.opengis.net/def/crs/EPSG/0"
NAMES = [
    "a_world",
    "b_europe",
    "c_degrees",
    "d_lambert",
    "e heights é",
    "f_pacific",
    "g_extra",
    "h_vector",
]


def all_links(content: Any) -> list[dict[str, Any]]:
    """Return every link at any depth."""
    if isinstance(content, dict):
        own = content.get("links", [])
        return [*own, *(link for value in content.values() for link in all_links(value))]
    if isinstance(content, list):
        return [link for value in content for link in all_links(value)]
    return []


def test_published_collections_are_listed_in_byte_order(rich: Client) -> None:
    content = rich.get("/ogcapi/collections").get_json()
    assert [item["id"] for item in content["collections"]] == NAMES
    assert content["numberMatched"] == content["numberReturned"] == len(NAMES)
    rels = {item["rel"] for item in content["links"]}
    assert {"self", "alternate", "describedby"} <= rels


@pytest.mark.parametrize(
    ("bbox", "found"),
    [
        ("100,10,110,20", ["a_world", "c_degrees", "f_pacific", "g_extra"]),
        ("100,10,0,110,20,9", ["a_world", "c_degrees", "f_pacific", "g_extra"]),
        ("-100,88,-90,89", ["c_degrees"]),
        ("135,1,136,2", ["a_world", "c_degrees", "f_pacific", "g_extra"]),  # an edge in common
        # Across the antimeridian.
        ("170,10,-170,20", ["a_world", "c_degrees", "f_pacific", "g_extra"]),
    ],
)
def test_bbox_keeps_collections_that_meet_it(rich: Client, bbox: str, found: list[str]) -> None:
    content = rich.get(f"/ogcapi/collections?bbox={bbox}").get_json()
    assert [item["id"] for item in content["collections"]] == found
    assert content["numberMatched"] == len(found)
    page = rich.get(f"/ogcapi/collections?bbox={bbox}&f=html")
    assert f"{len(found)} collections" in page.text


@pytest.mark.parametrize(
    "bbox", ["", "1,2,3", "1,2,3,4,5", "a,b,c,d", "1,4,3,2", "1,2,1,4", "nan,0,1,1", "-inf,0,1,1"]
)
def test_invalid_bbox_is_refused(rich: Client, fault: Any, bbox: str) -> None:
    assert fault(rich.get(f"/ogcapi/collections?bbox={bbox}")) == (400, "InvalidParameter")


def test_collection_describes_the_whole_layer(rich: Client) -> None:
    content = rich.get("/ogcapi/collections/b_europe").get_json()
    assert content["title"] == "Europe <b>"
    assert content["description"] == 'A "quoted" text & more'
    assert content["keywords"] == ["k<1>", "k&2"]
    assert content["attribution"] == "A & B"
    assert (content["dataType"], content["mapTiles"], content["dataTiles"]) == ("map", True, False)
    assert content["storageCrs"] == f"{EPSG}/3857"
    assert content["crs"][:3] == [
        f"{EPSG}/3857",
        "http://www.opengis.net/def/crs/OGC/1.3/CRS84",
        f"{EPSG}/32631",
    ]
    assert content["minCellSize"] == pytest.approx(9783.93962)
    assert content["maxScaleDenominator"] == pytest.approx(2 * content["minScaleDenominator"])
    assert content["minScaleDenominator"] == pytest.approx(content["minCellSize"] / 0.00028)
    (metadata,) = [i for i in content["links"] if i["href"] == "http://r.example/?a&b"]
    assert (metadata["rel"], metadata["type"]) == ("describedby", "application/xml")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a_world", [-20037508.3427892, -20037508.3427892, 20037508.3427892, 20037508.3427892]),
        ("c_degrees", [-90, -180, 90, 180]),  # latitude first; its coarsest level is whole
        ("d_lambert", [2125000, 3125000, 4375000, 5375000]),  # northing first
    ],
)
def test_storage_crs_bbox_follows_the_axis_order(
    rich: Client, name: str, expected: list[float]
) -> None:
    content = rich.get(f"/ogcapi/collections/{name}").get_json()
    assert content["extent"]["spatial"]["storageCrsBbox"] == [pytest.approx(expected)]


def test_scale_of_degrees_is_that_on_the_equator(rich: Client) -> None:
    content = rich.get("/ogcapi/collections/c_degrees").get_json()
    assert content["minScaleDenominator"] == pytest.approx(
        content["minCellSize"] * 111319.490793 / 0.00028
    )


def test_identifiers_are_encoded_in_addresses(rich: Client) -> None:
    name = "e heights é"
    encoded = quote(name, safe="")
    content = rich.get(f"/ogcapi/collections/{encoded}").get_json()
    assert content["id"] == name
    own = [item["href"] for item in content["links"] if item["href"].startswith(ROOT)]
    assert own
    assert all(f"/collections/{encoded}" in href for href in own)


def test_vector_collection_leads_to_vector_tiles_only(rich: Client) -> None:
    content = rich.get("/ogcapi/collections/h_vector").get_json()
    assert (content["dataType"], content["mapTiles"], content["dataTiles"]) == (
        "vector",
        False,
        True,
    )
    rels = {item["rel"] for item in content["links"]}
    assert f"{REL}/tilesets-vector" in rels
    assert not rels & {f"{REL}/map", f"{REL}/tilesets-map", f"{REL}/styles", "map"}


def test_every_link_has_address_and_relation_and_answers(rich: Client) -> None:
    """T-5, T-7, T-9, P-5, P-6: everything that the documents lead to is there."""
    seen: dict[str, dict[str, Any]] = {}
    waiting = ["/ogcapi", "/ogcapi/collections", "/ogcapi/tileMatrixSets"]
    done: set[str] = set()
    while waiting:
        path = waiting.pop()
        done.add(path)
        for item in all_links(rich.get(path).get_json()):
            assert {"href", "rel"} <= item.keys()
            if item["rel"] in ("self", "alternate"):
                assert item["type"]
            if "{" in item["href"]:
                assert item["templated"] is True
            elif item["href"].startswith(ROOT):
                seen[item["href"]] = item
                follow = urlsplit(item["href"]).path
                if item["type"] == "application/json" and follow not in done:
                    waiting.append(follow)
    assert len(seen) > 100
    for href, item in seen.items():
        parts = urlsplit(href)
        response = rich.get(f"{parts.path}?{parts.query}")
        assert response.status_code == 200, href
        assert response.content_type.replace(" ", "").startswith(item["type"].replace(" ", ""))


def test_templated_links_of_existing_servers_are_kept_at_the_end(rich: Client) -> None:
    links = rich.get("/ogcapi/collections/a_world").get_json()["links"]
    assert links[-1]["rel"] == "map"
    assert links[-1]["href"] == f"{ROOT}/collections/a_world/map?f={{format}}"
    assert links[-1]["templated"] is True
    assert links[-2]["rel"] == "describedby"
    assert links[-2]["href"] == f"{ROOT}/collections/a_world/map/tiles?f=json"
    usual = [item for item in links if item["rel"] == f"{REL}/map"]
    assert all("{" not in item["href"] for item in usual)


def test_map_links_have_the_type_of_the_map(rich: Client) -> None:
    """P-2, P-5."""
    for name in NAMES[:-1]:
        path = f"/ogcapi/collections/{quote(name)}"
        for item in rich.get(path).get_json()["links"]:
            if item["rel"] in (f"{REL}/map", f"{REL.replace('http:', 'https:')}/map"):
                parts = urlsplit(item["href"])
                response = rich.get(f"{parts.path}?{parts.query}")
                assert response.content_type == item["type"], item
                assert item["type"].startswith("image/")


def test_styles_name_the_default_and_lead_to_maps_tiles_and_legend(rich: Client) -> None:
    """P-6; maps /req/styled-map/desc-links."""
    path = f"/ogcapi/collections/{quote('e heights é')}/styles"
    content = rich.get(path).get_json()
    assert content["default"] == "normal"
    assert [item["id"] for item in content["styles"]] == ["normal", "relief"]
    relief = {item["rel"]: item for item in content["styles"][1]["links"]}
    assert relief[f"{REL}/map"]["href"].endswith("/styles/relief/map")
    assert relief[f"{REL}/map"]["type"] == "image/png"
    assert relief[f"{REL}/tilesets-map"]["href"].endswith("/styles/relief/map/tiles?f=json")
    assert relief[f"{REL}/legend"]["href"] == "http://maps.example/legend.png"
    normal = {item["rel"]: item for item in content["styles"][0]["links"]}
    assert f"{REL}/legend" not in normal
    assert normal[f"{REL}/map"]["type"] == "image/x-bil;bits=32"


@pytest.mark.parametrize("below", ["", "/styles", "/map", "/map/tiles", "/tiles", "/styles/s/map"])
@pytest.mark.parametrize("name", ["nothing", "hidden", "%00", "%F0%9F%97%BA", "A_WORLD", "%20"])
def test_unknown_and_hidden_collections_are_not_found(
    rich: Client, fault: Any, name: str, below: str
) -> None:
    response = rich.get(f"/ogcapi/collections/{name}{below}")
    assert fault(response) == (404, "ResourceNotFound")


@pytest.mark.parametrize(
    "path",
    [
        "/collections/h_vector/map",
        "/collections/h_vector/map/tiles",
        "/collections/h_vector/map/tiles/PM",
        "/collections/h_vector/map/tiles/PM/3/2/4",
        "/collections/h_vector/styles",
        "/collections/h_vector/styles/normal/map",
        "/collections/a_world/tiles",
        "/collections/a_world/tiles/PM",
        "/collections/a_world/tiles/PM/0/0/0",
        "/collections/a_world/map/tiles/PM/0/a/0",
        "/collections/a_world/map/tiles/PM/0/0/1.5",
        "/collections/a_world/map/tiles/PM/0//0",
        "/collections/a_world/map/tiles/PM/0/0/%D9%A1",
    ],
)
def test_what_does_not_belong_to_the_collection_is_an_invalid_parameter(
    rich: Client, fault: Any, path: str
) -> None:
    assert fault(rich.get(f"/ogcapi{path}")) == (400, "InvalidParameter")


@pytest.mark.parametrize(
    "path",
    [
        "/collections/a_world/styles/nothing/map",
        "/collections/a_world/styles/nothing/map/tiles",
        "/collections/a_world/styles/nothing/map/tiles/PM/0/0/0",
        "/collections/a_world/map/tiles/4326",
        "/collections/a_world/map/tiles/nothing/0/0/0",
        "/collections/a_world/map/tiles/PM/nothing/0/0",
    ],
)
def test_unknown_style_set_or_matrix_in_the_path_is_not_found(
    rich: Client, fault: Any, path: str
) -> None:
    """RFC 9110 clause 15.5.5: the path names no resource."""
    assert fault(rich.get(f"/ogcapi{path}")) == (404, "ResourceNotFound")


@pytest.mark.parametrize(
    "path",
    [
        "/nothing",
        "/conformance/x",
        "/api/nothing",
        "/api/styles/x",
        "/collections/a_world/nothing",
        "/collections/a_world/map/nothing",
        "/collections/a_world/styles/normal",
        "/collections/a_world/map/tiles/PM/0",
        "/collections/a_world/map/tiles/PM/0/0",
        "/collections/a_world/map/tiles/PM/0/0/0/0",
        "/collections/a_world/map/map",
        "/map/x",
        "/static/x",
        "/static/../service.py",
        "/tileMatrixSets/nothing",
        "/tileMatrixSets/PM/0",
        "//",
        "/collections//map",
    ],
)
def test_unknown_paths_are_not_found(rich: Client, fault: Any, path: str) -> None:
    assert fault(rich.get(f"/ogcapi{path}?")) == (404, "ResourceNotFound")
