"""MBTiles as layers: the bytes that were written, over all protocols."""

from __future__ import annotations

import gzip
import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest
from tests.container_sqlite.ground import (
    application,
    client_of,
    picture,
    refusal,
    web_tiles,
    wmts,
    write_mbtiles,
)
from werkzeug.test import Client

VECTOR = b"\x1a\x05\x0a\x03abc"
"""A vector tile with one layer."""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Client:
    directory = tmp_path_factory.mktemp("mbtiles")
    path = write_mbtiles(directory / "a.mbtiles", web_tiles())
    return client_of(directory / "site", A={"path": str(path)})


def test_tiles_are_those_that_were_written(client: Client) -> None:
    for tile, data in web_tiles().items():
        zoom, column, row = tile
        for address in (
            wmts("A", tile, "PM", "image/png"),
            f"/tms/1.0.0/A/{zoom}/{column}/{row}.png",
            f"/ogcapi/collections/A/map/tiles/PM/{zoom}/{row}/{column}",
        ):
            response = client.get(address)
            assert response.status_code == 200, address
            assert response.data == data, address


def test_a_tile_that_the_client_has_is_not_sent(client: Client) -> None:
    address = wmts("A", (5, 16, 13), "PM", "image/png")
    etag = client.get(address).headers["ETag"]
    assert client.get(address, headers={"If-None-Match": etag}).status_code == 304
    other = client.get(wmts("A", (5, 17, 13), "PM", "image/png")).headers["ETag"]
    assert other != etag
    assert client.get(address, headers={"If-None-Match": other}).status_code == 200


def test_a_tile_that_is_not_stored(client: Client) -> None:
    assert client.get(wmts("A", (5, 16, 3), "PM", "image/png")).status_code == 404


def test_a_replaced_file_is_served_at_once(tmp_path: Path) -> None:
    path = write_mbtiles(tmp_path / "a.mbtiles", web_tiles(1))
    client = client_of(tmp_path / "site", A={"path": str(path)})
    address = wmts("A", (5, 16, 13), "PM", "image/png")
    before = client.get(address)
    write_mbtiles(path, web_tiles(2))
    after = client.get(address)
    assert after.data == web_tiles(2)[5, 16, 13]
    assert after.headers["ETag"] != before.headers["ETag"]
    # Another kind of tiles waits for a reload.
    write_mbtiles(path, {(5, 16, 13): VECTOR})
    assert client.get(address).status_code == 503
    write_mbtiles(path, web_tiles(1))
    assert client.get(address).data == before.data
    path.unlink()
    assert client.get(address).status_code == 503


@pytest.mark.parametrize("age", [5, 3600])
def test_a_young_file_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, age: int
) -> None:
    path = write_mbtiles(tmp_path / "a.mbtiles", web_tiles())
    os.utime(path, (time.time() - age,) * 2)
    client_of(tmp_path / "site", A={"path": str(path)})
    assert ("less than a minute ago" in caplog.text) is (age < 60)


def test_rows_from_the_top_and_a_view(tmp_path: Path) -> None:
    path = write_mbtiles(tmp_path / "a.mbtiles", web_tiles(), top_down=True)
    connection = sqlite3.connect(path)
    connection.executescript(
        "ALTER TABLE tiles RENAME TO map;"
        "CREATE TABLE images (tile_id INTEGER PRIMARY KEY, tile_data BLOB);"
        "INSERT INTO images SELECT rowid, tile_data FROM map;"
        "CREATE VIEW tiles AS SELECT zoom_level, tile_column, tile_row, images.tile_data "
        "AS tile_data FROM map JOIN images ON images.tile_id = map.rowid;"
    )
    connection.close()
    client = client_of(tmp_path / "site", A={"path": str(path), "options": {"scheme": "xyz"}})
    for tile, data in web_tiles().items():
        assert client.get(wmts("A", tile, "PM", "image/png")).data == data


