"""Pixels depend on the plan and the sources only."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import numpy as np
import pyproj
import pytest
from tests.build.conftest import Build, built
from tests.build.ground import Tile, grid, noise, read_tiles, write_raster
from tests.support.sampling import one_in

from mastaba_build.plan.plan import Plan
from mastaba_build.work.build import build
from mastaba_build.work.reports import Reports
from mastaba_render.native import decimate

HALF = math.pi * 6378137


def cell(level: int) -> float:
    """Return the cell size of a level of PM."""
    return HALF / 128 / 2**level


def aligned(level: int, tile_row: int, tile_col: int) -> tuple[float, float]:
    """Return the upper left corner of a tile of PM."""
    return -HALF + tile_col * 256 * cell(level), HALF - tile_row * 256 * cell(level)


def centres(tile: Tile) -> tuple[np.ndarray, np.ndarray]:
    """Return x and y in EPSG:3857 of the pixel centres of a tile, shape (256, 256)."""
    level, row, column = int(tile[0]), tile[1], tile[2]
    x, y = aligned(level, row, column)
    along = (np.arange(256) + 0.5) * cell(level)
    return np.meshgrid(x + along, y - along)


@pytest.mark.parametrize(
    "options",
    [
        {"format": "zip", "channels": 1, "interpolation": "lanczos_3"},
        *(
            pytest.param(options, marks=pytest.mark.thorough)
            for options in (
                {"format": "png", "channels": 3},
                {"format": "zip", "channels": 4},
                {"format": "png", "channels": 2, "interpolation": "nn"},
            )
        ),
    ],
    ids=lambda options: f"{options['format']}-{options['channels']}",
)
def test_the_layout_of_slabs_does_not_change_a_pixel(
    tmp_path: Path, build_of: Build, options: dict[str, object]
) -> None:
    pixels = noise(3, 450, 560)
    pixels[:, 200:260, 300:420] = 7
    source = write_raster(
        tmp_path / "a.tif", pixels, grid(900010.3, 6500007.1, 4.7), "EPSG:2154", nodata=7
    )
    found = [
        read_tiles(build_of(source, name=f"s{size}", slab=[size, size], **options))
        for size in (1, 2, 8)
    ]
    assert len(found[0]) > 20
    for other in found[1:]:
        assert other.keys() == found[0].keys()
        for tile, expected in found[0].items():
            assert np.array_equal(other[tile], expected), tile


def test_pixels_of_the_set_are_copied(tmp_path: Path, build_of: Build) -> None:
    pixels = noise(3, 600, 800)
    x, y = aligned(10, 300, 500)
    source = write_raster(
        tmp_path / "a.tif",
        pixels,
        grid(x + 40 * cell(10), y - 30 * cell(10), cell(10)),
        "EPSG:3857",
    )
    tiles = read_tiles(build_of(source, format="zip"))
    canvas = np.full((3 * 256, 4 * 256, 3), 255, np.uint8)
    canvas[30:630, 40:840] = np.moveaxis(pixels, 0, -1)
    for row in range(3):
        for column in range(4):
            stored = tiles["10", 300 + row, 500 + column]
            part = canvas[row * 256 : row * 256 + 256, column * 256 : column * 256 + 256]
            assert np.array_equal(stored, part), (row, column)


@pytest.mark.sampled
@pytest.mark.parametrize("crs", ["EPSG:4326", "EPSG:2154", "EPSG:32631"])
@pytest.mark.parametrize("kernel", ["linear", "bicubic", "lanczos_3"])
def test_a_gradient_is_in_its_place_across_tiles(
    tmp_path: Path, build_of: Build, crs: str, kernel: str
) -> None:
    to_source = pyproj.Transformer.from_crs("EPSG:3857", crs, always_xy=True)
    x, y = to_source.transform(*aligned(12, 1450, 2100))
    size = 1e-4 if crs == "EPSG:4326" else 9.0
    columns, rows = np.arange(500), np.arange(400)[:, np.newaxis]
    values = (1000 + 2.0 * columns + 3.0 * rows).astype(np.float32)
    source = write_raster(tmp_path / "a.tif", values[np.newaxis], grid(x, y, size), crs)
    tiles = read_tiles(build_of(source, bottom="13", top="13", interpolation=kernel))
    assert len(tiles) >= 4
    checked = 0
    for tile, pixels in tiles.items():
        east, north = to_source.transform(*centres(tile))
        column, row = (east - x) / size - 0.5, (y - north) / size - 0.5
        inside = (column > 8) & (column < 491) & (row > 8) & (row < 391)
        error = np.abs(pixels[:, :, 0] - (1000 + 2 * column + 3 * row))[inside]
        # A position may be wrong by 1/16 source pixel plus the 1/1024 of the stencil.
        assert error.max(initial=0) < 5 * (1 / 16 + 1 / 512) + 0.02 * (kernel == "lanczos_3") * 20
        checked += inside.sum()
    assert checked > 50_000


@pytest.mark.parametrize("value", one_in(4, [254, 0, 1, 127]))
def test_a_constant_image_stays_constant_on_all_levels(
    tmp_path: Path, build_of: Build, value: int
) -> None:
    pixels = np.full((3, 500, 500), value, np.uint8)
    source = write_raster(tmp_path / "a.tif", pixels, grid(900003, 6500001, 7), "EPSG:2154")
    tiles = read_tiles(build_of(source, format="png", channels=4, top="3"))
    assert {tile[0] for tile in tiles} > {"3", "10"}
    for pixels_of_tile in tiles.values():
        visible = pixels_of_tile[:, :, 3] > 0
        assert visible.any()
        assert (pixels_of_tile[visible][:, :3] == value).all()


def test_halving_keeps_the_mean() -> None:
    generator = np.random.default_rng(5)
    samples = generator.integers(0, 256, (1024, 1024, 3)).astype(np.uint8)
    valid = np.ones((1024, 1024), bool)
    mean = samples.mean()
    for level in range(1, 6):
        samples, valid = decimate(samples, valid, 2)
        assert abs(samples.mean() - mean) < 0.02 * level


def test_halving_rounds_half_to_even_and_counts_valid_pixels_only() -> None:
    quads = np.array([[0, 0, 1, 2], [1, 1, 2, 1], [9, 0, 200, 0], [0, 0, 0, 0]], np.uint8)
    valid = np.array([[1, 1, 1, 1], [1, 1, 1, 1], [1, 0, 0, 0], [0, 0, 0, 0]], bool)
    quads[~valid] = 0
    pixels, found = decimate(quads[:, :, np.newaxis], valid, 2)
    assert pixels[:, :, 0].tolist() == [[0, 2], [9, 0]]
    assert found.tolist() == [[True, True], [True, False]]


def test_halving_weighs_colours_by_alpha() -> None:
    samples = np.array([[[200, 255], [0, 0]], [[100, 255], [0, 0]]], np.uint8)
    pixels, _ = decimate(samples, np.ones((2, 2), bool), 2, has_alpha=True)
    assert pixels.tolist() == [[[150, 128]]]


def test_nodata_never_mixes_with_data(tmp_path: Path, build_of: Build) -> None:
    values = np.full((1, 500, 600), 800, np.float32)
    values[0, 100:220, 150:330] = -9999
    values[0, 300, :] = np.nan
    source = write_raster(
        tmp_path / "dem.tif", values, grid(5.0, 45.5, 1e-4), "EPSG:4326", nodata=-9999
    )
    tiles = read_tiles(build_of(source))
    found = np.unique(np.concatenate([tile.ravel() for tile in tiles.values()]))
    assert found[0] == -99999
    assert np.allclose(found[1:], 800, atol=1e-3)


@pytest.mark.sampled(one_in=2)
@pytest.mark.parametrize(
    "kernel",
    [
        "lanczos_2",
        *(
            pytest.param(kernel, marks=pytest.mark.thorough)
            for kernel in ("nn", "linear", "bicubic", "lanczos_3", "lanczos_4")
        ),
    ],
)
@pytest.mark.parametrize(("crs", "size"), [("EPSG:2154", 37.0), ("EPSG:3857", 53.0)])
def test_no_value_next_to_a_gap_leaves_the_range_of_its_pixels(
    tmp_path: Path, build_of: Build, kernel: str, crs: str, size: float
) -> None:
    random = np.random.default_rng(7)
    values = random.choice(np.array([100, 200], np.float32), (1, 400, 400))
    # Each kernel meets a gap, and some gaps leave single pixels only.
    values[0, ::4, ::4] = -9999
    values[0, ::4, 2::8] = np.nan
    values[0, 100:110, 100:110] = np.inf
    values[0, 200:260][random.random((60, 400)) < 0.9] = -9999
    left, top = (900003, 6500001) if crs == "EPSG:2154" else (500003, 5600001)
    source = write_raster(tmp_path / "dem.tif", values, grid(left, top, size), crs, nodata=-9999)
    tiles = read_tiles(build_of(source, interpolation=kernel, top="8"))
    assert len({tile[0] for tile in tiles}) > 3
    outside = checked = 0
    for tile in tiles.values():
        found = tile[tile != -99999]
        assert np.isfinite(found).all()
        # The overshoot of a complete kernel
        assert found.min(initial=100) > 50
        assert found.max(initial=200) < 250
        outside += np.count_nonzero((found < 99.999) | (found > 200.001))
        checked += found.size
    assert checked > 50_000
    assert outside < 0.005 * checked


@pytest.mark.thorough
def test_sheets_of_one_coverage_have_no_seam(tmp_path: Path, build_of: Build) -> None:
    pixels = noise(3, 600, 800)
    whole = write_raster(tmp_path / "whole.tif", pixels, grid(900000, 6500000, 5), "EPSG:2154")
    folder = tmp_path / "sheets"
    folder.mkdir()
    for row in range(2):
        for column in range(2):
            part = pixels[:, row * 300 : row * 300 + 300, column * 400 : column * 400 + 400]
            corner = grid(900000 + column * 2000, 6500000 - row * 1500, 5)
            write_raster(folder / f"{row}{column}.tif", part, corner, "EPSG:2154")
    one = read_tiles(build_of(whole, name="one", format="png"))
    four = read_tiles(build_of(folder, name="four", format="png"))
    assert one.keys() == four.keys()
    for tile, expected in one.items():
        assert np.array_equal(four[tile], expected), tile


def test_sheets_far_from_each_other_need_no_slabs_between_them(
    tmp_path: Path, plan_of: Callable[..., Plan]
) -> None:
    sheets = [
        write_raster(tmp_path / f"{x}.tif", noise(3, 300, 300), grid(x, 6500000, 5), "EPSG:2154")
        for x in (900000, 1100000)
    ]
    both = plan_of(*sheets, slab=[1, 1])
    assert len(both.groups) == 1
    apart = [set(plan_of(sheet, slab=[1, 1]).slabs(0)) for sheet in sheets]
    assert apart[0] | apart[1] <= set(both.slabs(0))
    assert len(list(both.slabs(0))) <= 2 * sum(map(len, apart))


def test_later_sources_are_drawn_over_earlier_ones(tmp_path: Path, build_of: Build) -> None:
    x, y = aligned(10, 300, 500)
    low = np.full((3, 256, 256), 10, np.uint8)
    high = np.full((3, 256, 256), 200, np.uint8)
    high[:, :, :100] = 0
    lower = write_raster(tmp_path / "z.tif", low, grid(x, y, cell(10)), "EPSG:3857")
    upper = write_raster(tmp_path / "a.tif", high, grid(x, y, cell(10)), "EPSG:3857", nodata=0)
    tile = read_tiles(build_of(lower, upper, format="zip", top="10"))["10", 300, 500]
    assert (tile[:, :100] == 10).all()
    assert (tile[:, 100:] == 200).all()


def odd_set(folder: Path, sizes: list[float]) -> None:
    """Write a tile matrix set with some cell sizes, from the coarsest on."""
    document = {
        "id": "ODD",
        "crs": "EPSG:2154",
        "orderedAxes": ["X", "Y"],
        "tileMatrices": [
            {
                "id": str(level),
                "cellSize": size,
                "scaleDenominator": size / 0.00028,
                "pointOfOrigin": [0, 12000000],
                "tileWidth": 256,
                "tileHeight": 256,
                "matrixWidth": 5000,
                "matrixHeight": 5000,
            }
            for level, size in enumerate(sizes)
        ],
    }
    (folder / "ODD.json").write_text(json.dumps(document))


def test_sets_whose_levels_are_not_multiples(tmp_path: Path, build_of: Build) -> None:
    sizes = [100, 40, 10]
    odd_set(tmp_path, sizes)
    columns = np.broadcast_to(np.arange(1000), (1000, 1000))
    values = columns[np.newaxis].astype(np.float32)
    source = write_raster(tmp_path / "a.tif", values, grid(900000, 6500000, 10), "EPSG:2154")
    tiles = read_tiles(build_of(source, tile_matrix_set="ODD", tile_matrix_sets=str(tmp_path)))
    assert {tile[0] for tile in tiles} == {"0", "1", "2"}
    for (level, row, column), pixels in tiles.items():
        size = sizes[int(level)]
        x = (column * 256 + np.arange(256) + 0.5) * size
        y = 12000000 - (row * 256 + np.arange(256) + 0.5) * size
        inside = (x > 900300) & (x < 909700)
        rows = (y < 6499700) & (y > 6490300)
        found = pixels[:, :, 0][np.ix_(rows, inside)]
        if found.size:
            assert np.abs(found - ((x[inside] - 900000) / 10 - 0.5)).max() < 0.1


def test_cell_sizes_may_have_fractions(tmp_path: Path, plan_of: Callable[..., Plan]) -> None:
    odd_set(tmp_path, [0.8, 0.4, 0.3, 0.1])
    source = write_raster(
        tmp_path / "a.tif", noise(1, 90, 90), grid(99, 11999900, 0.1), "EPSG:2154"
    )
    options = {"tile_matrix_set": "ODD", "tile_matrix_sets": str(tmp_path), "slab": [1, 1]}
    plan = plan_of(source, **options)
    # A tile is not a whole number of pixels that are three times as large.
    assert [level.factor for level in plan.levels] == [0, 0, 0, 2]


def test_a_source_may_cross_the_antimeridian(tmp_path: Path, build_of: Build) -> None:
    pixels = np.full((1, 40, 80), 90, np.uint8)
    source = write_raster(tmp_path / "a.tif", pixels, grid(178, 1, 0.05), "EPSG:4326")
    tiles = read_tiles(build_of(source, format="png", channels=2, bottom="8", top="8"))
    assert {tile[2] for tile in tiles} == {0, 1, 254, 255}
    for (_, _, column), pixels_of_tile in tiles.items():
        covered = pixels_of_tile[:, :, 1] > 0
        assert (pixels_of_tile[covered][:, 0] == 90).all()
        if column in (0, 255):
            assert covered.any(axis=0).all()


@pytest.mark.sampled(one_in=2)
@pytest.mark.parametrize("west", [-180.5, 0, 178, 358])
def test_longitudes_in_another_turn_are_in_a_set_of_the_same_crs(
    tmp_path: Path, build_of: Build, west: float
) -> None:
    pixels = np.arange(1, 241, dtype=np.uint8).reshape(1, 1, 240).repeat(4, axis=1)
    size = 1.5 if west == 0 else 0.05
    source = write_raster(tmp_path / "a.tif", pixels, grid(west, 2 * size, size), "EPSG:4326")
    options = {"tile_matrix_set": "4326", "interpolation": "nn", "format": "png", "channels": 2}
    level = 3 if west == 0 else 6
    tiles = read_tiles(build_of(source, bottom=str(level), top=str(level), **options))
    width = 2 * 2**level * 256
    row = np.zeros((width, 2), np.uint8)
    for (_, tile_row, column), found in tiles.items():
        if tile_row == 2 ** (level - 1) - 1:
            row[256 * column : 256 * (column + 1)] = found[-1]
    longitudes = -180 + (np.arange(width) + 0.5) * 360 / width
    expected = (((longitudes - west) % 360) // size).astype(int)
    covered = expected < 240
    assert np.array_equal(row[:, 1] > 0, covered)
    # Two pixels of the source may be equally near.
    assert np.isclose(row[covered, 0], expected[covered] + 1, atol=1).all()


@pytest.mark.parametrize("method", one_in(5, ["average", "nn", "mode", "min", "max"]))
def test_levels_of_whole_ratios_come_from_the_level_below(
    tmp_path: Path, plan_of: Callable[..., Plan], build_of: Build, method: str
) -> None:
    odd_set(tmp_path, [160, 40, 10])
    classes = np.random.default_rng(2).integers(1, 5, (1, 1300, 1300)).astype(np.uint8)
    source = write_raster(tmp_path / "a.tif", classes, grid(900000, 6500000, 10), "EPSG:2154")
    options = {
        "tile_matrix_set": "ODD",
        "tile_matrix_sets": str(tmp_path),
        "slab": [2, 2],
        "interpolation": "nn",
        "decimation": method,
        "format": "png",
        "channels": 2,
    }
    plan = plan_of(source, **options)
    assert [level.factor for level in plan.levels] == [0, 4, 4]
    tiles = read_tiles(build_of(source, **options))
    for level in (1, 0):
        for tile in [tile for tile in tiles if tile[0] == str(level)]:
            below = np.zeros((1024, 1024, 2), np.uint8)
            for row, column in np.ndindex(4, 4):
                child = tiles.get((str(level + 1), 4 * tile[1] + row, 4 * tile[2] + column))
                if child is not None:
                    below[256 * row : 256 * row + 256, 256 * column : 256 * column + 256] = child
            expected, _ = decimate(below, below[:, :, 1] > 0, 4, method, has_alpha=True)
            assert np.array_equal(tiles[tile], expected), tile


def test_classes_are_never_mixed(tmp_path: Path, build_of: Build) -> None:
    classes = np.random.default_rng(3).choice([10, 200], (1, 900, 900)).astype(np.uint8)
    source = write_raster(tmp_path / "a.tif", classes, grid(900000, 6500000, 10), "EPSG:2154")
    odd_set(tmp_path, [85, 34])
    options = {"tile_matrix_set": "ODD", "tile_matrix_sets": str(tmp_path), "format": "png"}
    tiles = read_tiles(build_of(source, decimation="mode", channels=2, **options))
    assert {tile[0] for tile in tiles} == {"0", "1"}
    for pixels in tiles.values():
        assert set(np.unique(pixels[pixels[:, :, 1] > 0][:, 0])) <= {10, 200}


def test_data_that_nn_leaves_out_is_only_in_the_lower_level(
    tmp_path: Path, plan_of: Callable[..., Plan]
) -> None:
    odd_set(tmp_path, [40, 20, 10])
    pixels = np.zeros((1, 400, 400), np.uint8)
    # Of two pixels, nn takes the upper left one.
    pixels[:, 1::2, 1::2] = 9
    options = {
        "tile_matrix_set": "ODD",
        "tile_matrix_sets": str(tmp_path),
        "interpolation": "nn",
        "decimation": "nn",
        "format": "png",
        "channels": 1,
    }
    source = write_raster(
        tmp_path / "a.tif", pixels, grid(900000, 6500000, 10), "EPSG:2154", nodata=0
    )
    found = read_tiles(built(plan_of(source, **options)))
    assert {tile[0] for tile in found} == {"2"}
    assert sum(int((tile == 9).sum()) for tile in found.values()) == 200 * 200

    # The next run has no quarter images, and makes them from the stored slabs.
    more = write_raster(tmp_path / "b.tif", pixels + 7, grid(904000, 6500000, 10), "EPSG:2154")
    updated, errors = plan_of(source, more, **options), StringIO()
    assert build(updated, Reports(StringIO(), errors), update="new"), errors.getvalue()
    whole = read_tiles(built(plan_of(source, more, **options, output=str(tmp_path / "whole"))))
    found = read_tiles(tmp_path / "out/map.json")
    assert {tile[0] for tile in found} == {"0", "1", "2"}
    assert found.keys() == whole.keys()
    assert all(np.array_equal(found[tile], whole[tile]) for tile in found)
