"""Layers from containers: their tiles, maps, areas, hybrids and faults."""

from __future__ import annotations

import io
import json
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.containers import loose
from werkzeug.test import Client

from mastaba.config.load import load_catalogue
from mastaba.config.server import load_server
from mastaba.config.source import Source
from mastaba.errors import ConfigurationError
from mastaba.plugins.manager import Plugins
from mastaba.wsgi import create_application
from mastaba_conformance.tiny_installation import tiny_installation, tiny_integer_tile
from mastaba_documents.faults import Faults
from mastaba_render.api.areas import Area, masked_readers, narrowed
from mastaba_render.mosaic import LevelPixels
from mastaba_render.native import Window
from mastaba_render.tile_cache import TileCache
from mastaba_storage.environment import Environment

LEVELS = {"2": [1, 1, 2, 2], "3": [2, 3, 4, 5]}
Publish = Callable[..., Client]


def tile_bytes(kind: str, level: str, row: int, col: int) -> bytes:
    pixels = tiny_integer_tile(3)(level, row, col)
    stream = io.BytesIO()
    options: dict[str, Any] = {"lossless": True} if kind == "webp" else {}
    image = Image.fromarray(pixels)
    (image.convert("L") if kind == "gray" else image).save(
        stream, {"gray": "jpeg"}.get(kind, kind), **options
    )
    return stream.getvalue()


def write_loose(directory: Path, kind: str = "png", **document: Any) -> Path:
    directory.mkdir()
    levels = document.setdefault("levels", LEVELS)
    for level, (top, bottom, left, right) in levels.items():
        for col in range(left, right + 1):
            (directory / level / str(col)).mkdir(parents=True)
            for row in range(top, bottom + 1):
                data = tile_bytes(kind, level, row, col)
                if document.get("coded"):
                    data = loose.flipped(data)
                (directory / level / str(col) / f"{row}.{kind}").write_bytes(data)
    path = directory / "map.loose"
    document = {"format": kind, "tile_matrix_set": "PM", "title": "Loose", **document}
    if "own_set" in document:
        del document["tile_matrix_set"]
    path.write_text(json.dumps(document))
    return path


def plugins() -> Plugins:
    return Plugins(extra={"loose": loose.PLUGIN})


@pytest.fixture
def installed(tmp_path: Path) -> Callable[..., Path]:
    def install(*entries: dict[str, Any], **fields: Any) -> Path:
        server = tiny_installation(
            tmp_path / "site",
            services_overrides={"global": {"map": {"reprojection": True, "crs": ["EPSG:4326"]}}},
        )
        listed = json.loads(server.read_text())["configurations"]["layers"]
        descriptor = tmp_path / "LOOSE.json"
        descriptor.write_text(json.dumps({"pyramids": list(entries), **fields}))
        with open(listed, "a") as layers:
            layers.write(f"\n{descriptor}\n")
        return server

    return install


def faults_of(server: Path) -> list[tuple[str, str, str, str]]:
    faults = Faults()
    found = plugins()
    config = load_server(str(server), found, faults)
    with suppress(ConfigurationError):
        load_catalogue(config, found, Environment(), faults).storages.close()
    return [(Path(one.file).name, one.path, one.reason, one.remedy) for one in faults.all]


def rest(extension: str, matrix_set: str = "PM", place: str = "3/2/4") -> str:
    return f"/wmts/1.0.0/LOOSE/normal/{matrix_set}/{place}.{extension}"


