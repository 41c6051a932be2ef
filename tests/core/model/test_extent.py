"""The extents of layers, in every CRS (layer.md section 4)."""

from __future__ import annotations

import math
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import pytest

from mastaba.model.bbox import WORLD, BoundingBox
from mastaba.model.crs import (
    CRS,
    WGS84,
    Equivalences,
    bbox_in_degrees,
    geographic_bbox,
    poles_in,
    transform_points,
)
from mastaba.model.extent import bbox_in, geographic_extent, pyramid_bbox, whole_view
from mastaba.model.format import TILE_FORMATS
from mastaba.model.layer import Layer
from mastaba.model.pyramid import Level, Pyramid, RasterSpecification
from mastaba.model.tile_matrix_set import TileLimits, TileMatrix, TileMatrixSet

HALF = 20037508.342789244


def mercator() -> TileMatrixSet:
    return TileMatrixSet.of(
        "PM",
        CRS.from_code("EPSG:3857"),
        [
            TileMatrix(str(z), HALF / 128 / 2**z, -HALF, HALF, 256, 256, 2**z, 2**z)
            for z in range(15)
        ],
    )


def pyramid(limits: dict[str, tuple[int, int, int, int]]) -> Pyramid:
    """Return a pyramid with rows and columns (first, last) of some levels, coarse to fine."""
    tile_matrix_set = mercator()
    levels = {
        name: Level(tile_matrix_set.matrices[name], 16, 16, TileLimits(*edges))
        for name, edges in limits.items()
    }
    return Pyramid(
        "P",
        tile_matrix_set,
        TILE_FORMATS["TIFF_PNG_UINT8"],
        RasterSpecification(3, (0.0, 0.0, 0.0), "rgb"),
        MappingProxyType(levels),
    )


def layer(limits: dict[str, tuple[int, int, int, int]]) -> Layer:
    made = pyramid(limits)
    box = pyramid_bbox(made)
    geographic = geographic_bbox(box, made.tile_matrix_set.crs)
    return Layer("L", "", "", made, box, geographic, ())


def tiles(level: str, limits: tuple[int, int, int, int]) -> BoundingBox:
    return mercator().matrices[level].bbox_of(TileLimits(*limits))


def whole(level: int) -> tuple[int, int, int, int]:
    return 0, 2**level - 1, 0, 2**level - 1


def test_coarse_levels_that_hold_the_same_ground_add_nothing() -> None:
    finest = 368, 371, 520, 523
    found = pyramid_bbox(
        pyramid({"0": whole(0), "3": (2, 2, 4, 4), "8": (92, 92, 130, 130), "10": finest})
    )
    assert found == tiles("10", finest)


@pytest.mark.parametrize("finest", [(368, 371, 520, 523), (0, 0, 0, 0), (1023, 1023, 1023, 1023)])
def test_a_world_that_is_whole_at_coarse_levels_only_is_announced_whole(
    finest: tuple[int, int, int, int],
) -> None:
    limits = {str(level): whole(level) for level in range(4)} | {"10": finest}
    box = layer(limits).native_bbox
    assert (box.xmin, box.ymin, box.xmax, box.ymax) == pytest.approx((-HALF, -HALF, HALF, HALF))


def test_levels_of_different_places_are_all_inside() -> None:
    found = pyramid_bbox(pyramid({"8": (92, 93, 10, 11), "10": (368, 371, 520, 523)}))
    assert found == tiles("8", (92, 93, 10, 11)).union(tiles("10", (368, 371, 520, 523)))


EUROPE = {"5": (10, 11, 16, 17), "8": (85, 90, 131, 140)}
PACIFIC = {"3": (3, 4, 0, 7)}
EARTH = {"0": whole(0)}


@pytest.mark.sampled(one_in=4)
@pytest.mark.parametrize("limits", [EUROPE, PACIFIC, EARTH], ids=["europe", "pacific", "earth"])
@pytest.mark.parametrize(
    "code",
    [
        *("CRS:84", "EPSG:4326", "EPSG:3857", "EPSG:2154", "EPSG:3035", "EPSG:32601"),
        *("EPSG:32631", "EPSG:32660", "EPSG:3031", "EPSG:3413", "EPSG:3832", "EPSG:3338"),
        *("EPSG:2193", "EPSG:3460", "EPSG:5041", "EPSG:3571", "EPSG:27700", "IGNF:LAMB93"),
    ],
)
def test_boxes_are_finite_and_hold_the_layer(
    limits: dict[str, tuple[int, int, int, int]], code: str
) -> None:
    made, crs = layer(limits), CRS.from_code(code)
    box = bbox_in(made, crs)
    parts = [made.geographic_bbox.intersection(area) for area in crs.areas_of_use]
    if not any(parts):
        assert box is None
        return
    assert box is not None
    assert box.is_finite
    assert box.xmin < box.xmax
    assert box.ymin < box.ymax
    assert max(map(abs, (box.xmin, box.ymin, box.xmax, box.ymax))) < 4e7
    for part in parts:
        if part is not None:
            lon, lat = np.meshgrid(
                np.linspace(part.xmin, part.xmax, 23)[1:-1],
                np.linspace(part.ymin, part.ymax, 23)[1:-1],
            )
            x, y = transform_points(WGS84, crs, lon, lat)
            # Edges are straight between 256 points.
            slack = 1e-3 * max(box.xmax - box.xmin, box.ymax - box.ymin)
            assert box.xmin - slack <= x.min()
            assert x.max() <= box.xmax + slack
            assert box.ymin - slack <= y.min()
            assert y.max() <= box.ymax + slack


