"""Archives, read with other libraries: every stored tile is in them, and nothing else."""

from __future__ import annotations

import gzip
import hashlib
import json
import sqlite3
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from pmtiles.reader import MmapSource, Reader, all_tiles
from pmtiles.tile import zxy_to_tileid
from rasterio.features import geometry_mask
from shapely import LineString, Point, Polygon, box, polygonize, unary_union
from tests.export.ground import (
    BLANK,
    NATIONAL_LEVELS,
    WITHOUT_DATA,
    heights,
    opened,
    payload,
    planned,
    stored,
    write_world,
)
from tests.forked import run as mastaba
from tests.tiny import tiny_installation
from werkzeug.test import Client

from mastaba.api.catalogue import TileLimits, TileMatrix
from mastaba.api.services import Site
from mastaba.api.tools import create_application
from mastaba_conformance.counting_storage import count_calls
from mastaba_export import plan as planning
from mastaba_export import run as running
from mastaba_export.errors import (
    DamagedArchiveError,
    EmptyExportError,
    ExportTooLargeError,
    InvalidRequestError,
)
from mastaba_export.run import run
from mastaba_export.selection import Area, selected
from mastaba_export.verify import verify
from mastaba_export.writers.metadata import bounds_of
from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import synthetic, web_mercator

FAR = {"type": "Polygon", "coordinates": [[[60, 10], [61, 10], [61, 11]]]}
POLYGON = {"type": "Polygon", "coordinates": [[[-38, 60], [30, 62], [40, 20], [-20, 5], [0, 30]]]}


def tiles_of(path: Path) -> dict[tuple[int, int, int], bytes]:
    """Return the tiles of PMTiles by zoom, column and row."""
    with path.open("rb") as file:
        return dict(all_tiles(MmapSource(file)))


def test_pmtiles_contain_every_stored_tile_once(site: Site, tmp_path: Path) -> None:
    path = tmp_path / "a.pmtiles"
    result = run(planned(site, "IMAGES", "pmtiles"), path)
    expected = {(int(level), column, row): data for level, row, column, data in stored()}
    assert tiles_of(path) == expected
    with path.open("rb") as file:
        reader = Reader(MmapSource(file))
        header = reader.header()
        assert reader.get(8, 120, 100) == payload("8", 100, 120)
    # The rules of `pmtiles verify`.
    assert (
        path.stat().st_size
        == result.bytes
        == 16384
        + sum(header[f"{part}_length"] for part in ("metadata", "leaf_directory", "tile_data"))
    )
    assert header["addressed_tiles_count"] == len(expected) == result.tiles
    assert header["tile_contents_count"] == len(set(expected.values()))
    assert header["tile_entries_count"] < len(expected)
    assert header["clustered"] is True
    assert header["min_zoom"] <= header["center_zoom"] <= header["max_zoom"] == 8
    assert header["min_lon_e7"] < header["max_lon_e7"]
    assert header["leaf_directory_offset"] > 0
    data = path.read_bytes()
    assert data.count(BLANK) == 1
    assert result.payload_bytes == sum(map(len, expected.values()))
    numbers = [zxy_to_tileid(zoom, column, row) for zoom, column, row in expected]
    assert len(numbers) == len(set(numbers))


def test_pmtiles_of_other_slabs_are_sorted(tmp_path: Path) -> None:
    site = opened(write_world(tmp_path, slab=10))
    path = tmp_path / "a.pmtiles"
    run(planned(site, "IMAGES", "pmtiles"), path)
    found, expected = tiles_of(path), {(int(z), x, y): data for z, y, x, data in stored()}
    assert found.items() >= expected.items()
    # Another slab is absent, so there are more tiles without data.
    assert {found[place] for place in found.keys() - expected.keys()} == {WITHOUT_DATA}
    with path.open("rb") as file:
        assert Reader(MmapSource(file)).header()["clustered"] is False
    verify(planned(site, "IMAGES", "pmtiles"), path, deep=True)