@pytest.mark.parametrize("coded", [False, True])
@pytest.mark.parametrize("kind", ["png", "jpeg", "webp"])
def test_tiles_are_those_of_the_container(
    kind: str, coded: bool, tmp_path: Path, installed: Callable[..., Path]
) -> None:
    path = write_loose(tmp_path / "data", kind, coded=coded)
    application = create_application(str(installed({"path": str(path)})), plugins())
    client = Client(application)
    wanted = tile_bytes(kind, "3", 2, 4)
    for address in (
        rest(kind),
        f"/tms/1.0.0/LOOSE/3/4/2.{kind}",
        "/ogcapi/collections/LOOSE/map/tiles/PM/3/2/4",
    ):
        response = client.get(address)
        assert (response.status_code, response.content_type) == (200, f"image/{kind}"), address
        assert response.data == wanted
        etag = response.headers["ETag"]
        assert ("flipped" in etag) is coded
        assert client.get(address, headers={"If-None-Match": etag}).status_code == 304
        found = application.stored_tile(address, "", {})
        assert found is not None
        assert found.body == wanted
    assert client.get(rest(kind, place="3/9/4")).status_code in (400, 404)
    application.site.catalogue.storages.close()


@pytest.mark.parametrize("coded", [False, True])
def test_maps_show_the_pixels_of_the_data_window_only(
    coded: bool, tmp_path: Path, installed: Callable[..., Path]
) -> None:
    window = [5 * 256 + 100, 3 * 256 + 40]
    path = write_loose(tmp_path / "data", coded=coded, window=window, nodata=[1, 2, 3])
    application = create_application(str(installed({"path": str(path)})), plugins())
    site = application.site
    layer, readers = site.catalogue.layers["LOOSE"], site.catalogue.readers["LOOSE"]
    pixels = LevelPixels(layer.pyramid, readers["3"], TileCache(0))
    for right, bottom in ((6 * 256, 4 * 256), (5 * 256, 3 * 256)):
        # More than the window, and a part that needs no mask.
        mosaic = pixels.read(Window(2 * 256, bottom, 4 * 256, right))
        shown = np.zeros((bottom - 512, right - 1024), bool)
        shown[: window[1] - 512, : window[0] - 1024] = True
        rows = [
            np.concatenate([tiny_integer_tile(3)("3", row, col) for col in (4, 5)], axis=1)
            for row in (2, 3)
        ]
        expected = np.concatenate(rows)[: bottom - 512, : right - 1024].copy()
        expected[~shown] = (1, 2, 3)
        assert np.array_equal(mosaic.pixels, expected)
        assert (mosaic.valid is None) == bool(shown.all())
        assert mosaic.valid is None or np.array_equal(mosaic.valid, shown)
    site.catalogue.storages.close()


@pytest.mark.parametrize("coded", [False, True])
def test_area_masks_tiles_in_the_format_of_the_layer(
    coded: bool, tmp_path: Path, installed: Callable[..., Path]
) -> None:
    path = write_loose(tmp_path / "data", coded=coded)
    application = create_application(str(installed({"path": str(path)})), plugins())
    catalogue = application.site.catalogue
    layer, readers = catalogue.layers["LOOSE"], catalogue.readers["LOOSE"]
    # Level 3, row 2, columns 4 and 5: the edge is in the middle of the first tile.
    west, south, east, north = 22.5, 10.0, 90.0, 66.0
    ring = [[west, south], [east, south], [east, north], [west, north], [west, south]]
    area = Area.from_geojson({"type": "Polygon", "coordinates": [ring]})
    shown = narrowed(layer, area)
    assert shown is not None
    masked = masked_readers(shown, readers, area)
    tile = masked["3"].locate(2, 4)
    assert tile is not None
    assert tile.is_delivered is coded
    pixels = np.array(Image.open(io.BytesIO(tile.read())))
    plain = tiny_integer_tile(3)("3", 2, 4)
    assert (pixels[128:, :120] == 255).all()
    assert np.array_equal(pixels[200:, 140:], plain[200:, 140:])
    catalogue.storages.close()


