"""Landing page and conformance declaration (common /req/landing-page, T-3, P-1, P-3)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.tiny import tiny_installation
from werkzeug.test import Client

from mastaba_doctor.rok4_v6 import to_rok4_v7

ROOT = "http://maps.example/ogcapi"
REL = "http://www.opengis.net/def/rel/ogc/1.0"
MAPS = "www.opengis.net/spec/ogcapi-maps-1/1.0/conf"
TILES = "http://www.opengis.net/spec/ogcapi-tiles-1/1.0/conf"


def by_rel(content: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for item in content["links"]:
        found.setdefault(item["rel"], []).append(item)
    return found


def below(href: str) -> str:
    """Return the path and query of an announced address, for the test client."""
    parts = urlsplit(href)
    assert f"{parts.scheme}://{parts.netloc}" == "http://maps.example"
    return f"{parts.path}?{parts.query}" if parts.query else parts.path


def test_landing_page_leads_to_definition_and_conformance(rich: Client) -> None:
    content = rich.get("/ogcapi").get_json()
    assert (content["title"], content["description"]) == ("Maps & <tiles>", "About")
    links = by_rel(content)
    for rel in ("self", "service-desc", "service-doc", "conformance", "data"):
        assert links[rel], rel
    for rel in ("conformance", "data", "tiling-schemes"):
        assert links[f"{REL}/{rel}"], rel
    assert links["service-desc"][0]["type"] == "application/vnd.oai.openapi+json;version=3.0"
    assert links["describedby"][0]["href"] == "http://r.example/?a&b"


def test_every_link_of_the_landing_page_answers_with_its_type(rich: Client) -> None:
    followed = 0
    for item in rich.get("/ogcapi").get_json()["links"]:
        if item["href"].startswith(ROOT):
            response = rich.get(below(item["href"]))
            assert response.status_code == 200, item
            assert response.content_type.startswith(item["type"]), item
            followed += 1
    assert followed > 10


def test_trailing_slash_is_tolerated(rich: Client) -> None:
    assert rich.get("/ogcapi/").data == rich.get("/ogcapi").data
    assert rich.get("/ogcapi/collections/").status_code == 200


def test_dataset_map_is_linked_in_both_spellings_without_query(rich: Client) -> None:
    """P-3."""
    links = by_rel(rich.get("/ogcapi").get_json())
    for scheme in ("http", "https"):
        (link,) = links[f"{scheme}://www.opengis.net/def/rel/ogc/1.0/map"]
        assert link["href"] == f"{ROOT}/map"
        assert link["type"] == "image/png"


def test_extent_is_the_union_and_crs_begins_with_crs84(rich: Client) -> None:
    """P-3; maps /req/dataset-map/desc-crs, desc-extent."""
    content = rich.get("/ogcapi").get_json()
    spatial = content["extent"]["spatial"]
    assert spatial["crs"] == "http://www.opengis.net/def/crs/OGC/1.3/CRS84"
    assert spatial["bbox"][0] == pytest.approx([-180, -90, 180, 90])
    assert content["crs"][0] == "http://www.opengis.net/def/crs/OGC/1.3/CRS84"
    assert "http://www.opengis.net/def/crs/EPSG/0/3035" in content["crs"]


def test_landing_page_has_no_tilesets_of_the_dataset(rich: Client) -> None:
    """T-4: that class is not declared, its resource does not exist."""
    assert not [rel for rel in by_rel(rich.get("/ogcapi").get_json()) if "tilesets-" in rel]
    assert rich.get("/ogcapi/map/tiles").status_code == 404


def test_conformance_names_what_works(rich: Client) -> None:
    """T-3, P-1."""
    classes = rich.get("/ogcapi/conformance").get_json()["conformsTo"]
    assert len(classes) == len(set(classes))
    assert f"{TILES}/core" in classes
    assert f"{TILES}/mvt" in classes
    for scheme in ("http", "https"):
        for name in ("core", "dataset-map", "background", "tilesets", "png", "jpeg", "tiff"):
            assert f"{scheme}://{MAPS}/{name}" in classes
    for absent in ("projection", "datetime", "general-subsetting", "orientation", "cors"):
        assert f"https://{MAPS}/{absent}" not in classes
    assert f"{TILES}/dataset-tilesets" not in classes


@pytest.mark.parametrize(
    ("own", "present", "absent"),
    [
        ({"tiles": False}, f"https://{MAPS}/core", f"{TILES}/core"),
        ({"tiles": False}, f"https://{MAPS}/core", f"https://{MAPS}/tilesets"),
        ({"maps": False}, f"{TILES}/core", f"https://{MAPS}/core"),
        ({"cors": True}, f"https://{MAPS}/cors", f"https://{MAPS}/projection"),
    ],
)
def test_conformance_follows_the_settings(
    tmp_path: Path, open_client: Any, own: dict[str, Any], present: str, absent: str
) -> None:
    client = open_client(
        tiny_installation(tmp_path, services=["ogcapi"], services_overrides={"ogcapi": own})
    )
    classes = client.get("/ogcapi/conformance").get_json()["conformsTo"]
    assert present in classes
    assert absent not in classes


@pytest.mark.parametrize(
    ("own", "gone", "rels"),
    [
        (
            {"tiles": False},
            ["/collections/RGB_PNG/map/tiles", "/collections/RGB_PNG/map/tiles/PM/4/5/9"],
            [f"{REL}/tilesets-map"],
        ),
        ({"tiles": False}, ["/collections/VECTOR/tiles/PM/4/5/9"], [f"{REL}/tilesets-map"]),
        (
            {"maps": False},
            ["/map", "/collections/RGB_PNG/map", "/collections/RGB_PNG/styles/normal/map"],
            [f"{REL}/map", "map"],
        ),
    ],
)
def test_switched_off_families_are_gone_with_their_links(
    tmp_path: Path, open_client: Any, own: dict[str, Any], gone: list[str], rels: list[str]
) -> None:
    client = open_client(
        tiny_installation(tmp_path, services=["ogcapi"], services_overrides={"ogcapi": own})
    )
    for path in gone:
        assert client.get(f"/ogcapi{path}").status_code == 404, path
    paths = client.get("/ogcapi/api").get_json()["paths"]
    assert not [path for path in paths if path.endswith("/map") and own == {"maps": False}]
    assert not [path for path in paths if "tiles/" in path and own == {"tiles": False}]
    links = by_rel(client.get("/ogcapi/collections/RGB_PNG").get_json())
    assert not links.keys() & set(rels)


def test_installation_without_layers_answers(tmp_path: Path, open_client: Any) -> None:
    from mastaba_writer.installation import write_installation

    client = open_client(write_installation(tmp_path, layers={}, services=["ogcapi"]))
    for path in ("", "/conformance", "/api", "/collections", "/tileMatrixSets", "/api/styles"):
        for kind in ("json", "html"):
            assert client.get(f"/ogcapi{path}?f={kind}").status_code == 200, path
    assert client.get("/ogcapi/map").status_code == 404
    assert "/map" not in client.get("/ogcapi/api").get_json()["paths"]
    classes = client.get("/ogcapi/conformance").get_json()["conformsTo"]
    assert f"{TILES}/core" in classes
    for absent in (f"{TILES}/mvt", f"{TILES}/png", f"https://{MAPS}/dataset-map"):
        assert absent not in classes


def test_section_of_the_older_service_serves_this_one(tmp_path: Path, open_client: Any) -> None:
    """services-config.md section 5: converted from version 6, which has `tiles` in its place."""
    server_json = tiny_installation(tmp_path, services=["ogcapi"])
    older = {
        "provider": "P",
        "contact": {"name": "N"},
        "tiles": {
            "enabled": True,
            "endpoint_uri": "http://maps.example/tiles",
            "title": "OGC API Tiles service",
        },
    }
    (tmp_path / "services.json").write_text(json.dumps(to_rok4_v7(older)[0]))
    content = open_client(server_json).get("/ogcapi").get_json()
    assert content["title"] == "OGC API service"
    assert content["links"][0]["href"] == "http://maps.example/ogcapi"
