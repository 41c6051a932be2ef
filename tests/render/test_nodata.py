"""Nodata: floats are never mixed with it, colours are (resampling.md 7 and 10)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.render.ground import KERNELS, MESH_CENTRE, MESH_LEVELS, World, around

from mastaba.model.bbox import BoundingBox
from mastaba.model.tile_matrix_set import TileLimits
from mastaba_writer.pyramids import LevelPlan

EDGE = 8
"""The column of tiles of the finest level where data begin: the first of a slab, since absent
tiles of a slab that has others are stored as tiles of nodata."""

CRSS = ["EPSG:3857", "EPSG:4326", "EPSG:2154"]


@pytest.fixture
def holes(world: World) -> World:
    """Return layers of the value 100 with holes.

    ``flat``: floats, nodata inside tiles and tiles absent. ``grey``: bytes, tiles absent.
    The pyramid is absent west of `EDGE`; inside ``flat``, some rows of each tile are nodata.
    """

    def flat(level: str, row: int, col: int) -> np.ndarray | None:
        if col * 64 * int(1600 / 2 ** int(level)) < EDGE * 64 * 400:
            return None
        pixels = np.full((48, 64, 1), 100, np.float32)
        pixels[:4] = -99999
        pixels[20:24, 30:33] = -99999
        return pixels

    def grey(level: str, row: int, col: int) -> np.ndarray | None:
        return None if col < EDGE else np.full((48, 64, 1), 100, np.uint8)

    world.add("flat", flat, of_position=False)
    world.add(
        "grey",
        grey,
        of_position=False,
        format="TIFF_RAW_UINT8",
        levels=MESH_LEVELS[-1:],
        nodata=[20],
    )
    return world


@pytest.mark.sampled
@pytest.mark.parametrize("scale", [0.31, 1.0, 1.37, 2.6])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("crs", CRSS)
def test_floats_are_data_or_nodata_and_nothing_between(
    holes: World, crs: str, kernel: str, scale: float
) -> None:
    layer = replace(holes.layer("flat"), resampling=kernel)
    side = 30000.0 * scale * (1.0 if crs == "EPSG:3857" else 0.7)
    box = (side / 77000, side / 111000) if crs == "EPSG:4326" else (side, side)
    bbox = around(crs, *box, (100000 + EDGE * 64 * 400 + 300, MESH_CENTRE[1]))
    image = holes.draw(layer, bbox, crs, (75, 75))
    assert image.valid is not None
    assert 0.2 < image.valid.mean() < 0.8
    assert np.abs(image.pixels[image.valid] - 100).max() < 1e-2
    assert (image.pixels[~image.valid] == -99999).all()


@pytest.mark.sampled
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("crs", CRSS)
def test_values_that_are_no_numbers_are_no_data(world: World, crs: str, kernel: str) -> None:
    def spoilt(level: str, row: int, col: int) -> np.ndarray:
        pixels = np.full((48, 64, 1), 100, np.float32)
        pixels[10:14, 10:14] = np.nan
        pixels[20:24, 20:24] = np.inf
        pixels[30:34, 30:34] = -np.inf
        return pixels

    world.add("spoilt", spoilt, of_position=False)
    layer = replace(world.layer("spoilt"), resampling=kernel)
    side = 30000.0 if crs == "EPSG:3857" else 21000.0
    box = (side / 77000, side / 111000) if crs == "EPSG:4326" else (side, side)
    image = world.draw(layer, around(crs, *box, MESH_CENTRE), crs, (75, 75))
    assert image.valid is not None
    assert 0.9 < image.valid.mean() < 1.0
    assert np.abs(image.pixels[image.valid] - 100).max() < 1e-2
    assert (image.pixels[~image.valid] == -99999).all()


def weights_inside(positions: np.ndarray, edge: float) -> np.ndarray:
    """Return the part of a linear kernel over pixels from ``edge`` on, which sums to 1."""
    low = np.floor(positions)
    share = positions - low
    return np.where(low >= edge, 1 - share, 0) + np.where(low + 1 >= edge, share, 0)


def across_the_edge(holes: World) -> tuple[BoundingBox, np.ndarray]:
    """Return a box over the western edge of the data, and source columns of its 70 columns."""
    matrix = holes.layer("grey").pyramid.finest.matrix
    left = matrix.origin_x + (EDGE * 64 - 7) * 400
    top = matrix.origin_y - 10 * 400
    cell = 400 / 4.7
    box = BoundingBox(left, top - 12 * 400, left + 70 * cell, top)
    return box, (left + (np.arange(70) + 0.5) * cell - matrix.origin_x) / 400 - 0.5


def test_half_of_the_weights_make_a_pixel_of_floats(holes: World) -> None:
    box, columns = across_the_edge(holes)
    image = holes.draw("flat", box, "EPSG:3857", (70, 40))
    assert image.valid is not None
    expected = weights_inside(columns, EDGE * 64) >= 0.5
    assert 0 < expected.sum() < 70
    assert (image.valid == expected).all()


def test_half_of_the_weights_make_a_pixel_of_bytes(holes: World) -> None:
    """Their colours mix with those of nodata all the same."""
    box, columns = across_the_edge(holes)
    image = holes.draw("grey", box, "EPSG:3857", (70, 40))
    assert image.valid is not None
    weights = weights_inside(columns, EDGE * 64)
    assert (image.valid == (weights >= 0.5)).all()
    mixed = 100 * weights + 20 * (1 - weights)
    assert ((mixed > 21) & (mixed < 99)).any()
    assert np.abs(image.pixels[:, :, 0] - mixed).max() <= 0.51


def test_exactly_half_is_data(holes: World) -> None:
    matrix = holes.layer("grey").pyramid.finest.matrix
    # Every second column lies on the border of two source pixels.
    left = matrix.origin_x + (EDGE * 64 - 3) * 400 - 100
    top = matrix.origin_y - 10 * 400
    box = BoundingBox(left, top - 40 * 200, left + 40 * 200, top)
    image = holes.draw("grey", box, "EPSG:3857", (40, 40))
    assert image.valid is not None
    columns = (left + (np.arange(40) + 0.5) * 200 - matrix.origin_x) / 400 - 0.5
    weights = weights_inside(columns, EDGE * 64)
    assert (np.abs(weights - 0.5) < 1e-9).sum() == 1
    assert (image.valid == (weights > 0.5 - 1e-9)).all()


def test_stored_nodata_is_a_colour_in_bytes_and_none_in_floats(world: World) -> None:
    world.add(
        "grey",
        lambda level, row, col: np.full((48, 64, 1), 20, np.uint8),
        of_position=False,
        format="TIFF_RAW_UINT8",
        nodata=[20],
    )
    world.add(
        "flat",
        lambda level, row, col: np.full((48, 64, 1), -99999, np.float32),
        of_position=False,
    )
    for crs in ("EPSG:3857", "EPSG:2154"):
        box = around(crs, 9000, 9000, MESH_CENTRE)
        assert world.draw("grey", box, crs, (40, 40)).valid is None
        image = world.draw("flat", box, crs, (40, 40))
        assert image.valid is not None
        assert not image.valid.any()
        assert (image.pixels == -99999).all()


@pytest.mark.parametrize("name", ["flat", "grey"])
@pytest.mark.parametrize("crs", CRSS)
def test_map_of_nothing_is_nodata(holes: World, crs: str, name: str) -> None:
    side = (0.1, 0.1) if crs == "EPSG:4326" else (9000.0, 9000.0)
    far = (MESH_CENTRE[0] + 400000, MESH_CENTRE[1])
    west = (MESH_CENTRE[0] - 100000, MESH_CENTRE[1])
    for centre in (far, west):
        image = holes.draw(name, around(crs, *side, centre), crs, (30, 20))
        assert image.valid is not None
        assert not image.valid.any()
        assert (image.pixels == holes.layer(name).pyramid.raster.nodata[0]).all()
        assert image.pixels.shape == (20, 30, 1)


def test_tiles_beyond_the_limits_are_not_data(world: World) -> None:
    """Slabs extend beyond the limits; their tiles there are not read."""

    def grey(level: str, row: int, col: int) -> np.ndarray:
        return np.full((48, 64, 1), 100, np.uint8)

    # In slabs of four by four tiles, all others are stored as tiles of nodata.
    plan = LevelPlan("2", 1, 2, 5, 6)
    world.add("grey", grey, of_position=False, format="TIFF_RAW_UINT8", levels=[plan], nodata=[20])
    matrix = world.layer("grey").pyramid.finest.matrix
    box = matrix.bbox_of(TileLimits(0, 3, 4, 7))
    image = world.draw("grey", box, "EPSG:3857", (256, 192))
    inside = np.zeros((192, 256), np.bool_)
    inside[48:144, 64:192] = True
    assert image.valid is not None
    assert np.array_equal(image.valid, inside)
    assert np.array_equal(image.pixels[:, :, 0], np.where(inside, 100, 20))
