"""The rule by which layers are merged is in one place: all services follow a change of it."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from werkzeug.test import Client

from mastaba.wsgi import create_application
from mastaba_render import compose
from mastaba_writer.installation import write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import web_mercator

WEST, EAST, NOTHING = (10, 20, 30), (200, 100, 50), (255, 255, 255)
# Two tiles, so that their pixels are copied.
BBOX = "0,0,20037508.3427892,10018754.1713946"
GET_MAP = (
    "/wms?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&LAYERS=west,east&STYLES=&CRS=EPSG:3857"
    f"&BBOX={BBOX}&WIDTH=512&HEIGHT=256"
)
MERCATOR = "http://www.opengis.net/def/crs/EPSG/0/3857"
ADDRESSES = [
    f"{GET_MAP}&FORMAT=image/png",
    f"{GET_MAP}&FORMAT=image/tiff",
    f"/ogcapi/map?collections=west,east&f=png&width=512&height=256&crs={MERCATOR}"
    f"&bbox={BBOX}&bbox-crs={MERCATOR}",
]


@pytest.fixture(scope="module")
def server_json(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write two layers side by side, each of one tile of one colour."""
    folder = tmp_path_factory.mktemp("merged")

    def layer(name: str, column: int, colour: tuple[int, int, int]) -> Path:
        pixels = np.full((256, 256, 3), colour, np.uint8)
        return write_pyramid(
            folder / "pyramids",
            name,
            tile_matrix_set=web_mercator(),
            format="TIFF_RAW_UINT8",
            levels=[LevelPlan("2", 1, 1, column, column)],
            tile=lambda *_: pixels,
            nodata=NOTHING,
            tiles_per_width=1,
            tiles_per_height=1,
        )

    layers = {"west": layer("west", 2, WEST), "east": layer("east", 3, EAST)}
    settings = {"formats": ["image/png", "image/tiff"], "limits": {"layers_count": 2}}
    return write_installation(
        folder,
        layers=layers,
        services=["wms", "ogcapi"],
        services_overrides={"global": {"map": settings}},
    )


def colours(server_json: Path, address: str) -> set[tuple[int, ...]]:
    application = create_application(str(server_json))
    response = Client(application).get(address)
    application.site.catalogue.storages.close()
    assert response.status_code == 200, response.data
    image = Image.open(io.BytesIO(response.data)).convert("RGB")
    return {tuple(pixel) for pixel in np.asarray(image).reshape(-1, 3).tolist()}


@pytest.mark.parametrize("address", ADDRESSES)
def test_where_a_layer_has_no_data_others_show(address: str, server_json: Path) -> None:
    assert colours(server_json, address) == {WEST, EAST}


@pytest.mark.parametrize("address", ADDRESSES)
def test_another_rule_changes_all_answers(
    address: str, server_json: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    split = compose._split

    def opaque(image: Any) -> Any:
        return split(replace(image, valid=None))

    monkeypatch.setattr(compose, "_split", opaque)
    # The upper layer now covers the other one.
    assert colours(server_json, address) in ({WEST, NOTHING}, {EAST, NOTHING})
