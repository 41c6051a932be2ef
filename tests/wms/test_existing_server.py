"""Recorded requests to an existing server, on the same pyramids (tests with shared data)."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from werkzeug.test import Client

from mastaba.wsgi import create_application

pytestmark = pytest.mark.shared_data

GROUPS = ("wms.getmap", "wms.formats", "wms.styles", "wms.getfeatureinfo")
PICTURES = ("image/png", "image/jpeg", "image/tiff", "image/geotiff")


@pytest.fixture(scope="module")
def alps(shared_data: Path) -> Iterator[Client]:
    # Paths in that installation are relative to its folder.
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(shared_data / "alps")
        application = create_application("conf/server.json")
        yield Client(application)
        application.site.catalogue.storages.close()


def test_answers_agree(shared_data: Path, alps: Client) -> None:
    """Status, type, size of pictures and values of pixels; where we differ, it is on purpose."""
    folder = shared_data / "alps-answers"
    compared: dict[str, int] = dict.fromkeys(GROUPS, 0)
    for entry in json.loads((folder / "index.json").read_text()):
        if entry["group"] not in GROUPS:
            continue
        body = (folder / f"{entry['id']}.body").read_bytes()
        response = alps.open(entry["path"], method=entry["method"])
        ours: tuple[int, str] = response.status_code, response.content_type
        if is_extension(entry, body):
            assert response.status_code == 200, entry["path"]
            continue
        assert ours == (entry["status"], entry["type"]), entry["path"]
        if entry["type"] in PICTURES and entry["status"] == 200:
            with Image.open(io.BytesIO(body)) as one, Image.open(io.BytesIO(response.data)) as two:
                assert one.size == two.size
        elif entry["type"] == "image/x-bil;bits=32":
            assert len(response.data) == len(body)
        elif entry["group"] == "wms.getfeatureinfo":
            assert response.data == body, entry["path"]
        compared[entry["group"]] += 1
    assert min(compared.values()) > 10


@pytest.mark.sampled(one_in=4)
@pytest.mark.parametrize(
    "box",
    ["60,6,70,20", "-90,6.5,90,6.6", "-90,-180,90,180", "40,-170,41,170", "46.9,5,47,6"],
)
@pytest.mark.parametrize("size", [16, 700])
def test_extents_without_data_are_empty_maps(alps: Client, box: str, size: int) -> None:
    """A layer without coarse levels, alone and with another one."""
    for layers in ("DEV_RGBA_PNG", "DEV_RGB_PNG,DEV_RGBA_PNG", "DEV_GREY_RAW"):
        styles = "," * layers.count(",")
        query = (
            f"SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&LAYERS={layers}&STYLES={styles}"
            f"&CRS=EPSG:4326&BBOX={box}&WIDTH={size}&HEIGHT={size}&TRANSPARENT=TRUE"
            "&FORMAT=image/png"
        )
        response = alps.get(f"/wms?{query}")
        assert response.status_code == 200, response.text
        with Image.open(io.BytesIO(response.data)) as picture:
            assert picture.size == (size, size)
            if box == "60,6,70,20":
                assert picture.getchannel("A").getextrema() == (0, 0)


def is_extension(entry: dict[str, Any], body: bytes) -> bool:
    """Tell whether the existing server refused what we answer (wms.md sections 3.4 and 4)."""
    if entry["status"] != 400:
        return False
    formats = ("image/png", "image/jpeg", "image/x-bil", "text/asc")
    converted = any(f"FORMAT={name}" in entry["path"] for name in formats)
    jpeg90 = entry["group"] == "wms.getfeatureinfo" and "JPG90" in entry["path"]
    return jpeg90 or converted
