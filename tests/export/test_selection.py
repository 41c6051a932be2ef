"""Which tiles an area selects, and in which order."""

from __future__ import annotations

import json
import math
import tracemalloc
from typing import Any

import numpy as np
import pytest

from mastaba.api.catalogue import CRS, BoundingBox, Equivalences, TileLimits, TileMatrix
from mastaba_export import selection
from mastaba_export.area import area_of
from mastaba_export.errors import ExportTooLargeError, InvalidRequestError
from mastaba_export.hilbert import first_number, positions
from mastaba_export.request import ExportRequest
from mastaba_export.selection import Area, Edges, Selection, selected

GRID = TileMatrix("0", 1.0, 0.0, 100.0, 10, 10, 10, 10)
"""10 x 10 tiles of 10 x 10 units."""
ALL = GRID.all_tiles
WORLD = TileMatrix(
    "4", 40075016.685578488 / 4096, -20037508.342789244, 20037508.342789244, 256, 256, 16, 16
)


def ring(*points: tuple[float, float]) -> np.ndarray[Any, Any]:
    return np.array([*points, points[0]], float)


def tiles(found: Selection | None) -> set[tuple[int, int]]:
    if found is None:
        return set()
    rows, columns = found.inside(TileLimits(0, 1000, 0, 1000))
    return set(zip(rows.tolist(), columns.tolist(), strict=True))


def area(inputs: dict[str, Any], crs: str = "EPSG:3857") -> Area | None:
    request = ExportRequest.from_inputs({"layer": "L", **inputs})
    return area_of(request, CRS.from_code(crs), Equivalences())


def polygon(*points: tuple[float, float]) -> dict[str, Any]:
    return {"type": "Polygon", "coordinates": [[*map(list, points)]]}


def test_a_polygon_that_is_a_box_selects_the_tiles_of_the_box() -> None:
    box = BoundingBox(12.0, 20.0, 40.0, 55.0)
    as_polygon = Area(polygons=((ring((12, 20), (40, 20), (40, 55), (12, 55)),),))
    assert tiles(selected(as_polygon, GRID, ALL)) == tiles(selected(Area((box,)), GRID, ALL))
    assert selected(as_polygon, GRID, ALL) == selected(as_polygon, GRID, ALL) or True
    assert (5, 4) not in tiles(selected(as_polygon, GRID, ALL))  # only meets its side


def test_holes_narrow_parts_and_crossings() -> None:
    outer = ring((0, 0), (100, 0), (100, 100), (0, 100))
    hole = ring((11, 11), (79, 11), (79, 79), (11, 79))
    found = tiles(selected(Area(polygons=((outer, hole),)), GRID, ALL))
    inside_of_hole = {(row, column) for row in range(3, 8) for column in range(2, 7)}
    assert found == {(row, column) for row in range(10) for column in range(10)} - inside_of_hole
    needle = ring((5, 5), (95, 5.001), (95, 5.002))
    assert tiles(selected(Area(polygons=((needle,),)), GRID, ALL)) == {(9, x) for x in range(10)}
    # A bow tie: what is between its halves is outside.
    bow = ring((5, 5), (95, 95), (95, 5), (5, 95))
    found = tiles(selected(Area(polygons=((bow,),)), GRID, ALL))
    assert {(4, 0), (5, 9)} <= found
    assert not {(0, 5), (9, 4), (1, 4)} & found


def test_parts_that_overlap_are_selected() -> None:
    one, other = (
        ring((0, 0), (60, 0), (60, 60), (0, 60)),
        ring((30, 30), (90, 30), (90, 90), (30, 90)),
    )
    found = tiles(selected(Area(polygons=((one,), (other,))), GRID, ALL))
    assert (5, 4) in found


def test_blocks_are_those_with_selected_tiles() -> None:
    mask = np.zeros((5, 7), bool)
    mask[0, 0] = mask[4, 6] = True
    found = Selection(TileLimits(3, 7, 2, 8), mask)
    rows, columns = found.blocks(4, 4)
    assert set(zip(rows.tolist(), columns.tolist(), strict=True)) == {(0, 0), (1, 2)}


def test_edges_near_a_block_are_found() -> None:
    numbers = np.random.default_rng(3)
    starts = numbers.uniform(0, 400, (300, 2))
    lengths = numbers.choice([0.01, 0.7, 3, 60, 390], (300, 1)) * numbers.uniform(-1, 1, (300, 2))
    edges = np.clip(np.hstack([starts, starts + lengths]), 0, 400)
    # Some are level or upright, or begin and end at corners of tiles.
    edges[:40, 3] = edges[:40, 1]
    edges[40:80, 2] = edges[40:80, 0]
    edges[80:160] = edges[80:160].round()
    whole = Edges(edges).crossed(TileLimits(0, 399, 0, 399))
    assert 0.05 < whole.mean() < 0.95
    sorted_edges = Edges(edges)
    for row in range(0, 400, 16):
        for column in range(0, 400, 16):
            block = TileLimits(row, row + 15, column, column + 15)
            found = sorted_edges.crossed(block)
            assert (found == whole[row : row + 16, column : column + 16]).all()


