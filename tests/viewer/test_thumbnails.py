"""The thumbnails of the list and their requests."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tests.tiny import tiny_installation
from tests.viewer import ground
from werkzeug.test import Client

from mastaba_conformance.tiny_installation import tiny_integer_tile
from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import web_mercator

OpenClient = Callable[[Path], Client]
PUBLIC = "http://maps.example"


class Thumbnails(HTMLParser):
    """Collects the thumbnail of each card: its URL and, if a script paints it, the tile."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: dict[str, tuple[str, dict[str, Any] | None]] = {}
        self._layer = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if tag == "li":
            self._layer = attributes.get("data-layer") or ""
        elif tag == "img" and self._layer:
            assert attributes["loading"] == "lazy"
            assert attributes["alt"] == ""
            self.found[self._layer] = (attributes["src"] or "", None)
        elif tag == "canvas":
            tile = json.loads(attributes["data-tile"] or "")
            self.found[self._layer] = (tile["url"], tile)


def thumbnails(client: Client) -> dict[str, tuple[str, dict[str, Any] | None]]:
    return Thumbnails(client.get("/viewer").text).found


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory, open_client: OpenClient) -> Client:
    return open_client(ground.install(tmp_path_factory.mktemp("everything"), PUBLIC))


def test_maps_of_whole_layers(everything: Client) -> None:
    found = thumbnails(everything)
    assert sorted(found) == sorted([*ground.FORMATS, "VECTOR", "WORLD", "GRID", "SLOPE"])
    drawn = {name for name, (url, _) in found.items() if "/wms?" in url}
    # WMS draws neither vector tiles nor values without colours.
    assert drawn == {*found} - {"VECTOR", "HEIGHT_ZIP", "HEIGHT_LZW", "SLOPE"}
    for url, _ in found.values():
        response = everything.get(url.removeprefix(PUBLIC))
        assert response.status_code == 200, url


def test_map_has_the_proportions_and_the_axis_order_of_the_layer(everything: Client) -> None:
    url, _ = thumbnails(everything)["WORLD"]
    assert "CRS=EPSG:4326&BBOX=-90.0,-180.0,90.0,180.0&WIDTH=440&HEIGHT=220" in url
    image = Image.open(io.BytesIO(everything.get(url.removeprefix(PUBLIC)).data))
    assert image.size == (440, 220)
    # Red grows from 0 in the west to 127 in the east. With swapped axes it would grow downward.
    west, east = image.getpixel((5, 110)), image.getpixel((435, 110))
    assert isinstance(west, tuple)
    assert isinstance(east, tuple)
    assert west[0] < 10
    assert east[0] > 118


def test_tiles_without_wms(tiny: Client) -> None:
    found = thumbnails(tiny)
    assert found["RGB_JPG"] == ("http://maps.example/front/tms/1.0.0/RGB_JPG/2/2/1.jpeg", None)
    url, tile = found["FLOAT32_RAW"]
    assert url == "http://maps.example/front/tms/1.0.0/FLOAT32_RAW/2/2/1.bil"
    assert tile == {
        "url": url,
        "draws": "elevation",
        "mediaType": "image/x-bil;bits=32",
        "nodata": [-99999],
        "tables": [],
        "width": 256,
        "height": 256,
        "metresPerPixel": pytest.approx(39135.758),
    }
    vector = found["VECTOR"][1]
    assert vector is not None
    assert vector["draws"] == "vector"
    assert vector["tables"] == [
        {"name": "tiles", "colour": "#2f6f8f"},
        {"name": "centres", "colour": "#b0582f"},
    ]


def test_tile_rows_from_the_bottom(tmp_path: Path, open_client: OpenClient) -> None:
    server_json = tiny_installation(
        tmp_path, services=["tms", "viewer"], services_overrides={"tms": {"y_origin": "bottom"}}
    )
    client = open_client(server_json)
    url, _ = thumbnails(client)["RGB_JPG"]
    assert url == "http://localhost/tms/1.0.0/RGB_JPG/2/2/2.jpeg"
    assert client.get(url.removeprefix("http://localhost")).status_code == 200


def test_layers_without_coarse_levels_have_a_tile_as_thumbnail(
    tmp_path: Path, open_client: OpenClient
) -> None:
    pyramid = write_pyramid(
        tmp_path,
        "FINE",
        tile_matrix_set=web_mercator(),
        format="TIFF_PNG_UINT8",
        levels=[LevelPlan("6", 0, 6, 0, 6)],
        tile=tiny_integer_tile(3),
        tiles_per_width=7,
        tiles_per_height=7,
    )
    client = open_client(
        write_installation(
            tmp_path, layers={"FINE": layer_document(pyramid)}, services=["wms", "tms", "viewer"]
        )
    )
    assert thumbnails(client) == {"FINE": ("http://localhost/tms/1.0.0/FINE/6/3/3.png", None)}


def test_no_thumbnail_without_services(tmp_path: Path, open_client: OpenClient) -> None:
    client = open_client(tiny_installation(tmp_path, services=["viewer"]))
    assert thumbnails(client) == {}
    assert client.get("/viewer").text.count('class="card"') == 9