def test_pmtiles_with_leaves(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mastaba_export.writers import pmtiles

    monkeypatch.setattr(pmtiles, "_MOST_ROOT", 300)
    monkeypatch.setattr(pmtiles, "_LEAF", 64)
    path = tmp_path / "a.pmtiles"
    run(planned(site, "IMAGES", "pmtiles"), path)
    with path.open("rb") as file:
        assert Reader(MmapSource(file)).header()["leaf_directory_length"] > 0
    assert tiles_of(path) == {(int(z), x, y): data for z, y, x, data in stored()}
    verify(planned(site, "IMAGES", "pmtiles"), path, deep=True)


def test_tables_of_mbtiles_are_those_that_other_programs_know(site: Site, tmp_path: Path) -> None:
    """``mbtiles validate`` refuses other names and types: of a file like this one, it knows two."""
    path = tmp_path / "a.mbtiles"
    run(planned(site, "IMAGES", "mbtiles"), path)
    with closing(sqlite3.connect(path)) as database:
        columns = {
            table: dict(database.execute("SELECT name, type FROM pragma_table_info(?)", (table,)))
            for table in ("tiles_shallow", "tiles_data")
        }
        keys = database.execute(
            "SELECT i.name FROM pragma_index_list('tiles_shallow') AS l, "
            "pragma_index_info(l.name) AS i WHERE l.[unique] AND i.cid >= 0"
        ).fetchall()
    place = ["zoom_level", "tile_column", "tile_row"]
    assert columns == {
        "tiles_shallow": dict.fromkeys([*place, "tile_data_id"], "INTEGER"),
        "tiles_data": {"tile_data_id": "INTEGER", "tile_data": "BLOB"},
    }
    assert [name for (name,) in keys] == place


def test_mbtiles_have_the_hash_of_all_tiles(site: Site, tmp_path: Path) -> None:
    path = tmp_path / "a.mbtiles"
    run(planned(site, "IMAGES", "mbtiles"), path)
    places = sorted((int(z), x, (1 << int(z)) - 1 - y, data) for z, y, x, data in stored())
    joined = b"".join(f"{z}{x}{y}".encode() + data for z, x, y, data in places)
    with closing(sqlite3.connect(path)) as database:
        (found,) = database.execute(
            "SELECT value FROM metadata WHERE name = 'agg_tiles_hash'"
        ).fetchone()
    assert found == hashlib.md5(joined, usedforsecurity=False).hexdigest().upper()


def test_mbtiles_rows_are_counted_from_the_bottom(site: Site, tmp_path: Path) -> None:
    path = tmp_path / "a.mbtiles"
    run(planned(site, "IMAGES", "mbtiles"), path)
    database = sqlite3.connect(path)
    found = database.execute("SELECT zoom_level, tile_column, tile_row, tile_data FROM tiles")
    assert {(z, x, (1 << z) - 1 - y): data for z, x, y, data in found} == {
        (int(z), x, y): data for z, y, x, data in stored()
    }
    values = dict(database.execute("SELECT name, value FROM metadata"))
    assert (values["format"], values["minzoom"], values["maxzoom"]) == ("png", "5", "8")
    west, south, east, north = map(float, values["bounds"].split(","))
    assert west < east
    assert south < north
    assert database.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a.mbtiles"]
    with rasterio.open(path) as dataset:
        assert dataset.driver == "MBTiles"


def test_bounds_contain_the_tiles_of_coarser_levels(site: Site, tmp_path: Path) -> None:
    images = planned(site, "IMAGES", "pmtiles")
    assert bounds_of(images) == images.layer.geographic_bbox
    wide = write_pyramid(
        tmp_path / "pyramids",
        "WIDE",
        tile_matrix_set=web_mercator(),
        format="TIFF_PNG_UINT8",
        levels=[LevelPlan("4", 6, 7, 8, 9), LevelPlan("3", 2, 5, 1, 6)],
        tile=payload,
    )
    other = opened(write_installation(tmp_path, layers={"WIDE": wide}, services=["wmts"]))
    found = bounds_of(planned(other, "WIDE", "pmtiles"))
    assert (found.xmin, found.xmax) == pytest.approx((-135.0, 135.0))
    assert (found.ymin, found.ymax) == pytest.approx((-66.513260, 66.513260))
    finest = bounds_of(planned(other, "WIDE", "pmtiles", levels=["4"]))
    assert (finest.xmin, finest.xmax) == pytest.approx((0.0, 45.0))
    other.catalogue.storages.close()


@pytest.mark.parametrize("format", ["pmtiles", "mbtiles"])
def test_vector_tiles_are_compressed(tmp_path: Path, format: str) -> None:
    site = opened(tiny_installation(tmp_path / "tiny"))
    path = tmp_path / f"v.{format}"
    run(planned(site, "VECTOR", format), path)
    tile = site.catalogue.readers["VECTOR"]["3"].locate(2, 4)
    assert tile is not None
    if format == "pmtiles":
        with path.open("rb") as file:
            reader = Reader(MmapSource(file))
            data, layers = reader.get(3, 4, 2), reader.metadata()["vector_layers"]
    else:
        database = sqlite3.connect(path)
        (data,) = database.execute(
            "SELECT tile_data FROM tiles WHERE zoom_level = 3 AND tile_column = 4 AND tile_row = 5"
        ).fetchone()
        (text,) = database.execute("SELECT value FROM metadata WHERE name = 'json'").fetchone()
        layers = json.loads(text)["vector_layers"]
    assert gzip.decompress(data) == tile.read()
    assert [layer["id"] for layer in layers] == ["tiles", "centres"]
    assert layers[0]["fields"] == {"row": "Number", "col": "Number"}


@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
def test_float_geopackage_has_the_exact_values(site: Site, tmp_path: Path) -> None:
    path = tmp_path / "h.gpkg"
    run(planned(site, "HEIGHTS", "gpkg"), path)
    level = NATIONAL_LEVELS[0]
    with rasterio.open(path) as dataset:
        assert dataset.crs.to_epsg() == 2154
        assert dataset.transform.c == 600000 + level.min_col * 128
        assert dataset.transform.f == 6800000 - level.min_row * 128
        assert dataset.shape == (17 * 64, 17 * 64)
        assert dataset.overviews(1) == [2, 4]
        found, nodata = dataset.read(1), dataset.nodata
    expected = np.full(found.shape, np.float32(nodata))
    for row in range(17):
        for column in range(17):
            values = heights("2", row + level.min_row, column + level.min_col)
            if values is not None:
                expected[row * 64 :, column * 64 :][:64, :64] = values
    known = ~np.isnan(expected)
    assert found[known].tobytes() == expected[known].tobytes()
    # GDAL reads NaN as nodata.
    assert (np.isnan(found[~known]) | (found[~known] == nodata)).all()
    database = sqlite3.connect(path)
    assert database.execute("PRAGMA foreign_key_check").fetchall() == []
    # The tiles themselves, as any TIFF reader sees them.
    (data,) = database.execute(
        "SELECT tile_data FROM map WHERE zoom_level = 2 AND tile_column = 4 AND tile_row = 6"
    ).fetchone()
    with rasterio.MemoryFile(data) as file, file.open() as tile:
        assert tile.read(1).tobytes() == heights("2", 6, 4).tobytes()


def test_geopackage_says_that_its_levels_have_other_ratios(tmp_path: Path) -> None:
    """Requirement 35 asks for halves, and extension gpkg_zoom_other allows the rest."""
    document = synthetic(
        "STEPS",
        crs="EPSG:2154",
        origin=(600000.0, 6800000.0),
        cell_sizes=[20.0, 10.0, 2.0],
        matrix_sizes=[(1, 1), (2, 2), (10, 10)],
        tile_size=(64, 64),
    )

    def tile(level: str, row: int, column: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
        return np.full((64, 64, 3), 20 * row + 2 * column + int(level), np.uint8)

    levels = [LevelPlan("2", 0, 9, 0, 9), LevelPlan("1", 0, 1, 0, 1), LevelPlan("0", 0, 0, 0, 0)]
    pictures = write_pyramid(
        tmp_path / "pyramids",
        "STEPS",
        tile_matrix_set=document,
        format="TIFF_PNG_UINT8",
        levels=levels,
        tile=tile,
    )
    server = write_installation(
        tmp_path,
        layers={"STEPS": layer_document(pictures, tile_matrix_sets={"STEPS": document})},
        tile_matrix_sets={"STEPS": document},
        services=["wmts"],
    )
    path = tmp_path / "s.gpkg"
    made = planned(opened(server), "STEPS", "gpkg")
    run(made, path)
    verify(made, path, deep=True)
    with closing(sqlite3.connect(path)) as database:
        names = database.execute("SELECT table_name, extension_name FROM gpkg_extensions")
        assert names.fetchall() == [("map", "gpkg_zoom_other")]
        matrices = database.execute(
            "SELECT matrix_width, tile_width * pixel_x_size FROM gpkg_tile_matrix ORDER BY 1"
        ).fetchall()
    assert matrices == [(1, 1280.0), (2, 640.0), (10, 128.0)]
    with rasterio.open(path) as dataset:
        assert dataset.shape == (640, 640)
        expected = 20 * (np.arange(640) // 64)[:, None] + 2 * (np.arange(640) // 64) + 2
        assert (dataset.read(1) == expected).all()


def test_a_polygon_selects_tiles_of_all_levels(site: Site, tmp_path: Path) -> None:
    made = planned(site, "IMAGES", "pmtiles", area=POLYGON)
    run(made, tmp_path / "a.pmtiles")
    found = tiles_of(tmp_path / "a.pmtiles")
    everything = {(int(z), x, y): data for z, y, x, data in stored()}
    selected = {
        (level.zoom, x, y)
        for level in made.levels
        for y, x in zip(
            *map(np.ndarray.tolist, level.selection.inside(level.selection.limits)), strict=True
        )
    }
    assert 100 < len(found) < len(everything)
    assert found == {key: data for key, data in everything.items() if key in selected}


@pytest.mark.parametrize("scheme", ["xyz", "tms"])
def test_directory(site: Site, tmp_path: Path, scheme: str) -> None:
    run(planned(site, "IMAGES", "dir", scheme=scheme, zoom=[5, 6]), tmp_path / "tiles")
    document = json.loads((tmp_path / "tiles/tilejson.json").read_text())
    assert (document["minzoom"], document["maxzoom"], document["scheme"]) == (5, 6, scheme)
    found = {
        tuple(map(int, (*one.parts[-3:-1], one.stem))): one.read_bytes()
        for one in (tmp_path / "tiles").glob("*/*/*.png")
    }
    expected = {(int(z), x, y): data for z, y, x, data in stored() if int(z) < 7}
    if scheme == "tms":
        expected = {(z, x, (1 << z) - 1 - y): data for (z, x, y), data in expected.items()}
    assert found == expected


@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
def test_tiles_of_a_directory_have_a_header_where_readers_need_one(tmp_path: Path) -> None:
    site = opened(tiny_installation(tmp_path / "tiny"))
    for layer, extension in (("RGB_RAW", "tif"), ("GREYA_ZIP", "tif"), ("FLOAT32_RAW", "bil")):
        run(planned(site, layer, "dir"), tmp_path / layer)
        data = (tmp_path / f"{layer}/3/4/2.{extension}").read_bytes()
        if extension == "tif":
            with rasterio.MemoryFile(data) as file, file.open() as tile:
                served = tile.read()
            red = np.broadcast_to((4 * 256 + np.arange(256)) // 4 % 256, (256, 256))
            assert (served[0] == red).all()
        else:
            assert len(data) == 256 * 256 * 4


@pytest.mark.parametrize(
    ("layer", "inputs", "parameter"),
    [
        ("NOTHING", {"format": "pmtiles"}, "layer"),
        ("HEIGHTS", {"format": "pmtiles"}, "format"),
        ("HEIGHTS", {"format": "mbtiles", "tile_format": "png"}, "format"),
        ("IMAGES", {"format": "pmtiles", "levels": ["99"]}, "levels"),
        ("IMAGES", {"format": "pmtiles", "zoom": [10, 12]}, "zoom"),
        ("IMAGES", {"format": "pmtiles", "bbox": [100.0, -60.0, 110.0, -50.0]}, "bbox"),
        ("IMAGES", {"format": "pmtiles", "style": "no"}, "style"),
        ("IMAGES", {"format": "pmtiles", "tms": "no"}, "tms"),
        ("IMAGES", {"format": "cog", "zoom": [1, 2]}, "zoom"),
        ("HEIGHTS", {"format": "cog", "area": FAR}, "area"),
        ("HEIGHTS", {"format": "cog", "compression": "jpeg"}, "compression"),
        ("HEIGHTS", {"format": "tif", "predictor": "horizontal"}, "predictor"),
        (
            "HEIGHTS",
            {"format": "tif", "compression": "lzw", "predictor": "horizontal"},
            "predictor",
        ),
        ("IMAGES", {"format": "cog", "clip": True, "bbox": [0.0, 0.0, 1.0, 1.0]}, "clip"),
    ],
)
def test_plans_that_are_refused(
    site: Site, layer: str, inputs: dict[str, Any], parameter: str
) -> None:
    with pytest.raises(InvalidRequestError) as error:
        planned(site, layer, inputs.pop("format"), **inputs)
    assert error.value.parameter == parameter


def test_too_many_slabs_are_refused(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "MOST_BLOCKS", 29)
    assert planned(site, "IMAGES", "pmtiles", levels=["8"]).count <= 29
    with pytest.raises(ExportTooLargeError) as error:
        planned(site, "IMAGES", "pmtiles")
    assert error.value.size > error.value.limit == 29


def test_an_area_without_stored_tiles_leaves_nothing(site: Site, tmp_path: Path) -> None:
    # In the slab that is absent.
    matrix = site.catalogue.layers["IMAGES"].pyramid.levels["8"].matrix
    edges = matrix.bbox_of(TileLimits(84, 86, 132, 134))
    corners = [edges.xmin, edges.ymin, edges.xmax, edges.ymax]
    for format in ("pmtiles", "mbtiles", "gpkg", "dir", "pyramid"):
        made = planned(site, "IMAGES", format, bbox=corners, crs="EPSG:3857", levels=["8"])
        assert (made.tiles, made.estimate()["tiles"]) == (9, 0)
        with pytest.raises(EmptyExportError):
            run(made, tmp_path / f"a{made.extension}")
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("format", ["pmtiles", "mbtiles", "gpkg", "dir", "pyramid", "tif"])
def test_verification_finds_a_changed_tile(site: Site, tmp_path: Path, format: str) -> None:
    if format == "tif":
        made = planned(site, "HEIGHTS", format)
    else:
        made = planned(site, "IMAGES", format, bbox=[-20.0, 30.0, 0.0, 42.0])
    path = tmp_path / f"a{made.extension}"
    run(made, path)
    assert verify(made, path).tiles > 0
    assert verify(made, path, deep=True).compared == made.tiles
    data = payload("8", 100, 120)
    assert data is not None
    files = [one for one in tmp_path.rglob("*") if one.is_file()]
    for file in files:
        whole = file.read_bytes()
        if format == "tif":
            file.write_bytes(whole[:5000] + bytes([whole[5000] ^ 1]) + whole[5001:])
        elif data in whole:
            file.write_bytes(whole.replace(data, data[:-1] + bytes([data[-1] ^ 1])))
    with pytest.raises(DamagedArchiveError):
        verify(made, path, deep=True)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("compression", "predictor"),
    [("deflate", None), ("lzw", "none"), ("packbits", None), ("zstd", None), ("lerc", None)],
)
@pytest.mark.parametrize("fit", ["exact", "tiles"])
def test_compressed_rasters_have_the_stored_values(
    site: Site, tmp_path: Path, fit: str, compression: str, predictor: str | None
) -> None:
    level = list(site.catalogue.layers["HEIGHTS"].pyramid.levels.values())[-1]
    edges = level.matrix.bbox_of(level.limits)
    cell = level.matrix.cell_size
    # At the edge of the layer, and large enough for overviews.
    box = [
        *(edges.xmax - 700.2 * cell, edges.ymin + 7 * cell),
        *(edges.xmax, edges.ymin + 620.5 * cell),
    ]
    inputs: dict[str, Any] = {"bbox": box, "crs": "EPSG:2154", "fit": fit}
    plain = planned(site, "HEIGHTS", "cog", compression="none", **inputs)
    if predictor:
        inputs["predictor"] = predictor
    made = planned(site, "HEIGHTS", "cog", compression=compression, **inputs)
    run(plain, tmp_path / "plain.tif")
    path = tmp_path / "a.tif"
    size = run(made, path).bytes
    assert abs(made.estimate()["bytes"] - size) <= size / 10
    assert not made.estimate()["is_exact"]
    with rasterio.open(tmp_path / "plain.tif") as expected, rasterio.open(path) as found:
        assert found.profile["compress"] == compression
        assert (found.transform, found.crs) == (expected.transform, expected.crs)
        assert found.overviews(1) == expected.overviews(1)
        assert found.read().tobytes() == expected.read().tobytes()
    assert verify(made, path, deep=True).compared > 0
    whole = bytearray(path.read_bytes())
    whole[-9] ^= 1
    path.write_bytes(whole)
    with pytest.raises(DamagedArchiveError):
        verify(made, path, deep=True)
    path.write_bytes(whole[:-8])
    with pytest.raises(DamagedArchiveError):
        verify(made, path)


@pytest.mark.parametrize(("format", "compression"), [("cog", "stored"), ("tif", "none")])
def test_rasters_have_no_data_outside_of_polygons(
    site: Site, tmp_path: Path, format: str, compression: str
) -> None:
    level = list(site.catalogue.layers["HEIGHTS"].pyramid.levels.values())[-1]
    edges, cell = level.matrix.bbox_of(level.limits), level.matrix.cell_size
    x, y = edges.xmin + 90.3 * cell, edges.ymin + 100.3 * cell
    ring = [[x, y], [x + 300 * cell, y + 20 * cell], [x + 120 * cell, y + 333 * cell], [x, y]]
    hole = [[x + 100 * cell, y + 80 * cell], [x + 150 * cell, y + 90 * cell]]
    hole += [[x + 130 * cell, y + 140 * cell], hole[0]]
    area = {"type": "Polygon", "coordinates": [ring, hole]}
    box = [x, y, x + 300 * cell, y + 333 * cell]
    inputs: dict[str, Any] = {"crs": "EPSG:2154", "fit": "exact"}
    plain = planned(site, "HEIGHTS", format, bbox=box, compression="none", **inputs)
    made = planned(site, "HEIGHTS", format, area=area, compression=compression, **inputs)
    run(plain, tmp_path / "plain.tif")
    run(made, tmp_path / "a.tif")
    with rasterio.open(tmp_path / "plain.tif") as whole, rasterio.open(tmp_path / "a.tif") as found:
        assert (found.transform, found.shape) == (whole.transform, whole.shape)
        # Those cells whose middle is outside.
        outside = geometry_mask([area], whole.shape, whole.transform)
        assert 0.3 < outside.mean() < 0.7
        expected = whole.read(1)
        expected[outside] = whole.nodata
        assert found.read(1).tobytes() == expected.tobytes()
        assert found.overviews(1) == whole.overviews(1)
    assert verify(made, tmp_path / "a.tif", deep=True).compared > 0
    assert abs(made.estimate()["bytes"] / (tmp_path / "a.tif").stat().st_size - 1) < 0.2


def test_drawn_tiles(tmp_path: Path) -> None:
    site = opened(tiny_installation(tmp_path / "tiny"))
    made = planned(site, "FLOAT32_ZIP", "pmtiles", tile_format="png")
    result = run(made, tmp_path / "a.pmtiles")
    assert result.tiles == 9
    assert all(data.startswith(b"\x89PNG") for data in tiles_of(tmp_path / "a.pmtiles").values())
    assert verify(made, tmp_path / "a.pmtiles", deep=True).compared == 9
    estimate = made.estimate()
    assert estimate["tiles"] == 9
    assert not estimate["is_exact"]


def test_a_smaller_pyramid_is_checked_and_served(site: Site, world: Path, tmp_path: Path) -> None:
    corners = [600500.0, 6796000.0, 602000.0, 6799000.0]
    made = planned(site, "HEIGHTS", "pyramid", bbox=corners, crs="EPSG:2154")
    result = run(made, tmp_path / "LOW.json")
    layer = json.loads((tmp_path / "LOW.layer.json").read_text())
    server = write_installation(
        tmp_path / "installation",
        layers={"LOW": layer},
        tile_matrix_sets={"GRID": json.loads((tmp_path / "tilematrixsets/GRID.json").read_text())},
        services=["wmts"],
    )
    checked = mastaba("check", "-f", str(server), "--deep")
    problems = [line for line in checked.stdout.splitlines() if line.startswith("error")]
    # Only the port of the installation may be taken.
    assert [line for line in problems if "server.json: $.port" not in line] == [], checked.stdout
    served, original = (Client(create_application(str(one))) for one in (server, world))
    tiles = 0
    for level in made.levels:
        rows, columns = level.selection.inside(level.selection.limits)
        for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
            path = (
                "/wmts?SERVICE=WMTS&REQUEST=GetTile&VERSION=1.0.0&STYLE=normal"
                "&FORMAT=image/x-bil;bits=32&TILEMATRIXSET=GRID"
                f"&TILEMATRIX={level.matrix.id}&TILEROW={row}&TILECOL={column}"
            )
            one, other = served.get(f"{path}&LAYER=LOW"), original.get(f"{path}&LAYER=HEIGHTS")
            assert (one.status_code, one.data) == (other.status_code, other.data)
            tiles += one.status_code == 200
    assert tiles == result.tiles > 100
    # A tile beside the area is not there.
    outside = (
        "/wmts?SERVICE=WMTS&REQUEST=GetTile&VERSION=1.0.0&STYLE=normal&LAYER=LOW"
        "&FORMAT=image/x-bil;bits=32&TILEMATRIXSET=GRID&TILEMATRIX=2&TILEROW=5&TILECOL=19"
    )
    assert served.get(outside).status_code >= 400


def test_pixels_outside_of_the_area_get_no_data(site: Site, tmp_path: Path) -> None:
    points = [(600600.0, 6798900.0), (602000.0, 6798700.0), (601100.0, 6796900.0)]
    area = {"type": "Polygon", "coordinates": [[*map(list, points)]]}
    made = planned(site, "HEIGHTS", "gpkg", area=area, crs="EPSG:2154", levels=["2"], clip=True)
    assert not made.estimate()["is_exact"]
    run(made, tmp_path / "h.gpkg")
    polygon = Polygon(points)
    with rasterio.open(tmp_path / "h.gpkg") as dataset:
        found, transform, nodata = dataset.read(1), dataset.transform, dataset.nodata
    chance = np.random.default_rng(1)
    inside = 0
    for row, column in chance.integers(0, found.shape, (2000, 2)):
        x = transform.c + (column + 0.5) * transform.a
        y = transform.f + (row + 0.5) * transform.e
        if polygon.boundary.distance(Point(x, y)) < 0.01:
            continue
        tile = (6800000 - y) // 128, (x - 600000) // 128
        values = heights("2", int(tile[0]), int(tile[1]))
        is_inside = polygon.contains(Point(x, y))
        if values is None or not is_inside:
            assert found[row, column] == nodata
            continue
        inside += 1
        pixel = int((6800000 - y) % 128 // 2), int((x - 600000) % 128 // 2)
        if not np.isnan(values[pixel]):
            assert found[row, column] == values[pixel]
    assert inside > 300
    verify(made, tmp_path / "h.gpkg", deep=True)


def test_random_polygons_select_the_tiles_that_they_touch() -> None:
    """Shapely, another implementation, is the judge."""
    matrix = TileMatrix("0", 1.0, 0.0, 100.0, 10, 10, 10, 10)
    chance = np.random.default_rng(5)
    for _ in range(60):
        points = chance.uniform(-20, 120, (chance.integers(3, 8), 2))
        ring = np.concatenate([points, points[:1]])
        found = selected(Area(polygons=((ring,),)), matrix, matrix.all_tiles)
        # Parts inside of a self-crossing ring follow the even-odd rule.
        lines = unary_union(LineString(ring))
        parts = [
            part for part in polygonize([lines]).geoms if _is_odd(part.representative_point(), ring)
        ]
        shape = unary_union([*parts, lines])
        expected = {
            (row, column)
            for row in range(10)
            for column in range(10)
            if shape.intersects(
                box(column * 10, 90 - row * 10, column * 10 + 10, 100 - row * 10).buffer(-1e-6)
            )
        }
        tiles = set()
        if found is not None:
            rows, columns = found.inside(matrix.all_tiles)
            tiles = set(zip(rows.tolist(), columns.tolist(), strict=True))
        assert tiles == expected


def _is_odd(point: Point, ring: np.ndarray[Any, Any]) -> bool:
    crossings = 0
    for (x0, y0), (x1, y1) in pairwise(ring):
        if (y0 <= point.y) != (y1 <= point.y):
            crossings += x0 + (point.y - y0) / (y1 - y0) * (x1 - x0) > point.x
    return crossings % 2 == 1


@pytest.mark.parametrize("format", ["pmtiles", "pyramid"])
def test_slabs_of_object_stores_are_read_once(world: Path, tmp_path: Path, format: str) -> None:
    site = opened(world)
    counting = count_calls(site.catalogue, "IMAGES")
    vars(counting)["is_remote"] = True
    made = planned(site, "IMAGES", format)
    result = run(made, tmp_path / f"a{made.extension}")
    slabs = sum(1 for _ in (world.parent / "pyramids/IMAGES").rglob("*.tif"))
    absent = made.count - slabs
    assert absent == 1
    # Its index, and its tiles; an absent slab is looked for before it is given up.
    assert len(counting.reads) <= 2 * slabs + 3 * absent + result.payload_bytes // 2**23
    assert not any(call.method == "read_ranges" for call in counting.reads)


def test_the_last_check_reads_no_index(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The indices of many slabs are no longer cached at the end of an export."""
    site = opened(world)
    counting = count_calls(site.catalogue, "IMAGES")
    vars(counting)["is_remote"] = True
    made = planned(site, "IMAGES", "pmtiles")
    reads: list[int] = []
    check = running._Run._changed

    def changed(self: Any, *, resumed: bool) -> Any:
        indices = site.catalogue.indices
        for key in list(indices._entries):
            indices._entries.pop(key)
        reads.append(len(counting.reads))
        found = check(self, resumed=resumed)
        reads.append(len(counting.reads))
        return found

    monkeypatch.setattr(running._Run, "_changed", changed)
    assert run(made, tmp_path / "a.pmtiles").changed == ()
    assert reads[0] == reads[-1] > 0
