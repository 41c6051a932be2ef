"""Formats of tables, what rows may name, and tables of strangers."""

from __future__ import annotations

import json
import math
import tracemalloc
from contextlib import suppress
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pyarrow as arrow
import pyogrio
import pyproj
import pytest
import shapely
from pyarrow import parquet
from tests.container_cog.mosaic.ground import (
    CELL,
    Sheet,
    X,
    Y,
    corners,
    geojson,
    geopackage,
    mosaic_pixels,
    opened,
    sheets,
)

from mastaba.api.storages import ResourcePath
from mastaba.errors import ContainerFormatError
from mastaba_cog.errors import CogError
from mastaba_cog.mosaic.boxes import BoxIndex
from mastaba_cog.mosaic.formats import rows_of
from mastaba_cog.mosaic.geometry import box_of_wkb
from mastaba_cog.mosaic.paths import member_path
from mastaba_cog.mosaic.table import Wanted


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of two files beside each other."""
    path = tmp_path_factory.mktemp("sheets")
    for one in SHEETS:
        one.write(path, COMPRESS="DEFLATE", OVERVIEWS="NONE")
    return path


SHEETS = sheets("float32", 1, 128)[:2]
PIXELS = np.concatenate([one.values for one in SHEETS], axis=1)


def vrt(*sources: str, head: str = "", place: str = f"{X}, {CELL}, 0, {Y}, 0, -{CELL}") -> bytes:
    return (
        f'{head}<VRTDataset rasterXSize="256" rasterYSize="128">'
        '<SRS dataAxisToSRSAxisMapping="1,2">PROJCS["x",GEOGCS["y",AUTHORITY["EPSG","4326"]],'
        'AUTHORITY["EPSG","32631"]]</SRS>'
        f"<GeoTransform>{place}</GeoTransform>"
        f'<VRTRasterBand dataType="Float32" band="1">{"".join(sources)}</VRTRasterBand>'
        "</VRTDataset>"
    ).encode()


def vrt_source(one: Sheet, kind: str = "SimpleSource", further: str = "", size: int = 128) -> str:
    return (
        f'<{kind}><SourceFilename relativeToVRT="1">{one.name}</SourceFilename>'
        "<SourceBand>1</SourceBand>"
        '<SrcRect xOff="0" yOff="0" xSize="128" ySize="128"/>'
        f'<DstRect xOff="{one.left}" yOff="{one.top}" xSize="{size}" ySize="128"/>'
        f"{further}</{kind}>"
    )


def wkb(box: tuple[float, float, float, float]) -> bytes:
    data: bytes = shapely.to_wkb(shapely.box(*box))
    return data


def geoparquet(path: Path, **columns: list[Any]) -> bytes:
    crs = {"id": {"authority": "EPSG", "code": 32631}}
    geo = {"primary_column": "geometry", "columns": {"geometry": {"encoding": "WKB", "crs": crs}}}
    table = arrow.table({"geometry": [wkb(one.box) for one in SHEETS], **columns})
    table = table.replace_schema_metadata({"geo": json.dumps(geo)})
    parquet.write_table(table, path)
    return path.read_bytes()


def flatgeobuf(
    path: Path, shapes: list[Any] | None = None, index: str = "YES", **columns: list[Any]
) -> bytes:
    """Write a table with GDAL."""
    pyogrio.raw.write(
        path,
        geometry=np.array([wkb(one.box) for one in SHEETS] if shapes is None else shapes, object),
        field_data=[
            np.array(values, object if isinstance(values[0], str) else None)
            for values in columns.values()
        ],
        fields=list(columns),
        crs="EPSG:32631",
        driver="FlatGeobuf",
        geometry_type="Unknown",
        layer_options={"SPATIAL_INDEX": index},
    )
    return path.read_bytes()


def stac() -> bytes:
    features = [
        {
            "type": "Feature",
            "properties": {"datetime": f"202{number}-01-01T00:00:00Z"},
            "geometry": {"type": "Polygon", "coordinates": [corners(one.box)]},
            "assets": {
                "preview": {"href": "preview.jpg", "roles": ["thumbnail"]},
                "image": {"href": f"./{one.name}", "roles": ["data"]},
            },
        }
        for number, one in enumerate(SHEETS)
    ]
    crs = {"type": "name", "properties": {"name": "EPSG:32631"}}
    return json.dumps({"type": "FeatureCollection", "crs": crs, "features": features}).encode()


def table_of(kind: str, folder: Path) -> bytes:
    match kind:
        case "GeoJSON":
            return geojson(SHEETS)
        case "STAC":
            return stac()
        case "GTI":
            geopackage(folder / "t.gpkg", SHEETS)
            return (folder / "t.gpkg").read_bytes()
        case "FlatGeobuf":
            return flatgeobuf(folder / "t.fgb", location=[one.name for one in SHEETS])
        case "VRT":
            second = vrt_source(SHEETS[1], "ComplexSource", "<NODATA>-9999</NODATA>")
            return vrt(vrt_source(SHEETS[0]), second)
        case "GeoParquet":
            return geoparquet(folder / "t.parquet", location=[one.name for one in SHEETS])
        case _:
            assets = [
                {"data": {"href": one.name, "roles": ["data"]}, "other": None} for one in SHEETS
            ]
            return geoparquet(folder / "t.parquet", assets=assets)


@pytest.mark.parametrize(
    "kind", [*("GeoJSON", "STAC", "GTI", "VRT", "FlatGeobuf", "GeoParquet", "STAC-GeoParquet")]
)
def test_all_formats_are_the_same_mosaic(folder: Path, kind: str) -> None:
    path = folder / kind
    path.write_bytes(table_of(kind, folder))
    pixels = mosaic_pixels(opened(path))
    np.testing.assert_array_equal(pixels[:128, :256], PIXELS)


@pytest.mark.parametrize("index", ["YES", "NO"])
def test_rows_of_a_flatgeobuf(tmp_path: Path, index: str) -> None:
    ring = [(0, 0), (5, 0), (5, 7)]
    shapes = [
        shapely.Point(1, 2),
        shapely.Polygon(ring, [[(1, 1), (2, 1), (2, 2)]]),
        shapely.MultiPolygon([shapely.box(0, 0, 1, 1), shapely.box(8, 9, 10, 11)]),
        shapely.GeometryCollection([shapely.Point(3, 3), shapely.box(-1, -2, 0, 0)]),
        shapely.force_3d(shapely.LineString(ring), 9.0),
    ]
    if index == "NO":  # GDAL does not write features without a geometry into an index.
        shapes.append(None)
    names = [f"{number}.tif" for number in range(len(shapes))]
    data = flatgeobuf(
        tmp_path / "t.fgb",
        [None if shape is None else shapely.to_wkb(shape) for shape in shapes],
        index,
        location=names,
        year=[2000 + number for number in range(len(shapes))],
        nodata=[0.5] * len(shapes),
        other=["é" * 300] * len(shapes),
    )
    rows = rows_of(data, Wanted(sort_field="year", descends=True))
    found = dict(zip(rows.locations, zip(rows.boxes, rows.keys, strict=True), strict=True))
    for number, (name, shape) in enumerate(zip(names, shapes, strict=True)):
        box, year = found[name]
        assert year == 2000 + number
        assert math.isnan(box[0]) if shape is None else box == shape.bounds
    assert (rows.crs, rows.descends) == ("EPSG:32631", True)
    assert list(rows.facts.values()) == [{"nodata": 0.5}] * len(shapes)
    with pytest.raises(CogError, match="no column 'month'"):
        rows_of(data, Wanted(sort_field="month"))


@pytest.mark.thorough
def test_changed_flatgeobufs_are_read_or_refused(tmp_path: Path) -> None:
    chance = np.random.default_rng(4)
    data = flatgeobuf(tmp_path / "t.fgb", location=[one.name for one in SHEETS], order=[1, 2])
    for _ in range(20_000):
        changed = bytearray(data)
        for place in chance.integers(8, len(data), chance.integers(1, 9)):
            changed[place] = chance.integers(256)
        with suppress(CogError):
            rows_of(bytes(changed[: chance.integers(8, len(data) + 1)]), Wanted())
        with suppress(CogError):
            rows_of(bytes(changed), Wanted())


def test_order_of_a_geopackage_is_that_of_its_metadata(tmp_path: Path) -> None:
    said = "INSERT INTO gpkg_metadata VALUES ('<MDI key=\"SORT_FIELD\">year</MDI>{}');"
    keys = {}
    for name, text in (("up", ""), ("down", '<MDI key="SORT_FIELD_ASC">NO</MDI>')):
        path = tmp_path / f"{name}.gpkg"
        geopackage(path, SHEETS, said.format(text))
        rows = rows_of(path.read_bytes(), Wanted())
        keys[name] = rows.keys, rows.descends
    assert keys == {"up": ([2000, 2001], False), "down": ([2000, 2001], True)}


def test_footprints_are_longitude_and_latitude_by_default(folder: Path) -> None:
    to_degrees = pyproj.Transformer.from_crs(32631, 4326, always_xy=True)
    document = json.loads(geojson(SHEETS))
    del document["crs"]
    for feature in document["features"]:
        (ring,) = feature["geometry"]["coordinates"]
        feature["geometry"]["coordinates"] = [[to_degrees.transform(*point) for point in ring]]
    path = folder / "degrees.json"
    path.write_text(json.dumps(document))
    found = opened(path, tile_matrix_set="own")
    pixels = mosaic_pixels(found)
    level = found.pyramid.levels["0"]
    top = round((level.matrix.origin_y - Y) / CELL) - 128 * level.limits.min_row
    left = round((X - level.matrix.origin_x) / CELL) - 128 * level.limits.min_col
    np.testing.assert_array_equal(pixels[top : top + 128, left : left + 256], PIXELS)


def test_files_without_a_footprint_are_opened_to_find_it(folder: Path) -> None:
    document = json.loads(geojson(SHEETS))
    for feature in document["features"]:
        feature["geometry"] = None
    del document["crs"]
    path = folder / "nowhere.json"
    path.write_text(json.dumps(document))
    np.testing.assert_array_equal(mosaic_pixels(opened(path))[:128, :256], PIXELS)
    document["features"] *= 501
    path.write_text(json.dumps(document))
    with pytest.raises(ContainerFormatError, match="1002 rows have no footprint"):
        opened(path)


TABLE = ResourcePath("s3", "bucket", "maps/index.json")
LOCAL = ResourcePath("file", "", "/data/maps/index.json")


@pytest.mark.parametrize(
    ("location", "table", "expected"),
    [
        ("a.tif", TABLE, "s3://bucket/maps/a.tif"),
        ("./x/../a.tif", TABLE, "s3://bucket/maps/a.tif"),
        ("s3://bucket/other/a.tif", TABLE, "s3://bucket/other/a.tif"),
        ("https://maps.test/a.tif", TABLE, "https://maps.test/a.tif"),
        ("x/a.tif", LOCAL, "/data/maps/x/a.tif"),
        ("/data/ortho/a.tif", LOCAL, "/data/ortho/a.tif"),
    ],
)
def test_paths_that_rows_may_name(location: str, table: ResourcePath, expected: str) -> None:
    assert member_path(location, table, ["https://maps.test"]) == expected


@pytest.mark.parametrize(
    "location",
    [
        *("../a.tif", "x/../../a.tif", "..", ".", "", "/etc/passwd", "/vsicurl/http://x/a.tif"),
        *("s3://other/a.tif", "file:///etc/passwd", "http://169.254.169.254/a", "ftp://x/a.tif"),
        *("s3://bucket/../other/a.tif", "a\0b.tif", "a\n.tif", "s3://bucket", "x" * 5000, 7, None),
    ],
)
def test_paths_that_rows_must_not_name(location: Any) -> None:
    with pytest.raises(CogError):
        member_path(location, TABLE, ["https://maps.test"])


def feature(geometry: Any = None, **properties: Any) -> bytes:
    ring = [corners((0, 0, 1, 1))]
    geometry = {"type": "Polygon", "coordinates": ring} if geometry is None else geometry
    one = {"type": "Feature", "geometry": geometry, "properties": {"path": "a", **properties}}
    return json.dumps({"features": [one]}).encode()


SOURCE = vrt_source(SHEETS[0])
ENTITIES = (
    '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">'
    + "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 10))
    + "]>"
)
HOSTILE = {
    "deep JSON": b'{"features": ' + b"[" * 1_000_000,
    "deep objects": b'{"a": ' * 200_000,
    "many values": b'{"features": [' + b"1," * 7_000_000 + b"1]}",
    "no features": b"{}",
    "features of numbers": b'{"features": [1]}',
    "deep coordinates": b'{"features": [{"geometry": {"coordinates": '
    + b"[" * 500
    + b"1,2"
    + b"]" * 500
    + b"}}]}",
    "infinite": feature({"coordinates": [1e400, 2]}),
    "texts for numbers": feature({"coordinates": [1, "2"]}),
    "huge number": b'{"features": [{"geometry": {"coordinates": [1' + b"0" * 400 + b", 2]}}]}",
    "geometry of numbers": b'{"features": [{"geometry": 7, "properties": {"path": "a.tif"}}]}',
    "nodata text": feature(nodata="x"),
    "bands": feature(bands=[0]),
    "many bands": feature(bands=[1] * 1000),
    "escape": feature(path="../../../etc/passwd"),
    "entities": vrt(SOURCE, head=ENTITIES),
    "external": vrt(SOURCE, head='<!DOCTYPE x SYSTEM "file:///etc/passwd">'),
    "deep XML": b"<VRTDataset>" + b"<a>" * 1_000_000,
    "long text": b"<VRTDataset><SRS>" + b"x" * 10_000_000,
    "derived band": vrt(SOURCE).replace(b"<VRTRasterBand", b'<VRTRasterBand subClass="VRTDerived"'),
    "warped": vrt(SOURCE).replace(b"<VRTDataset", b'<VRTDataset subClass="VRTWarpedDataset"'),
    "pixel function": vrt(vrt_source(SHEETS[0], "KernelFilteredSource")),
    "lookup table": vrt(vrt_source(SHEETS[0], "ComplexSource", "<LUT>0:0</LUT>")),
    "open options": vrt(vrt_source(SHEETS[0], "SimpleSource", "<OpenOptions/>")),
    "resampled": vrt(vrt_source(SHEETS[0], size=64)),
    "rotated": vrt(SOURCE, place="0, 1, 1, 0, 0, -1"),
    "no band": vrt(SOURCE.replace("<SourceBand>1<", "<SourceBand>mask,1<")),
    "SQLite without tables": b"SQLite format 3\0" + bytes(4096),
    "Parquet without end": b"PAR1" + bytes(4096),
    "FlatGeobuf of zeros": b"fgb\x03fgb\x00" + bytes(100),
    "FlatGeobuf of another version": b"fgb\x02fgb\x00" + bytes(100),
    "another file": b"\x89PNG\r\n\x1a\n" + bytes(100),
    "nothing": b"",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_tables_of_strangers_are_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "table"
    path.write_bytes(HOSTILE[name])
    tracemalloc.start()
    before = process_time()
    with pytest.raises(ContainerFormatError) as caught:
        opened(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 128 * 1024**2
    assert process_time() - before < 20
    assert "Traceback" not in str(caught.value)


@pytest.mark.parametrize(
    "statement",
    [
        'ALTER TABLE "index" RENAME TO gone;'
        'CREATE VIEW "index" AS WITH RECURSIVE c(location, geom) AS'
        " (SELECT 'a', x'00' UNION ALL SELECT location, geom FROM c) SELECT * FROM c;",
        "UPDATE \"index\" SET geom = x'4750';",
        'UPDATE "index" SET geom = zeroblob(30000000);',
        'UPDATE "index" SET location = NULL;',
        "DELETE FROM gpkg_contents;",
        "UPDATE gpkg_contents SET table_name = 'no \"\" table';",
        "UPDATE gpkg_spatial_ref_sys SET organization = '; DROP';",
        'UPDATE gpkg_metadata SET metadata = 7; DELETE FROM "index";',
    ],
)
def test_databases_of_strangers_are_refused(tmp_path: Path, statement: str) -> None:
    path = tmp_path / "table.gpkg"
    geopackage(path, SHEETS, statement)
    with pytest.raises(ContainerFormatError):
        opened(path)


def test_columns_of_other_kinds_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CogError, match="damaged"):
        rows_of(geoparquet(tmp_path / "t.parquet", assets=["a.tif", "b.tif"]), Wanted())


def test_footprints_far_away_are_refused(folder: Path) -> None:
    far = Sheet(SHEETS[1].name, 10**25, 0, SHEETS[1].values)
    (folder / "far.json").write_bytes(geojson([SHEETS[0], far]))
    with pytest.raises(ContainerFormatError, match="footprints span"):
        opened(folder / "far.json", tile_matrix_set="own")


def test_geometries_in_wkb() -> None:
    shapes = [
        shapely.Point(1, 2),
        shapely.LineString([(1, 2), (4, -3)]),
        shapely.Polygon([(0, 0), (5, 0), (5, 7)], [[(1, 1), (2, 1), (2, 2)]]),
        shapely.MultiPolygon([shapely.box(0, 0, 1, 1), shapely.box(8, 9, 10, 11)]),
        shapely.GeometryCollection([shapely.Point(3, 3), shapely.box(-1, -2, 0, 0)]),
    ]
    for shape in shapes:
        for flavor in ("iso", "extended"):
            for order in (0, 1):
                data = shapely.to_wkb(shape, flavor=flavor, byte_order=order)
                assert box_of_wkb(data) == shape.bounds
        high = shapely.force_3d(shape, 9.0)
        for flavor in ("iso", "extended"):
            assert box_of_wkb(shapely.to_wkb(high, flavor=flavor)) == shape.bounds
    data = shapely.to_wkb(shapes[2])
    for length in range(len(data) - 1):
        with pytest.raises(CogError):
            box_of_wkb(data[:length])


def test_boxes_are_found_as_one_by_one() -> None:
    chance = np.random.default_rng(3)
    for count in (1, 63, 64, 65, 5000):
        corner = chance.uniform(0, 1000, (count, 2))
        boxes = np.concatenate([corner, corner + chance.uniform(0, 30, (count, 2))], axis=1)
        index = BoxIndex(boxes)
        for size in (1.0, 50.0, 2000.0):
            x, y = chance.uniform(-50, 1000, 2)
            left, bottom, right, top = boxes.T
            met = (left < x + size) & (right > x) & (bottom < y + size) & (top > y)
            found = index.meeting(x, y, x + size, y + size)
            np.testing.assert_array_equal(found, np.flatnonzero(met))