def test_geographic_boxes_are_equal_digit_for_digit() -> None:
    made = layer(EUROPE)
    for code in ("CRS:84", "EPSG:4326"):
        assert bbox_in(made, CRS.from_code(code)) == made.geographic_bbox


def test_native_box_of_equal_crs_is_not_transformed() -> None:
    made, other = layer(EUROPE), CRS.from_code("EPSG:3395")
    assert bbox_in(made, CRS.from_code("EPSG:3857")) == made.native_bbox
    assert bbox_in(made, other) != made.native_bbox
    assert bbox_in(made, other, Equivalences({"EPSG:3857": ["EPSG:3395"]})) == made.native_bbox


def test_geographic_box_around_a_pole_reaches_it() -> None:
    square = BoundingBox(-2e6, -2e6, 2e6, 2e6)
    north = geographic_bbox(square, CRS.from_code("EPSG:3413"))
    assert (north.xmin, north.xmax, north.ymax) == (-180, 180, 90)
    assert 60 < north.ymin < 75
    south = geographic_bbox(square, CRS.from_code("EPSG:3031"))
    assert (south.xmin, south.xmax, south.ymin) == (-180, 180, -90)
    beside = geographic_bbox(BoundingBox(1e6, 1e6, 2e6, 2e6), CRS.from_code("EPSG:3413"))
    assert beside.ymax < 85
    assert beside.xmax - beside.xmin < 90


def test_geographic_box_with_a_side_through_a_pole_has_its_latitude() -> None:
    crs = CRS.from_code("EPSG:3413")
    side = geographic_bbox(BoundingBox(-1e6, -1e6, 1e6, 0.0), crs)
    assert side.ymax == 90
    assert (side.xmin, side.xmax) == pytest.approx((-135, 45))
    assert geographic_bbox(BoundingBox(-1e6, -1e6, 1e6, 1.0), crs).xmax == 180
    assert poles_in(BoundingBox(-1e6, 0.0, 1e6, 1e6), crs) == {90.0: False}
    assert poles_in(BoundingBox(-1e6, -1.0, 1e6, 1e6), crs) == {90.0: True}
    assert poles_in(BoundingBox(-1e6, 1.0, 1e6, 1e6), crs) == {}


@pytest.mark.parametrize("quadrant", range(4))
@pytest.mark.parametrize(("code", "latitude"), [("EPSG:3413", 90.0), ("EPSG:3031", -90.0)])
def test_geographic_box_with_a_pole_in_a_corner_is_as_wide_as_its_data(
    code: str, latitude: float, quadrant: int
) -> None:
    crs = CRS.from_code(code)
    west, south = -1e6 * (quadrant % 2), -1e6 * (quadrant // 2)
    box = geographic_bbox(BoundingBox(west, south, west + 1e6, south + 1e6), crs)
    across, up = np.meshgrid(np.linspace(1e3, 999e3, 99), np.linspace(1e3, 999e3, 99))
    inside, _ = transform_points(crs, WGS84, west + across, south + up)
    assert (box.xmin, box.xmax) == pytest.approx((inside.min(), inside.max()), abs=0.6)
    assert latitude in (box.ymin, box.ymax)


@pytest.mark.parametrize(
    ("code", "edges"),
    [
        ("EPSG:3413", (-3911587.0, 0.0, 0.0, 602.8)),
        ("EPSG:32660", (500000.0, -10007241.5, 1803430.5, -9988688.4)),
    ],
)
def test_geographic_box_of_a_pole_and_the_antimeridian_has_all_longitudes(
    code: str, edges: tuple[float, float, float, float]
) -> None:
    crs = CRS.from_code(code)
    assert False in poles_in(BoundingBox(*edges), crs).values()
    box = geographic_bbox(BoundingBox(*edges), crs)
    assert (box.xmin, box.xmax) == (-180, 180)


@pytest.mark.parametrize("narrower", [0.0, 1e-8, 1e-3])
def test_box_of_one_turn_has_all_longitudes(narrower: float) -> None:
    box = BoundingBox(-HALF, -1e6, HALF - narrower, 1e6)
    degrees = bbox_in_degrees(box, CRS.from_code("EPSG:3832"))
    assert degrees is not None
    assert (degrees.xmin, degrees.xmax) == (-180, 180)


@pytest.mark.parametrize("code", ["EPSG:4326", "EPSG:4258"])
def test_box_of_degrees_that_reaches_the_poles_stays(code: str) -> None:
    for box in (WORLD, BoundingBox(-10.0, -90.0, 20.0, 90.0)):
        assert bbox_in_degrees(box, CRS.from_code(code)) == box


def test_extent_of_no_layer_is_none() -> None:
    assert geographic_extent([]) is None
    assert geographic_extent([layer(EARTH)]) == layer(EARTH).geographic_bbox
    both = geographic_extent([layer(EUROPE), replace(layer(EARTH), geographic_bbox=WORLD)])
    assert both == WORLD


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"0": whole(0), "10": (368, 371, 520, 523)}, "10"),
        ({str(level): whole(level) for level in range(6)}, "2"),
        ({"8": whole(8)}, "8"),
    ],
)
def test_whole_view_is_the_finest_level_that_fits_on_a_screen(
    limits: dict[str, tuple[int, int, int, int]], expected: str
) -> None:
    assert whole_view(layer(limits)).matrix.id == expected


def test_urns() -> None:
    assert CRS.from_code("EPSG:4326").urn == "urn:ogc:def:crs:EPSG::4326"
    assert CRS.from_code("IGNF:LAMB93").urn == "urn:ogc:def:crs:IGNF::LAMB93"
    assert WGS84.urn == "urn:ogc:def:crs:OGC:1.3:CRS84"
    assert math.isfinite(WGS84.metres_per_unit)
