"""layers.json: what the scripts know."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from werkzeug.test import Client

from mastaba.hookspecs import hookimpl
from mastaba.http.request import Request
from mastaba.http.response import Response, message
from mastaba.plugins import Plugins
from mastaba.service import Service
from mastaba.testing.installation import layer_document, write_installation
from mastaba.testing.pyramids import LevelPlan, write_pyramid
from mastaba.testing.tile_matrix_sets import geographic
from mastaba.testing.tiny_installation import tiny_installation, tiny_integer_tile
from mastaba.wsgi import create_application

OpenClient = Callable[[Path], Client]
FRONT = "http://maps.example/front"


def layers(client: Client) -> dict[str, Any]:
    content: Any = client.get("/viewer/layers.json").json
    return {layer["id"]: layer for layer in content["layers"]}


def test_layer(tiny: Client) -> None:
    response = tiny.get("/viewer/layers.json")
    assert response.content_type == "application/json"
    layer = layers(tiny)["RGB_JPG"]
    native, geographic_box = layer.pop("nativeBbox"), layer.pop("geographicBbox")
    assert layer == {
        "id": "RGB_JPG",
        "title": "RGB_JPG",
        "abstract": "",
        "kind": "image",
        "format": "JPEG",
        "mediaType": "image/jpeg",
        "nodata": [255, 255, 255],
        "tileMatrixSet": "PM",
        "levels": {"2": [1, 1, 2, 2], "3": [2, 3, 4, 5], "4": [5, 6, 9, 10]},
        "tables": [],
        "attribution": None,
        "tiles": {
            "service": "TMS",
            "template": f"{FRONT}/tms/1.0.0/RGB_JPG/{{z}}/{{x}}/{{y}}.jpeg",
            "fromBottom": False,
        },
        "resources": [
            {
                "label": "TMS tiles",
                "url": f"{FRONT}/tms/1.0.0/RGB_JPG/{{z}}/{{x}}/{{y}}.jpeg",
            },
            {"label": "TileJSON", "url": f"{FRONT}/tms/1.0.0/RGB_JPG/metadata.json"},
            {"label": "GDAL", "url": f"{FRONT}/tms/1.0.0/RGB_JPG/gdal.xml"},
        ],
    }
    assert geographic_box == pytest.approx([22.5, 21.943046, 67.5, 55.776573])
    assert native[0] < native[2]
    assert native[1] < native[3]


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
    layer = layers(tiny)[name]
    assert (layer["kind"], layer["format"]) == (kind, label)


def test_vector_layer_names_its_tables(tiny: Client) -> None:
    layer = layers(tiny)["VECTOR"]
    assert layer["tables"] == [
        {"name": "tiles", "geometry": "POLYGON"},
        {"name": "centres", "geometry": "POINT"},
    ]
    assert [resource["label"] for resource in layer["resources"]] == ["TMS tiles", "TileJSON"]


def test_sets_in_use_are_described_coarse_to_fine(tiny: Client) -> None:
    content: Any = tiny.get("/viewer/layers.json").json
    assert list(content["tileMatrixSets"]) == ["PM"]
    described = content["tileMatrixSets"]["PM"]
    assert described["crs"] == "EPSG:3857"
    assert described["geographic"] is False
    assert [matrix["id"] for matrix in described["matrices"]] == [str(z) for z in range(22)]
    assert described["matrices"][3] == {
        "id": "3",
        "cellSize": pytest.approx(19567.8792410051),
        "originX": -20037508.3427892,
        "originY": 20037508.3427892,
        "tileWidth": 256,
        "tileHeight": 256,
        "matrixHeight": 8,
    }


def test_rows_from_the_bottom_are_told(tmp_path: Path, open_client: OpenClient) -> None:
    server_json = tiny_installation(
        tmp_path,
        services=["tms", "viewer"],
        services_overrides={"tms": {"y_origin": "bottom"}},
    )
    assert layers(open_client(server_json))["RGB_PNG"]["tiles"]["fromBottom"] is True


def test_identifiers_are_encoded_and_hidden_layers_have_no_tiles(
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
    documents = {
        "a b#é": layer_document(pyramid),
        "hidden": layer_document(pyramid, tms={"enabled": False}),
    }
    client = open_client(write_installation(tmp_path, layers=documents, services=["tms", "viewer"]))
    found = layers(client)
    template = found["a b#é"]["tiles"]["template"]
    assert template == "http://localhost/tms/1.0.0/a%20b%23%C3%A9/{z}/{x}/{y}.png"
    assert found["hidden"]["tiles"] is None
    assert found["hidden"]["resources"] == []


class _OtherService(Service):
    title = "Other"

    def respond(self, request: Request) -> Response:
        return message(200, "", "text/plain")

    def error_response(self, error: Exception, request: Request) -> Response:
        return message(400, "", "text/plain")


class _Others:
    """Stands for the other protocol plugins: only their names and settings matter."""

    @hookimpl
    def register_services(self) -> list[type[Service]]:
        return [type(name, (_OtherService,), {"name": name}) for name in ("wmts", "wms", "ogcapi")]


def test_addresses_of_the_other_services(tmp_path: Path) -> None:
    import mastaba_viewer

    plugins = Plugins(autoload=False, extra={"viewer": mastaba_viewer, "others": _Others()})
    server_json = tiny_installation(
        tmp_path, services=["wmts", "wms", "ogcapi", "viewer"], public_url=FRONT
    )
    client = Client(create_application(str(server_json), plugins))
    layer = layers(client)["GREY_PNG"]
    template = (
        f"{FRONT}/wmts?SERVICE=WMTS&VERSION=1.0.0&REQUEST=GetTile&LAYER=GREY_PNG&STYLE=normal"
        "&FORMAT=image%2Fpng&TILEMATRIXSET=PM_2_4&TILEMATRIX={z}&TILEROW={y}&TILECOL={x}"
    )
    assert layer["tiles"] == {"service": "WMTS", "template": template, "fromBottom": False}
    assert layer["resources"] == [
        {"label": "WMTS tiles", "url": template},
        {
            "label": "WMTS capabilities",
            "url": f"{FRONT}/wmts?SERVICE=WMTS&VERSION=1.0.0&REQUEST=GetCapabilities",
        },
        {
            "label": "WMS capabilities",
            "url": f"{FRONT}/wms?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetCapabilities",
        },
        {"label": "OGC API", "url": f"{FRONT}/ogcapi/collections/GREY_PNG"},
    ]
