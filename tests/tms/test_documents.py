"""TileMapService and TileMap (tms.md sections 3 and 4), and the root resource."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lxml import etree
from werkzeug.test import Client

from mastaba_conformance.tiny_installation import tiny_integer_tile
from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import geographic, synthetic

OpenClient = Callable[[Path], Client]
PUBLIC_URL = "http://maps.example"
HOSTILE = 'Maps & "more" <b>\x01 é'
GRID = synthetic(
    "GRID",
    crs="EPSG:2154",
    origin=(1e5, 7e6),
    cell_sizes=[100, 12.5],
    matrix_sizes=[(4, 4), (9, 7)],
)


@pytest.fixture(scope="module")
def rich(tmp_path_factory: pytest.TempPathFactory, open_client: OpenClient) -> Client:
    """Return a client of an installation that fills every node."""
    directory = tmp_path_factory.mktemp("rich")
    grid = write_pyramid(
        directory,
        "GRID",
        tile_matrix_set=GRID,
        format="TIFF_PNG_UINT8",
        levels=[LevelPlan("0", 0, 1, 0, 1), LevelPlan("1", 2, 4, 3, 5)],
        tile=tiny_integer_tile(3),
    )
    world = write_pyramid(
        directory,
        "WORLD",
        tile_matrix_set=geographic(),
        format="TIFF_RAW_UINT8",
        levels=[LevelPlan("19", 261_000, 261_001, 543_000, 543_000)],
        tile=tiny_integer_tile(3),
    )
    described = layer_document(
        grid,
        tile_matrix_sets={"GRID": GRID},
        title=HOSTILE,
        abstract=HOSTILE,
        keywords=["one", "two words", HOSTILE],
        metadata=[
            {"type": "ISO19115", "format": "text/xml", "url": "http://meta.example/?a=1&b=2"},
            {"type": "other", "format": "text/html", "url": "http://meta.example/html"},
        ],
        attribution={
            "title": HOSTILE,
            "url": "http://owner.example/",
            "logo": {
                "width": 32,
                "height": 16,
                "format": "image/png",
                "url": "http://owner.example/logo.png",
            },
        },
    )
    layers: dict[str, Any] = {
        "b grid/é".replace("/", "%"): described,
        "a": layer_document(world),
        "Z": layer_document(world),
        "hidden": layer_document(world, tms={"enabled": False}),
    }
    service = {
        "title": HOSTILE,
        "abstract": HOSTILE,
        "keywords": ["k1", "k2"],
        "metadata": {"type": "T", "format": "text/xml", "url": "http://meta.example/service"},
        "endpoint_uri": f"{PUBLIC_URL}/front/tms/",
        "root_path": "/internal/tms",
    }
    contact = {"name": "N", "position": "P", "city": "C", "country": "", "email": "e@example.org"}
    server_json = write_installation(
        directory,
        layers=layers,
        tile_matrix_sets={"GRID": GRID},
        services=["tms"],
        services_overrides={
            "tms": service,
            "global": {"provider": "Provider", "contact": contact},
        },
    )
    return open_client(server_json)


def parsed(client: Client, path: str) -> etree._Element:
    response = client.get(path)
    assert response.status_code == 200
    return etree.fromstring(response.data)


def plain(text: str) -> str:
    return text.replace("\x01", "\ufffd")


def test_root_resource_lists_this_service_only(rich: Client) -> None:
    root = parsed(rich, "/internal/tms")
    assert root.tag == "Services"
    assert [(line.tag, dict(line.attrib)) for line in root] == [
        (
            "TileMapService",
            {
                "title": plain(HOSTILE),
                "version": "1.0.0",
                "href": f"{PUBLIC_URL}/front/tms/1.0.0/",
            },
        )
    ]


def test_server_root_lists_this_service(rich: Client) -> None:
    assert rich.get("/").data == rich.get("/internal/tms").data


def test_tile_map_service(rich: Client) -> None:
    root = parsed(rich, "/internal/tms/1.0.0")
    assert dict(root.attrib) == {"version": "1.0.0", "services": f"{PUBLIC_URL}/front/tms"}
    assert [child.tag for child in root] == [
        "Title",
        "Abstract",
        "KeywordList",
        "ContactInformation",
        "Metadata",
        "TileMaps",
    ]
    assert root.findtext("Title") == plain(HOSTILE)
    assert root.findtext("Abstract") == plain(HOSTILE)
    assert root.findtext("KeywordList") == "k1 k2"
    metadata = root.find("Metadata")
    assert metadata is not None
    assert dict(metadata.attrib) == {
        "type": "T",
        "mime-type": "text/xml",
        "href": "http://meta.example/service",
    }


def test_contact_leaves_out_what_is_empty(rich: Client, tiny: Client) -> None:
    information = parsed(rich, "/internal/tms/1.0.0").find("ContactInformation")
    assert information is not None
    found = [(node.tag, node.text) for node in information.iter() if not len(node)]
    assert found == [
        ("ContactPerson", "N"),
        ("ContactOrganization", "Provider"),
        ("ContactPosition", "P"),
        ("City", "C"),
        ("ContactElectronicMailAddress", "e@example.org"),
    ]
    sparse = parsed(tiny, "/tms/1.0.0").find("ContactInformation")
    assert sparse is not None
    assert [node.text for node in sparse.iter() if not len(node)] == ["Mastaba"]


def test_tile_maps_are_sorted_and_addressed(rich: Client) -> None:
    root = parsed(rich, "/internal/tms/1.0.0")
    found = [dict(tile_map.attrib) for tile_map in root.iter("TileMap")]
    base = f"{PUBLIC_URL}/front/tms/1.0.0"
    world = {"title": "WORLD", "srs": "EPSG:4326", "profile": "none", "extension": "tif"}
    assert found == [
        {**world, "href": f"{base}/Z"},
        {**world, "href": f"{base}/a"},
        {
            "title": plain(HOSTILE),
            "srs": "EPSG:2154",
            "profile": "none",
            "extension": "png",
            "href": f"{base}/b%20grid%25%C3%A9",
        },
    ]


def test_href_leads_to_the_tile_map(rich: Client) -> None:
    root = parsed(rich, "/internal/tms/1.0.0")
    for tile_map in root.iter("TileMap"):
        path = tile_map.attrib["href"].removeprefix(f"{PUBLIC_URL}/front")
        assert parsed(rich, f"/internal{path}").tag == "TileMap"


def test_hidden_layer_is_unknown(rich: Client) -> None:
    for path in ("hidden", "hidden/metadata.json", "hidden/19/543000/261000.tif"):
        assert rich.get(f"/internal/tms/1.0.0/{path}").status_code == 404


def test_tile_map(rich: Client) -> None:
    root = parsed(rich, "/internal/tms/1.0.0/b%20grid%25%C3%A9")
    base = f"{PUBLIC_URL}/front/tms/1.0.0"
    assert dict(root.attrib) == {"version": "1.0.0", "tilemapservice": base}
    assert [child.tag for child in root] == [
        "Title",
        "Abstract",
        "KeywordList",
        "Metadata",
        "Metadata",
        "Attribution",
        "SRS",
        "BoundingBox",
        "Origin",
        "TileFormat",
        "TileSets",
    ]
    assert root.findtext("Title") == plain(HOSTILE)
    assert root.findtext("Abstract") == plain(HOSTILE)
    assert root.findtext("KeywordList") == plain(f"one two words {HOSTILE}")
    assert [node.get("href") for node in root.findall("Metadata")] == [
        "http://meta.example/?a=1&b=2",
        "http://meta.example/html",
    ]
    attribution = root.find("Attribution")
    assert attribution is not None
    assert attribution.get("href") == "http://owner.example/"
    assert attribution.findtext("Title") == plain(HOSTILE)
    assert root.findtext("SRS") == "EPSG:2154"
    nodes = {child.tag: dict(child.attrib) for child in (*root, *attribution)}
    assert nodes["Logo"] == {
        "width": "32",
        "height": "16",
        "href": "http://owner.example/logo.png",
        "mime-type": "image/png",
    }
    # The whole grid: GDAL counts tiles from its lower left corner.
    assert nodes["BoundingBox"] == {
        "minx": "100000",
        "miny": "6977600",
        "maxx": "128800",
        "maxy": "7000000",
    }
    assert nodes["Origin"] == {"x": "100000", "y": "6977600"}
    assert nodes["TileFormat"] == {
        "width": "256",
        "height": "256",
        "mime-type": "image/png",
        "extension": "png",
    }
    assert nodes["TileSets"] == {"profile": "none"}
    assert [dict(node.attrib) for node in root.iter("TileSet")] == [
        {
            "href": f"{base}/b%20grid%25%C3%A9/bottom/0",
            "minrow": "2",
            "maxrow": "3",
            "mincol": "0",
            "maxcol": "1",
            "units-per-pixel": "100",
            "order": "1",
        },
        {
            "href": f"{base}/b%20grid%25%C3%A9/bottom/1",
            "minrow": "2",
            "maxrow": "4",
            "mincol": "3",
            "maxcol": "5",
            "units-per-pixel": "12.5",
            "order": "2",
        },
    ]


def test_small_numbers_are_written_without_exponent(rich: Client) -> None:
    root = parsed(rich, "/internal/tms/1.0.0/a")
    tile_set = list(root.iter("TileSet"))[-1]
    assert tile_set.get("units-per-pixel") == "0.00000134110450744629"


def test_geographic_boxes_are_longitude_first(rich: Client) -> None:
    root = parsed(rich, "/internal/tms/1.0.0/a")
    bbox, origin = root.find("BoundingBox"), root.find("Origin")
    assert bbox is not None
    assert origin is not None
    edges = {name: float(value) for name, value in bbox.attrib.items()}
    expected = {"minx": -180, "miny": -90, "maxx": 180, "maxy": 90}
    assert edges == pytest.approx(expected, abs=1e-6)
    assert float(origin.attrib["x"]) == -180
    assert float(origin.attrib["y"]) == pytest.approx(-90)


@pytest.mark.parametrize(
    "layer", ["RGB_JPG", "RGB_PNG", "RGB_RAW", "GREYA_ZIP", "FLOAT32_ZIP", "VECTOR"]
)
def test_corners_of_each_tile_set_are_tiles(tiny: Client, layer: str) -> None:
    root = parsed(tiny, f"/tms/1.0.0/{layer}")
    tile_format = root.find("TileFormat")
    assert tile_format is not None
    stored = [tile_set for tile_set in root.iter("TileSet") if tile_set.get("minrow")]
    assert len(stored) == 3
    for tile_set in stored:
        path = tile_set.attrib["href"].removeprefix(PUBLIC_URL)
        for row in ("minrow", "maxrow"):
            for col in ("mincol", "maxcol"):
                tile = f"{path}/{tile_set.get(col)}/{tile_set.get(row)}"
                response = tiny.get(f"{tile}.{tile_format.get('extension')}")
                assert response.status_code == 200
                assert response.headers["Content-Type"] == tile_format.get("mime-type")


def test_documents_are_built_once(tiny: Client) -> None:
    service: Any = tiny.application.site.services["tms"]  # type: ignore[attr-defined]
    tiny.get("/tms/1.0.0/RGB_PNG")
    first = service._documents["1.0.0", "RGB_PNG"]
    tiny.get("/tms/1.0.0/RGB_PNG")
    assert service._documents["1.0.0", "RGB_PNG"] is first


def test_unknown_addresses_leave_nothing_behind(tiny: Client) -> None:
    service: Any = tiny.application.site.services["tms"]  # type: ignore[attr-defined]
    before = len(service._documents)
    for number in range(10):
        tiny.get(f"/tms/1.0.0/NOWHERE{number}")
    assert len(service._documents) == before


def test_no_published_layer_gives_an_empty_list(tmp_path: Path, open_client: OpenClient) -> None:
    pyramid = write_pyramid(
        tmp_path,
        "P",
        tile_matrix_set=geographic(),
        format="TIFF_RAW_UINT8",
        levels=[LevelPlan("0", 0, 0, 0, 0)],
        tile=tiny_integer_tile(3),
    )
    layers = {"hidden": layer_document(pyramid, tms={"enabled": False})}
    client = open_client(write_installation(tmp_path, layers=layers, services=["tms"]))
    tile_maps = parsed(client, "/tms/1.0.0").find("TileMaps")
    assert tile_maps is not None
    assert len(tile_maps) == 0
