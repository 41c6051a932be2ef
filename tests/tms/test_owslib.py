"""OWSLib's client of TMS reads the documents and finds the tiles."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from owslib.tms import TileMapService
from PIL import Image
from tests.tiny import tiny_installation

from mastaba_conformance.tiny_installation import tiny_integer_tile

Serving = Callable[[Callable[[str], Path]], AbstractContextManager[str]]

LAYERS = [
    "FLOAT32_RAW",
    "FLOAT32_ZIP",
    "GREYA_ZIP",
    "GREY_PNG",
    "RGBA_PNG",
    "RGB_JPG",
    "RGB_PNG",
    "RGB_RAW",
    "VECTOR",
]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, serving: Serving) -> Iterator[Any]:
    directory = tmp_path_factory.mktemp("owslib")
    with (
        pytest.MonkeyPatch.context() as patch,
        serving(lambda url: tiny_installation(directory, public_url=url, services=["tms"])) as url,
    ):
        patch.setenv("NO_PROXY", "127.0.0.1")
        yield TileMapService(f"{url}/tms/1.0.0")


def test_service(service: Any) -> None:
    assert service.version == "1.0.0"
    assert service.identification.title == "TMS service"
    assert service.identification.url.endswith("/tms")
    assert sorted(tile_map.title for tile_map in service.contents.values()) == LAYERS
    assert {tile_map.srs for tile_map in service.contents.values()} == {"EPSG:3857"}


def test_tile_map(service: Any) -> None:
    url, layer = next(
        (url, layer) for url, layer in service.contents.items() if layer.title == "RGB_JPG"
    )
    assert url.endswith("/tms/1.0.0/RGB_JPG")
    assert (layer.width, layer.height) == (256, 256)
    assert layer.mimetype == "image/jpeg"
    assert layer.extension == "jpeg"
    assert layer.origin == pytest.approx((-20037508.3427892, -20037508.3427892))
    left, bottom, right, top = layer.boundingBox
    assert left < right
    assert bottom < top
    orders = {tile_set["order"]: tile_set["href"] for tile_set in layer.tilemap.tilesets}
    assert orders == {level: f"{url}/bottom/{level}" for level in range(5)}


def test_tile(service: Any) -> None:
    # The client calls the place of a TileSet in the list a zoom level, and counts rows upward.
    tile = service.gettile(4, 5, 3, title="RGB_PNG", srs="EPSG:3857", mimetype="image/png")
    pixels = np.asarray(Image.open(tile))
    assert np.array_equal(pixels, tiny_integer_tile(3)("3", 2, 4))