def test_hybrid_takes_each_level_from_one_entry(
    tmp_path: Path, installed: Callable[..., Path]
) -> None:
    path = write_loose(tmp_path / "data", own_set="OWN", levels={"3": LEVELS["3"]})
    slabs = tmp_path / "site/pyramids/RGB_PNG.json"
    entries = [
        {"path": str(slabs), "bottom_level": "2", "top_level": "2"},
        {"path": str(path)},
    ]
    server = installed(*entries)
    assert faults_of(server) == []
    application = create_application(str(server), plugins())
    assert Client(application).get(rest("png")).data == tile_bytes("png", "3", 2, 4)
    assert list(application.site.catalogue.layers["LOOSE"].pyramid.levels) == ["2", "3"]
    assert Client(application).get(rest("png", place="2/1/2")).status_code == 200
    application.site.catalogue.storages.close()


def test_own_tile_matrix_set_is_published(tmp_path: Path, installed: Callable[..., Path]) -> None:
    path = write_loose(tmp_path / "data", own_set="OWN")
    application = create_application(str(installed({"path": str(path)})), plugins())
    assert application.site.catalogue.tile_matrix_sets["OWN"].matrices
    client = Client(application)
    assert client.get(rest("png", "OWN")).data == tile_bytes("png", "3", 2, 4)
    assert client.get("/ogcapi/tileMatrixSets/OWN?f=json").status_code == 200
    application.site.catalogue.storages.close()


@pytest.mark.parametrize(
    ("entry", "document", "place", "words"),
    [
        ({"container": "other"}, {}, "$.pyramids[0].container", "correct the name"),
        ({"options": {"tile_matrix_set": 1}}, {}, "$.pyramids[0].options.tile_matrix_set", ""),
        ({"options": {"tile_matrix_set": "NO"}}, {}, "$", "correct the name"),
        ({}, {"title": ""}, "$.title", 'add the key "title"'),
        ({"top_level": "9"}, {}, "$.pyramids[0]", "correct the pyramid or its levels"),
        # Another set than that of the configuration; the container has no option for its name.
        ({}, {"own_set": "PM"}, "$", "give the other set another identifier"),
    ],
)
def test_fault_has_a_remedy(
    entry: dict[str, Any],
    document: dict[str, Any],
    place: str,
    words: str,
    tmp_path: Path,
    installed: Callable[..., Path],
) -> None:
    path = write_loose(tmp_path / "data", **document)
    (found,) = faults_of(installed({"path": str(path), **entry}))
    assert found[1] == place
    assert words in found[3]


def test_the_same_level_twice_names_both_entries(
    tmp_path: Path, installed: Callable[..., Path]
) -> None:
    first, second = write_loose(tmp_path / "one"), write_loose(tmp_path / "two")
    (found,) = faults_of(installed({"path": str(first)}, {"path": str(second)}))
    assert found[1] == "$.pyramids[1]"
    assert str(first) in found[2]


def test_damaged_container_is_a_fault_of_its_file(
    tmp_path: Path, installed: Callable[..., Path]
) -> None:
    path = write_loose(tmp_path / "data")
    path.write_text("{")
    (found,) = faults_of(installed({"path": str(path)}))
    assert found[:2] == ("map.loose", "$")
    assert found[3] == "write it again"


def test_server_that_follows_its_documents_notices_another_container(
    tmp_path: Path, installed: Callable[..., Path]
) -> None:
    path = write_loose(tmp_path / "data")
    server, found, source = installed({"path": str(path)}), plugins(), Source()
    faults = Faults()
    config = load_server(str(server), found, faults)
    catalogue = load_catalogue(config, found, Environment(), faults, source=source)
    changed = threading.Event()

    def watch() -> None:
        source.await_change(catalogue.storages, 0.01, reports.append)
        changed.set()

    reports: list[Any] = []
    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    while not reports:
        time.sleep(0.01)
    assert reports[0] is None
    new = path.with_suffix(".new")
    new.write_text(path.read_text().replace("Loose", "Another title"))
    assert not changed.is_set()
    new.replace(path)
    thread.join()
    assert changed.is_set()
    catalogue.storages.close()