def test_vector_tiles_with_and_without_gzip(tmp_path: Path) -> None:
    packed = gzip.compress(VECTOR)
    tiles = {(4, 8, 5): packed, (4, 9, 5): VECTOR}
    layers = '{"vector_layers": [{"id": "abc", "fields": {"a": "String"}}]}'
    path = write_mbtiles(tmp_path / "v.mbtiles", tiles, {"format": "pbf", "json": layers})
    client = client_of(tmp_path / "site", V={"path": str(path)})
    headers = {"Accept-Encoding": "gzip"}
    first = client.get("/tms/1.0.0/V/4/8/5.pbf", headers=headers)
    assert (first.data, first.headers["Content-Encoding"]) == (packed, "gzip")
    bare = client.get("/tms/1.0.0/V/4/9/5.pbf", headers=headers)
    assert bare.data == VECTOR
    assert "Content-Encoding" not in bare.headers
    assert client.get("/tms/1.0.0/V/4/8/5.pbf").data == VECTOR


def test_tables_that_the_metadata_do_not_describe(tmp_path: Path) -> None:
    tiles = {(4, 8, 5): VECTOR, (5, 16, 10): VECTOR}
    path = write_mbtiles(tmp_path / "v.mbtiles", tiles, {"format": "pbf", "json": "nothing"})
    table = {"id": "abc", "geometry": "POINT", "fields": {"a": "String"}, "minzoom": 5}
    entry = {"path": str(path), "options": {"tables": [table]}}
    levels = application(tmp_path / "site", V=entry).site.catalogue.layers["V"].pyramid.levels
    (found,) = levels["5"].tables
    assert (found.name, found.geometry) == ("abc", "POINT")
    assert [one.name for one in found.attributes] == ["a"]
    assert levels["4"].tables == ()


def test_tiles_of_512_pixels_have_a_set_of_their_own(tmp_path: Path) -> None:
    data = picture(1, size=512)
    path = write_mbtiles(tmp_path / "a.mbtiles", {(3, 4, 2): data})
    client = client_of(tmp_path / "site", A={"path": str(path)})
    address = wmts("A", (3, 4, 2), "WebMercatorQuad512", "image/png")
    assert client.get(address).data == data


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("DROP INDEX tile_index", "no index on zoom_level"),
        ("DELETE FROM tiles", "contains no tiles"),
        ("DROP TABLE tiles", "but not an MBTiles"),
        ("UPDATE tiles SET tile_data = 'text'", "neither a picture nor a vector tile"),
        ("UPDATE tiles SET tile_data = x'1a050a03616263' WHERE zoom_level = 4", "cannot form"),
    ],
)
def test_files_that_are_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, change: str, reason: str
) -> None:
    path = write_mbtiles(tmp_path / "a.mbtiles", {(4, 8, 5): picture(1), (5, 16, 13): picture(2)})
    connection = sqlite3.connect(path)
    connection.execute(change)
    connection.commit()
    connection.close()
    assert reason in refusal(tmp_path / "site", caplog, {"path": str(path)})


def test_another_file_with_this_suffix(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "a.mbtiles"
    path.write_bytes(b"II*\0" + bytes(5000))
    assert "GeoTIFF" in refusal(tmp_path / "site", caplog, {"path": str(path)})


def test_rows_of_odd_zooms_hide_no_others(tmp_path: Path) -> None:
    tiles = {(zoom, 0, 0): picture(zoom) for zoom in range(3)}
    path = write_mbtiles(tmp_path / "a.mbtiles", tiles)
    with closing(sqlite3.connect(path)) as database, database:
        for zoom in (-5, 0.5, 1.25, 1.5, 2**62, 1e300, "x", None):
            database.execute("INSERT INTO tiles VALUES (?, 1, 1, x'00')", (zoom,))
    site = application(tmp_path / "site", A={"path": str(path)}).site
    assert list(site.catalogue.layers["A"].pyramid.levels) == ["0", "1", "2"]
