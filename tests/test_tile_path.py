"""The path of a stored tile through the code stays short."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType

import pytest
from werkzeug.test import Client, create_environ

from mastaba.wsgi import create_application
from mastaba_conformance.tiny_installation import tiny_installation

MOST_FILES = 14
MOST_CALLS = 40

PATHS = {
    "kvp": "/wmts?SERVICE=WMTS&VERSION=1.0.0&REQUEST=GetTile&LAYER=RGB_JPG&STYLE=normal"
    "&FORMAT=image/jpeg&TILEMATRIXSET=PM&TILEMATRIX=3&TILEROW=2&TILECOL=4",
    "rest": "/wmts/1.0.0/RGB_JPG/normal/PM/3/2/4.jpg",
    "tms": "/tms/1.0.0/RGB_JPG/3/4/2.jpg",
    "ogcapi": "/ogcapi/collections/RGB_JPG/map/tiles/PM/3/2/4",
}


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
def test_a_stored_tile_goes_through_few_files_and_calls(tmp_path: Path, path: str) -> None:
    application = create_application(str(tiny_installation(tmp_path)))
    client, environ = Client(application), create_environ(path)
    body = client.get(path).data
    assert body.startswith(b"\xff\xd8")  # the index is cached from here on
    files: set[str] = set()
    calls: list[str] = []

    def note(frame: FrameType, event: str, _argument: object) -> None:
        module = frame.f_globals.get("__name__", "")
        if event == "call" and module.split(".")[0].startswith("mastaba"):
            files.add(module)
            calls.append(f"{module}.{frame.f_code.co_qualname}")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        pieces = application(environ, lambda status, headers: None)
    finally:
        sys.setprofile(before)
    assert b"".join(pieces) == body
    assert "mastaba.tiles.stored.TilePublisher.respond" in calls
    assert len(files) <= MOST_FILES, sorted(files)
    assert len(calls) <= MOST_CALLS, calls
    application.site.catalogue.storages.close()
