"""Headers for caches in front of the server: surrogate keys, Cache-Control of documents."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.tiny import tiny_installation
from werkzeug.test import Client

from mastaba.api.catalogue import BoundingBox, TileLimits, keys_within
from mastaba.config.schema import schema
from mastaba.plugins.manager import Plugins
from mastaba.wsgi import create_application

TILE = "/tms/1.0.0/RGB_JPG/4/9/6.jpg"
MAP = (
    "/wms?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&LAYERS={}&STYLES={}&CRS=EPSG:3857"
    "&BBOX=0,0,5000000,5000000&WIDTH=64&HEIGHT=64&FORMAT=image/png"
)
CAPABILITIES = "/wmts?SERVICE=WMTS&REQUEST=GetCapabilities"

Open = Callable[..., Any]


@pytest.fixture
def open_keyed(tmp_path: Path) -> Open:
    """Return a function that opens an installation with some settings of ``global.caching``."""

    def open_it(**caching: Any) -> Any:
        shared = {
            "caching": {"surrogate_keys": True, **caching},
            "map": {"limits": {"layers_count": 2}},
        }
        return create_application(
            str(tiny_installation(tmp_path / "i", services_overrides={"global": shared}))
        )

    return open_it


def keys(response: Any) -> set[str]:
    return set(response.headers["Surrogate-Key"].split())


def test_without_the_setting_no_response_has_keys(tmp_path: Path) -> None:
    client = Client(create_application(str(tiny_installation(tmp_path))))
    for path in (TILE, MAP.format("RGB_JPG", ""), CAPABILITIES):
        response = client.get(path)
        assert response.status_code == 200
        assert "Surrogate-Key" not in response.headers
    assert "Cache-Control" not in client.get(CAPABILITIES).headers


def test_a_tile_has_the_keys_of_its_layer_and_slab(open_keyed: Open) -> None:
    application = open_keyed()
    client, pyramid = Client(application), application.site.catalogue.layers["RGB_JPG"].pyramid
    first = client.get(TILE)
    # Slabs of two by two tiles.
    expected = {"layer-RGB_JPG", f"pyramid-{pyramid.name}", f"gen-{pyramid.generation}"}
    assert keys(first) == expected | {"slab-RGB_JPG/4/4/3"}
    again = client.get(TILE, headers={"If-None-Match": first.headers["ETag"]})
    assert again.status_code == 304
    assert keys(again) == keys(first)


def test_a_map_has_the_keys_of_all_its_layers(open_keyed: Open) -> None:
    client = Client(open_keyed())
    found = keys(client.get(MAP.format("RGB_JPG,GREY_PNG", ",")))
    assert {"layer-RGB_JPG", "layer-GREY_PNG", "drawn-RGB_JPG", "drawn-GREY_PNG"} <= found
    assert not any(key.startswith("slab-") for key in found)


def test_documents_have_one_key(open_keyed: Open) -> None:
    client = Client(open_keyed(documents="public, s-maxage=60"))
    for path in (CAPABILITIES, "/tms/1.0.0", "/ogcapi?f=json", "/viewer"):
        response = client.get(path)
        if response.status_code == 200:
            assert keys(response) == {"documents"}
            assert response.headers.getlist("Cache-Control") == ["public, s-maxage=60"]
    health = client.get("/healthcheck")
    assert health.status_code == 200
    assert not {"Surrogate-Key", "Cache-Control"} & set(health.headers.keys())
    wrong = client.get("/wmts?SERVICE=WMTS&REQUEST=None")
    assert wrong.status_code == 400
    assert not {"Surrogate-Key", "Cache-Control"} & set(wrong.headers.keys())


def test_a_layer_without_cache_control_has_that_of_all_layers(open_keyed: Open) -> None:
    client = Client(open_keyed(layers="public, s-maxage=9"))
    assert client.get(TILE).headers["Cache-Control"] == "public, s-maxage=9"
    assert client.get(MAP.format("RGB_JPG", "")).headers["Cache-Control"] == "public, s-maxage=9"


def test_names_are_escaped(tmp_path: Path) -> None:
    shared = {"caching": {"surrogate_keys": True}}
    server_json = tiny_installation(tmp_path, services_overrides={"global": shared})
    path = tmp_path / "layers" / "Été, à 1.json"
    shutil.copy(tmp_path / "layers" / "RGB_JPG.json", path)
    with (tmp_path / "layers.txt").open("a", encoding="utf-8") as stream:
        stream.write(f"{path}\n")
    response = Client(create_application(str(server_json))).get("/tms/1.0.0/Été, à 1/4/9/6.jpg")
    assert response.status_code == 200
    assert {"layer-%C3%89t%C3%A9%2C%20%C3%A0%201", "slab-%C3%89t%C3%A9%2C%20%C3%A0%201/4/4/3"} <= (
        keys(response)
    )


def test_the_keys_of_an_area_are_those_of_its_tiles(open_keyed: Open) -> None:
    """Every tile that meets the area has one of the keys; no tile of another slab has."""
    application = open_keyed()
    client = Client(application)
    layer = application.site.catalogue.layers["RGB_JPG"]
    stored = {}
    for name, level in layer.pyramid.levels.items():
        limits = level.limits
        for row in range(limits.min_row, limits.max_row + 1):
            for col in range(limits.min_col, limits.max_col + 1):
                response = client.get(f"/tms/1.0.0/RGB_JPG/{name}/{col}/{row}.jpg")
                assert response.status_code == 200
                box = level.matrix.bbox_of(TileLimits(row, row, col, col))
                slab = (name, col // level.tiles_per_width, row // level.tiles_per_height)
                stored[name, col, row] = box, slab, keys(response)
    chance = random.Random(3)
    world = layer.native_bbox
    for _ in range(200):
        xs = sorted(chance.uniform(world.xmin, world.xmax) for _ in range(2))
        ys = sorted(chance.uniform(world.ymin, world.ymax) for _ in range(2))
        area = BoundingBox(xs[0], ys[0], xs[1], ys[1])
        wanted = set(keys_within(layer, area))
        meets = {slab for box, slab, _ in stored.values() if box.intersection(area)}
        for _, slab, found in stored.values():
            assert (slab in meets) == bool(found & wanted)
    assert "drawn-RGB_JPG" in wanted


def test_tiles_that_were_removed_have_keys_too(open_keyed: Open) -> None:
    layer = open_keyed().site.catalogue.layers["RGB_JPG"]
    finest = layer.pyramid.finest
    limits = replace(finest.limits, max_col=finest.limits.min_col)
    levels = {**layer.pyramid.levels, finest.matrix.id: replace(finest, limits=limits)}
    narrowed = replace(layer, pyramid=replace(layer.pyramid, levels=levels))
    assert keys_within(narrowed, layer.native_bbox) == keys_within(layer, layer.native_bbox)


def test_a_large_area_is_the_whole_layer(open_keyed: Open) -> None:
    layer = open_keyed().site.catalogue.layers["RGB_JPG"]
    assert len(keys_within(layer, layer.native_bbox)) > 3
    assert keys_within(layer, layer.native_bbox, limit=3) == ["layer-RGB_JPG"]


@pytest.mark.sampled(one_in=4)
@pytest.mark.parametrize(
    "value", ["public max-age=3", "s-max-age=3", "max-age=x", "max-age", "", "max-age=1,", "x=1"]
)
def test_an_invalid_cache_control_is_reported(
    value: str, tmp_path: Path, check: Callable[[Path], list[str]]
) -> None:
    server_json = tiny_installation(tmp_path)
    path = tmp_path / "layers" / "RGB_JPG.json"
    document = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps({**document, "cache_control": value}), "utf-8")
    (problem,) = check(server_json)
    assert "$.cache_control" in problem
    assert problem.startswith("warning")
    services = tmp_path / "services.json"
    shared = {"global": {"caching": {"layers": value}}}
    services.write_text(json.dumps({**json.loads(services.read_text("utf-8")), **shared}), "utf-8")
    assert any("$.global.caching.layers" in problem for problem in check(server_json))


def test_all_values_of_cache_control_have_one_pattern() -> None:
    caching = schema("services", Plugins())["properties"]["global"]["properties"]["caching"]
    layer = schema("layer", Plugins())["properties"]["cache_control"]["pattern"]
    patterns = {caching["properties"][name]["pattern"] for name in ("layers", "documents")}
    assert patterns == {layer}


@pytest.fixture
def check() -> Callable[[Path], list[str]]:
    """Return a function that returns the problems of a configuration."""
    from mastaba.config.load import load_catalogue
    from mastaba.config.server import load_server
    from mastaba.errors import ConfigurationError
    from mastaba_documents.faults import Faults
    from mastaba_storage.environment import Environment

    def problems(server_json: Path) -> list[str]:
        faults, plugins = Faults(), Plugins()
        server = load_server(str(server_json), plugins, faults)
        with suppress(ConfigurationError):
            load_catalogue(server, plugins, Environment(), faults)
        return [str(fault) for fault in faults.all]

    return problems
