"""What a layer offers of extra tile matrix sets (layer.md section 7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest
from tests.render.ground import World

from mastaba.model.bbox import BoundingBox
from mastaba.model.crs import CRS
from mastaba.model.layer import Layer
from mastaba.model.tile_matrix_set import TileLimits, TileMatrix, TileMatrixSet
from mastaba.model.tile_matrix_set_link import link_to, links

LAMBERT, MERCATOR = CRS.from_code("EPSG:2154"), CRS.from_code("EPSG:3857")


def a_set(identifier: str, crs: str, *cell_sizes: float, size: int = 1000) -> TileMatrixSet:
    """Return a set of matrices named A, B, C... over 2000 km from a common corner."""
    origin = {"EPSG:2154": (0.0, 7e6), "EPSG:3857": (-5e5, 6.5e6)}.get(crs, (-180.0, 90.0))
    return TileMatrixSet.of(
        identifier,
        CRS.from_code(crs),
        [
            TileMatrix(name, cell, *origin, 64, 48, size, size)
            for name, cell in zip("ABCDEFGH", cell_sizes, strict=False)
        ],
    )


@pytest.fixture
def layer(mesh: World) -> Layer:
    """Return a layer in EPSG:3857 with cells of 1600, 800 and 400 m."""
    return mesh.layer("ramp")


# A unit of Lambert 93 is so many of Mercator, averaged over where both are used.
RATIO = 0.74169


@pytest.mark.parametrize(
    ("cell_sizes", "offered"),
    [
        # As large as the levels on the ground
        ([1600 * RATIO, 800 * RATIO, 400 * RATIO], "ABC"),
        ([3000, 1600 * RATIO, 800 * RATIO, 400 * RATIO, 100], "BCD"),
        # Just inside, and just outside, of 0.8 to 1.5
        ([1600 * RATIO / 0.81], "A"),
        ([1600 * RATIO / 0.79], None),
        ([400 * RATIO / 1.49], "A"),
        ([400 * RATIO / 1.51], None),
        # Two within: the nearest to 1, not the nearest cell size
        ([400 * RATIO / 0.9, 400 * RATIO / 1.2], "A"),
        ([1600 * RATIO / 0.7, 1600 * RATIO / 1.4], "B"),
        # A level in the middle alone
        ([9000, 800 * RATIO, 10], "B"),
        # All between the ends, those that correspond to no level included
        ([1600 * RATIO, 700, 600, 500, 400 * RATIO], "ABCDE"),
        ([10, 20, 30], None),
    ],
)
def test_matrices_about_as_fine_as_the_levels_are_offered(
    layer: Layer, cell_sizes: list[float], offered: str | None
) -> None:
    link = link_to(layer, a_set("SET", "EPSG:2154", *cell_sizes))
    if offered is None:
        assert link is None
        return
    assert link is not None
    assert "".join(link.limits) == offered
    assert [matrix.id for matrix in link.matrices] == list(offered)
    assert link.levels_id == f"SET_{offered[0]}_{offered[-1]}"


def test_ratio_is_the_one_of_the_rule() -> None:
    """The geometric mean of the ratios of widths and heights of the common area of use."""
    area = LAMBERT.area_of_use.intersection(MERCATOR.area_of_use)
    assert area is not None
    world = CRS.from_code("CRS:84")
    one, other = (world.transform_bbox(area, crs) for crs in (MERCATOR, LAMBERT))
    across = (other.xmax - other.xmin) / (one.xmax - one.xmin)
    down = (other.ymax - other.ymin) / (one.ymax - one.ymin)
    assert (across * down) ** 0.5 == pytest.approx(RATIO, abs=1e-4)


def test_limits_are_the_tiles_that_meet_the_extent(layer: Layer) -> None:
    link = link_to(layer, a_set("SET", "EPSG:2154", 1100.0, 275.0))
    assert link is not None
    bbox = CRS.from_code("CRS:84").transform_bbox(layer.geographic_bbox, LAMBERT)
    for matrix, limits in zip(link.matrices, link.limits.values(), strict=True):
        box = matrix.bbox_of(limits)
        width, height = 64 * matrix.cell_size, 48 * matrix.cell_size
        assert box.xmin <= bbox.xmin < box.xmin + width
        assert box.xmax - width < bbox.xmax <= box.xmax
        assert box.ymin <= bbox.ymin < box.ymin + height
        assert box.ymax - height < bbox.ymax <= box.ymax


def test_limits_stay_inside_the_matrix(layer: Layer) -> None:
    whole = link_to(layer, a_set("SET", "EPSG:2154", 300.0))
    assert whole is not None
    last = whole.limits["A"].max_col - 1
    link = link_to(layer, a_set("SET", "EPSG:2154", 300.0, size=last + 1))
    assert link is not None
    assert link.limits["A"] == replace(
        whole.limits["A"], max_col=last, max_row=min(whole.limits["A"].max_row, last)
    )
    # The extent lies beside the matrix altogether.
    assert link_to(layer, a_set("SET", "EPSG:2154", 300.0, size=2)) is None


def test_extent_is_cropped_to_the_area_of_use(layer: Layer) -> None:
    wide = replace(layer, geographic_bbox=BoundingBox(-170, -80, 170, 80))
    link = link_to(wide, a_set("SET", "EPSG:2154", 300.0, size=100000))
    assert link is not None
    box = link.matrices[0].bbox_of(link.limits["A"])
    # France with its waters is some 2000 km wide; the whole world has no place in Lambert 93.
    assert box.xmax - box.xmin < 2.5e6


def test_set_for_another_place_is_dropped(layer: Layer) -> None:
    new_zealand = a_set("NZ", "EPSG:2193", 1500.0, 1000.0, 700.0, 400.0, 300.0)
    assert link_to(layer, new_zealand) is None
    # Even for a layer of the whole world whose own CRS is not used there
    lambert = a_set("L", "EPSG:2154", 1000.0)
    pyramid = replace(layer.pyramid, tile_matrix_set=lambert)
    wide = replace(layer, pyramid=pyramid, geographic_bbox=BoundingBox(-180, -80, 180, 80))
    assert link_to(wide, new_zealand) is None


def test_degrees_are_counted_as_metres_of_the_common_area(layer: Layer) -> None:
    # A degree of longitude is 111 km of Mercator, one of latitude more the farther north.
    sizes = [0.02, 0.01, 0.005, 0.0025, 0.00125]
    link = link_to(layer, a_set("GEO", "EPSG:4326", *sizes, size=10**6))
    assert link is not None
    assert list(link.limits) == ["B", "C", "D"]


def test_only_sets_that_can_be_offered_are_linked(layer: Layer) -> None:
    sets = (
        a_set("FIRST", "EPSG:2154", 1100.0),
        a_set("NONE", "EPSG:2154", 1.0),
        a_set("LAST", "EPSG:3857", 800.0),
    )
    found = links(replace(layer, extra_tile_matrix_sets=sets))
    assert [link.tile_matrix_set.id for link in found] == ["FIRST", "LAST"]
    assert links(replace(layer, extra_tile_matrix_sets=())) == []


def test_matrix_without_tiles_of_the_layer_is_left_out(layer: Layer) -> None:
    inside = a_set("SET", "EPSG:3857", 1600.0, 800.0, 400.0)
    far = replace(inside.matrices["B"], origin_x=9e6)
    matrices: Mapping[str, Any] = MappingProxyType({**inside.matrices, "B": far})
    link = link_to(layer, replace(inside, matrices=matrices))
    assert link is not None
    assert list(link.limits) == ["A", "C"]
    assert link.limits["C"] == TileLimits(26, 42, 23, 35)
