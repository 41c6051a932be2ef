import io

import numpy as np
import pytest
from PIL import Image
from werkzeug.test import Client

from mastaba.api.tools import create_application
from mastaba_conformance.counting_storage import count_calls
from mastaba_conformance.tiny_installation import tiny_installation, tiny_integer_tile
from mastaba_slippy_tiles import _print_tile
from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import geographic

ENABLED = {"slippy": {"enabled": True, "max_zoom": 8}}


@pytest.fixture
def client(tmp_path):
    server_json = tiny_installation(tmp_path, services=[], services_overrides=ENABLED)
    return Client(create_application(str(server_json)))


def pixels_of(response):
    assert (response.status_code, response.content_type) == (200, "image/png")
    return np.asarray(Image.open(io.BytesIO(response.data)).convert("RGBA")).astype(int)


def test_addresses_are_listed(client):
    urls = client.get("/slippy").get_json()
    assert urls["RGB_PNG"] == "http://localhost/slippy/RGB_PNG/{z}/{x}/{y}.png"
    assert "VECTOR" not in urls


def test_png_of_this_grid_is_the_stored_tile(client):
    pixels = pixels_of(client.get("/slippy/RGB_PNG/3/4/2.png"))
    assert (pixels[:, :, :3] == tiny_integer_tile(3)("3", 2, 4)).all()


def test_jpeg_of_this_grid_becomes_png(client):
    pixels = pixels_of(client.get("/slippy/RGB_JPG/3/4/2.png"))
    assert abs(pixels[:, :, :3] - tiny_integer_tile(3)("3", 2, 4)).mean() < 6


@pytest.mark.parametrize("layer", ["RGB_PNG", "RGB_JPG"])
def test_unmodified_tile_is_not_read_again(client, layer):
    path = f"/slippy/{layer}/3/4/2.png"
    etag = client.get(path).headers["ETag"]
    storage = count_calls(client.application.site.catalogue, layer)

    assert client.get(path, headers={"If-None-Match": etag}).status_code == 304
    assert storage.reads == []


def test_other_crs_is_drawn_in_its_place(tmp_path):
    # Degrees: the world is red in the west, and green in the east.
    def tile(level, row, col):
        return np.full((256, 256, 3), (200, 0, 0) if col < 2 else (0, 200, 0), np.uint8)

    descriptor = write_pyramid(
        tmp_path / "pyramids",
        "WORLD",
        tile_matrix_set=geographic(),
        format="TIFF_PNG_UINT8",
        channels=3,
        levels=[LevelPlan("1", 0, 1, 0, 3)],
        tile=tile,
    )
    layers = {"WORLD": layer_document(descriptor)}
    server_json = write_installation(
        tmp_path, layers=layers, services=[], services_overrides=ENABLED
    )
    client = Client(create_application(str(server_json)))
    assert tuple(pixels_of(client.get("/slippy/WORLD/1/0/0.png"))[128, 128]) == (200, 0, 0, 255)
    assert tuple(pixels_of(client.get("/slippy/WORLD/1/1/1.png"))[128, 128]) == (0, 200, 0, 255)


def test_setting_limits_the_zoom(client):
    assert client.get("/slippy/RGB_JPG/8/0/0.png").status_code == 200
    assert client.get("/slippy/RGB_JPG/9/0/0.png").status_code == 404


def test_command_prints_a_tile(capsys):
    from argparse import Namespace

    assert _print_tile(Namespace(lon=2.35, lat=48.85, zoom=12)) == 0
    assert capsys.readouterr().out == "12/2074/1409\n"
