"""Maps that leave the area of use of their CRS (resampling.md section 6)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyproj
import pytest
from tests.render import in_numpy
from tests.render.ground import (
    WORLD,
    WORLD_LEVELS,
    Floats,
    World,
    around,
    pixel_centres,
    transform,
    truth,
)

from mastaba.model.bbox import BoundingBox
from mastaba.model.crs import CRS, transform_points
from mastaba.model.tile_matrix_set import TileMatrix
from mastaba_render import positions
from mastaba_render.extent import part_with_data, tiles_around, transformed_box, turn_of
from mastaba_render.ground import box_on_ground
from mastaba_render.map_request import MapRequest
from mastaba_render.positions import other_crs_positions
from mastaba_render.sampling import GridPositions, Positions
from mastaba_writer.pyramids import LevelPlan
from mastaba_writer.tile_matrix_sets import synthetic

NODATA = -99999


def longitude_and_latitude(x: Floats, y: Floats) -> Floats:
    """Return a value that says where a pixel is: hundreds of latitude, units of longitude."""
    lon, lat = transform("EPSG:3857", "EPSG:4326", x, y)
    return 1000 * np.sin(np.radians(2 * lat)) + 300 * np.cos(np.radians(2 * lon))


@pytest.fixture(scope="module")
def globe(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    world = World(tmp_path_factory.mktemp("globe"))
    world.add("values", longitude_and_latitude, document=WORLD, levels=WORLD_LEVELS)
    yield world
    world.close()


def positions_in(
    bbox: BoundingBox, crs: CRS, width: int, height: int, matrix: TileMatrix, source: CRS
) -> Positions | None:
    """Return the positions of a map among the pixels of a matrix in another CRS."""
    request = MapRequest((), bbox, crs, width, height)
    return other_crs_positions(
        request, source, turn_of(source), matrix, tiles_around(matrix, source)
    )


def area_box(crs: str) -> tuple[float, float, float, float]:
    """Return west, south, east and north of the area of use, in units of the CRS."""
    area = pyproj.CRS(crs).area_of_use
    transformer = pyproj.Transformer.from_crs("OGC:CRS84", crs, always_xy=True)
    return transformer.transform_bounds(
        area.west, area.south, area.east, area.north, densify_pts=255
    )


@pytest.mark.sampled
@pytest.mark.parametrize("crs", ["EPSG:2154", "EPSG:32631", "EPSG:3035", "EPSG:25833"])
@pytest.mark.parametrize(("dx", "dy"), [(0.0, 0.0), (0.6, 0.0), (-0.3, 0.4), (0.0, -0.7)])
def test_pixels_outside_the_area_are_nodata(globe: World, crs: str, dx: float, dy: float) -> None:
    """The map is half as large again as the area, or moved by a part of it."""
    west, south, east, north = area_box(crs)
    width, height = east - west, north - south
    bbox = BoundingBox(
        west + (dx - 0.25) * width,
        south + (dy - 0.25) * height,
        east + (dx + 0.25) * width,
        north + (dy + 0.25) * height,
    )
    size = (120, 110)
    image = globe.draw("values", bbox, crs, size)
    x, y = pixel_centres(bbox, size)
    cell_x, cell_y = 1.5 * width / size[0], 1.5 * height / size[1]
    inside = (x - cell_x / 2 >= west - 0.1 * cell_x) & (x + cell_x / 2 <= east + 0.1 * cell_x)
    inside &= (y - cell_y / 2 >= south - 0.1 * cell_y) & (y + cell_y / 2 <= north + 0.1 * cell_y)
    assert image.valid is not None
    assert 0.05 < inside.mean() < 0.95
    # A tenth of a cell either way may count as inside; whole cells may not.
    assert (image.valid != inside).mean() < 0.02
    assert (image.pixels[~image.valid] == NODATA).all()
    expected = truth(longitude_and_latitude, bbox, crs, size, "EPSG:3857")
    assert np.quantile(np.abs(image.pixels - expected)[image.valid], 0.99) < 10


@pytest.mark.parametrize(
    ("crs", "bbox"),
    [
        ("EPSG:2154", BoundingBox(2e7, 6e6, 2.1e7, 7e6)),
        ("EPSG:2154", BoundingBox(1e5, -9e6, 2e5, -8e6)),
        ("EPSG:32631", BoundingBox(9e6, 1e6, 1e7, 2e6)),
        ("EPSG:4326", BoundingBox(200, 10, 210, 20)),
        ("EPSG:3857", BoundingBox(3e7, 0, 4e7, 1e7)),
        ("EPSG:4326", BoundingBox(-1e9, -1e9, 1e9 - 1, -9e8)),
    ],
)
def test_map_outside_the_area_is_nodata(globe: World, crs: str, bbox: BoundingBox) -> None:
    image = globe.draw("values", bbox, crs, (40, 30))
    assert image.valid is not None
    assert not image.valid.any()
    assert image.pixels.shape == (30, 40, 1)
    assert (image.pixels == NODATA).all()


@pytest.mark.parametrize("crs", ["EPSG:4326", "CRS:84"])
def test_poles_have_no_place_in_mercator(globe: World, crs: str) -> None:
    size = (180, 90)
    bbox = BoundingBox(-180, -90, 180, 90)
    image = globe.draw("values", bbox, crs, size)
    _, latitude = pixel_centres(bbox, size)
    assert image.valid is not None
    # Rows are two degrees high, and Mercator is used up to 85.06.
    assert np.array_equal(image.valid, np.abs(latitude) + 1 <= 85.06)
    expected = truth(longitude_and_latitude, bbox, crs, size, "EPSG:3857")
    assert np.abs(image.pixels - expected)[image.valid].max() < 5


def test_map_at_a_pole_shows_what_has_a_place(globe: World) -> None:
    bbox = BoundingBox(0, 80, 30, 90)
    image = globe.draw("values", bbox, "EPSG:4326", (60, 50))
    assert image.valid is not None
    assert image.valid[-24:].all()
    assert not image.valid[:24].any()
    nothing = globe.draw("values", BoundingBox(0, 88, 30, 90), "EPSG:4326", (60, 50))
    assert nothing.valid is not None
    assert not nothing.valid.any()


def test_polar_map_has_a_hole_around_the_pole(globe: World) -> None:
    bbox = BoundingBox(-3e6, -3e6, 3e6, 3e6)
    size = (150, 150)
    image = globe.draw("values", bbox, "EPSG:3413", size)
    expected = truth(longitude_and_latitude, bbox, "EPSG:3413", size, "EPSG:3857")
    _, latitude = transform("EPSG:3413", "EPSG:4326", *pixel_centres(bbox, size))
    assert image.valid is not None
    assert not image.valid[latitude > 86].any()
    # All but a pixel just on the antimeridian, half of which is beyond either edge.
    assert image.valid[latitude < 84.5].mean() > 0.99
    assert np.quantile(np.abs(image.pixels - expected)[image.valid], 0.99) < 10


@pytest.mark.thorough
@pytest.mark.parametrize(
    "crs", ["EPSG:3413", pytest.param("EPSG:3031", marks=pytest.mark.thorough)]
)
def test_around_a_pole_only_uneven_parts_take_many_points(
    globe: World, monkeypatch: pytest.MonkeyPatch, crs: str
) -> None:
    transformed = 0

    def counting(source: CRS, target: CRS, x: Floats, y: Floats) -> tuple[Floats, Floats]:
        nonlocal transformed
        transformed += x.size
        return transform_points(source, target, x, y)

    monkeypatch.setattr(positions, "transform_points", counting)
    matrix = globe.layer("values").pyramid.finest.matrix
    bbox, size = BoundingBox(-3e6, -2.9e6, 3.1e6, 3e6), 1100
    mercator = CRS.from_code("EPSG:3857")
    found = positions_in(bbox, CRS.from_code(crs), size, size, matrix, mercator)
    assert isinstance(found, GridPositions)
    assert found.varies
    assert transformed < size * size / 5
    wide, high, *ratios = in_numpy.located(found._grid("linear"), found.part)
    x, y = transform(crs, "EPSG:3857", *pixel_centres(bbox, (size, size)))
    turn = tiles_around(matrix, mercator) * matrix.tile_width
    wide -= (x - matrix.origin_x) / matrix.cell_size - 0.5
    high -= (matrix.origin_y - y) / matrix.cell_size - 0.5
    wide -= turn * np.round(wide / turn)
    assert (np.abs(wide) < 0.25 * np.maximum(1.0, ratios[0])).all()
    assert (np.abs(high) < 0.25 * np.maximum(1.0, ratios[1])).all()


def test_positions_are_within_an_eighth_of_a_pixel() -> None:
    """At every pixel: corners, sides and middles of the cells between which they are computed."""
    pairs = [
        ("EPSG:2154", "EPSG:3857", (1e5, 6.0e6, 1.2e6, 7.1e6)),
        ("EPSG:3035", "EPSG:3857", (2.5e6, 1.5e6, 6e6, 5e6)),
        ("EPSG:25832", "EPSG:3857", (-4e5, 2e6, 1.4e6, 9e6)),
        ("EPSG:3413", "EPSG:25832", (-3e5, -3.5e6, 2e6, -1e6)),
        ("EPSG:4326", "EPSG:2154", (-5, 41, 10, 51)),
        ("EPSG:3857", "EPSG:3413", (-1e7, 8e6, 1e7, 1.5e7)),
    ]
    generator = np.random.default_rng(1)
    for number in range(240):
        code, source_code, (left, bottom, right, top) = pairs[number % len(pairs)]
        crs, source = CRS.from_code(code), CRS.from_code(source_code)
        width, height = map(int, np.exp(generator.uniform(np.log(2), np.log(100), 2)))
        cell = min(right - left, top - bottom) / max(width, height)
        cell *= np.exp(generator.uniform(-4, 0))
        x = generator.uniform(left, right - width * cell)
        y = generator.uniform(bottom, top - height * cell)
        bbox = BoundingBox(x, y, x + width * cell, y + height * cell)
        exact = transform(code, source_code, *pixel_centres(bbox, (width, height)))
        size = float(np.hypot(exact[0][0, 1] - exact[0][0, 0], exact[1][0, 1] - exact[1][0, 0]))
        size /= np.exp(generator.uniform(-0.7, 0.3))
        matrix = TileMatrix("0", size, exact[0].min() - size, exact[1].max() + size, 64, 64, 9, 9)
        found = positions_in(bbox, crs, width, height, matrix, source)
        assert isinstance(found, GridPositions)
        columns, rows = in_numpy.located(found._grid("linear"), found.part)[:2]
        expected = (
            (exact[0] - matrix.origin_x) / size - 0.5,
            (matrix.origin_y - exact[1]) / size - 0.5,
        )
        largest = max(np.abs(np.diff(one, axis=axis)).max() for one in expected for axis in (0, 1))
        for place, exactly in zip((columns, rows), expected, strict=True):
            assert np.abs(place - exactly).max() < 0.13 * max(1.0, largest), (number, code)


@pytest.mark.thorough
def test_points_around_a_pole_have_a_bound(globe: World, monkeypatch: pytest.MonkeyPatch) -> None:
    transformed = 0

    def counting(source: CRS, target: CRS, x: Floats, y: Floats) -> tuple[Floats, Floats]:
        nonlocal transformed
        transformed += x.size
        return transform_points(source, target, x, y)

    monkeypatch.setattr(positions, "transform_points", counting)
    matrix = replace(globe.layer("values").pyramid.finest.matrix, cell_size=100.0)
    bbox, size = BoundingBox(-3e6, -2.9e6, 3.1e6, 3e6), 5000
    polar, mercator = CRS.from_code("EPSG:3413"), CRS.from_code("EPSG:3857")
    found = positions_in(bbox, polar, size, size, matrix, mercator)
    assert isinstance(found, GridPositions)
    assert found.varies
    # Nodes, a million pixels of blocks that bend, and the neighbours of these
    assert transformed < size * size / 60 + 1.6 * 2**20


def test_antimeridian_is_the_end_of_degrees(globe: World) -> None:
    bbox = BoundingBox(170, -20, 190, 20)
    image = globe.draw("values", bbox, "EPSG:4326", (100, 200))
    expected = truth(longitude_and_latitude, bbox, "EPSG:4326", (100, 200), "EPSG:3857")
    assert image.valid is not None
    assert image.valid[:, :50].all()
    assert not image.valid[:, 50:].any()
    assert np.abs(image.pixels - expected)[image.valid].max() < 10


@pytest.mark.parametrize(
    ("west", "columns"), [(179.93, slice(0, 1)), (-180.07, slice(1, 2)), (-180.13, slice(1, 2))]
)
def test_pixel_that_the_antimeridian_divides_shows_what_is_in_its_middle(
    globe: World, west: float, columns: slice
) -> None:
    bbox, size = BoundingBox(west, 10, west + 0.2, 10.2), (2, 2)
    image = globe.draw("values", bbox, "EPSG:4326", size)
    assert image.valid is not None
    assert image.valid[:, columns].all()


@pytest.mark.parametrize(("width", "height"), [(4e6, 2e6), (1e7, 9e6)])
def test_map_across_the_antimeridian_shows_both_sides(
    globe: World, width: float, height: float
) -> None:
    """A CRS of the Pacific, whose middle is the edge of the pyramid (EPSG:3832)."""
    x, _ = transform("OGC:CRS84", "EPSG:3832", 180.0, 0.0)
    bbox = BoundingBox(x - width / 2, -height / 2, x + width / 2, height / 2)
    size = (101, 90)
    image = globe.draw("values", bbox, "EPSG:3832", size)
    expected = truth(longitude_and_latitude, bbox, "EPSG:3832", size, "EPSG:3857")
    valid = np.ones(size[::-1], np.bool_) if image.valid is None else image.valid
    assert valid[:, [0, 20, 40, 60, 80, 100]].all()
    assert np.abs(image.pixels - expected)[valid].max() < 10


@pytest.mark.sampled(one_in=2)
@pytest.mark.parametrize(
    ("crs", "place", "width", "height"),
    [
        ("EPSG:3832", (180.0, 0.0), 4e6, 3e6),
        ("EPSG:3832", (-179.0, 40.0), 1e6, 1e6),
        ("EPSG:3460", (180.0, -18.0), 1e6, 8e5),
        ("EPSG:3413", (180.0, 70.0), 2e6, 2e6),
    ],
)
def test_map_across_the_antimeridian_is_as_sharp_as_any(
    world: World, crs: str, place: tuple[float, float], width: float, height: float
) -> None:
    """Its level and kernel are those of the near way around, and tiles of both sides meet."""

    def ripples(x: Floats, y: Floats) -> Floats:
        return 1000 * np.cos(x * (64 * np.pi / 20037508.342789244)) * np.cos(y / 300000)

    world.add("ripples", ripples, document=WORLD, levels=WORLD_LEVELS, resampling="bicubic")
    x, y = transform("OGC:CRS84", crs, *place)
    bbox = BoundingBox(x - width / 2, y - height / 2, x + width / 2, y + height / 2)
    size = (120, 100)
    image = world.draw("ripples", bbox, crs, size)
    expected = truth(ripples, bbox, crs, size, "EPSG:3857")
    assert image.valid is None or image.valid.all()
    # Waves of 16 pixels of the finest level, which stretch towards the pole
    difference = np.abs(image.pixels - expected)
    assert np.quantile(difference, 0.95) < 30
    assert difference.max() < 100


def test_world_meets_itself_at_its_edges(world: World) -> None:
    """A kernel at the edge takes the tiles of the other edge, not nodata."""
    world.add(
        "white",
        lambda level, row, col: np.full((256, 256, 1), 250, np.uint8),
        of_position=False,
        document=WORLD,
        levels=WORLD_LEVELS,
        format="TIFF_RAW_UINT8",
        nodata=[0],
        resampling="lanczos_3",
    )
    image = world.draw("white", BoundingBox(-180, -60, 180, 60), "EPSG:4326", (700, 300))
    assert image.valid is None
    assert (image.pixels == 250).all()


@pytest.mark.thorough
def test_only_whole_tiles_go_around(mesh: World, globe: World) -> None:
    for name, matrix in globe.layer("values").pyramid.tile_matrix_set.matrices.items():
        assert tiles_around(matrix, CRS.from_code("EPSG:3857")) == 2 ** int(name)
        # A turn of degrees, or of no length at all, is no number of these tiles.
        assert tiles_around(matrix, CRS.from_code("EPSG:4326")) == 0
        assert tiles_around(matrix, CRS.from_code("EPSG:2154")) == 0
    for matrix in mesh.layer("ramp").pyramid.tile_matrix_set.matrices.values():
        assert tiles_around(matrix, CRS.from_code("EPSG:3857")) == 0


def test_native_crs_is_not_cut(globe: World) -> None:
    """Beyond the area of use there may be tiles all the same, in the CRS of the pyramid."""
    half = 20037508.342789244
    bbox = BoundingBox(-half * 1.2, -half * 1.2, half * 1.2, half * 1.2)
    image = globe.draw("values", bbox, "EPSG:3857", (120, 120))
    inside = np.zeros((120, 120), np.bool_)
    inside[10:110, 10:110] = True
    assert image.valid is not None
    assert np.array_equal(image.valid, inside)


def test_equivalent_codes_are_not_reprojected(globe: World) -> None:
    """CRS:84 and EPSG:4326 differ in the order of axes alone, which the engine never sees."""
    box = around("EPSG:4326", 8, 8, (0.0, 5e6))
    images = [globe.draw("values", box, crs, (33, 44)) for crs in ("EPSG:4326", "CRS:84")]
    assert np.array_equal(images[0].pixels, images[1].pixels)


def test_box_in_another_crs_is_cut_to_the_area_of_use_or_does_not_meet_it() -> None:
    degrees, mercator, lambert = map(CRS.from_code, ("EPSG:4326", "EPSG:3857", "EPSG:2154"))
    inside = BoundingBox(2.0, 48.0, 3.0, 49.0)
    assert transformed_box(inside, degrees, mercator) == degrees.transform_bbox(inside, mercator)
    # The poles are infinitely far away in Mercator.
    whole = transformed_box(BoundingBox(-180.0, -90.0, 180.0, 90.0), degrees, mercator)
    assert whole is not None
    assert whole.ymax == pytest.approx(20048966.1)
    # New Zealand has a position in a projection for France, far beyond what is plausible.
    far = BoundingBox(170.0, -45.0, 175.0, -40.0)
    assert transformed_box(far, degrees, lambert) is None


ARCTIC, PACIFIC = CRS.from_code("EPSG:3413"), CRS.from_code("EPSG:3832")


@pytest.mark.parametrize(("code", "north"), [("EPSG:4326", 90.0), ("EPSG:3857", 20048966.1)])
def test_box_around_a_pole_reaches_to_the_pole(code: str, north: float) -> None:
    around = BoundingBox(-1e6, -1e6, 1e6, 1e6)
    found = transformed_box(around, ARCTIC, CRS.from_code(code))
    assert found is not None
    assert found.ymax == pytest.approx(north)
    beside = transformed_box(BoundingBox(6e5, 6e5, 1e6, 1e6), ARCTIC, CRS.from_code(code))
    assert beside is not None
    assert beside.ymax < north


def test_box_around_a_pole_in_another_polar_crs() -> None:
    around, other = BoundingBox(-1e6, -1e6, 1e6, 1e6), CRS.from_code("EPSG:3995")
    assert transformed_box(around, ARCTIC, other) == ARCTIC.transform_bbox(around, other)


@pytest.mark.parametrize("code", ["EPSG:4326", "EPSG:3857"])
def test_projected_box_across_the_antimeridian_goes_the_shorter_way(code: str) -> None:
    target = CRS.from_code(code)
    x, y = transform("EPSG:4326", "EPSG:3832", np.array([178.0, -178.0]), np.array([10.0, 12.0]))
    box = BoundingBox(float(x[0]), float(y[0]), float(x[1]), float(y[1]))
    found = box_on_ground(box, PACIFIC, target)
    assert found is not None
    written = found.written
    edges, _ = transform("EPSG:4326", code, np.array([178.0, -178.0, 180.0]), np.zeros(3))
    assert (written.xmin, written.xmax, found.seam) == pytest.approx(tuple(edges))
    whole = box_on_ground(BoundingBox(-1e6, -1e6, 1e6, 1e6), ARCTIC, target)
    assert whole is not None
    assert whole.seam is None
    beside = box_on_ground(BoundingBox(0.0, 0.0, 1e6, 1e6), PACIFIC, target)
    assert beside is not None
    assert beside.seam is None


@pytest.mark.parametrize(
    ("code", "source", "unit"),
    [("EPSG:4326", "EPSG:3857", 111319.49), ("EPSG:3857", "EPSG:4326", 1.0)],
)
@pytest.mark.parametrize("side", [-1.0, 1.0])
@pytest.mark.parametrize("beyond", [0.95, 0.98, 1.0])
def test_box_in_a_set_that_ends_at_the_antimeridian_is_no_belt(
    code: str, source: str, unit: float, side: float, beyond: float
) -> None:
    """Half of the pixel beyond 180 degrees would be on the other side of the Earth."""
    scale = 1.0 if code == "EPSG:4326" else 111319.4907932736
    x = sorted((side * 179.0 * scale, side * (180.0 + beyond) * scale))
    request = MapRequest(
        (), BoundingBox(x[0], -16 * scale, x[1], -14 * scale), CRS.from_code(code), 100, 100
    )
    crs = CRS.from_code(source)
    edge = 180 * unit
    matrix = TileMatrix("0", edge - 7 * 256 * unit / 200, edge, unit / 200, 256, 256, 7, 100)
    found = part_with_data(request, crs, matrix, turn_of(crs))
    assert found is not None
    _, part, box = found
    assert (box.xmax - box.xmin) / part.width == pytest.approx((1 + beyond) * unit / 100, rel=0.02)


def test_map_of_a_set_that_ends_at_the_antimeridian_has_the_level_of_its_cells(
    tmp_path: Path,
) -> None:
    document = synthetic(
        "END",
        crs="EPSG:3857",
        origin=(math.pi * 6378137.0 - 512000, -1.4e6),
        cell_sizes=[8000, 2000, 500],
        matrix_sizes=[(1, 1), (4, 4), (16, 16)],
        tile_size=(64, 64),
    )
    world = World(tmp_path)
    levels = [LevelPlan(str(n), 0, 4**n - 1, 0, 4**n - 1) for n in range(3)]
    world.add(
        "levels",
        lambda level, row, col: np.full((64, 64, 1), int(level) + 1, np.float32),
        document=document,
        levels=levels,
        of_position=False,
    )
    for east in (180.95, 180.98):
        image = world.draw("levels", BoundingBox(179, -16, east, -14), "EPSG:4326", (100, 100))
        assert image.valid is not None
        assert np.abs(image.pixels[image.valid] - 2.0).max() < 1e-5
    world.close()


@pytest.mark.parametrize("code", ["EPSG:2193", "EPSG:3832", "EPSG:3577", "EPSG:27572", "EPSG:5070"])
def test_projection_in_which_the_antimeridian_is_a_line_like_others_has_no_turn(code: str) -> None:
    assert turn_of(CRS.from_code(code)) == math.inf


@pytest.mark.parametrize("code", ["EPSG:4326", "EPSG:3857"])
@pytest.mark.parametrize(
    ("west", "east"),
    [(-20037508.34, 20037508.343), (-20037508.343, 20037508.34), (-2.1e7, 2.1e7)],
)
def test_world_of_mercator_is_no_sliver(code: str, west: float, east: float) -> None:
    mercator, target = CRS.from_code("EPSG:3395"), CRS.from_code(code)
    found = box_on_ground(BoundingBox(west, -1e7, east, 1e7), mercator, target)
    assert found is not None
    edges, _ = transform("EPSG:4326", code, np.array([-180.0, 180.0]), np.zeros(2))
    assert (found.written.xmin, found.written.xmax) == pytest.approx(tuple(edges))
    assert found.seam is None


@pytest.mark.parametrize(("west", "east"), [(2.00375083e7, 2.1e7), (-2.1e7, -2.00375083e7)])
def test_box_on_one_side_of_the_antimeridian_is_no_belt(west: float, east: float) -> None:
    mercator, target = CRS.from_code("EPSG:3395"), CRS.from_code("EPSG:4326")
    shift = 0.0427892 * (1 if west > 0 else -1)
    box = BoundingBox(west + shift * (west > 0), 0, east + shift * (west < 0), 1e6)
    found = box_on_ground(box, mercator, target)
    assert found is not None
    assert found.box.xmax - found.box.xmin == pytest.approx(8.6461, abs=1e-3)


@pytest.mark.parametrize(
    ("bbox", "west", "east"),
    [
        # The pole on a side, and in a corner.
        (BoundingBox(-1e6, 0.0, 1e6, 1e6), 45.0, -135.0),
        (BoundingBox(-1e6, 0.0, 0.0, 1e6), 135.0, -135.0),
        (BoundingBox(-1e6, -1e6, 1e6, 0.0), -135.0, 45.0),
    ],
)
def test_box_with_a_pole_on_its_border(bbox: BoundingBox, west: float, east: float) -> None:
    found = box_on_ground(bbox, ARCTIC, CRS.from_code("EPSG:4326"))
    assert found is not None
    written = found.written
    assert (written.xmin, written.xmax, written.ymax) == pytest.approx((west, east, 90.0))


QUADRANTS = {
    # West and east of the quadrants (x, y) = (+, +), (-, +), (-, -) and (+, -).
    "EPSG:3413": [(45.0, 135.0), (135.0, -135.0), (-135.0, -45.0), (-45.0, 45.0)],
    "EPSG:3571": [(-90.0, 0.0), (0.0, 90.0), (90.0, 180.0), (-180.0, -90.0)],
    "EPSG:3031": [(0.0, 90.0), (-90.0, 0.0), (-180.0, -90.0), (90.0, 180.0)],
}


@pytest.mark.parametrize("target", ["EPSG:4326", "EPSG:3857"])
@pytest.mark.parametrize("quadrant", range(4))
@pytest.mark.parametrize("code", QUADRANTS)
def test_box_with_a_pole_in_a_corner(code: str, quadrant: int, target: str) -> None:
    x, y = [(0.0, 0.0), (-1e6, 0.0), (-1e6, -1e6), (0.0, -1e6)][quadrant]
    box = BoundingBox(x, y, x + 1e6, y + 1e6)
    found = box_on_ground(box, CRS.from_code(code), CRS.from_code(target))
    assert found is not None
    edges, _ = transform("EPSG:4326", target, np.array(QUADRANTS[code][quadrant]), np.zeros(2))
    written = found.written
    assert (written.xmin, written.xmax) == pytest.approx(tuple(edges), abs=1e-6)
    assert (found.seam is None) == (written.xmin < written.xmax)
    if target == "EPSG:4326":
        pole = -90.0 if code == "EPSG:3031" else 90.0
        assert pole in (written.ymin, written.ymax)


def test_box_with_a_pole_in_a_corner_that_has_a_false_easting() -> None:
    box = BoundingBox(2e6, 2e6, 3e6, 3e6)
    found = box_on_ground(box, CRS.from_code("EPSG:5041"), CRS.from_code("EPSG:4326"))
    assert found is not None
    assert (found.box.xmin, found.box.xmax, found.box.ymax) == pytest.approx((90.0, 180.0, 90.0))


def test_box_with_a_pole_in_a_corner_in_another_polar_crs() -> None:
    box, other = BoundingBox(0.0, 0.0, 1e6, 1e6), CRS.from_code("EPSG:3995")
    found = box_on_ground(box, ARCTIC, other)
    assert found is not None
    assert found.box == ARCTIC.transform_bbox(box, other)


@pytest.mark.parametrize("size", [1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0])
@pytest.mark.parametrize("code", QUADRANTS)
def test_tiny_box_at_a_pole(code: str, size: float) -> None:
    box = BoundingBox(0.0, 0.0, size, size)
    found = box_on_ground(box, CRS.from_code(code), CRS.from_code("CRS:84"))
    assert found is not None
    pole = -90.0 if code == "EPSG:3031" else 90.0
    assert pole in (found.box.ymin, found.box.ymax)
    if size >= 0.1:
        edges = QUADRANTS[code][0]
        assert (found.box.xmin, found.box.xmax) == pytest.approx(edges, abs=0.01)


@pytest.mark.parametrize(("code", "half"), [("EPSG:3408", 9036842.76), ("EPSG:3571", 1e7)])
def test_box_around_a_pole_with_corners_outside_the_globe(code: str, half: float) -> None:
    box = BoundingBox(-half, -half, half, half)
    transformed_box(box, CRS.from_code(code), CRS.from_code("EPSG:3857"))
    box_on_ground(box, CRS.from_code(code), CRS.from_code("EPSG:4326"))