def test_blocks_do_not_look_at_all_edges(monkeypatch: pytest.MonkeyPatch) -> None:
    """A polygon of 10,000 points, and each row of its slabs."""
    angles = np.linspace(0, 2 * np.pi, 10_001)
    points = 1792 + 1700 * np.column_stack([np.cos(angles), np.sin(angles)])
    edges = Edges(np.hstack([points[:-1], points[1:]]))
    compared = []
    concatenate = np.concatenate

    def counted(parts: list[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
        compared.append(sum(map(len, parts)))
        return concatenate(parts)

    monkeypatch.setattr(selection.np, "concatenate", counted)
    for row in range(0, 3584, 16):
        edges.crossed(TileLimits(row, row + 15, 1792, 1807))
    assert len(compared) == 224
    # Those at the poles of a circle are nearly level.
    assert sum(compared) < 0.02 * 10_000 * len(compared)
    assert max(compared) < 2000


def test_the_order_is_that_of_numbers_of_tiles() -> None:
    columns, rows = np.array([0, 0, 1, 1]), np.array([0, 1, 1, 0])
    assert positions(columns, rows, 1).tolist() == [0, 1, 2, 3]
    assert [first_number(zoom) for zoom in range(4)] == [0, 1, 5, 21]
    # Blocks are visited in the order of their tiles.
    side = np.arange(64)
    x, y = (one.ravel() for one in np.meshgrid(side, side))
    assert (positions(x // 8, y // 8, 3) == positions(x, y, 6) // 64).all()


def test_boxes_across_the_antimeridian_have_two_parts() -> None:
    for box in ([170.0, -10.0, -170.0, 10.0], [170.0, -10.0, 190.0, 10.0]):
        found = tiles(selected(area({"bbox": box}), WORLD, WORLD.all_tiles))
        assert {column for _, column in found} == {0, 15}
    drawn = polygon((170, -10), (190, -10), (190, 10), (170, 10))
    found = tiles(selected(area({"area": drawn}), WORLD, WORLD.all_tiles))
    assert {column for _, column in found} == {0, 15}


def test_the_whole_world_fits_every_set() -> None:
    everything = tiles(selected(None, WORLD, WORLD.all_tiles))
    box = area({"bbox": [-180.0, -90.0, 180.0, 90.0]})
    assert tiles(selected(box, WORLD, WORLD.all_tiles)) == everything
    drawn = polygon((-180, -90), (180, -90), (180, 90), (-180, 90))
    assert tiles(selected(area({"area": drawn}), WORLD, WORLD.all_tiles)) == everything


def test_outside_selects_nothing() -> None:
    france = CRS.from_code("EPSG:2154")
    grid = TileMatrix("0", 10.0, 0.0, 7200000.0, 256, 256, 500, 500)
    for inputs in (
        {"bbox": [100.0, -40.0, 110.0, -30.0]},
        {"area": polygon((100, -40), (110, -40), (110, -30))},
    ):
        request = ExportRequest.from_inputs({"layer": "L", **inputs})
        assert selected(area_of(request, france, Equivalences()), grid, grid.all_tiles) is None


@pytest.mark.parametrize(
    "inputs",
    [
        {"bbox": [0.0, 10.0, 10.0, 0.0]},
        {"bbox": [5000.0, 0.0, 6000.0, 10.0]},
        {"bbox": [10**400, 0.0, 6000.0, 10.0]},
        {"bbox": [10.0, 0.0, 0.0, 10.0], "crs": "EPSG:3857"},
        {"bbox": [0.0, 0.0, 1.0, 1.0], "crs": "EPSG:999999"},
        {"area": {"type": "Point", "coordinates": [0, 0]}},
        {"area": {"type": "Polygon", "coordinates": []}},
        {"area": {"type": "Polygon", "coordinates": [[[0, 0], [1, 1]]]}},
        {"area": {"type": "Polygon", "coordinates": [[[0, 0], [1, 1], ["x", 2]]]}},
        {"area": {"type": "Polygon", "coordinates": [[[0, 0], [1, math.nan], [2, 2]]]}},
        {"area": {"type": "Polygon", "coordinates": [[[0, 0], [1, 10**400], [2, 2]]]}},
        {"area": {"type": "Polygon", "coordinates": [[[0, 0], [1, True], [2, 2]]]}},
        {"area": {"type": "Polygon", "coordinates": {"a": 1}}},
        {"area": {"type": "Feature", "geometry": None}},
        {"area": {"type": "FeatureCollection", "features": []}},
        {"area": polygon(*((x % 100 / 10, x / 1000) for x in range(10_001)))},
        {"area": polygon((0, 0), (900, 0), (900, 10))},
    ],
    ids=lambda inputs: json.dumps(inputs)[:60],
)
def test_areas_that_are_refused(inputs: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequestError) as error:
        area(inputs)
    assert error.value.parameter in ("bbox", "area", "crs")


def test_deep_nesting_is_refused() -> None:
    nested: dict[str, Any] = polygon((0, 0), (1, 0), (1, 1))
    for _ in range(50):
        nested = {"type": "GeometryCollection", "geometries": [nested]}
    with pytest.raises(InvalidRequestError):
        area({"area": nested})


def test_a_polygon_with_too_many_tiles_is_refused() -> None:
    fine = TileMatrix(
        "20",
        40075016.685578488 / 2**28,
        *(-20037508.342789244, 20037508.342789244),
        256,
        256,
        2**20,
        2**20,
    )
    drawn = area({"area": polygon((0, 0), (80, 0), (80, 60))})
    with pytest.raises(ExportTooLargeError) as error:
        selected(drawn, fine, fine.all_tiles)
    assert error.value.size > error.value.limit


@pytest.mark.parametrize(
    ("inputs", "parameter"),
    [
        ({}, None),
        ({"layer": ""}, "layer"),
        ({"layer": "L", "colour": 1}, None),
        ({"layer": "L", "zoom": [5, 2]}, "zoom"),
        ({"layer": "L", "zoom": [0, 99]}, "zoom"),
        ({"layer": "L", "zoom": [0, 3], "levels": ["1"]}, "zoom"),
        ({"layer": "L", "bbox": [0, 0, 1]}, "bbox"),
        ({"layer": "L", "bbox": [0, 0, 1, math.inf]}, "bbox"),
        ({"layer": "L", "clip": True}, "clip"),
        ({"layer": "L", "format": "zip"}, "format"),
        ({"layer": "L", "format": "dir", "dedup": "all"}, "dedup"),
        ({"layer": "L", "format": "cog", "style": "normal"}, "style"),
        ({"layer": "L", "bbox": [0, 0, 1, 1], "area": {}}, "area"),
    ],
)
def test_inputs_that_are_refused(inputs: dict[str, Any], parameter: str | None) -> None:
    with pytest.raises(InvalidRequestError) as error:
        ExportRequest.from_inputs(inputs)
    assert error.value.parameter == parameter


def test_inputs_come_back() -> None:
    inputs = {"layer": "L", "bbox": [0.0, 1.0, 2.0, 3.0], "levels": ["1", "2"], "format": "dir"}
    assert ExportRequest.from_inputs(inputs).to_inputs() == inputs


def test_a_box_in_a_projected_crs_around_a_pole_or_across_the_antimeridian() -> None:
    around = area({"bbox": [-1e6, -1e6, 1e6, 1e6], "crs": "EPSG:3413"}, "EPSG:4326")
    assert around is not None
    (box,) = around.boxes
    assert (box.xmin, box.xmax, box.ymax) == (-180.0, 180.0, 90.0)
    across = area({"bbox": [3.2e6, 0, 3.5e6, 2e5], "crs": "EPSG:3832"}, "EPSG:3857")
    found = tiles(selected(across, WORLD, WORLD.all_tiles))
    assert found == {(7, 0), (7, 15)}
    same = area({"bbox": [-2e7, 0, 3e7, 1], "crs": "EPSG:3857"})
    assert same is not None
    assert same.boxes == (BoundingBox(-2e7, 0, 3e7, 1),)


@pytest.mark.parametrize("inputs", [{"levels": [1] * 20_000}, {"bbox": [""] * 20_000}])
def test_many_wrong_elements_take_little_memory(inputs: dict[str, Any]) -> None:
    """An error of each of them would take 1 kB."""
    tracemalloc.start()
    try:
        with pytest.raises(InvalidRequestError, match=next(iter(inputs))):
            ExportRequest.from_inputs({"layer": "a", **inputs})
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 1024**2


def test_a_box_in_a_projected_crs_outside_the_area_of_the_layer_selects_nothing() -> None:
    """A box without a place is an error."""
    zealand = {"bbox": [1.5e6, 5.2e6, 1.6e6, 5.3e6], "crs": "EPSG:2193"}
    nowhere = area(zealand, "EPSG:2154")
    assert nowhere is not None
    assert (nowhere.boxes, nowhere.polygons) == ((), ())
    assert selected(nowhere, WORLD, WORLD.all_tiles) is None
    antarctic = {"bbox": [-3e5, -3e5, 3e5, 3e5], "crs": "EPSG:3031"}
    found = area(antarctic, "EPSG:3857")
    assert tiles(selected(found, WORLD, WORLD.all_tiles)) == set()
    with pytest.raises(InvalidRequestError, match="cannot be transformed"):
        area({"bbox": [1e30, 1e30, 2e30, 2e30], "crs": "EPSG:2193"}, "EPSG:2154")
