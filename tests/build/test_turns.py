"""Sources around the earth: wherever they are cut, no pixel is lost, and each is in its place."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pyproj
import pytest
import rasterio
from rasterio.transform import Affine
from rasterio.warp import Resampling, reproject
from tests.build.conftest import Build
from tests.build.ground import grid, noise, read_tiles, write_raster
from tests.sizes import sized
from tests.support.sampling import covering

from mastaba_build.pixels.placement import Placer
from mastaba_build.plan.plan import Plan
from mastaba_build.plugins import OF_ENVIRONMENT
from mastaba_build.sources.sets import load_set, proj_crs
from mastaba_render.api.resampling import GridPositions

HALF = math.pi * 6378137
SETS = ("PM", "4326", "near", "arctic", "antarctic", "pacific")
Images = tuple[np.ndarray, Affine, pyproj.CRS]


def directory_of_sets(folder: Path) -> Path:
    """Write the sets that are not published."""
    for name, crs, x, y, size, count in (
        ("near", "EPSG:4326", -180, 90, 360 / 512 / 1.7, (3, 2)),
        ("arctic", "EPSG:3413", -HALF, HALF, 2 * HALF / 512, (2, 2)),
        ("antarctic", "EPSG:3031", -HALF, HALF, 2 * HALF / 512, (2, 2)),
        ("pacific", "EPSG:3832", -HALF, HALF, 2 * HALF / 512, (2, 2)),
    ):
        matrices = [
            {
                "id": str(level),
                "scaleDenominator": 1,
                "cellSize": size / 2**level,
                "pointOfOrigin": [x, y],
                "tileWidth": 256,
                "tileHeight": 256,
                "matrixWidth": count[0] * 2**level,
                "matrixHeight": count[1] * 2**level,
            }
            for level in range(2)
        ]
        document = {"id": name, "crs": crs, "tileMatrices": matrices}
        if crs == "EPSG:4326":
            document["orderedAxes"] = ["Lon", "Lat"]
        (folder / f"{name}.json").write_text(json.dumps(document))
    return folder


def finest_level(descriptor: Path, set_name: str, directory: Path) -> Images:
    """Return the finest level as one image (NaN without data), its georeferencing and its CRS."""
    document = json.loads(descriptor.read_text())
    level = document["levels"][-1]["id"]
    tile_matrix_set, _ = load_set(set_name, directory, OF_ENVIRONMENT)
    matrix = tile_matrix_set.matrices[level]
    width, height = matrix.tile_width, matrix.tile_height
    shape = matrix.matrix_height * height, matrix.matrix_width * width
    image = np.full(shape, np.nan, np.float32)
    for (found, row, column), tile in read_tiles(descriptor).items():
        if found == level:
            part = np.s_[row * height : (row + 1) * height, column * width : (column + 1) * width]
            image[part] = tile[:, :, 0]
    image[image == -99999] = np.nan
    return (
        image,
        grid(matrix.origin_x, matrix.origin_y, matrix.cell_size),
        proj_crs(tile_matrix_set.crs.code),
    )


def places(source: Path, shape: tuple[int, int], transform: Affine, crs: pyproj.CRS) -> np.ndarray:
    """Return column and row in a source of the pixels of an image, computed without a grid.

    Columns are counted from the left edge, in the turn that begins there; NaN outside the source.
    """
    with rasterio.open(source) as dataset:
        own, (a, _, c, _, e, f) = dataset.crs.to_wkt(), tuple(dataset.transform)[:6]
        width, height = dataset.shape[::-1]
    rows, columns = np.indices(shape)
    x, y = transform.c + (columns + 0.5) * transform.a, transform.f + (rows + 0.5) * transform.e
    x, y = pyproj.Transformer.from_crs(crs, own, always_xy=True).transform(x, y)
    column, row = ((x - c) / a) % (turn_of(source)), (y - f) / e
    outside = ~((column < width) & (row >= 0) & (row < height))
    column[outside], row[outside] = np.nan, np.nan
    return np.stack([column, row])


def turn_of(source: Path) -> float:
    """Return the columns of a source in a full turn."""
    with rasterio.open(source) as dataset:
        turns = {"EPSG:4326": 360, "EPSG:3857": 2 * HALF}
        return turns.get(str(dataset.crs), math.inf) / dataset.res[0]


def numbered(path: Path, left: float, width: float, size: float, crs: str = "EPSG:4326") -> Path:
    """Write a raster around the equator whose pixels have their numbers as values."""
    columns, rows = round(width / size), round(width / size / 2)
    if crs == "EPSG:4326":
        rows = min(rows, int(180 / size))
    values = np.arange(rows * columns, dtype=np.float32).reshape(1, rows, columns)
    return write_raster(path, values, grid(left, rows * size / 2, size), crs)


def check(build: Build, source: Path, set_name: str, sets: Path) -> None:
    """Build a numbered raster and compare each pixel with its place, and with GDAL's warper."""
    descriptor = build(
        source, interpolation="nn", tile_matrix_set=set_name, tile_matrix_sets=str(sets)
    )
    image, transform, crs = finest_level(descriptor, set_name, sets)
    column, row = places(source, image.shape, transform, crs)
    with rasterio.open(source) as dataset:
        width, values, profile = dataset.width, dataset.read(1), dataset.profile
    expected, found, turn = ~np.isnan(column), ~np.isnan(image), turn_of(source)
    assert expected.mean() > 1e-3
    inner = expected & (row > 0.1) & (row < len(values) - 0.1)
    if width < turn - 1e-6:
        inner &= (column > 0.1) & (column < width - 0.1)
    assert not (inner & ~found).any(), f"{(inner & ~found).sum()} of {inner.sum()} lost"
    # Positions may be wrong by 1/16 source pixel; by more around a pole.
    own = np.nan_to_num(image).astype(int)
    across = np.abs(own % width + 0.5 - column)
    reach = 0.8 if set_name in ("arctic", "antarctic") else 0.6
    wrong = np.fmin(across, turn - across) > reach
    wrong |= np.abs(own // width + 0.5 - row) > reach
    assert not (wrong & expected & found).any()
    by_gdal = np.full(image.shape, np.nan, np.float32)
    reproject(
        values,
        by_gdal,
        src_transform=profile["transform"],
        src_crs=profile["crs"],
        dst_transform=transform,
        dst_crs=crs.to_wkt(),
        init_dest_nodata=True,
        dst_nodata=np.nan,
        resampling=Resampling.nearest,
        tolerance=0,
    )
    both = found & ~np.isnan(by_gdal)
    assert both.sum() > 0.3 * expected.sum()  # GDAL also loses parts of some
    assert (image != by_gdal)[both].mean() < 0.06
    assert not (inner & ~np.isnan(by_gdal) & ~found).any()


LEFTS = (-180, 0, -100, -170, 170, -180.125)
QUICK = {
    (-100, 2.5, 360, "PM"),
    (-170, 2.5, 360, "4326"),
    (0, 2.5, 180, "PM"),
    (170, 0.7, 360, "near"),
    (170, 1.2, 30, "arctic"),
}
PRODUCT = list(product(LEFTS, (2.5, 1.2, 0.7), (360, 180, 30), SETS))
CHOSEN = covering(PRODUCT, sized(2, 3))
CASES = [case for number, case in enumerate(PRODUCT) if number in CHOSEN or case in QUICK]
"""All combinations of two of the four parameters, or of three."""


@pytest.mark.parametrize(
    ("left", "size", "width", "set_name"),
    [
        pytest.param(*case, marks=() if case in QUICK else pytest.mark.thorough, id=f"{case}")
        for case in CASES
    ],
)
def test_no_left_edge_loses_a_pixel(
    tmp_path: Path, build_of: Build, left: float, size: float, width: float, set_name: str
) -> None:
    source = numbered(tmp_path / "world.tif", left, width, size)
    check(build_of, source, set_name, directory_of_sets(tmp_path))


@pytest.mark.parametrize(
    ("left", "width", "set_name"),
    [
        (0.8 * HALF, 0.5 * HALF, "PM"),
        *(
            pytest.param(left, width, set_name, marks=pytest.mark.thorough)
            for left, width, set_name in (
                (0.8 * HALF, 0.5 * HALF, "4326"),
                (0, 2 * HALF, "PM"),
                (0, 2 * HALF, "pacific"),
                (-1.3 * HALF, 0.5 * HALF, "PM"),
                (-0.4 * HALF, 2 * HALF, "4326"),
            )
        ),
    ],
)
def test_a_mercator_raster_may_cross_the_antimeridian(
    tmp_path: Path, build_of: Build, left: float, width: float, set_name: str
) -> None:
    source = numbered(tmp_path / "sea.tif", left, width, HALF / 100, "EPSG:3857")
    check(build_of, source, set_name, directory_of_sets(tmp_path))


def test_positions_between_conformal_crss_are_exact(
    tmp_path: Path, plan_of: Callable[..., Plan]
) -> None:
    """In the middle of a cell, the errors of linear positions along x and y cancel each other."""
    source = write_raster(tmp_path / "a.tif", noise(1, 100, 200), grid(-2e6, 1e6, 2e4), "EPSG:3413")
    plan = plan_of(source)
    (group,), level = plan.groups, plan.levels[0]
    matrix, limits = level.matrix, level.limits
    change = pyproj.Transformer.from_crs("EPSG:3857", "EPSG:3413", always_xy=True)
    placer, checked = Placer(group, matrix, plan.crs, "nn", "average"), 0
    for row in range(limits.min_row, limits.max_row + 1):
        for column, one in placer.place(row, range(limits.min_col, limits.max_col + 1)):
            positions = one.positions
            assert isinstance(positions, GridPositions)
            rows, columns = np.arange(*one.part[:2]), np.arange(*one.part[2:])
            found = [
                np.array([np.interp(columns, positions.across, line) for line in field]).T
                for field in positions.fields
            ]
            found = [
                np.array([np.interp(rows, positions.down, line) for line in field]).T
                for field in found
            ]
            x = matrix.origin_x + (column * 256 + columns + 0.5) * matrix.cell_size
            y = matrix.origin_y - (row * 256 + rows + 0.5) * matrix.cell_size
            east, north = change.transform(*np.meshgrid(x, y))
            exact = (east + 2e6) / 2e4 - 0.5, (1e6 - north) / 2e4 - 0.5
            inside = (np.abs(exact[0] - 100) < 99) & (np.abs(exact[1] - 50) < 49)
            for ours, other in zip(found, exact, strict=True):
                assert np.abs(ours - other)[inside].max(initial=0) <= 1 / 16
            checked += inside.sum()
    assert checked > 10_000


@pytest.mark.thorough
def test_the_world_has_no_seam_where_it_is_cut(tmp_path: Path, build_of: Build) -> None:
    """The kernels go on across the cut, so the same world cut elsewhere has the same pixels."""
    values = noise(1, 72, 144).astype(np.float32)
    found = []
    for number, columns in enumerate((0, 50, 100)):
        source = write_raster(
            tmp_path / f"{number}.tif",
            np.roll(values, -columns, axis=2),
            grid(-180 + 2.5 * columns, 90, 2.5),
            "EPSG:4326",
        )
        found.append(read_tiles(build_of(source, name=f"w{number}", bottom="1", top="1")))
    for other in found[1:]:
        assert other.keys() == found[0].keys()
        for tile, expected in found[0].items():
            np.testing.assert_allclose(other[tile], expected, atol=0.02)


def test_a_narrow_source_across_the_antimeridian_needs_few_slabs(
    tmp_path: Path, plan_of: Callable[..., Plan]
) -> None:
    utm = write_raster(
        tmp_path / "utm.tif", noise(1, 300, 300), grid(816_500, 8_000_000, 10), "EPSG:32760"
    )
    plan = plan_of(utm, slab=[1, 1])
    columns = {slab.column for slab in plan.slabs(0)}
    assert min(columns) == 0
    assert len(columns) < 8
    assert plan.levels[0].matrix.id == "14"
