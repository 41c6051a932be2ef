"""TileMaps of the sets in which a layer is not stored."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from lxml import etree
from numpy.typing import NDArray
from PIL import Image
from werkzeug.test import Client

from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import synthetic, web_mercator

OpenClient = Callable[[Path], Client]

GRID = synthetic(
    "GRID",
    crs="EPSG:2154",
    origin=(800_000, 6_600_000),
    cell_sizes=[200, 100],
    matrix_sizes=[(8, 8), (16, 16)],
)
TINTS = {
    "identifier": "tints",
    "title": "Tints",
    "palette": {
        "rgb_continuous": True,
        "colours": [
            {"value": value, "red": red, "green": 0, "blue": 255 - red, "alpha": 255}
            for value, red in ((0, 0), (4000, 255))
        ],
    },
}
ODD = "a@PM"
ROOT = "/tms/1.0.0"
TILE = f"{ROOT}/heights@PM/10/529/368"


def heights(level: str, row: int, column: int) -> NDArray[np.float32]:
    """Return a plane that rises to the east and to the south, 4 km at the far corner."""
    size = 16 * 256 if level == "1" else 8 * 256
    across = (np.arange(256) + column * 256) / size
    down = (np.arange(256) + row * 256) / size
    return np.asarray(np.add.outer(down * 2000, across * 2000), np.float32)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory, open_client: OpenClient) -> Client:
    directory = tmp_path_factory.mktemp("sets")
    pyramid = write_pyramid(
        directory,
        "heights",
        tile_matrix_set=GRID,
        format="TIFF_ZIP_FLOAT32",
        channels=1,
        levels=[LevelPlan("0", 0, 7, 0, 7), LevelPlan("1", 0, 15, 0, 15)],
        tile=heights,
        tiles_per_width=4,
        tiles_per_height=4,
    )
    sets = {"GRID": GRID, "PM": web_mercator()}
    document = layer_document(
        pyramid, tile_matrix_sets=sets, styles=["normal", "tints"], extra_tilematrixsets=["PM"]
    )
    return open_client(
        write_installation(
            directory,
            layers={"heights": document, ODD: document},
            tile_matrix_sets=sets,
            styles={"tints": TINTS},
            services=["tms", "wmts"],
            services_overrides={"global": {"tile": {"reprojection": True}}},
            public_url="http://maps.example",
        )
    )


def xml(client: Client, path: str) -> etree._Element:
    response = client.get(path)
    assert response.status_code == 200, response.data
    return etree.fromstring(response.data)


def picture(client: Client, path: str) -> NDArray[np.uint8]:
    response = client.get(path)
    assert response.status_code == 200, response.data
    return np.asarray(Image.open(io.BytesIO(response.data)).convert("RGB"))


def test_every_set_is_listed(client: Client) -> None:
    items = [
        (item.get("href", "").rpartition("/")[2], item.get("srs"))
        for item in xml(client, ROOT).iter("TileMap")
    ]
    assert items == [
        ("a@PM", "EPSG:2154"),
        ("a@PM@PM", "EPSG:3857"),
        ("heights", "EPSG:2154"),
        ("heights@PM", "EPSG:3857"),
    ]


def test_tile_map_leads_to_its_tiles(client: Client) -> None:
    root = xml(client, f"{ROOT}/heights@PM")
    assert root.findtext("SRS") == "EPSG:3857"
    filled = [item for item in root.iter("TileSet") if "minrow" in item.attrib]
    assert len(filled) == 2
    for item in filled:
        assert item.get("href", "").startswith(f"http://maps.example{ROOT}/heights@PM/bottom/")
        path = item.get("href", "").removeprefix("http://maps.example")
        column = (int(item.get("mincol", "")) + int(item.get("maxcol", ""))) // 2
        row = (int(item.get("minrow", "")) + int(item.get("maxrow", ""))) // 2
        assert client.get(f"{path}/{column}/{row}.zbil").status_code == 200


@pytest.mark.parametrize("extension", ["png", "jpg", "webp"])
@pytest.mark.parametrize("style", ["", "normal", "tints"])
def test_pictures_in_every_style_are_those_of_wmts(
    client: Client, style: str, extension: str
) -> None:
    query = f"?style={style}" if style else ""
    media_type = {"jpg": "jpeg"}.get(extension, extension)
    tiles = picture(client, f"{TILE}.{extension}{query}")
    other = picture(
        client,
        "/wmts?SERVICE=WMTS&VERSION=1.0.0&REQUEST=GetTile&LAYER=heights&TILEMATRIXSET=PM"
        f"&TILEMATRIX=10&TILECOL=529&TILEROW=368&STYLE={style}&FORMAT=image/{media_type}",
    )
    assert np.array_equal(tiles, other)
    assert tiles.std() > 5, "the picture is blank"


def test_rows_from_the_bottom(client: Client) -> None:
    mirrored = f"{ROOT}/heights@PM/bottom/10/529/{2**10 - 1 - 368}.zbil"
    assert client.get(mirrored).data == client.get(f"{TILE}.zbil").data


def test_metadata(client: Client) -> None:
    document = client.get(f"{ROOT}/heights@PM/metadata.json").get_json()
    stored = client.get(f"{ROOT}/heights/metadata.json").get_json()
    assert document["name"] == stored["name"] == "heights"
    assert document["tiles"] == [f"http://maps.example{ROOT}/heights@PM/{{z}}/{{x}}/{{y}}.zbil"]
    assert document["crs"] == "EPSG:3857"
    assert document["maxzoom"] - document["minzoom"] == 1
    assert document["minzoom"] <= document["center"][2] <= document["maxzoom"]
    assert document["bounds"] == stored["bounds"]
    assert stored["crs"] == "EPSG:2154"


def test_description_for_gdal(client: Client) -> None:
    """GRID has more than one tile in its coarsest matrix; PM is a quadtree."""
    assert client.get(f"{ROOT}/heights/gdal.xml").status_code == 400
    assert xml(client, f"{ROOT}/heights@PM/gdal.xml").findtext("Projection") == "EPSG:3857"


def test_identifier_of_a_layer_may_contain_the_joint(client: Client) -> None:
    assert xml(client, f"{ROOT}/{ODD}").findtext("SRS") == "EPSG:2154"
    assert xml(client, f"{ROOT}/{ODD}@PM").findtext("SRS") == "EPSG:3857"
    assert client.get(f"{ROOT}/{ODD}/1/8/8.zbil").status_code == 200


@pytest.mark.parametrize(
    "name", ["heights@none", "heights@", "@PM", "none@PM", "heights@PM@PM", "a"]
)
def test_unknown_sets_are_404(client: Client, name: str) -> None:
    for path in (name, f"{name}/metadata.json", f"{name}/10/529/368.png"):
        response = client.get(f"{ROOT}/{path}")
        assert response.status_code == 404
        assert b"TileMapServerError" in response.data
