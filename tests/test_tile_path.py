"""The paths of a stored tile and of a map through the code stay short."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from types import FrameType

import pytest
from werkzeug.test import Client, create_environ

from mastaba.wsgi import create_application
from mastaba_conformance.tiny_installation import tiny_installation

MOST_FILES = 15
MOST_CALLS = 41

PATHS = {
    "kvp": "/wmts?SERVICE=WMTS&VERSION=1.0.0&REQUEST=GetTile&LAYER=RGB_JPG&STYLE=normal"
    "&FORMAT=image/jpeg&TILEMATRIXSET=PM&TILEMATRIX=3&TILEROW=2&TILECOL=4",
    "rest": "/wmts/1.0.0/RGB_JPG/normal/PM/3/2/4.jpg",
    "tms": "/tms/1.0.0/RGB_JPG/3/4/2.jpg",
    "ogcapi": "/ogcapi/collections/RGB_JPG/map/tiles/PM/3/2/4",
}


MOST_FILES_OF_TABLE = 13
MOST_CALLS_OF_TABLE = 26


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
def test_a_stored_tile_goes_through_few_files_and_calls(tmp_path: Path, path: str) -> None:
    application = create_application(str(tiny_installation(tmp_path)))
    client, environ = Client(application), create_environ(path)
    body = client.get(path).data
    assert body.startswith(b"\xff\xd8")  # the index is cached from here on
    with noted_calls() as calls:
        pieces = application(environ, lambda status, headers: None)
    assert b"".join(pieces) == body
    assert "mastaba.tiles.stored:TilePublisher.respond" in calls
    assert len(calls) <= MOST_CALLS, calls
    assert len(files_of(calls)) <= MOST_FILES, files_of(calls)
    application.site.catalogue.storages.close()


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
def test_a_tile_from_the_table_goes_through_fewer(tmp_path: Path, path: str) -> None:
    application = create_application(str(tiny_installation(tmp_path)))
    address, _, query = path.partition("?")
    application.stored_tile(address, query, {})  # the base of the address is known from here on
    with noted_calls() as calls:
        response = application.stored_tile(address, query, {})
    assert response is not None
    assert response.status == 200
    assert "mastaba.tiles.stored:TilePublisher.find" in calls
    assert len(calls) <= MOST_CALLS_OF_TABLE, calls
    assert len(files_of(calls)) <= MOST_FILES_OF_TABLE, files_of(calls)
    application.site.catalogue.storages.close()


MAP = (
    "/wms?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&LAYERS=RGB_JPG&STYLES=&CRS={}&BBOX={}"
    "&WIDTH=256&HEIGHT=256&FORMAT=image/jpeg"
)
MOST_CHANGES_OF_MAP = {
    MAP.format("EPSG:3857", "4000000,4000000,6000000,6000000"): 70,
    MAP.format("EPSG:4326", "34,36,47,53"): 80,
    MAP.format("EPSG:3035", "2000000,6000000,3000000,7000000"): 80,
}


@pytest.mark.parametrize("path", [*MOST_CHANGES_OF_MAP], ids=["same", "4326", "3035"])
def test_a_map_seldom_changes_the_file(tmp_path: Path, path: str) -> None:
    offered = {"global": {"map": {"reprojection": True, "crs": ["EPSG:4326", "EPSG:3035"]}}}
    application = create_application(str(tiny_installation(tmp_path, services_overrides=offered)))
    client, environ = Client(application), create_environ(path)
    # Tiles that are needed twice are cached, but a note of the first time may be displaced.
    for _ in range(6):
        body = client.get(path).data
    assert body.startswith(b"\xff\xd8")
    with noted_calls() as calls:
        pieces = application(environ, lambda status, headers: None)
        assert b"".join(pieces) == body
    assert "mastaba_render.layer_map:LayerMap._draw" in calls
    modules = [call.partition(":")[0] for call in calls]
    changes = [pair for pair in pairwise(modules) if len(set(pair)) > 1]
    assert len(changes) <= MOST_CHANGES_OF_MAP[path], changes
    application.site.catalogue.storages.close()


@contextmanager
def noted_calls() -> Iterator[list[str]]:
    """Note the calls of functions of Mastaba, with their modules."""
    calls: list[str] = []

    def note(frame: FrameType, event: str, _argument: object) -> None:
        module = frame.f_globals.get("__name__", "")
        if event == "call" and module.split(".")[0].startswith("mastaba"):
            calls.append(f"{module}:{frame.f_code.co_qualname}")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(before)


def files_of(calls: list[str]) -> set[str]:
    return {call.partition(":")[0] for call in calls}
