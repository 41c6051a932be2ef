"""The descriptions of layers and stored tiles for the scripts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml
from tests.tiny import tiny_installation
from tests.viewer import ground
from werkzeug.test import Client

from mastaba.model.pyramid import Level
from mastaba.model.tile_matrix_set import TileMatrix
from mastaba_conformance.tiny_installation import (
    TINY_LEVELS,
    tiny_float_tile,
    tiny_integer_tile,
)
from mastaba_viewer.grids import block_size
from mastaba_viewer.legends import table_colour
from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import geographic, web_mercator

OpenClient = Callable[[Path], Client]
FRONT = "http://maps.example/front"
PUBLIC = "http://maps.example"


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory, open_client: OpenClient) -> Client:
    """Return a client of an installation with all services."""
    return open_client(ground.install(tmp_path_factory.mktemp("everything"), PUBLIC))


def layer(client: Client, name: str) -> dict[str, Any]:
    response = client.get(f"/viewer/data/layers/{quote(name, safe='')}.json")
    assert response.status_code == 200
    assert response.content_type == "application/json"
    found: Any = response.json
    return found


def page_data(client: Client, name: str) -> dict[str, Any]:
    """Return the data in the page of a layer."""
    text = client.get(f"/viewer/{name}").text.partition('<script type="application/json"')[2]
    found: dict[str, Any] = json.loads(text.partition(">")[2].partition("</script>")[0])
    return found


def source(client: Client, name: str, identifier: str) -> dict[str, Any]:
    return next(s for s in layer(client, name)["sources"] if s["id"] == identifier)


def test_list_of_layers(everything: Client) -> None:
    content = page_data(everything, "IMAGE")
    assert content["layer"] == layer(everything, "IMAGE")
    assert content["basemap"] is None
    layers = {found["id"]: found for found in content["layers"]}
    assert sorted(layers) == list(layers)
    assert len(layers) == 13
    assert layers["GRID"] == {
        "id": "GRID",
        "title": "GRID",
        "kind": "image",
        "format": "PNG",
        "set": "GRID",
        "crs": "EPSG:2154",
    }


def test_layer(tiny: Client) -> None:
    found = layer(tiny, "RGB_JPG")
    box, sets = found.pop("geographicBbox"), found.pop("sets")
    projections = found.pop("projections")
    snippets = found.pop("snippets")
    assert [snippet["id"] for snippet in snippets] == [
        *("qgis", "leaflet", "maplibre", "cesium", "mapproxy")
    ]
    assert next(iter(projections)) == "EPSG:3857"
    assert projections["EPSG:3857"]["name"] == "WGS 84 / Pseudo-Mercator"
    assert projections["CRS:84"]["area"] == [-180, -90, 180, 90]
    assert found == {
        "id": "RGB_JPG",
        "title": "RGB_JPG",
        "kind": "image",
        "format": "JPEG",
        "set": "PM",
        "crs": "EPSG:3857",
        "abstract": "",
        "mediaType": "image/jpeg",
        "nodata": [255, 255, 255],
        "attribution": None,
        "metadata": [],
        "styles": [{"id": "normal", "title": "Stored data", "palette": None}],
        "tables": [],
        "stylesheet": "",
        "downloads": [],
        "heat": "",
        "provenance": "",
        "times": None,
        "sources": [
            {
                "id": "tms",
                "title": "TMS",
                "type": "tiles",
                "sets": {"PM": "PM"},
                "fromBottom": False,
                "missing": 404,
                "offers": ["PM"],
                "styles": [
                    {
                        "style": "normal",
                        "draws": "image",
                        "template": f"{FRONT}/tms/1.0.0/RGB_JPG"
                        "/{TileMatrix}/{TileCol}/{TileRow}.jpeg",
                    }
                ],
                "documents": [
                    {"label": "TileJSON", "url": f"{FRONT}/tms/1.0.0/RGB_JPG/metadata.json"},
                    {"label": "TileMap", "url": f"{FRONT}/tms/1.0.0/RGB_JPG"},
                    {"label": "GDAL", "url": f"{FRONT}/tms/1.0.0/RGB_JPG/gdal.xml"},
                ],
            }
        ],
    }
    assert box == pytest.approx([22.5, 21.943046, 67.5, 55.776573])
    assert [grid["id"] for grid in sets] == ["PM"]


@pytest.mark.parametrize(
    ("name", "kind", "label"),
    [
        ("RGB_PNG", "image", "PNG"),
        ("RGB_RAW", "tiff", "TIFF"),
        ("GREYA_ZIP", "tiff", "TIFF"),
        ("FLOAT32_RAW", "elevation", "Elevation"),
        ("FLOAT32_ZIP", "elevation", "Elevation"),
        ("VECTOR", "vector", "Vector"),
    ],
)
def test_kinds(tiny: Client, name: str, kind: str, label: str) -> None:
    found = layer(tiny, name)
    assert (found["kind"], found["format"]) == (kind, label)


def test_tables_of_vector_layers(tiny: Client) -> None:
    found = layer(tiny, "VECTOR")
    assert found["tables"] == [
        {"name": "tiles", "geometry": "POLYGON", "colour": "#2f6f8f"},
        {"name": "centres", "geometry": "POINT", "colour": "#b0582f"},
    ]
    assert [entry["label"] for entry in found["sources"][0]["documents"]] == ["TileJSON", "TileMap"]


def test_tile_matrix_set_of_a_layer(tiny: Client) -> None:
    (grid,) = layer(tiny, "RGB_PNG")["sets"]
    matrices = grid.pop("matrices")
    bbox, resolutions = grid.pop("bbox"), grid.pop("resolutions")
    assert grid == {
        "id": "PM",
        "crs": "EPSG:3857",
        "northingFirst": False,
        "hasZooms": True,
        "limits": {"2": [1, 1, 2, 2], "3": [2, 3, 4, 5], "4": [5, 6, 9, 10]},
        "blocks": {"2": [4, 4], "3": [4, 4], "4": [4, 4]},
    }
    assert bbox == pytest.approx([2504688.543, 2504688.543, 7514065.629, 7514065.629])
    assert [matrix["id"] for matrix in matrices] == [str(z) for z in range(22)]
    assert matrices[3] == {
        "id": "3",
        "cellSize": pytest.approx(19567.8792410051),
        "originX": -20037508.3427892,
        "originY": 20037508.3427892,
        "tileWidth": 256,
        "tileHeight": 256,
        "matrixHeight": 8,
        "tiles": [2, 3, 4, 5],
    }
    # Tiles of other matrices contain something of the nearest level.
    assert [matrices[z]["tiles"] for z in (0, 1, 5)] == [
        [0, 0, 0, 0],
        [0, 0, 1, 1],
        [10, 13, 18, 21],
    ]
    cells = [matrix["cellSize"] for matrix in matrices]
    assert resolutions == cells[0:8]


def test_extra_tile_matrix_sets(everything: Client) -> None:
    native, extra = layer(everything, "PALETTE")["sets"]
    assert (native["id"], extra["id"]) == ("PM", "4326")
    assert extra["northingFirst"] is True
    assert "blocks" not in extra
    assert extra["bbox"] == pytest.approx([22.5, 21.943046, 67.5, 55.776573])
    names = source(everything, "PALETTE", "wmts")["sets"]
    first, last = next(iter(extra["limits"])), list(extra["limits"])[-1]
    assert names == {"PM": "PM_2_4", "4326": f"4326_{first}_{last}"}
    assert source(everything, "PALETTE", "ogcapi-tiles")["sets"] == {"PM": "PM", "4326": "4326"}
    assert source(everything, "PALETTE", "tms")["sets"] == {"PM": "PM"}


@pytest.mark.thorough
def test_no_extra_tile_matrix_sets_without_reprojection(
    tmp_path: Path, open_client: OpenClient
) -> None:
    overrides = {"global": {"tile": {"reprojection": False}}}
    client = open_client(ground.install(tmp_path, PUBLIC, services_overrides=overrides))
    assert [grid["id"] for grid in layer(client, "PALETTE")["sets"]] == ["PM"]
    assert source(client, "PALETTE", "wmts")["sets"] == {"PM": "PM_2_4"}


def test_styles_that_each_source_shows(everything: Client) -> None:
    def shown(name: str) -> dict[str, list[tuple[str | None, str | None]]]:
        return {
            found["id"]: [(look["style"], look["draws"]) for look in found["styles"]]
            for found in layer(everything, name)["sources"]
        }

    assert shown("PALETTE") == {
        "tms": [("normal", "image")],
        "wmts": [("normal", "image"), ("ember", "image")],
        "ogcapi-tiles": [("normal", "image"), ("ember", "image")],
        "wms": [("normal", "image"), ("ember", "image")],
        "ogcapi-maps": [("normal", "image"), ("ember", "image")],
    }
    # Stored values have no colours; only drawn tiles and maps have.
    assert shown("HEIGHT") == {
        "tms": [("normal", "elevation")],
        "wmts": [("normal", "elevation")],
        "ogcapi-tiles": [("tint", "image"), ("normal", "elevation")],
        "wms": [("tint", "image"), ("normal", None)],
        "ogcapi-maps": [("tint", "image"), ("normal", None)],
    }
    assert shown("VECTOR") == {"tms": [(None, "vector")], "ogcapi-tiles": [(None, "vector")]}


def test_palettes_for_legends_have_the_stops_around_the_values(everything: Client) -> None:
    tint, normal = layer(everything, "HEIGHT")["styles"]
    assert tint["palette"] == {
        "continuous": True,
        "unit": "m",
        "colours": [[0, 0, 0, 255, 255], [10000, 255, 0, 0, 255]],
    }
    assert normal["palette"] is None


@pytest.mark.thorough
def test_palettes_are_whole_without_readable_values(
    tmp_path: Path, open_client: OpenClient
) -> None:
    client = open_client(ground.install(tmp_path, PUBLIC))
    for slab in tmp_path.rglob("HEIGHT/**/*.tif"):
        slab.write_bytes(b"damaged")
    tint, _ = layer(client, "HEIGHT")["styles"]
    assert [colour[0] for colour in tint["palette"]["colours"]] == [0, 10000, 20000]
    assert tint["palette"]["unit"] == "m"


def requests(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield every URL of a layer, filled in like in the scripts, and its expected media type."""
    grids = {grid["id"]: grid for grid in found["sets"]}
    for one in found["sources"]:
        names = one.get("sets", {found["set"]: found["set"]})
        for set_id, published in names.items():
            grid = grids[set_id]
            matrix = next(m for m in grid["matrices"] if m["id"] == list(grid["limits"])[-1])
            min_row, _, min_col, _ = grid["limits"][matrix["id"]]
            if found["kind"] == "vector":
                min_row, min_col = 5, 9
            edges = list(map(repr, grid["bbox"]))
            if grid["northingFirst"]:
                edges = [edges[1], edges[0], edges[3], edges[2]]
            values = {
                "TileMatrixSet": published,
                "TileMatrix": matrix["id"],
                "TileRow": str(min_row),
                "TileCol": str(min_col),
                "CRS": grid["crs"],
                "BBOX": ",".join(edges),
                "WIDTH": "60",
                "HEIGHT": "50",
                "TRANSPARENT": "true",
                "I": "30",
                "J": "20",
            }
            for look in one["styles"]:
                for media_type in look.get("formats", [""]):
                    short = media_type.removeprefix("image/")
                    values["FORMAT"] = media_type if one["id"] == "wms" else short
                    expected = media_type
                    if one["type"] == "tiles":
                        drawn = look["draws"] == "image" and "transparent" in look["template"]
                        expected = "image/png" if drawn else found["mediaType"]
                    if found["kind"] == "vector" and one["id"] == "ogcapi-tiles":
                        expected = "application/vnd.mapbox-vector-tile"
                    yield filled(look["template"], values), expected
                if "rest" in look:
                    yield filled(look["rest"], values), found["mediaType"]
                if "legend" in look:
                    yield look["legend"], "image/png"
            if one.get("info"):
                yield filled(one["info"], values), "application/json"
            for entry in one["documents"]:
                yield filled(entry["url"], values), ""


