"""Layers from archives behind rules, areas, virtual services, the administration and caches."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.access.identification.conftest import Credentials, credentials
from tests.container_cog.files import ground
from tests.container_cog.served import COL, SIDE, add_layer, cog_of
from tests.container_sqlite.ground import picture, write_mbtiles
from tests.containers.independent import write_pmtiles
from tests.tiny import tiny_installation
from werkzeug.test import Client

from mastaba.api.tools import create_application
from mastaba_conformance.tiny_installation import tiny_vector_tile

__all__ = ["credentials"]

SECRET = {"X-Mastaba-Secret": "swordfish"}
FILES = {"PMTILES": "a.pmtiles", "COG": "cog.tif"}
# The western half of the first tile.
WEST = "0 45, 11.25 45, 11.25 70, 0 70, 0 45"
RULES: dict[str, Any] = {
    "default": "deny",
    "areas": {"west": {"wkt": f"POLYGON(({WEST}))", "crs": "CRS:84"}},
    "rules": [
        {"name": "staff", "who": ["group:staff"], "allow": {}},
        {"name": "edge of west", "who": ["group:west"], "limit": {"area": "west"}},
        {"name": "west", "who": ["group:west"], "allow": {}},
    ],
}
TILE = "/wmts{}/1.0.0/{}/normal/PM/4/{}/{}.png"
MAP = (
    "/wms{}?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&STYLES=&LAYERS={}&CRS=EPSG:3857"
    "&BBOX=0,7514065,2504688,10018754&WIDTH=256&HEIGHT=256&FORMAT=image/png&TRANSPARENT=TRUE"
)


@pytest.fixture
def client(tmp_path: Path, credentials: Credentials) -> Client:
    tiles = {(4, row, col): picture(row * 8 + col) for row in (4, 5) for col in (8, 9)}
    write_pmtiles(tmp_path / "a.pmtiles", tiles, 2, (0, 45, 45, 75))
    values = ground("uint8", 3, (256 * SIDE, 256 * SIDE))
    cog_of(tmp_path, values, (4, COL), COMPRESS="DEFLATE")
    (tmp_path / "rules.json").write_text(json.dumps(RULES))
    partner = {"layers": list(FILES), "title": "Partner", "services": {"wmts": {}, "wms": {}}}
    server = tiny_installation(
        tmp_path / "site",
        services=("wmts", "wms"),
        services_overrides={
            "admin": {"enabled": True, "secret": "swordfish"},
            "global": {"caching": {"surrogate_keys": True}},
            "virtual": {"partner": partner},
        },
        server_overrides={
            "debug": True,
            "plugins": {"access": credentials.section(rules=str(tmp_path / "rules.json"))},
        },
    )
    for name, file in FILES.items():
        add_layer(tmp_path / "site", name, {"path": str(tmp_path / file)})
    return Client(create_application(str(server)))


def pixels_of(answer: Any) -> np.ndarray[Any, Any]:
    assert answer.status_code == 200, answer.data[:500]
    with Image.open(io.BytesIO(answer.data)) as image:
        return np.asarray(image.convert("RGBA"))


@pytest.mark.thorough
@pytest.mark.parametrize("layer", FILES)
def test_rules_keys_and_areas(layer: str, client: Client, credentials: Credentials) -> None:
    staff, west = (f"/~{credentials.key(groups=[name])}" for name in ("staff", "west"))
    row, col = 4, COL
    for path in (TILE.format("", layer, row, col), MAP.format("", layer)):
        assert client.get(path).status_code in (400, 401, 404)
    whole = pixels_of(client.get(TILE.format(staff, layer, row, col)))
    part = pixels_of(client.get(TILE.format(west, layer, row, col)))
    np.testing.assert_array_equal(part[:, :120, :3], whole[:, :120, :3])
    assert not (part[:, 140:] == whole[:, 140:]).all()
    # A tile outside of the area.
    assert client.get(TILE.format(west, layer, row, col + 1)).status_code != 200
    assert (pixels_of(client.get(MAP.format(staff, layer)))[:, :, 3] == 255).all()
    alpha = pixels_of(client.get(MAP.format(west, layer)))[:, :, 3]
    assert (alpha[:, :120] == 255).all()
    assert not alpha[:, 140:].any()


@pytest.mark.thorough
@pytest.mark.parametrize("layer", FILES)
def test_virtual_services_and_headers(layer: str, client: Client, credentials: Credentials) -> None:
    key = f"/~{credentials.key(groups=['staff'])}"
    answer = client.get(TILE.format(f"/v/partner{key}", layer, 4, COL))
    assert answer.status_code == 200
    pyramid = client.application.site.catalogue.layers[layer].pyramid
    keys = set(answer.headers["Surrogate-Key"].split())
    assert {f"layer-{layer}", f"gen-{pyramid.generation}"} <= keys
    assert any(one.startswith("slab-") for one in keys)
    assert FILES[layer] in answer.headers["X-Mastaba-Tile"]


@pytest.mark.thorough
@pytest.mark.parametrize("layer", FILES)
def test_administration_replaces_and_deletes(
    layer: str, client: Client, credentials: Credentials, tmp_path: Path
) -> None:
    key = f"/~{credentials.key(groups=['staff'])}"
    tile = TILE.format(key, layer, 4, COL)
    capabilities = f"/wmts{key}?SERVICE=WMTS&REQUEST=GetCapabilities"
    address, before = f"/admin/layers/{layer}", client.get(tile)
    assert before.status_code == 200
    descriptor = {"title": "Another title", "pyramids": [{"path": str(tmp_path / FILES[layer])}]}
    answer = client.put(address, headers=SECRET, json=descriptor)
    assert answer.status_code == 204, answer.data
    assert "Another title" in client.get(capabilities).text
    assert client.get(tile).data == before.data
    wrong = {**descriptor, "pyramids": [{"path": str(tmp_path / "none.pmtiles")}]}
    assert client.put(address, headers=SECRET, json=wrong).status_code == 400
    assert client.get(tile).data == before.data
    assert client.delete(address, headers=SECRET).status_code == 204
    assert client.get(tile).status_code != 200
    assert "Another title" not in client.get(capabilities).text
    assert client.post(address, headers=SECRET, json=descriptor).status_code == 204
    assert client.get(tile).data == before.data


@pytest.mark.parametrize("cut", ["mask", "drop", "keep"])
def test_vector_tiles_at_the_edge_are_whole_or_absent(
    cut: str, tmp_path: Path, credentials: Credentials
) -> None:
    tiles = {(4, col, 4): gzip.compress(tiny_vector_tile("4", 4, col)) for col in (8, 9, 10)}
    tables = [{"id": "tiles", "fields": {"row": "Number"}}]
    values = {"attribute": "row", "type": "number", "count": 1, "min": 4, "max": 4, "values": [4]}
    statistics = {"layerCount": 1, "layers": [{"layer": "tiles", "attributes": [values]}]}
    described = json.dumps({"vector_layers": tables, "tilestats": statistics})
    write_mbtiles(tmp_path / "v.mbtiles", tiles, {"name": "V", "format": "pbf", "json": described})
    # The first tile, and half of the second one.
    area = {"wkt": "POLYGON((-1 50, 33 50, 33 70, -1 70, -1 50))", "crs": "CRS:84"}
    limit = {"name": "west", "who": ["anonymous"], "limit": {"area": "west", "cut": cut}}
    document = {"default": "allow", "areas": {"west": area}, "rules": [limit]}
    (tmp_path / "rules.json").write_text(json.dumps(document))
    access = credentials.section(rules=str(tmp_path / "rules.json"))
    server = tiny_installation(
        tmp_path / "site", services=("tms",), server_overrides={"plugins": {"access": access}}
    )
    add_layer(tmp_path / "site", "V", {"path": str(tmp_path / "v.mbtiles")})
    client = Client(create_application(str(server)))
    whole = {"X-API-Key": credentials.key()}
    for col, is_shown in ((8, True), (9, cut == "keep"), (10, False)):
        for headers in ({}, {"Accept-Encoding": "gzip"}):
            path = f"/tms/1.0.0/V/4/{col}/4.pbf"
            found, plain = (
                client.get(path, headers=headers),
                client.get(path, headers=whole | headers),
            )
            assert plain.status_code == 200
            assert found.status_code == (200 if is_shown else 404), col
            assert not is_shown or found.data == plain.data
    shown, all_of_it = (
        client.get("/tms/1.0.0/V/metadata.json", headers=headers).json for headers in ({}, whole)
    )
    assert shown["bounds"][2] < all_of_it["bounds"][2]
    assert "values" in all_of_it["vector_layers"][0]["fieldsDetails"]["row"]
    assert shown["vector_layers"][0]["fieldsDetails"] == {
        "row": {"attribute": "row", "type": all_of_it["vector_layers"][0]["fields"]["row"]}
    }
