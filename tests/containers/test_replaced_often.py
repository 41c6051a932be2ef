"""Archives and slabs that are replaced several times while one tile or map is read."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.container_cog.served import add_layer, addresses
from tests.containers.test_stores import ARCHIVES
from tests.tiny import tiny_installation
from werkzeug.test import Client

from mastaba.api.tools import create_application
from mastaba_storage.base import ByteRange, ObjectRead
from mastaba_storage.errors import ObjectChangedError
from mastaba_storage.file import FileStorage

MAP = (
    "/wms?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&STYLES=&LAYERS=A&CRS=EPSG:3857"
    "&BBOX=0,4500000,4000000,8500000&WIDTH=100&HEIGHT=100&FORMAT=image/png"
)


@dataclass
class Replaced:
    """How often the next reads find another version.

    Attributes:
        left: times.
        reads: reads of a version.
        seconds: that such a read takes.
    """

    left: float = 0
    reads: int = 0
    seconds: float = 0


@pytest.fixture
def replaced(monkeypatch: pytest.MonkeyPatch) -> Replaced:
    state, read = Replaced(), FileStorage._read_version

    def changing(
        storage: FileStorage, key: str, byte_range: ByteRange | None, version: str
    ) -> ObjectRead:
        state.reads += 1
        if state.left > 0:
            state.left -= 1
            time.sleep(state.seconds)
            raise ObjectChangedError(f"the file {key} was replaced", key=key)
        return read(storage, key, byte_range, version)

    monkeypatch.setattr(FileStorage, "_read_version", changing)
    return state


@pytest.mark.parametrize("suffix", ["tif", "png.pmtiles"])
def test_a_tile_is_read_again_until_its_archive_stays(
    suffix: str, tmp_path: Path, replaced: Replaced
) -> None:
    make, media_type, extension, _ = ARCHIVES[suffix]
    data, tiles = make(tmp_path, 0)
    (tmp_path / f"a.{suffix}").write_bytes(data)
    server = tiny_installation(tmp_path / "site", services=["wms", "tms", "wmts"])
    add_layer(tmp_path / "site", "A", {"path": f"{tmp_path}/a.{suffix}"})
    application = create_application(str(server))
    client = Client(application)
    grid = application.site.catalogue.layers["A"].pyramid.tile_matrix_set.id
    place, tile = next(iter(tiles.items()))
    address = addresses("A", *place, media_type, extension, grid)["TMS"]
    for asked, wanted in ((address, tile), (MAP, None)):
        replaced.left = 15
        answer = client.get(asked)
        assert answer.status_code == 200, answer.text
        assert replaced.left == 0
        assert wanted in (None, answer.data)


def test_an_archive_that_changes_for_ever_is_unavailable(
    tmp_path: Path, replaced: Replaced
) -> None:
    client, address = served(tmp_path)
    for asked in (address, MAP):
        replaced.left, replaced.reads = float("inf"), 0
        answer = client.get(asked)
        assert answer.status_code == 503
        assert answer.headers["Retry-After"]
        assert 15 < replaced.reads < 50


def test_no_attempt_is_made_after_the_deadline_of_a_request(
    tmp_path: Path, replaced: Replaced
) -> None:
    client, address = served(tmp_path, request_timeout=1)
    for asked in (address, MAP):
        replaced.left, replaced.reads, replaced.seconds = float("inf"), 0, 0.3
        answer = client.get(asked)
        assert answer.status_code == 503
        assert replaced.reads in range(2, 6)


def served(directory: Path, **settings: Any) -> tuple[Client, str]:
    """Return a client of an archive, and the address of a tile."""
    make, media_type, extension, _ = ARCHIVES["png.pmtiles"]
    data, tiles = make(directory, 0)
    (directory / "a.pmtiles").write_bytes(data)
    server = tiny_installation(
        directory / "site", services=["wms", "tms"], server_overrides=settings
    )
    add_layer(directory / "site", "A", {"path": f"{directory}/a.pmtiles"})
    application = create_application(str(server))
    grid = application.site.catalogue.layers["A"].pyramid.tile_matrix_set.id
    address = addresses("A", *next(iter(tiles)), media_type, extension, grid)["TMS"]
    return Client(application), address
