"""Coordinate reference systems and boxes (tilematrixset.md section 4)."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor

import pytest

from mastaba.model.bbox import BoundingBox
from mastaba.model.crs import (
    CRS,
    WGS84,
    Equivalences,
    UnknownCRSError,
    geographic_bbox,
    is_known_crs,
)

HALF = math.pi * 6378137


@pytest.mark.parametrize(
    ("code", "geographic", "northing_first"),
    [
        ("EPSG:4326", True, True),
        ("CRS:84", True, False),
        ("EPSG:3857", False, False),
        ("EPSG:2154", False, False),
        ("IGNF:LAMB93", False, False),
        ("IGNF:WGS84G", True, False),
        ("EPSG:4979", True, True),
        ("EPSG:31467", False, True),
        ("EPSG:2193", False, True),
        ("EPSG:3031", False, False),
    ],
)
def test_axis_order_and_kind_come_from_the_definition(
    code: str, geographic: bool, northing_first: bool
) -> None:
    crs = CRS.from_code(code)
    assert (crs.code, crs.is_geographic) == (code, geographic)
    assert crs.northing_first is northing_first
    assert crs.metres_per_unit == (pytest.approx(111319.49079327358) if geographic else 1.0)


@pytest.mark.parametrize("code", ["epsg:3857", "Epsg:3857", "EPSG:3857"])
def test_codes_are_case_insensitive(code: str) -> None:
    assert CRS.from_code(code) is CRS.from_code("EPSG:3857")


@pytest.mark.parametrize(
    "code",
    [
        "",
        "3857",
        "EPSG",
        "EPSG:",
        ":3857",
        "EPSG:999999",
        "NOPE:1",
        "EPSG:3857:1",
        "+proj=longlat",
        "EPSG:3857+5720",
        "urn:ogc:def:crs:EPSG::3857",
        "EPSG:3857\n",
        "EPSG:" + "9" * 1000,
        "EPSG:5720",
        "EPSG:4978",
        "PROJCS[]",
        "/etc/passwd:1",
        "IAU_2015:30100",
    ],
)
def test_codes_that_are_not_crss_for_maps_are_unknown(code: str) -> None:
    with pytest.raises(UnknownCRSError) as caught:
        CRS.from_code(code)
    assert len(str(caught.value)) < 200
    assert not is_known_crs(code)


def test_listed_codes_can_be_loaded() -> None:
    for code in ("EPSG:3857", "epsg:4326", "IGNF:LAMB93", "CRS:84", "crs:84", "EPSG:5698"):
        assert is_known_crs(code)
        assert CRS.from_code(code).area_of_use.is_finite


def test_box_is_unchanged_in_its_own_crs() -> None:
    box = BoundingBox(1, 2, 3, 4)
    assert WGS84.transform_bbox(box, WGS84) is box


def test_box_has_x_before_y_regardless_of_the_axis_order() -> None:
    box = BoundingBox(5, 45, 6, 46)
    same = WGS84.transform_bbox(box, CRS.from_code("EPSG:4326"))
    assert (same.xmin, same.ymin, same.xmax, same.ymax) == pytest.approx((5, 45, 6, 46))


def test_box_is_transformed_along_its_edges_and_not_only_at_its_corners() -> None:
    lambert = CRS.from_code("EPSG:2154")
    box = WGS84.transform_bbox(BoundingBox(-4, 44, 10, 45), lambert)
    corners = [
        WGS84.transform_bbox(BoundingBox(x, y, x, y), lambert) for x in (-4, 10) for y in (44, 45)
    ]
    # In a conic projection, a parallel is a curve whose middle is its southernmost point.
    assert box.ymin < min(corner.ymin for corner in corners) - 1000


@pytest.mark.parametrize(
    "box", [BoundingBox(0, 0, 10, 100), BoundingBox(0, math.nan, 1, 1), BoundingBox(0, 0, 1, 1e308)]
)
def test_box_that_cannot_be_transformed_is_an_error(box: BoundingBox) -> None:
    with pytest.raises(ValueError, match="EPSG:3857"):
        WGS84.transform_bbox(box, CRS.from_code("EPSG:3857"))


def test_geographic_box_of_the_whole_mercator_square_reaches_180_degrees() -> None:
    box = geographic_bbox(BoundingBox(-HALF, -HALF, HALF, HALF), CRS.from_code("EPSG:3857"))
    assert (box.xmin, box.xmax) == (-180.0, 180.0)
    assert box.ymax == pytest.approx(85.0511, abs=1e-4)


def test_geographic_box_is_clipped_to_the_globe() -> None:
    crs = CRS.from_code("EPSG:4326")
    assert geographic_bbox(BoundingBox(-200, -90, 190, 90), crs) == BoundingBox(-180, -90, 180, 90)


def test_area_across_the_antimeridian_includes_all_longitudes() -> None:
    area = CRS.from_code("EPSG:3832").area_of_use  # PDC Mercator, 98.69 east to 68.32 west
    assert (area.xmin, area.xmax) == (-180.0, 180.0)


def test_threads_get_equal_results() -> None:
    lambert = CRS.from_code("EPSG:2154")
    boxes = [BoundingBox(x / 10, 44, x / 10 + 1, 45) for x in range(40)]
    alone = [WGS84.transform_bbox(box, lambert) for box in boxes]

    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda box: WGS84.transform_bbox(box, lambert), boxes))
    assert together == alone


def test_equivalence_is_symmetric_and_case_insensitive_but_not_transitive() -> None:
    equivalences = Equivalences({"IGNF:LAMB93": ["epsg:2154"], "EPSG:2154": ["X:1"]})

    assert equivalences.equal("EPSG:2154", "ignf:lamb93")
    assert equivalences.equal("IGNF:LAMB93", "EPSG:2154")
    assert equivalences.equal("X:1", "EPSG:2154")
    assert not equivalences.equal("X:1", "IGNF:LAMB93")
    assert equivalences.equal("a:b", "A:B")
    assert equivalences.equal("CRS:84", "EPSG:4326")
    assert equivalences.declared("EPSG:2154") == ["IGNF:LAMB93", "X:1"]
    assert equivalences.declared("EPSG:4326") == []


def test_boxes_intersect_only_if_the_common_part_has_an_area() -> None:
    box = BoundingBox(0, 0, 10, 10)
    assert box.intersection(BoundingBox(5, -5, 15, 5)) == BoundingBox(5, 0, 10, 5)
    assert box.intersection(BoundingBox(10, 0, 20, 10)) is None
    assert box.intersection(BoundingBox(20, 20, 30, 30)) is None
    assert box.union(BoundingBox(5, -5, 15, 5)) == BoundingBox(0, -5, 15, 10)
    assert not BoundingBox(0, 0, math.inf, 1).is_finite
