"""Pyramids of a national mapping agency: 2 x 2 slabs, twenty levels, limits of one tile."""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lxml import etree
from PIL import Image
from werkzeug.test import Client

from mastaba_writer.installation import layer_document, write_installation

OpenClient = Callable[[Path], Client]

pytestmark = pytest.mark.shared_data

PYRAMIDS = ["IGN_BDPARCELLAIRE", "IGN_MONTAGNE", "IGN_RGEALTI", "IGN_SCAN1000"]


@pytest.fixture(scope="module")
def client(
    shared_data: Path, tmp_path_factory: pytest.TempPathFactory, open_client: OpenClient
) -> Client:
    directory = tmp_path_factory.mktemp("ign")
    sets = {
        name: json.loads((shared_data / f"alps/tilematrixsets/{name}.json").read_text())
        for name in ("PM", "4326", "LAMB93_1M_MNT")
    }
    layers = {
        name: layer_document(
            shared_data / f"ign/{name}.json", tile_matrix_sets=sets, title=name, abstract=""
        )
        for name in PYRAMIDS
    }
    return open_client(
        write_installation(directory, layers=layers, tile_matrix_sets=sets, services=["tms"])
    )


def descriptor(shared_data: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((shared_data / f"ign/{name}.json").read_text())
    return found


@pytest.mark.parametrize("name", PYRAMIDS)
def test_every_stored_tile_is_served_and_readable(
    client: Client, shared_data: Path, name: str
) -> None:
    document = descriptor(shared_data, name)
    extension = "zbil" if "FLOAT32" in document["format"] else "png"
    served = 0
    for level in document["levels"]:
        limits = level["tile_limits"]
        for row in range(limits["min_row"], limits["max_row"] + 1):
            for col in range(limits["min_col"], limits["max_col"] + 1):
                path = f"/tms/1.0.0/{name}/{level['id']}/{col}/{row}.{extension}"
                response = client.get(path)
                assert response.status_code == 200, path
                assert readable(response.data, extension), path
                served += 1
    assert served >= len(document["levels"])


def readable(data: bytes, extension: str) -> bool:
    if extension == "zbil":
        return np.frombuffer(zlib.decompress(data), "<f4").size == 256 * 256
    return Image.open(io.BytesIO(data)).convert("RGBA").size == (256, 256)


@pytest.mark.parametrize("name", PYRAMIDS)
def test_tiles_of_a_slab_outside_the_limits_are_not_served(
    client: Client, shared_data: Path, name: str
) -> None:
    document = descriptor(shared_data, name)
    extension = "zbil" if "FLOAT32" in document["format"] else "png"
    for level in document["levels"]:
        limits = level["tile_limits"]
        # The neighbours in the same slab of two by two tiles exist in the file.
        col = limits["max_col"] ^ 1
        if limits["min_col"] <= col <= limits["max_col"]:
            continue
        path = f"/tms/1.0.0/{name}/{level['id']}/{col}/{limits['min_row']}.{extension}"
        assert client.get(path).status_code == 404, path


@pytest.mark.parametrize("name", PYRAMIDS)
def test_documents(client: Client, shared_data: Path, name: str) -> None:
    levels = descriptor(shared_data, name)["levels"]
    tile_map = etree.fromstring(client.get(f"/tms/1.0.0/{name}").data)
    identifiers = [node.attrib["href"].rpartition("/")[2] for node in tile_map.iter("TileSet")]
    assert identifiers == sorted((level["id"] for level in levels), key=int)
    metadata: Any = client.get(f"/tms/1.0.0/{name}/metadata.json").json
    assert (metadata["minzoom"], metadata["maxzoom"]) == (0, len(levels) - 1)
    west, south, east, north = metadata["bounds"]
    assert -180 <= west < east <= 180
    assert -90 <= south < north <= 90


def test_gdal_description_needs_one_tile_at_the_top(client: Client) -> None:
    expected = {
        "IGN_BDPARCELLAIRE": 400,  # 2 x 1 tiles at the coarsest level
        "IGN_MONTAGNE": 200,
        "IGN_RGEALTI": 400,  # no quadtree
        "IGN_SCAN1000": 200,
    }
    found = {name: client.get(f"/tms/1.0.0/{name}/gdal.xml").status_code for name in PYRAMIDS}
    assert found == expected