def filled(template: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        template = template.replace(f"{{{name}}}", value)
    assert "{" not in template
    return template


@pytest.mark.parametrize("name", [*ground.FORMATS, "VECTOR", "WORLD", "GRID"])
def test_every_url_works(everything: Client, name: str) -> None:
    found = layer(everything, name)
    urls = list(requests(found))
    assert len(urls) > 4
    for url, expected in urls:
        assert url.startswith(PUBLIC)
        response = everything.get(url.removeprefix(PUBLIC))
        assert response.status_code == 200, (url, response.text)
        assert (response.content_type or "").startswith(expected), url


@pytest.fixture
def with_services(tmp_path: Path, open_client: OpenClient) -> Callable[..., Client]:
    """Return a function that opens one installation with some services, and settings of theirs."""
    server_json = ground.install(tmp_path, PUBLIC, ["wmts", "wms", "ogcapi", "viewer"])
    services_json = tmp_path / "services.json"
    original = services_json.read_text("utf-8")

    def with_them(*services: str, **settings: dict[str, Any]) -> Client:
        document = json.loads(original)
        for name in ("wmts", "wms", "ogcapi"):
            document[name]["enabled"] = name in services
            document[name] |= settings.get(name, {})
        services_json.write_text(json.dumps(document), "utf-8")
        return open_client(server_json)

    return with_them


def test_only_enabled_services_are_sources(with_services: Callable[..., Client]) -> None:
    for services in (["wmts"], ["wms"], ["ogcapi"], ["wms", "ogcapi"]):
        found = layer(with_services(*services), "IMAGE")["sources"]
        assert {source["id"].partition("-")[0] for source in found} == set(services)


def test_parts_of_ogc_api_that_are_off(with_services: Callable[..., Client]) -> None:
    for part, left in {"tiles": "ogcapi-maps", "maps": "ogcapi-tiles"}.items():
        client = with_services("ogcapi", ogcapi={part: False})
        assert [found["id"] for found in layer(client, "IMAGE")["sources"]] == [left]


def test_tms_rows_from_the_bottom(tmp_path: Path, open_client: OpenClient) -> None:
    server_json = tiny_installation(
        tmp_path,
        services=["tms", "viewer"],
        services_overrides={"tms": {"y_origin": "bottom"}},
    )
    assert source(open_client(server_json), "RGB_PNG", "tms")["fromBottom"] is True


def test_identifiers_are_encoded_and_hidden_layers_have_no_source(
    tmp_path: Path, open_client: OpenClient
) -> None:
    pyramid = write_pyramid(
        tmp_path,
        "P",
        tile_matrix_set=geographic(),
        format="TIFF_PNG_UINT8",
        levels=[LevelPlan("0", 0, 0, 0, 1)],
        tile=tiny_integer_tile(3),
    )
    off = {"enabled": False}
    documents = {
        "a b#é?{TileRow}": layer_document(pyramid),
        "static": layer_document(pyramid),
        "data": layer_document(pyramid),
        "one,two": layer_document(pyramid),
        "hidden": layer_document(pyramid, tms=off, wms=off, wmts=off, ogcapi=off),
    }
    client = open_client(
        write_installation(tmp_path, layers=documents, services=list(ground.SERVICES))
    )
    encoded = "a%20b%23%C3%A9%3F%7BTileRow%7D"
    found = source(client, "a b#é?{TileRow}", "tms")
    template = found["styles"][0]["template"]
    assert template == (
        f"http://localhost/tms/1.0.0/{encoded}/{{TileMatrix}}/{{TileCol}}/{{TileRow}}.png"
    )
    # A comma separates names in WMS requests.
    assert [s["id"] for s in layer(client, "one,two")["sources"]] == [
        "tms",
        "wmts",
        "ogcapi-tiles",
        "ogcapi-maps",
    ]
    assert layer(client, "hidden")["sources"] == []
    for name in documents:
        response = client.get(f"/viewer/{quote(name, safe='')}")
        assert response.status_code == 200
        assert response.content_type.startswith("text/html")


def test_layers_hidden_from_the_viewer(tmp_path: Path, open_client: OpenClient) -> None:
    pyramid = ground.one_tile_pyramid(tmp_path)
    documents = {
        "shown": layer_document(pyramid),
        "hidden": layer_document(pyramid, viewer={"enabled": False}),
    }
    client = open_client(write_installation(tmp_path, layers=documents, services=["tms", "viewer"]))
    content = page_data(client, "shown")
    assert [found["id"] for found in content["layers"]] == ["shown"]
    for name, status in {"shown": 200, "hidden": 404}.items():
        for path in (
            f"/{name}",
            f"/compare/shown/{name}",
            f"/data/layers/{name}.json",
            f"/data/stored/{name}/0/0/0",
        ):
            assert client.get(f"/viewer{path}").status_code == status, path


def test_stored_tiles(everything: Client) -> None:
    response = everything.get("/viewer/data/stored/VECTOR/4/1/2")
    assert response.json == {"rows": ["0000", "0110", "0110", "0000"]}
    for row in range(4, 8):
        for col in range(8, 12):
            tile = everything.get(f"/tms/1.0.0/VECTOR/4/{col}/{row}.pbf")
            assert (tile.status_code == 200) is ground.is_stored(row, col)


@pytest.mark.parametrize(
    ("slab", "block"),
    [((1, 1), (4, 4)), ((3, 2), (4, 6)), ((16, 8), (8, 16)), ((4096, 100), (64, 64))],
)
def test_blocks_are_slabs_of_a_reasonable_size(
    slab: tuple[int, int], block: tuple[int, int]
) -> None:
    matrix = TileMatrix("0", 1.0, 0.0, 0.0, 256, 256, 4096, 4096)
    assert block_size(Level(matrix, *slab, matrix.all_tiles)) == block


def test_tiles_outside_the_limits_are_not_looked_up(tiny: Client) -> None:
    # The level has rows 5 and 6, columns 9 and 10; the slabs are larger.
    assert tiny.get("/viewer/data/stored/RGB_PNG/4/1/2").json == {
        "rows": ["0000", "0110", "0110", "0000"]
    }


def asked(client: Client, name: str, **changed: str) -> dict[str, Any]:
    """Return the requests for a view of the middle of a layer."""
    view = {"set": "PM", "style": "normal", "bbox": "4000000,4000000,6000000,6000000"}
    view |= {"cell": "9783.939621", "format": "image/png", "transparent": "true"} | changed
    response = client.get(f"/viewer/data/requests/{name}", query_string=view)
    assert response.status_code == 200, response.text
    found: Any = response.json
    return found


def test_requests_of_a_view(everything: Client) -> None:
    found = asked(everything, "PALETTE")
    groups = {group["title"]: group for group in found["groups"]}
    assert list(groups) == ["TMS", "WMTS", "OGC API Tiles", "WMS", "OGC API Maps"]
    assert not any(group["note"] for group in groups.values())
    tiles = groups["TMS"]["items"][0]
    assert tiles["url"] == f"{PUBLIC}/tms/1.0.0/PALETTE/{{z}}/{{x}}/{{y}}.png"
    assert tiles["example"] == f"{PUBLIC}/tms/1.0.0/PALETTE/4/9/6.png"
    # The visible part is inside the layer, so the map is as large as the view.
    getmap = groups["WMS"]["items"][0]["url"]
    assert "BBOX=4000000,4000000,6000000,6000000&WIDTH=204&HEIGHT=204" in getmap
    assert "TRANSPARENT=TRUE" in getmap
    assert "format=image/tiff" in found["geotiff"].lower() or "f=tiff" in found["geotiff"]


def test_requests_say_how_they_differ_from_the_view(everything: Client) -> None:
    box = {"bbox": "30,40,50,50", "cell": "0.1"}
    found = asked(everything, "PALETTE", set="4326", style="ember", **box)
    notes = {group["title"]: group["note"] for group in found["groups"]}
    assert notes["TMS"] == "style normal, PM"
    assert notes["WMS"] == notes["WMTS"] == ""
    getmap = next(group for group in found["groups"] if group["title"] == "WMS")["items"][0]["url"]
    # Latitude comes first.
    assert "CRS=EPSG:4326&BBOX=40,30,50,50&WIDTH=200&HEIGHT=100" in getmap


def test_requests_for_a_view_beside_the_layer_are_for_all_of_it(everything: Client) -> None:
    found = asked(everything, "PALETTE", bbox="-9000000,-9000000,-8000000,-8000000")
    groups = {group["title"]: group["items"] for group in found["groups"]}
    box = groups["WMS"][0]["url"].partition("BBOX=")[2].partition("&")[0]
    whole = layer(everything, "PALETTE")["sets"][0]["bbox"]
    assert list(map(float, box.split(","))) == pytest.approx(whole)
    assert groups["TMS"][0]["example"].endswith("/4/9/6.png")


@pytest.mark.parametrize(
    "view",
    [
        {},
        {"set": "PM", "bbox": "1,2,3", "cell": "1"},
        {"set": "PM", "bbox": "1,2,3,4", "cell": "x"},
        {"set": "PM", "bbox": "1,2,3,4", "cell": "0"},
        {"set": "PM", "bbox": "3,2,1,4", "cell": "1"},
        {"set": "PM", "bbox": "1,2,nan,4", "cell": "1"},
        {"set": "nothing", "bbox": "1,2,3,4", "cell": "1"},
    ],
)
def test_requests_of_an_invalid_view(everything: Client, view: dict[str, str]) -> None:
    response = everything.get("/viewer/data/requests/PALETTE", query_string=view)
    assert response.status_code == (404 if view.get("set") == "nothing" else 400)
    assert response.content_type == "text/plain; charset=utf-8"


def test_places(tmp_path: Path, open_client: OpenClient) -> None:
    places = [
        {"name": "Mont Blanc du Tacul", "longitude": 6.887, "latitude": 45.856},
        {"name": "Mont Blanc", "longitude": 6.865, "latitude": 45.833},
    ]
    pyramid = ground.one_tile_pyramid(tmp_path)
    client = open_client(
        write_installation(
            tmp_path,
            layers={"A": layer_document(pyramid)},
            services=["tms", "viewer"],
            services_overrides={"viewer": {"places": places}},
        )
    )
    for text, found in {
        "48.5, 2.25": {"degrees": [2.25, 48.5]},
        "-48.5 2": {"degrees": [2, -48.5]},
        "700000;6600000": {"coordinates": [700000, 6600000]},
        "mont blanc": {"degrees": [6.865, 45.833], "name": "Mont Blanc"},
        "MONT BLANC DU": {"degrees": [6.887, 45.856], "name": "Mont Blanc du Tacul"},
        "Everest": {},
        "": {},
        "1,2,3": {},
    }.items():
        assert client.get("/viewer/data/place", query_string={"q": text}).json == found, text
    assert client.get("/viewer/data/place").json == {}
    names = client.get("/viewer/A").text
    assert '<option value="Mont Blanc"></option>' in names


def test_start_is_in_the_pages(tmp_path: Path, open_client: OpenClient) -> None:
    start = {"longitude": 6.9, "latitude": 45.8, "metres_per_pixel": 50}
    client = open_client(
        ground.install(tmp_path, PUBLIC, services_overrides={"viewer": {"start": start}})
    )
    assert page_data(client, "IMAGE")["start"] == start


@pytest.mark.parametrize(
    ("name", "colour"),
    [
        ("water", "#2b7cb3"),
        ("hydro_surface", "#2b7cb3"),
        ("coastline", "#2b7cb3"),
        ("Lac", "#2b7cb3"),
        # It contains "lac".
        ("places", "#c23b3b"),
        ("contour", "#9a6b3f"),
        ("batiments", "#8a7260"),
        ("forets", "#4f8a3c"),
        ("anything", "#5f7f3a"),
    ],
)
def test_colours_of_vector_tables_follow_their_names(name: str, colour: str) -> None:
    assert table_colour(name, 2) == colour


@pytest.fixture(scope="module")
def credited(tmp_path_factory: pytest.TempPathFactory, open_client: OpenClient) -> Client:
    """Return a client whose layers of each kind have an attribution and are regional."""
    directory = tmp_path_factory.mktemp("credited")
    attribution = {"title": "Survey <of> it", "url": "https://survey.example/?a=1&b=2"}
    more = {}
    for name, format, channels, tile in (
        ("PICTURE", "TIFF_JPG_UINT8", 3, tiny_integer_tile(3)),
        ("RELIEF", "TIFF_ZIP_FLOAT32", 1, tiny_float_tile),
    ):
        descriptor = write_pyramid(
            directory,
            name,
            tile_matrix_set=web_mercator(),
            format=format,
            channels=channels,
            levels=TINY_LEVELS,
            tile=tile,
        )
        more[name] = layer_document(descriptor, attribution=attribution)
    return open_client(ground.install(directory, PUBLIC, more=more))


@pytest.mark.parametrize("name", ["PICTURE", "RELIEF"])
def test_texts_for_programs_have_the_attribution(credited: Client, name: str) -> None:
    programs = {one["id"]: one["text"] for one in layer(credited, name)["snippets"]}
    assert len(programs) == 9
    for program, text in programs.items():
        # That of MapLibre GL for terrain is in the style of the service.
        if (program, name) != ("maplibre", "RELIEF"):
            assert "https://survey.example/" in text, program
        assert "<of>" not in text.replace("Survey <of> it https", ""), program


def test_cesium_asks_only_for_the_tiles_of_a_region(credited: Client) -> None:
    picture = layer(credited, "PICTURE")
    text = {one["id"]: one["text"] for one in picture["snippets"]}["cesium"]
    first, last = sorted(map(int, picture["sets"][0]["limits"]))[:: len(TINY_LEVELS) - 1]
    assert f"rectangle,\n    minimumLevel: {first},\n    maximumLevel: {last}," in text
    relief = {one["id"]: one["text"] for one in layer(credited, "RELIEF")["snippets"]}["cesium"]
    # The first image that covers the heights is draped over them.
    assert "/tms/1.0.0/" in relief
    assert "DirectionalLight" in relief


def test_tiles_that_mapproxy_does_not_get_are_transparent(credited: Client) -> None:
    for name in ("PICTURE", "RELIEF"):
        programs = {one["id"]: one["text"] for one in layer(credited, name)["snippets"]}
        source = yaml.safe_load(programs["mapproxy"])["sources"]["tiles"]
        assert source["on_error"][404] == {"response": "transparent", "cache": False}
        assert source["coverage"]["srs"] == "EPSG:4326"
