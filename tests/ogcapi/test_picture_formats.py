"""Pictures of tiles, whatever is stored: links, requests and the formats that are offered."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from PIL import Image
from tests.tiny import tiny_installation
from werkzeug.test import Client

from mastaba_conformance.tiny_installation import tiny_float_tile, tiny_integer_tile
from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import web_mercator

OpenClient = Callable[[Path], Client]

STORED = {"FLOAT32_ZIP": "image/x-bil;bits=32", "RGB_RAW": "image/tiff", "RGB_PNG": "image/png"}
PICTURES = ["image/png", "image/jpeg", "image/webp"]


def installed(folder: Path, open_client: OpenClient, **tile: Any) -> Client:
    overrides = {"global": {"tile": tile}} if tile else {}
    return open_client(
        tiny_installation(folder, services=["wmts", "tms", "ogcapi"], services_overrides=overrides)
    )


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory, open_client: OpenClient) -> Client:
    return installed(tmp_path_factory.mktemp("pictures"), open_client)


@pytest.fixture(scope="module")
def without_webp(tmp_path_factory: pytest.TempPathFactory, open_client: OpenClient) -> Client:
    folder = tmp_path_factory.mktemp("without")
    return installed(folder, open_client, formats=["image/png", "image/jpeg"])


def items(client: Client, layer: str) -> dict[str, str]:
    """Return the address templates of the tiles of a layer by media type."""
    tileset = client.get(f"/ogcapi/collections/{layer}/map/tiles/PM?f=json").get_json()
    return {
        item["type"]: urlsplit(item["href"]).path + "?" + urlsplit(item["href"]).query
        for item in tileset["links"]
        if item["rel"] == "item"
    }


def place(template: str) -> str:
    """Return the address of a stored tile."""
    for name, value in (("tileMatrix", 4), ("tileRow", 5), ("tileCol", 9)):
        template = template.replace(f"{{{name}}}", str(value))
    return template


@pytest.mark.parametrize("layer", list(STORED))
def test_tilesets_link_what_is_stored_and_pictures(client: Client, layer: str) -> None:
    found = items(client, layer)
    assert next(iter(found)) == STORED[layer]
    for media_type in PICTURES:
        response = client.get(place(found[media_type]))
        assert response.status_code == 200
        assert response.content_type == media_type
        assert Image.open(io.BytesIO(response.data)).size == (256, 256)


@pytest.mark.parametrize("layer", list(STORED))
def test_pictures_are_saved_under_a_name_of_their_format(client: Client, layer: str) -> None:
    names = {"png": "image.png", "jpg": "image.jpg", "webp": "image.webp"}
    for extension, name in names.items():
        for address in (
            f"/ogcapi/collections/{layer}/map/tiles/PM/4/5/9?f={extension}",
            f"/tms/1.0.0/{layer}/4/9/5.{extension}",
        ):
            found = client.get(address).headers["Content-Disposition"]
            assert found == f'inline; filename="{name}"'


@pytest.mark.parametrize("layer", list(STORED))
def test_webp_by_name_and_by_header(client: Client, layer: str) -> None:
    path = f"/ogcapi/collections/{layer}/map/tiles/PM/4/5/9"
    by_name = client.get(f"{path}?f=webp")
    by_header = client.get(path, headers={"Accept": "image/webp"})
    assert by_name.content_type == by_header.content_type == "image/webp"
    assert by_name.data == by_header.data
    query = (
        f"?SERVICE=WMTS&REQUEST=GetTile&VERSION=1.0.0&LAYER={layer}&STYLE=normal&FORMAT=image/webp"
        "&TILEMATRIXSET=PM&TILEMATRIX=4&TILEROW=5&TILECOL=9"
    )
    one, other = (
        np.asarray(Image.open(io.BytesIO(data)).convert("RGB"), np.int16)
        for data in (by_name.data, client.get(f"/wmts{query}").data)
    )
    assert np.abs(one - other).max() <= 8


@pytest.mark.parametrize(
    ("layer", "extension"), [("FLOAT32_ZIP", "png"), ("RGB_RAW", "png"), ("RGB_JPG", "jpg")]
)
def test_tilejson_has_pictures(client: Client, layer: str, extension: str) -> None:
    address = f"/ogcapi/collections/{layer}/map/tiles/PM?f=tilejson"
    (tiles,) = client.get(address).get_json()["tiles"]
    assert tiles.endswith(f"?f={extension}")


@pytest.mark.parametrize("sample", ["UINT8", "FLOAT32"])
def test_map_and_tile_links_include_pictures_of_every_compression(
    tmp_path: Path, open_client: OpenClient, sample: str
) -> None:
    layers = {}
    for compression in ("RAW", "LZW", "PKB", "ZIP"):
        layers[compression] = write_pyramid(
            tmp_path / "pyramids",
            compression,
            tile_matrix_set=web_mercator(),
            format=f"TIFF_{compression}_{sample}",
            channels=1,
            levels=[LevelPlan("4", 4, 7, 8, 11)],
            tile=tiny_float_tile if sample == "FLOAT32" else tiny_integer_tile(1),
        )
    client = open_client(write_installation(tmp_path, layers=layers, services=["ogcapi"]))
    for layer in layers:
        links = client.get(f"/ogcapi/collections/{layer}?f=json").get_json()["links"]
        found = {item["type"]: item["href"] for item in links if item["rel"].endswith("/1.0/map")}
        assert next(iter(found)) not in PICTURES
        assert {"image/png", "image/jpeg"} <= {*found}
        tiles = {media_type: place(href) for media_type, href in items(client, layer).items()}
        assert {*PICTURES} <= {*tiles}
        for media_type, address in [*found.items(), *tiles.items()]:
            if media_type in PICTURES:
                parts = urlsplit(address)
                response = client.get(f"{parts.path}?{parts.query}")
                assert (response.status_code, response.content_type) == (200, media_type)
                Image.open(io.BytesIO(response.data)).load()


def test_formats_can_be_chosen(without_webp: Client, client: Client) -> None:
    """As for clients that read no WebP."""
    for layer, stored in STORED.items():
        assert "image/webp" not in items(without_webp, layer)
        assert next(iter(items(without_webp, layer))) == stored
        path = f"/ogcapi/collections/{layer}/map/tiles/PM/4/5/9"
        header = {"Accept": "image/webp"}
        assert without_webp.get(f"{path}?f=webp").status_code == 400
        assert without_webp.get(path, headers=header).status_code == 406
        assert without_webp.get(f"{path}?f=png").status_code == 200
        assert without_webp.get(f"/tms/1.0.0/{layer}/4/9/5.webp").status_code == 400
        assert without_webp.get(f"/tms/1.0.0/{layer}/4/9/5.jpg").status_code == 200
        assert client.get(f"/tms/1.0.0/{layer}/4/9/5.webp").status_code == 200
    capabilities = "/wmts?SERVICE=WMTS&REQUEST=GetCapabilities"
    assert b"image/webp" not in without_webp.get(capabilities).data
    assert b"image/webp" in client.get(capabilities).data
    definition = without_webp.get("/ogcapi/api?f=json").get_data(as_text=True)
    assert "webp" not in definition


def test_pictures_of_tiles_can_be_turned_off(tmp_path: Path, open_client: OpenClient) -> None:
    client = installed(tmp_path, open_client, formats=[])
    for layer in STORED:
        stored = client.get(f"/ogcapi/collections/{layer}/map/tiles/PM/4/5/9")
        assert stored.status_code == 200
    assert client.get("/tms/1.0.0/FLOAT32_ZIP/4/9/5.png").status_code == 400
    assert not {*items(client, "FLOAT32_ZIP")} & {*PICTURES}


def test_coordinates_have_no_rounding_errors(tmp_path: Path, open_client: OpenClient) -> None:
    """The middle of a symmetric extent is 0, not -2e-14; so is an edge on the equator."""
    places = {"MIDDLE": LevelPlan("5", 15, 16, 15, 16), "QUARTER": LevelPlan("1", 0, 0, 1, 1)}
    layers = {}
    for name, plan in places.items():
        pyramid = write_pyramid(
            tmp_path / "pyramids",
            name,
            tile_matrix_set=web_mercator(),
            format="TIFF_ZIP_FLOAT32",
            channels=1,
            levels=[plan],
            tile=tiny_float_tile,
        )
        layers[name] = layer_document(pyramid, title=f"Title of {name}")
    services = ["wms", "wmts", "tms", "ogcapi", "elevation", "terrain", "viewer"]
    client = open_client(write_installation(tmp_path, layers=layers, services=services))
    centres = 0
    addresses = [
        *("/ogcapi/collections?f=json", "/elevation", "/terrain"),
        "/wmts?SERVICE=WMTS&REQUEST=GetCapabilities",
        "/wms?SERVICE=WMS&REQUEST=GetCapabilities",
    ]
    for name in places:
        addresses += [
            f"/ogcapi/collections/{name}/map/tiles/PM?f=tilejson",
            f"/tms/1.0.0/{name}/metadata.json",
            f"/viewer/data/layers/{name}.json",
            *(
                f"/terrain/{name}/{document}.json"
                for document in ("mapbox", "contours", "mesh/layer", "style")
            ),
        ]
    for address in addresses:
        response = client.get(address, headers={"Accept": "application/json, text/xml"})
        assert response.status_code == 200, address
        text = response.get_data(as_text=True)
        assert re.search(r"\de-1\d|0\.0{10}", text) is None, address
        document = response.get_json() if text.startswith("{") else {}
        if "center" in document:
            centres += 1
            assert document["name"].startswith("Title of ")
            if "Title of MIDDLE" in text:
                assert document["center"][:2] == [0, 0]
    assert centres == 5 * len(places)
