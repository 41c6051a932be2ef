"""Maps show the function that the pyramid holds, at the very place of each pixel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from tests.render.ground import (
    KERNELS,
    MESH_CENTRE,
    WORLD,
    WORLD_LEVELS,
    Floats,
    World,
    around,
    colours,
    grid_positions,
    pixel_centres,
    ramp,
    transform,
    truth,
    wave,
)

from mastaba.model.bbox import BoundingBox
from mastaba.model.style import Palette, PaletteEntry, Style
from mastaba.model.tile_matrix_set import TileLimits

METRES = ["EPSG:3857", "EPSG:2154", "IGNF:LAMB93", "EPSG:32631", "EPSG:3035"]
DEGREES = ["EPSG:4326", "CRS:84"]
SIZE = (97, 61)  # neither is a multiple of the step of the position grid
# Of the cell size of the finest level (400 m of Mercator, some 277 m on the ground): enlarged,
# about as it is, shrunk a little, and from a coarser level.
SCALES = [0.3, 1.0, 1.15, 2.9]


def box(crs: str, scale: float) -> BoundingBox:
    """Return an extent of `SIZE` off the centre of MESH, its pixels nearly square on the ground."""
    metres = 280.0 * scale
    cell_x, cell_y = (metres / 77000, metres / 111000) if crs in DEGREES else (metres, metres)
    if crs == "EPSG:3857":
        cell_x = cell_y = 400.0 * scale
    centre = (MESH_CENTRE[0] + 1234.5, MESH_CENTRE[1] - 6789.1)
    return around(crs, SIZE[0] * cell_x, SIZE[1] * cell_y * 1.1, centre)


@pytest.mark.sampled
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("crs", METRES + DEGREES)
def test_linear_ramp_is_in_its_place(mesh: World, crs: str, scale: float) -> None:
    bbox = box(crs, scale)
    image = mesh.draw("ramp", bbox, crs, SIZE)
    expected = truth(ramp, bbox, crs, SIZE, "EPSG:3857")
    assert image.pixels.dtype == np.float32
    assert image.valid is None
    # Three hundredths of a pixel of 400 m, by which three taps may be off their middle; half a
    # pixel would be 1.0.
    assert np.abs(image.pixels - expected).max() < 0.06 * max(1.0, scale)


@pytest.mark.sampled
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("crs", METRES + DEGREES)
def test_waves_are_in_their_place_with_every_kernel(mesh: World, crs: str, kernel: str) -> None:
    layer = replace(mesh.layer("wave"), resampling=kernel)
    # The steepest slope is 2π / 150 of the amplitude for each pixel; nn is up to half a pixel
    # off on both axes. Lanczos weights, once normalised, still ripple by a few thousandths.
    tolerance = {"nn": 40.0, "linear": 1.5, "bicubic": 0.5}.get(kernel, 6.0)
    for scale in (0.45, 1.1):
        bbox = box(crs, scale)
        image = mesh.draw(layer, bbox, crs, SIZE)
        expected = truth(wave, bbox, crs, SIZE, "EPSG:3857")
        assert np.abs(image.pixels - expected).max() < tolerance


@pytest.mark.parametrize("crs", METRES + DEGREES)
def test_bytes_are_rounded_and_keep_their_channels(mesh: World, crs: str) -> None:
    bbox = box(crs, 0.8)
    image = mesh.draw("colours", bbox, crs, SIZE)
    expected = truth(colours, bbox, crs, SIZE, "EPSG:3857")
    assert image.pixels.dtype == np.uint8
    assert np.abs(image.pixels - expected).max() < 1.1
    # Rounded, not cut: the mean of the differences is that of rounding twice, none.
    assert abs((image.pixels - expected).mean()) < 0.05


@pytest.mark.sampled
@pytest.mark.parametrize("columns", [1, 2, 15, 16, 17, 33])
@pytest.mark.parametrize("crs", ["EPSG:3857", "EPSG:4326", "EPSG:2154"])
def test_smallest_maps_are_in_their_place(mesh: World, crs: str, columns: int) -> None:
    size = (columns, 34 - columns)
    side = 0.09 if crs == "EPSG:4326" else 9000.0
    bbox = around(crs, side, side, MESH_CENTRE)
    image = mesh.draw("ramp", bbox, crs, size)
    expected = truth(ramp, bbox, crs, size, "EPSG:3857")
    assert image.pixels.shape == (*size[::-1], 1)
    # In a map of few pixels, each is the mean of much ground: of pixels of 1600 m.
    assert np.abs(image.pixels - expected).max() < 0.4


def test_pixels_of_unequal_sides_are_stretched(mesh: World) -> None:
    bbox = around("EPSG:3857", 90000.0, 30000.0, MESH_CENTRE)
    size = (40, 70)
    image = mesh.draw("ramp", bbox, "EPSG:3857", size)
    expected = truth(ramp, bbox, "EPSG:3857", size, "EPSG:3857")
    assert np.abs(image.pixels - expected).max() < 0.1


def test_aligned_map_is_the_stored_pixels(mesh: World) -> None:
    """Pixels that lie on those of a level to within 1/256 are copied, with every kernel."""
    matrix = mesh.layer("noise").pyramid.finest.matrix
    left, top = matrix.origin_x + 70 * 400, matrix.origin_y - 100 * 400
    stored = mesh.draw(
        replace(mesh.layer("noise"), resampling="nn"),
        BoundingBox(left, top - 50 * 400, left + 60 * 400, top),
        "EPSG:3857",
        (60, 50),
    )
    shift = 400 / 300
    for kernel in KERNELS:
        layer = replace(mesh.layer("noise"), resampling=kernel)
        bbox = BoundingBox(
            left + shift, top - 50 * 400 + shift, left + 60 * 400 + shift, top + shift
        )
        image = mesh.draw(layer, bbox, "EPSG:3857", (60, 50))
        assert np.array_equal(image.pixels, stored.pixels)
    far = mesh.draw(
        "noise",
        BoundingBox(left + 2, top - 50 * 400, left + 60 * 400 + 2, top),
        "EPSG:3857",
        (60, 50),
    )
    assert not np.array_equal(far.pixels, stored.pixels)


def test_one_stored_tile_can_be_coloured_and_warped(mesh: World) -> None:
    """Such a map is a copy of a tile in the cache: writing to it changes no other map."""
    palette = Palette((PaletteEntry(-2000, 0, 0, 0, 255), PaletteEntry(0, 9, 9, 9, 255)))
    matrix = mesh.layer("ramp").pyramid.finest.matrix
    bbox = matrix.bbox_of(TileLimits(5, 5, 4, 4))
    style = Style("s", "s", "", palette=palette)
    image = mesh.draw("ramp", bbox, "EPSG:3857", (64, 48), style)
    assert (image.pixels == (9, 9, 9, 255)).all()
    tile = mesh.draw("ramp", bbox, "EPSG:3857", (64, 48)).pixels
    again = mesh.draw("ramp", bbox, "EPSG:3857", (64, 48)).pixels
    again += 1
    assert np.array_equal(mesh.draw("ramp", bbox, "EPSG:3857", (64, 48)).pixels, tile)
    across, down = np.array([0.0, 63.0]), np.array([0.0, 47.0])
    placed = grid_positions(across, down, *np.meshgrid(across, down), (1.0, 1.0))
    warped = placed.sampler("nn", slice(0, 48), 0, 0)(tile)
    assert np.abs(warped - tile).max() < 2.1


def bumps(x: Floats, y: Floats) -> Floats:
    """Return waves of amplitude 1000, two around the equator, that join at the antimeridian."""
    return 1000 * np.cos(x * (np.pi / 10018754.17)) * np.sin(y * (np.pi / 10018754.17))


WORLD_MAPS = {
    "EPSG:4326": BoundingBox(-179, -84, 179, 84),
    "CRS:84": BoundingBox(100, 30, 160, 82),
    "EPSG:3857": BoundingBox(-19e6, -19e6, 19e6, 19e6),
    "EPSG:3035": BoundingBox(2.5e6, 1.5e6, 6e6, 4.5e6),
    "EPSG:3832": BoundingBox(-2e6, -5e6, 8e6, 5e6),
    "EPSG:3031": BoundingBox(-2e6, -2.2e6, 2.3e6, 2e6),
    "EPSG:3413": BoundingBox(-2e6, -2.2e6, 2.3e6, -2e5),
}


@pytest.fixture(scope="module")
def globe(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Return a layer ``bumps`` over the whole of EPSG:3857."""
    world = World(tmp_path_factory.mktemp("globe"))
    world.add("bumps", bumps, document=WORLD, levels=WORLD_LEVELS, resampling="bicubic")
    yield world
    world.close()


@pytest.mark.sampled
@pytest.mark.parametrize("size", [(40, 30), (160, 130)])
@pytest.mark.parametrize("crs", WORLD_MAPS)
def test_maps_of_much_of_the_world(globe: World, crs: str, size: tuple[int, int]) -> None:
    """The world in few pixels bends so much that a coarse grid of positions cannot follow."""
    bbox = WORLD_MAPS[crs]
    image = globe.draw("bumps", bbox, crs, size)
    expected = truth(bumps, bbox, crs, size, "EPSG:3857")
    valid = np.ones(size[::-1], np.bool_) if image.valid is None else image.valid
    assert valid.mean() > 0.9
    # A pixel that is several of the source is their mean, not what is in its middle.
    y = transform(crs, "EPSG:3857", *pixel_centres(bbox, size))[1]
    heights = np.hypot(*np.gradient(y))
    valid &= heights < 2 * np.median(heights)
    assert valid.mean() > 0.7
    difference = np.abs(image.pixels - expected)[valid]
    # A pixel of the coarser level is 25 where it is steepest.
    assert np.quantile(difference, 0.9) < 6
    assert difference.max() < 25
