"""Where maps are, and how large (20-058 clauses 12 and 13; ogcapi.md sections 9.2 and 9.3)."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyproj
import pytest
from tests.tiny import tiny_installation
from werkzeug.test import Client, TestResponse

from mastaba.errors import InvalidParameterError
from mastaba.model.bbox import WORLD, BoundingBox
from mastaba.model.crs import CRS, WGS84
from mastaba_conformance.tiny_installation import tiny_integer_tile
from mastaba_ogcapi.maparea import area_of, subset_area
from mastaba_ogcapi.params import Interval

MAP = "/ogcapi/collections/b_europe/map"
METRES = 6378137.0 * math.pi / 180.0


def box_of(response: TestResponse) -> list[float]:
    assert response.status_code == 200, response.text[:300]
    return [float(number) for number in response.headers["Content-Bbox"].split(",")]


@pytest.mark.parametrize(
    ("query", "size"),
    [
        ({}, (300, 300)),
        ({"width": "50"}, (50, 50)),
        ({"height": "50"}, (50, 50)),
        ({"width": "50", "height": "20"}, (50, 20)),
        ({"bbox": "0,40,30,50", "crs": "CRS:84"}, (300, 100)),
        ({"bbox": "0,40,10,60", "crs": "CRS:84"}, (150, 300)),
        ({"bbox": "0,40,30,50", "crs": "CRS:84", "width": "45"}, (45, 15)),
        ({"bbox": "0,40,30,50", "crs": "CRS:84", "height": "45"}, (135, 45)),
        ({"bbox": "0,40,0.001,50", "crs": "CRS:84", "height": "45"}, (1, 45)),
        ({"bbox": "0,40,30,50", "crs": "CRS:84", "width": "45", "height": "7"}, (45, 7)),
        # Half a pixel is rounded up.
        ({"bbox": "0,40,30,50", "crs": "CRS:84", "width": "10"}, (10, 3)),
        ({"bbox": "0,40,30,45", "crs": "CRS:84", "width": "3"}, (3, 1)),
        ({"bbox": "0,0,100,1", "crs": "CRS:84", "bbox-crs": "EPSG:3857", "width": "9"}, (9, 1)),
    ],
)
def test_size_of_a_map(
    rich: Client, pixels: Any, query: dict[str, str], size: tuple[int, int]
) -> None:
    """maps /req/scaling/width-definition, height-definition."""
    if query.get("bbox-crs") == "EPSG:3857":
        query = query | {"crs": "EPSG:3857"}
    image = pixels(rich.get(MAP, query_string={"f": "png", **query}))
    assert (image.shape[1], image.shape[0]) == size


def test_scale_decides_the_size_of_an_extent(rich: Client, pixels: Any) -> None:
    """maps /req/scaling/scale-denominator-definition, /req/display-resolution."""
    query = {"bbox": "0,40,30,50", "crs": "CRS:84", "scale-denominator": "50000000"}
    image = pixels(rich.get(MAP, query_string=query))
    pixel = 50000000 * 0.00028
    assert image.shape[1] == round(30 * METRES / pixel)
    assert image.shape[0] == round(10 * METRES / pixel)
    half = pixels(rich.get(MAP, query_string=query | {"mm-per-pixel": "0.56"}))
    assert half.shape[1] == round(30 * METRES / pixel / 2)


def test_resolution_of_the_display_chooses_the_level(tiny: Client, pixels: Any) -> None:
    """maps /req/display-resolution/map-success: blue shows the level in the tiny pyramids."""
    path = "/ogcapi/collections/RGB_PNG/map?f=png&width=256&height=256"
    levels = {
        value: int(np.median(pixels(tiny.get(f"{path}&mm-per-pixel={value}"))[:, :, 2])) // 16
        for value in ("0.28", "0.14", "0.07", "5.6")
    }
    # At the standard display, a pixel of this map is as large as one of level 3.
    assert levels == {"0.28": 3, "0.14": 2, "0.07": 2, "5.6": 4}


def test_centre_with_the_scale_of_the_finest_level(rich: Client, pixels: Any) -> None:
    """maps /req/spatial-subsetting/center-definition, width-height."""
    response = rich.get(f"{MAP}?center=20,50&width=40&height=30")
    west, south, east, north = box_of(response)
    cell = 9783.939620502539
    assert (east - west) / 40 == pytest.approx(cell)
    assert (north - south) / 30 == pytest.approx(cell)
    assert (west + east) / 2 == pytest.approx(20 * METRES)
    assert pixels(response).shape[:2] == (30, 40)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"center": "20,50", "center-crs": "CRS:84"}, (20, 50)),
        ({"center": "50,20", "center-crs": "EPSG:4326"}, (20, 50)),
        ({"center": "50,20", "center-crs": "[EPSG:4326]"}, (20, 50)),
        ({"center": f"{20 * METRES},6446275.84", "center-crs": "EPSG:3857"}, (20, 50)),
    ],
)
def test_centre_is_in_its_own_crs(
    rich: Client, query: dict[str, str], expected: tuple[float, float]
) -> None:
    """maps /req/spatial-subsetting/center-crs."""
    query |= {"crs": "CRS:84", "width": "10", "height": "10", "scale-denominator": "1000000"}
    west, south, east, north = box_of(rich.get(MAP, query_string=query))
    assert ((west + east) / 2, (south + north) / 2) == pytest.approx(expected, abs=1e-4)
    assert (east - west) * METRES / 10 == pytest.approx(280)


def test_centre_alone_is_a_square_of_the_default_size(rich: Client, pixels: Any) -> None:
    assert pixels(rich.get(f"{MAP}?center=20,50")).shape[:2] == (300, 300)
    assert pixels(rich.get(f"{MAP}?center=20,50&height=8")).shape[:2] == (8, 8)


def test_scale_and_size_show_the_middle(rich: Client) -> None:
    whole = box_of(rich.get(MAP))
    west, south, east, north = box_of(
        rich.get(f"{MAP}?scale-denominator=10000000&width=100&height=50&mm-per-pixel=0.14")
    )
    assert east - west == pytest.approx(100 * 10000000 * 0.00014)
    assert north - south == pytest.approx(50 * 10000000 * 0.00014)
    assert (west + east) / 2 == pytest.approx((whole[0] + whole[2]) / 2)


def test_bbox_is_transformed_with_its_edges(rich: Client) -> None:
    """maps /req/spatial-subsetting/map-success: a parallel is curved in the Lambert CRS."""
    response = rich.get(f"{MAP}?bbox=0,45,40,55&crs=EPSG:3035")
    south, west, north, east = box_of(response)
    transform = pyproj.Transformer.from_crs("OGC:CRS84", "EPSG:3035", always_xy=True).transform
    _, parallel = transform(np.linspace(0, 40, 1001), np.full(1001, 45.0))
    assert south == pytest.approx(min(parallel), abs=10)
    # Its corners lie higher.
    assert south < min(parallel[0], parallel[-1]) - 10000
    assert west < 3700000 < east
    assert north > south


def test_vertical_numbers_of_a_bbox_are_dropped(rich: Client) -> None:
    six = rich.get(f"{MAP}?bbox=0,40,-5,30,50,5&crs=CRS:84")
    assert box_of(six) == [0, 40, 30, 50]


def test_world_is_cut_to_the_area_of_the_crs(rich: Client, pixels: Any) -> None:
    """P-8: the poles have no place in Mercator."""
    response = rich.get(f"{MAP}?bbox=-180,-90,180,90&width=400&height=400&f=image/png")
    assert pixels(response).shape == (400, 400, 4)
    box = box_of(response)
    assert box == pytest.approx([-20037508.34, -20048966.1, 20037508.34, 20048966.1], rel=1e-6)
    for crs in ("EPSG:3035", "EPSG:32631"):
        response = rich.get(f"{MAP}?bbox=-180,-90,180,90&crs={crs}&width=40&height=40")
        assert all(abs(edge) < 2e7 for edge in box_of(response)), crs


@pytest.mark.parametrize(
    ("subset", "expected"),
    [
        ("Lat(40:50),Lon(0:30)", [0, 40, 30, 50]),
        ("lon(0:30),LAT(40:50)", [0, 40, 30, 50]),
        (" Lat(40:50) , Long( 0 : 30 ) ", [0, 40, 30, 50]),
        ("Latitude(40:50),Longitude(0:30)", [0, 40, 30, 50]),
        ("Lat(4e1:+50.)", [0, 40, 67.5, 50]),
        ("Lat(*:50),Lon(*:*)", [0, 21.9430455, 67.5, 50]),
        ("Lon(10:*)", [10, 21.9430455, 67.5, 66.5132604]),
    ],
)
def test_subset_by_degrees(rich: Client, subset: str, expected: list[float]) -> None:
    """maps /req/spatial-subsetting/subset-definition."""
    response = rich.get(MAP, query_string={"subset": subset, "crs": "CRS:84"})
    assert box_of(response) == pytest.approx(expected, abs=1e-6)


def test_repeated_subsets_are_merged(rich: Client) -> None:
    response = rich.get(f"{MAP}?subset=Lat(40:50)&SUBSET=Lon(0:30)&crs=CRS:84")
    assert box_of(response) == [0, 40, 30, 50]


def test_subset_by_metres(rich: Client) -> None:
    """maps /req/spatial-subsetting/subset-crs."""
    query = {"subset": "E(1000000:2000000),N(5000000:6000000)", "subset-crs": "EPSG:3857"}
    assert box_of(rich.get(MAP, query_string=query)) == [1e6, 5e6, 2e6, 6e6]
    query = {"subset": "N(2500000:3000000)", "subset-crs": "EPSG:3035", "crs": "EPSG:3035"}
    response = rich.get("/ogcapi/collections/d_lambert/map", query_string=query)
    assert box_of(response) == [2500000, 3125000, 3000000, 5375000]


@pytest.mark.parametrize(
    "subset", ["Lat(-80:-70)", "Lon(80:90)", "Lon(-20:-10),Lat(40:50)", "Lon(80:*)", "Lat(*:10)"]
)
def test_subset_outside_of_the_data_is_no_content(rich: Client, subset: str) -> None:
    """maps /req/spatial-subsetting/subset-response."""
    for path in (MAP, "/ogcapi/map"):
        response = rich.get(path, query_string={"subset": subset, "collections": "b_europe"})
        assert (response.status_code, response.data) == (204, b"")


@pytest.mark.parametrize(
    "subset",
    [
        "",
        "Lat",
        "Lat()",
        "Lat(1:2",
        "Lat(1:2),",
        ",Lat(1:2)",
        "Lat(1:2)Lon(1:2)",
        "Lat(1:2:3)",
        "Lat(40)",
        "Lat(50:40)",
        "Lat(40:40)",
        "Lat(a:b)",
        "Lat(nan:inf)",
        "Lat(1:2),Lat(3:4)",
        "Lat(1:2),Latitude(3:4)",
        "E(1:2)",
        "time(1:2)",
        'time("2020-01-01":"2021-01-01")',
        "Lat(1:\0)",
        "L\u00e4t(1:2)",
        "Lat(" + "1" * 5000 + ":2)",
        "Lat(1:2)," * 5000,
        "(" * 100000,
        "Lon(500:-500)",
    ],
)
def test_invalid_subsets_are_refused(rich: Client, fault: Any, subset: str) -> None:
    response = rich.get(MAP, query_string={"subset": subset})
    assert fault(response) == (400, "InvalidParameter")


def test_too_many_subsets_are_refused(rich: Client, fault: Any) -> None:
    query = "&".join(["subset=Lat(40:50)"] * 1000)
    assert fault(rich.get(f"{MAP}?{query}")) == (400, "InvalidParameter")


@pytest.mark.parametrize("crs", ["CRS:84", "EPSG:3857", "EPSG:4326"])
def test_subset_across_the_antimeridian(rich: Client, pixels: Any, crs: str) -> None:
    """East of 180 degrees the collection is red, west of it blue."""
    response = rich.get(
        "/ogcapi/collections/f_pacific/map",
        query_string={"subset": "Lon(170:-160),Lat(-10:10)", "crs": crs, "width": "90", "f": "png"},
    )
    image = pixels(response)
    assert image.shape[1] == 90
    assert (image[:, :29] == (0, 0, 255, 255)).all()
    assert (image[:, 31:] == (255, 0, 0, 255)).all()
    box = box_of(response)
    west, east = (box[0], box[2]) if crs != "EPSG:4326" else (box[1], box[3])
    assert west > 0 > east


@pytest.mark.parametrize(
    ("longitudes", "first", "last"),
    # The data lie between 0 and 67.5 degrees (90 in the coarsest level): before the
    # antimeridian, or behind it.
    [("60:-170", 60, 67.5), ("170:10", 360, 370)],
)
@pytest.mark.parametrize("crs", ["CRS:84", "EPSG:3857"])
def test_subset_across_the_antimeridian_shows_data_on_one_side(
    rich: Client, pixels: Any, crs: str, longitudes: str, first: float, last: float
) -> None:
    west, east = map(float, longitudes.split(":"))
    query = {"subset": f"Lon({longitudes}),Lat(48:52)", "crs": crs, "width": "400", "f": "png"}
    image = pixels(rich.get(MAP, query_string=query))
    longitude = west + (np.arange(400) + 0.5) * (east + 360 - west) / 400
    inside = (longitude > first + 1) & (longitude < last - 1)
    outside = (longitude > 91) & (longitude < 359)
    row = image[image.shape[0] // 2]
    assert inside.any()
    assert (row[inside] == (10, 120, 30, 255)).all()
    assert (row[outside][:, 3] == 0).all()


@pytest.mark.parametrize("crs", ["EPSG:3832", "EPSG:3031"])
def test_area_across_the_antimeridian_where_the_crs_has_no_seam(crs: str) -> None:
    """The CRSs of the Pacific and of the Antarctic: the area is one box on both sides of it."""
    intervals = {"lon": Interval(170.0, -160.0), "lat": Interval(-70.0, -65.0)}
    area = subset_area(intervals, WGS84, WORLD, CRS.from_code(crs))
    transform = pyproj.Transformer.from_crs("OGC:CRS84", crs, always_xy=True).transform
    longitudes, latitudes = np.meshgrid(np.linspace(170, 200, 301), np.linspace(-70, -65, 51))
    x, y = transform(longitudes, latitudes)
    edges = (area.written.xmin, area.written.ymin, area.written.xmax, area.written.ymax)
    assert edges == pytest.approx((x.min(), y.min(), x.max(), y.max()), abs=1000)


def test_subset_across_the_antimeridian_outside_of_the_data_is_no_content(rich: Client) -> None:
    response = rich.get(f"{MAP}?subset=Lon(170:-170)")
    assert response.status_code == 204


@pytest.mark.parametrize(
    "query",
    [
        "bbox=0,40,30,50&subset=Lat(40:50)",
        "bbox=0,40,30,50&center=20,50",
        "center=20,50&subset=Lat(40:50)",
        "bbox=0,40,30,50&scale-denominator=50000000&width=8",
        "subset=Lat(40:50)&scale-denominator=50000000&height=8",
        "bbox=0,40,0,50",
        "bbox=0,40,30,40",
        "bbox=0,50,30,40",
        "bbox=",
        "bbox=1,2,3",
        "bbox=1,2,3,4,5",
        "bbox=a,b,c,d",
        "bbox=0,0,nan,1",
        "bbox=0,0,inf,1",
        "bbox=-1e308,0,1e308,1&bbox-crs=EPSG:3857",
        "bbox=0,0,1e-320,1e300&bbox-crs=EPSG:3857",
        "bbox=0,0,5e-324,1&bbox-crs=EPSG:3857",
        "bbox=" + "1," * 50000,
        "bbox=0,0,1,%00",
        "bbox=0,0,1,%D9%A1",
        "bbox=500,500,600,600",
        "center=",
        "center=1",
        "center=1,2,3",
        "center=a,b",
        "center=inf,0",
        "center=1e300,1e300",
        "center=0,90&crs=EPSG:3857&scale-denominator=1e300",
        "width=0",
        "width=-1",
        "width=3001",
        "height=2001",
        "width=1.5",
        "width=8px",
        "width=",
        "width=" + "9" * 100000,
        "width=%D9%A1",
        "width=%00",
        "width=3000&height=2000",
        "scale-denominator=0",
        "scale-denominator=-5",
        "scale-denominator=1",
        "scale-denominator=1e-320",
        "scale-denominator=inf",
        "scale-denominator=nan",
        "scale-denominator=",
        "mm-per-pixel=0",
        "mm-per-pixel=-0.28",
        "mm-per-pixel=nan",
        "mm-per-pixel=",
        "mm-per-pixel=x",
        "f=",
        "f=nothing",
        "transparent=",
        "transparent=yes",
        "bgcolor=",
        "bgcolor=12345",
        "bgcolor=0x1234567",
        "bgcolor=nothing",
        "bgcolor=%00",
        "void-color=x",
        "void-transparent=x",
        # One dimension is small, the other one would not be.
        "width=3000&bbox=0,0,1,30&crs=CRS:84",
        "height=2000&bbox=0,40,60,41&crs=CRS:84",
        "width=1000&bbox=0,0,1e-9,30&crs=CRS:84",
    ],
)
def test_invalid_or_unbounded_requests_are_refused(rich: Client, fault: Any, query: str) -> None:
    assert fault(rich.get(f"{MAP}?{query}")) == (400, "InvalidParameter")


@pytest.mark.parametrize("mm", ["1e-300", "1e300", "4.9e-324"])
def test_absurd_displays_draw_from_some_level(rich: Client, mm: str) -> None:
    assert rich.get(f"{MAP}?mm-per-pixel={mm}&width=8").status_code == 200


def test_limits_of_source_tiles_hold(tmp_path: Path, open_client: Any, fault: Any) -> None:
    overrides = {"global": {"map": {"limits": {"tile_x": 1, "tile_y": 1}}}}
    client = open_client(
        tiny_installation(tmp_path, services=["ogcapi"], services_overrides=overrides)
    )
    response = client.get("/ogcapi/collections/RGB_PNG/map?f=png&width=2000&mm-per-pixel=0.28")
    assert fault(response) == (400, "InvalidParameter")
    assert "too big" in response.get_json()["detail"]


def test_default_size_is_no_larger_than_the_limits(
    tmp_path: Path, open_client: Any, pixels: Any
) -> None:
    overrides = {
        "global": {"map": {"limits": {"width": 50, "height": 40}}},
        "ogcapi": {"default_size": 4096},
    }
    client = open_client(
        tiny_installation(tmp_path, services=["ogcapi"], services_overrides=overrides)
    )
    image = pixels(client.get("/ogcapi/collections/RGB_PNG/map?f=png"))
    assert max(image.shape[:2]) == 40


def test_aligned_map_has_the_stored_pixels(tiny: Client, pixels: Any) -> None:
    size = 2 * 20037508.3427892 / 16
    west, north = -20037508.3427892 + 9 * size, 20037508.3427892 - 5 * size
    box = f"{west!r},{north - size!r},{west + size!r},{north!r}"
    query = {"bbox": box, "bbox-crs": "EPSG:3857", "width": "256", "height": "256", "f": "png"}
    image = pixels(tiny.get("/ogcapi/collections/RGB_PNG/map", query_string=query))
    assert (image[:, :, :3] == tiny_integer_tile(3)("4", 5, 9)).all()


@pytest.mark.parametrize("bbox", ["170,-10,190,10", "-190,-10,-170,10"])
def test_box_beyond_180_degrees_is_one_across_the_antimeridian(rich: Client, bbox: str) -> None:
    """In another CRS, the box around its parts on both sides would be the world."""
    address = "/ogcapi/collections/f_pacific/map?width=100&f=png&crs=[EPSG:3857]"
    wanted = rich.get(f"{address}&subset=Lon(170:-170),Lat(-10:10)")
    found = rich.get(f"{address}&bbox={bbox}")
    assert found.status_code == 200
    assert found.headers["Content-Bbox"] == wanted.headers["Content-Bbox"]
    assert found.data == wanted.data
    around = rich.get(f"{address}&bbox=-190,-10,190,10")
    assert around.status_code == 200


@pytest.mark.parametrize("crs", ["EPSG:3857", "EPSG:4326", "CRS:84"])
@pytest.mark.parametrize("width", [100, 97])
def test_box_whose_west_is_east_of_its_east(rich: Client, crs: str, width: int) -> None:
    address = f"/ogcapi/collections/f_pacific/map?width={width}&f=png&crs=[{crs}]"
    wanted = rich.get(f"{address}&subset=Lon(172:-170),Lat(-10:10)")
    for box in ("172,-10,-170,10", "-10,172,10,-170&bbox-crs=[EPSG:4326]"):
        found = rich.get(f"{address}&bbox={box}")
        assert found.status_code == 200, found.text
        assert found.headers["Content-Bbox"] == wanted.headers["Content-Bbox"]
        assert found.data == wanted.data


@pytest.mark.parametrize(
    "box", ["-10,172,10,-170", "1e7,0,-1e7,1&bbox-crs=[EPSG:3857]", "190,-10,185,10"]
)
def test_box_that_runs_backwards_is_refused(rich: Client, box: str) -> None:
    assert rich.get(f"/ogcapi/collections/f_pacific/map?bbox={box}").status_code == 400


def test_box_in_a_projected_crs_across_the_antimeridian_or_a_pole() -> None:
    pacific, arctic = CRS.from_code("EPSG:3832"), CRS.from_code("EPSG:3413")
    across = area_of(BoundingBox(3.2e6, 0.0, 3.5e6, 2e5), pacific, WGS84, "bbox")
    assert across.written.xmin > across.written.xmax
    assert across.width < 3
    around = area_of(BoundingBox(-1e6, -1e6, 1e6, 1e6), arctic, WGS84, "bbox")
    assert (around.box.xmin, around.box.xmax, around.box.ymax) == (-180.0, 180.0, 90.0)


@pytest.mark.parametrize("size", [1e-5, 1e-2])
def test_box_at_a_pole_without_longitudes_is_refused(size: float) -> None:
    polar = CRS.from_code("EPSG:3571")
    with pytest.raises(InvalidParameterError, match="no extent"):
        area_of(BoundingBox(0.0, 0.0, size, size), polar, WGS84, "bbox")
